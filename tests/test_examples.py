"""The example apps train: their own ServerApp and ClientApp, on a grid in this process."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import Result

from fedadavr.flower import FedAdaVR
from fedadavr.memory.verify import check
from fedadavr.stores.lmdb import LmdbStore
from fedadavr.stores.store import Record
from tests.flower_grid import LocalGrid

EXAMPLES = Path(__file__).parent.parent / "examples"


class ExampleGrid(LocalGrid):
    """Nodes with what Flower's simulation tells them, and the app's own settings."""

    def __init__(self, app: ClientApp, clients: int, config: dict[str, Any]) -> None:
        super().__init__(app, {100 + k: k for k in range(clients)})
        self.config = config

    def context(self, node: int) -> Context:
        place = {"partition-id": self.clients[node], "num-partitions": len(self.clients)}
        return Context(1, node, place, RecordDict(), self.config)


def app_of(name: str) -> dict[str, Any]:
    """What a folder's pyproject.toml says of its app."""
    project = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text())
    return project["tool"]["flwr"]["app"]


def run(name: str, clients: int, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> Result:
    """The app of a folder as `flwr run --run-config` would run it; what its strategy returned."""
    monkeypatch.syspath_prepend(EXAMPLES / name)
    app = app_of(name)
    config = app["config"] | {key.replace("_", "-"): value for key, value in changed.items()}
    server, client = (
        getattr(importlib.import_module(where.partition(":")[0]), where.partition(":")[2])
        for where in (app["components"]["serverapp"], app["components"]["clientapp"])
    )
    results: list[Result] = []
    start = FedAdaVR.start

    def noted(*args: Any, **kwargs: Any) -> Result:
        results.append(start(*args, **kwargs))
        return results[-1]

    monkeypatch.setattr(FedAdaVR, "start", noted)
    server(ExampleGrid(client, clients, config), Context(1, 1, {}, RecordDict(), config))
    monkeypatch.setattr(FedAdaVR, "start", start)
    (result,) = results
    return result


def accuracies(result: Result) -> list[float]:
    return [float(m["accuracy"]) for m in result.evaluate_metrics_serverapp.values()]  # type: ignore[arg-type]


def test_scikit_learn_trains_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digits of which each client has two are told apart; the second run makes the rest."""
    store = f"lmdb:{tmp_path / 'state'}"
    first = run("sklearn-app", 20, monkeypatch, store=store, num_server_rounds=10)
    second = run("sklearn-app", 20, monkeypatch, store=store)
    assert [*first.evaluate_metrics_serverapp] == list(range(11))
    assert [*second.evaluate_metrics_serverapp] == list(range(21))
    assert accuracies(first)[0] < 0.2
    assert accuracies(second)[-1] > 0.7
    assert all(m["rejected"] == m["failed"] == 0 for m in second.train_metrics_clientapp.values())


def test_of_lora_only_the_adapter_travels_and_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It learns; the model and the records have the adapter's size, the latter in int8."""
    pytest.importorskip("peft", reason="NOT TESTED: the example lora-app needs peft")
    pytest.importorskip("transformers", reason="NOT TESTED: lora-app needs transformers")
    monkeypatch.syspath_prepend(EXAMPLES / "lora-app")
    base, store = tmp_path / "base", f"lmdb:{tmp_path / 'state'}"
    importlib.import_module("lora_app.base").make(str(base), 100)
    result = run("lora-app", 6, monkeypatch, base=str(base), store=store, num_server_rounds=3,
                 fraction_train=0.5)  # fmt: skip
    losses = [float(m["loss"]) for m in result.evaluate_metrics_serverapp.values()]  # type: ignore[arg-type]
    assert losses[-1] < losses[0] - 0.02
    assert all("lora_" in name for name in result.arrays)
    size = sum(array.numpy().size for array in result.arrays.values())
    full = (base / "model.safetensors").stat().st_size
    assert 4 * size < full / 20
    with LmdbStore(tmp_path / "state", read_only=True) as kept:
        assert check(kept)[0] == []
        records = [record for _, record in kept.items() if isinstance(record, Record)]
    assert {record.codec for record in records} == {"int8"}
    assert all(size <= record.data.nbytes < 1.1 * size for record in records)


@pytest.mark.parametrize("name", ["flower-app", "sklearn-app", "lora-app"])
def test_an_example_waits_for_no_more_nodes_than_flower_starts(name: str) -> None:
    """Without --federation-config that is two; and nothing has to be installed at run time."""
    assert app_of(name)["config"].get("min-nodes", 2) <= 2
    project = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == []
