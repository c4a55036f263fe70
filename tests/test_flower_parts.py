"""Flower's other parts: wrappers for differential privacy, mods, secure aggregation, data sets."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import flwr.app
import flwr.clientapp
import flwr.serverapp
import flwr.serverapp.strategy as flwr_strategies
import flwr.simulation
import numpy as np
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    Metadata,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp import Grid, NeighboringRelation, PrivacyConfig, SamplingMethod
from flwr.serverapp.strategy import Strategy as FlowerStrategy

import fedadavr
import fedadavr.flower as flower
from fedadavr.flower import errors
from fedadavr.flower.replies import NothingAccepted, WrongKey
from tests.flower_grid import LocalGrid
from tests.test_docs import blocks
from tests.test_flower_one_line import Wrapper

CLIENTS = 4
CLIP = 0.05
ROOT = Path(fedadavr.__file__).parent

Wrap = Callable[[FlowerStrategy], FlowerStrategy]
WRAPPERS: dict[str, Wrap] = {
    "server fixed": lambda s: flwr_strategies.DifferentialPrivacyServerSideFixedClipping(
        s, 0.5, 1.0, CLIENTS
    ),
    "server adaptive": lambda s: flwr_strategies.DifferentialPrivacyServerSideAdaptiveClipping(
        s, 0.2, CLIENTS
    ),
    "client fixed": lambda s: flwr_strategies.DifferentialPrivacyClientSideFixedClipping(
        s, 0.5, 1.0, CLIENTS
    ),
    "client adaptive": lambda s: flwr_strategies.DifferentialPrivacyClientSideAdaptiveClipping(
        s, 0.2, CLIENTS
    ),
}


@pytest.fixture(autouse=True)
def _the_same_noise() -> None:
    """Flower draws it from NumPy's global generator."""
    np.random.seed(42)  # noqa: NPY002


def fixed(strategy: FlowerStrategy, noise: float, norm: float) -> FlowerStrategy:
    return flwr_strategies.DifferentialPrivacyServerSideFixedClipping(
        strategy, noise, norm, CLIENTS
    )


def model() -> ArrayRecord:
    return ArrayRecord({"x": Array(np.zeros(5, np.float32))})


def training(mods: list[Any], *, on_the_app: bool = False) -> LocalGrid:
    """Clients that go a part of the way to points of their own; `trained` counts."""
    app = answering = flower.answer_identity(ClientApp(mods=mods if on_the_app else []))

    @answering.train(mods=[] if on_the_app else mods)
    def train(message: Message, context: Context) -> Message:
        grid.trained += 1  # type: ignore[attr-defined]
        x = message.content.array_records["arrays"]["x"].numpy()
        x = x + np.float32(0.1) * (np.float32(context.node_id - 99) - x)
        metrics = MetricRecord({"num-examples": 10, "num-steps": 3})
        content = RecordDict({"arrays": ArrayRecord({"x": Array(x)}), "metrics": metrics})
        return Message(content=content, reply_to=message)

    grid = LocalGrid(app, {100 + k: f"c{k}" for k in range(CLIENTS)})
    grid.trained = 0  # type: ignore[attr-defined]
    return grid


def made(cls: type[flower.Strategy], **settings: Any) -> flower.Strategy:
    return cls(**({"min_available_nodes": CLIENTS, "fraction_evaluate": 0.0} | settings))


def final(strategy: FlowerStrategy, rounds: int = 3, mods: Any = (), **given: Any) -> Any:
    return strategy.start(training(list(mods)), model(), rounds, **given).arrays["x"].numpy()


# --- differential privacy on the server ---


REMEMBERING = ["FedAdaVR", "FedAdaVRQuant", "FedAdaVRNoOpt", "FedAdaVRPlus", "FedVARP",
               "ClusterFedVARP", "MIFA", "Scaffold"]  # fmt: skip


def refused(wrapper: FlowerStrategy, why: str) -> None:
    grid = training([])
    with pytest.raises(ValueError, match=why) as caught:
        wrapper.start(grid, model(), 1)
    assert "\n" not in str(caught.value)
    assert "use fedadavr.flower.FedAvg without a store, or LocalDpMod" in str(caught.value)
    assert (grid.trained, grid.questions) == (0, 0)  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", WRAPPERS)
def test_a_wrapper_takes_neither_a_store_nor_a_memory(how: str, tmp_path: Path) -> None:
    """The store has the model before the noise, a memory counts in every round: both refused."""
    wrap = WRAPPERS[how]
    url = f"lmdb:{tmp_path / 'store'}"
    refused(wrap(made(flower.FedAvg, store=url)), "a store does not go with DifferentialPrivacy")
    assert not (tmp_path / "store").exists()
    refused(wrap(made(flower.FedAdaVR)), "fedadavr does not go with DifferentialPrivacy")


@pytest.mark.parametrize("name", REMEMBERING)
def test_every_algorithm_with_a_memory_is_refused(name: str) -> None:
    """Whatever it remembers; also through a wrapper of somebody else's in between."""
    strategy = made(getattr(flower, name))
    refused(fixed(Wrapper(strategy), 1.0, 1.0), f"{strategy.name} does not go with")
    with pytest.raises(ValueError, match="does not go with"):
        fixed(strategy, 1.0, 1.0).configure_train(1, model(), ConfigRecord(), training([]))


def test_a_strategy_that_ran_by_itself_is_refused_when_it_is_wrapped_then() -> None:
    """Its memory is there already."""
    strategy = made(flower.FedAdaVR)
    final(strategy, 1)
    refused(fixed(strategy, 1.0, 1.0), "fedadavr does not go with")


def test_wrappers_of_ones_own_are_not_refused(tmp_path: Path, said: list[str]) -> None:
    """Only Flower's four for differential privacy are known to add noise."""

    class PrivateInAnotherWay(Wrapper):
        pass

    for store in (None, f"lmdb:{tmp_path / 'store'}"):
        strategy = made(flower.FedAdaVR, store=store)
        expected = final(made(flower.FedAdaVR, averaging=False))  # a wrapper gets the last model
        np.testing.assert_array_equal(final(PrivateInAnotherWay(strategy)), expected)
        strategy.close()
    assert not [line for line in said if "guarantee" in line]


@pytest.mark.parametrize("name", ["FedAvg", "FedProx"])
@pytest.mark.parametrize("how", WRAPPERS)
def test_the_plain_mean_goes_with_every_wrapper(how: str, name: str, said: list[str]) -> None:
    """Nothing is said with clip=0; the model has the wrapper's noise in it."""
    mods: dict[str, list[Any]] = {
        "client fixed": [fixedclipping_mod], "client adaptive": [adaptiveclipping_mod]
    }  # fmt: skip
    strategy = made(getattr(flower, name), clip=0)
    result = final(WRAPPERS[how](strategy), mods=mods.get(how, ()))
    assert np.isfinite(result).all()
    assert np.ptp(result) > 1e-3  # without noise, all coordinates are alike
    assert not [line for line in said if "guarantee" in line]


def test_a_wrapped_mean_is_flowers_own() -> None:
    """Without noise, ours and Flower's FedAvg give the same, clipped or not."""
    for norm in (0.1, 100.0):
        theirs = flwr_strategies.FedAvg(min_available_nodes=CLIENTS, fraction_evaluate=0.0)
        results = [final(fixed(s, 0.0, norm)) for s in (made(flower.FedAvg, clip=0), theirs)]
        np.testing.assert_allclose(results[0], results[1], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("FedAdam", {}, "the optimizer fedadam scales the mean of the clipped updates"),
        ("FedYogi", {}, "the optimizer fedyogi scales"),
        ("FedAdagrad", {}, "the optimizer fedadagrad scales"),
        ("FedAdaVRNoVR", {}, "the optimizer adam scales"),
        ("FedNova", {}, "it scales each update by the number of steps that its client claims"),
        ("FedAvg", {"server_lr": 2.0}, "server_lr=2 makes the step longer than the noise is for"),
        ("FedAvg", {"clip": 50.0}, "clip=50 shortens updates by what other clients sent"),
    ],
)
def test_what_weakens_the_guarantee_is_said_once(
    name: str, settings: dict[str, Any], why: str, said: list[str]
) -> None:
    """It trains, as Flower's own does; one line tells what does not hold."""
    strategy = made(getattr(flower, name), **({"clip": 0} | settings))
    assert np.abs(final(fixed(strategy, 0.1, 1.0))).max() > 0
    lines = [line for line in said if "guarantee" in line]
    assert len(lines) == 1
    assert lines[0].startswith(
        "the guarantee of DifferentialPrivacyServerSideFixedClipping does not hold for "
        f"{strategy.name} here: {why}"
    )


def test_an_adaptive_optimizer_undoes_the_clipping() -> None:
    """Why there is a warning: clipped to a millionth, the model still moves by the rate."""
    moved = [
        np.abs(final(fixed(made(cls, server_lr=0.1, clip=0), 0.0, 1e-6), 1)).max()
        for cls in (flower.FedAvg, flower.FedAdaVRNoVR)
    ]
    assert moved[0] < 1e-6
    assert moved[1] == pytest.approx(0.1, rel=0.1)


def test_flowers_accountant_refuses_strategies_that_are_not_its_own() -> None:
    """With Flower's sentence, when the wrapper is made."""
    config = PrivacyConfig(
        1e-5, 100, next(iter(NeighboringRelation)), SamplingMethod.NO_AMPLIFICATION
    )
    with pytest.raises(ValueError, match=r"requires a strategy using FedAvg\.aggregate_train"):
        flwr_strategies.DifferentialPrivacyServerSideFixedClipping(
            made(flower.FedAvg), 1.0, 1.0, CLIENTS,
            accountant=SimpleNamespace(config=config),
        )  # fmt: skip


# --- mods ---


def remembered(strategy: flower.Strategy, grid: LocalGrid, rounds: int) -> list[Any]:
    """The clients' stored updates after some rounds."""
    found: dict[str, Any] = {}

    def look(*_: Any) -> None:
        assert strategy.server is not None
        assert strategy.server.memory is not None
        records = strategy.server.memory.records()
        found.update({client: record.data.view(np.float32).copy() for client, record in records})

    config = ConfigRecord({"clipping_norm": CLIP})
    strategy.start(grid, model(), rounds, train_config=config, evaluate_fn=look)
    assert set(found) == {f"c{k}" for k in range(CLIENTS)}
    return list(found.values())


@pytest.mark.parametrize(
    "mod", [LocalDpMod(CLIP, 0.0, 1.0, 1e-5), fixedclipping_mod, adaptiveclipping_mod],
    ids=["local", "fixed", "adaptive"],
)  # fmt: skip
def test_mods_clip_before_anything_is_remembered_or_stored(mod: Any, tmp_path: Path) -> None:
    """What memory and store hold is clipped already, also after a restart."""
    url = f"lmdb:{tmp_path / 'store'}"
    for rounds in (2, 4):
        strategy = made(flower.FedAdaVR, store=url, server_lr=0.1)
        updates = remembered(strategy, training([mod]), rounds)
        assert [np.linalg.norm(y) for y in updates] == pytest.approx([CLIP] * CLIENTS, rel=1e-4)
    unclipped = remembered(made(flower.FedAdaVR, server_lr=0.1), training([]), 2)
    assert min(np.linalg.norm(y) for y in unclipped) > 2 * CLIP


def test_the_noise_of_a_client_is_in_what_is_remembered() -> None:
    """Local privacy: the server never had anything else."""
    mod = LocalDpMod(CLIP, 0.01, 1.0, 1e-5)
    updates = remembered(made(flower.FedAdaVR), training([mod]), 1)
    assert all(np.ptp(y) > 1e-3 for y in updates)  # without noise, all coordinates are alike


def test_a_mod_on_the_whole_app_hides_only_the_clients_ids() -> None:
    """It refuses the question for the id, and every node trains, known by its own."""
    strategy = made(flower.FedAdaVR)
    grid = training([LocalDpMod(CLIP, 0.0, 1.0, 1e-5)], on_the_app=True)
    strategy.start(grid, model(), 2, timeout=5)
    assert strategy.server is not None
    assert strategy.server.memory is not None
    clients = {client for client, _ in strategy.server.memory.records()}
    assert clients == {f"node:{100 + k}" for k in range(CLIENTS)}


def test_a_mod_that_refuses_every_message_ends_the_run() -> None:
    """SCAFFOLD sends two array records, and a clipping norm may be missing: both are told."""
    for cls, mod, why in (
        (flower.Scaffold, LocalDpMod(CLIP, 0.0, 1.0, 1e-5), "expects exactly one ArrayRecord"),
        (flower.FedAdaVR, fixedclipping_mod, "requires the key 'clipping_norm'"),
    ):
        grid = training([mod])
        with pytest.raises(NothingAccepted, match=f"(?s)last 3 rounds.*{why}"):
            made(cls).start(grid, model(), 10)


# --- secure aggregation ---


@pytest.mark.parametrize("name", ["secagg_mod", "secaggplus_mod"])
@pytest.mark.parametrize("cls", [flower.FedAdaVR, flower.FedAvg])
def test_secure_aggregation_ends_the_run_with_the_reason(name: str, cls: Any) -> None:
    """In the first round: its mods take no messages but those of a protocol of the former API."""
    mods = pytest.importorskip("flwr.client.mod")
    with pytest.raises(WrongKey, match="the clients' apps have a mod for secure aggregation"):
        made(cls).start(training([getattr(mods, name)]), model(), 3)


def test_flower_has_no_secure_aggregation_for_its_strategies_yet() -> None:
    """When it does, docs/flower.md has to be written again."""
    names = [*flwr.clientapp.mod.__all__, *flwr_strategies.__all__, *flwr.serverapp.__all__]
    assert not [name for name in names if "sec" in name.lower()]


# --- data sets ---


def test_the_partitions_of_flwr_datasets_train() -> None:
    """The program that docs/flower.md shows, one client for each partition."""
    pytest.importorskip("flwr_datasets", reason="NOT TESTED: pip install flwr-datasets")
    (code,) = [code for code in blocks("docs/flower.md") if "flwr_datasets" in code]
    known: dict[str, Any] = {}
    exec(code, known)
    grid = LocalGrid(known["app"], {100 + k: {"partition-id": k} for k in range(4)})
    strategy = made(flower.FedAdaVR, server_lr=0.1, fraction_train=0.5)
    first = ArrayRecord({"w": Array(np.zeros(3, np.float32))})
    losses = strategy.start(grid, first, 20).train_metrics_clientapp
    assert losses[20]["loss"] < losses[1]["loss"] / 2  # type: ignore[operator]
    assert strategy.server is not None
    assert strategy.server.memory is not None
    assert {client for client, _ in strategy.server.memory.records()} == {"0", "1", "2", "3"}


def test_the_private_client_of_the_docs_is_one() -> None:
    """The program that docs/flower.md shows for local privacy."""
    (code,) = [code for code in blocks("docs/flower.md") if "LocalDpMod" in code]
    known: dict[str, Any] = {}
    exec(code, known)
    assert isinstance(known["app"], ClientApp)


# --- Flower's public names only ---

PUBLIC = {
    module.__name__: module
    for module in (flwr.app, flwr.clientapp, flwr.clientapp.mod, flwr.serverapp, flwr_strategies,
                   flwr.simulation)
}  # fmt: skip
EXCEPT = {  # messages are made outside of a ServerApp there
    "bench/flower.py": {"TaskIdentity"},
    "bench/cohorts.py": {"TaskIdentity", "InMemoryGrid"},
}


def test_only_public_names_of_flower_are_imported() -> None:
    """From its public modules, and of those what they list."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        place = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found += [(place, a.name) for a in node.names if a.name.startswith("flwr")]
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flwr"):
                listed = getattr(PUBLIC.get(node.module or ""), "__all__", [])
                names = {alias.name for alias in node.names} - EXCEPT.get(place, set())
                found += [(place, f"{node.module}.{name}") for name in names - set(listed)]
    assert found == []


def test_no_private_attribute_of_flowers_is_used_or_overridden() -> None:
    """A later version may have other ones."""
    classes = (flwr_strategies.FedAvg, FlowerStrategy, Array, ArrayRecord, ClientApp, ConfigRecord,
               Context, Error, Grid, Message, Metadata, MetricRecord, RecordDict)  # fmt: skip
    theirs = {name for cls in classes for name in dir(cls) if re.match("_[a-z]", name)}
    parts = (vars(cls) for cls in flower.Strategy.__mro__ if cls.__module__.startswith("fedadavr"))
    ours = {name for part in parts for name in part if not name.startswith("_abc")}
    assert not theirs & ours
    for path in sorted((ROOT / "flower").glob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text()))
        used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        assert not used & theirs, path.name


def test_the_codes_of_errors_are_flowers() -> None:
    """They are written out here, since Flower has them in a module that is not public."""
    codes = pytest.importorskip("flwr.common.constant").ErrorCode
    assert errors.RAISED == codes.CLIENT_APP_RAISED_EXCEPTION
    assert errors.MOD_REFUSED == codes.MOD_FAILED_PRECONDITION
