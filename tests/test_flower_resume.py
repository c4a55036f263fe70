"""Start, go on, begin again: rounds and metrics as the store has them, hooks, export, reset."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict

from fedadavr.cli import main
from fedadavr.flower import FedAdaVR, FedAdaVRPlus, FedAvg, FedVARP, Strategy
from fedadavr.memory.verify import check
from fedadavr.stores import open_store
from fedadavr.stores.persistent import PersistentStore
from tests.flower_grid import LocalGrid, app_that, drawn, federation, first_model, strategy_on
from tests.redis_servers import RedisServer

ROUNDS = 3


class Killed(BaseException):
    """Whatever ends a process."""


def measured(message: Message, context: Context) -> RecordDict:
    """What a client evaluates depends on the model and nothing else."""
    (x, *_) = message.content.array_records["arrays"].values()
    metrics: dict[str, Any] = {
        "num-examples": 10,
        "size": float(np.abs(x.numpy()).sum()),
        "list": [1.0, 2.0],
    }
    return RecordDict({"metrics": MetricRecord(metrics)})


def grid() -> LocalGrid:
    return LocalGrid(app_that(drawn, measured), {100 + k: str(k) for k in range(6)})


def evaluating(store: str | None, **settings: Any) -> FedAdaVR:
    return strategy_on(store, fraction_evaluate=1.0, **settings)


def on_server(round: int, arrays: ArrayRecord) -> MetricRecord:
    return MetricRecord({"round": round, "sum": float(arrays["x"].numpy().sum())})


def metrics_of(result: Any) -> list[dict[int, dict[str, Any]]]:
    names = ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp")
    return [{r: dict(m) for r, m in getattr(result, name).items()} for name in names]


@pytest.fixture(params=["lmdb", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store."""
    if request.param == "lmdb":
        return f"lmdb:{tmp_path / 'store'}"
    server: RedisServer = request.getfixturevalue("redis_server")
    server.client.flushall()
    return server.url


class Stops:
    """Ends the run as a signal does, in a certain round: in training, evaluation, or after it."""

    def __init__(self, round: int, where: str) -> None:
        self.round, self.where, self.evaluated = round, where, [0]

    def __call__(self, round: int, arrays: ArrayRecord) -> MetricRecord:
        if round == self.round and self.where == "evaluation":
            raise Killed
        self.evaluated.append(round)
        return on_server(round, arrays)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("stop", [2, 3])
def test_metrics_of_all_rounds_come_back(url: str, stop: int, every: int) -> None:
    """Also those of a round that was made and not evaluated when the run ended."""
    whole = evaluating(None).start(grid(), first_model(50), 5, evaluate_fn=on_server)
    with pytest.raises(Killed):
        evaluating(url, commit_every=every).start(
            grid(), first_model(50), 5, evaluate_fn=Stops(stop, "evaluation")
        )
    again = Stops(0, "")
    result = evaluating(url).start(grid(), first_model(50), 5, evaluate_fn=again)
    assert again.evaluated[1] == stop, "the round that was not evaluated is evaluated first"
    assert metrics_of(result) == metrics_of(whole)
    assert all(list(part) for part in metrics_of(result))
    third = evaluating(url).start(grid(), first_model(50), 5, evaluate_fn=again)
    assert metrics_of(third) == metrics_of(whole)
    np.testing.assert_array_equal(third.arrays["x"].numpy(), whole.arrays["x"].numpy())


def test_metrics_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One key per round, never rewritten: a long run's commits do not grow."""
    written: list[int] = []
    before = PersistentStore.commit

    def commit(self: PersistentStore, *args: Any, **given: Any) -> None:
        written.extend(given.get("metrics") or ())
        before(self, *args, **given)

    monkeypatch.setattr(PersistentStore, "commit", commit)
    url = f"lmdb:{tmp_path / 'store'}"
    for rounds in (2, 5):
        evaluating(url).start(grid(), first_model(50), rounds, evaluate_fn=on_server)
    assert written == [0, 1, 2, 3, 4, 5]
    with open_store(url, read_only=True) as store:  # type: ignore[union-attr]
        assert sorted(store.metrics()) == written
        assert check(store) == ([], 6)


def test_rewound_metrics_are_measured_again(tmp_path: Path) -> None:
    """After `memory rewind` the rounds since are neither remembered nor in the way."""
    url = f"lmdb:{tmp_path / 'store'}"
    whole = evaluating(url, snapshot_every=2).start(grid(), first_model(50), 5)
    main(["memory", "rewind", url, "--round", "2"])
    with open_store(url, read_only=True) as store:  # type: ignore[union-attr]
        assert max(store.metrics()) < 3
    assert metrics_of(evaluating(url).start(grid(), first_model(50), 5)) == metrics_of(whole)


def test_metrics_are_converted_too(tmp_path: Path) -> None:
    """A store of another kind or codec has the same history."""
    url, other = f"lmdb:{tmp_path / 'store'}", f"lmdb:{tmp_path / 'other'}"
    whole = evaluating(url).start(grid(), first_model(50), 3)
    main(["memory", "convert", url, other, "--codec", "fp16"])
    again = evaluating(other, codec="fp16").start(grid(), first_model(50), 3)
    assert metrics_of(again) == metrics_of(whole)


def without_codec(store: str | None, **settings: Any) -> FedAdaVR:
    """A strategy that does not say how updates are stored."""
    return FedAdaVR(fraction_evaluate=0.0, min_available_nodes=6, store=store, **settings)


def test_a_converted_store_goes_on_with_its_new_codec(tmp_path: Path) -> None:
    """A strategy that names no codec takes the store's, and what does not go with it is gone."""
    url, other = f"lmdb:{tmp_path / 'store'}", f"lmdb:{tmp_path / 'other'}"
    evaluating(url, codec="int8", rounding_seed=1).start(grid(), first_model(50), 2)
    main(["memory", "convert", url, other, "--codec", "rot2"])
    without_codec(other).start(grid(), first_model(50), 3)
    with open_store(other, read_only=True) as store:  # type: ignore[union-attr]
        assert store.state()["extra"]["settings"]["codec"] == "rot2"  # type: ignore[index]
        assert check(store) == ([], 6)


def test_a_copy_changes_no_setting(tmp_path: Path) -> None:
    """Also of a memory that keeps no updates, whose codec is none that could be asked for."""
    url, other = f"lmdb:{tmp_path / 'store'}", f"lmdb:{tmp_path / 'other'}"
    given: dict[str, Any] = {
        "fraction_evaluate": 0.0,
        "min_available_nodes": 6,
        "memories": "centers",
    }
    FedAdaVRPlus(store=url, **given).start(grid(), first_model(50), 2)
    main(["memory", "convert", url, other])
    FedAdaVRPlus(store=other, **given).start(grid(), first_model(50), 3)
    with open_store(url, read_only=True) as a, open_store(other, read_only=True) as b:  # type: ignore[union-attr]
        assert a.state()["extra"]["settings"] == b.state()["extra"]["settings"]  # type: ignore[index]


def test_rounding_can_be_turned_on_for_a_store(tmp_path: Path) -> None:
    """Its codec, which need not be named again, is the one that must be able to."""
    url = f"lmdb:{tmp_path / 'store'}"
    evaluating(url, codec="int8").start(grid(), first_model(50), 2)
    without_codec(url, rounding_seed=3).start(grid(), first_model(50), 3)
    with open_store(url, read_only=True) as store:  # type: ignore[union-attr]
        assert store.state()["extra"]["settings"]["rounding_seed"] == 3  # type: ignore[index]
    with pytest.raises(ValueError, match="the codec fp32 does not round at random"):
        without_codec(None, rounding_seed=3)
    other = without_codec(f"lmdb:{tmp_path / 'new'}", rounding_seed=3)
    with pytest.raises(ValueError, match="the codec fp32 does not round at random"):
        other.start(grid(), first_model(50), 3)


def test_rounds_are_logged_as_the_store_counts_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that goes on after round 3 says round 4 of 5, everywhere."""
    url = f"lmdb:{tmp_path / 'store'}"
    strategy_on(url).start(federation(), first_model(50), ROUNDS)
    caplog.clear()
    with caplog.at_level(logging.INFO, "flwr"):
        strategy_on(url).start(federation(), first_model(50), 5)
    said = [line for line in caplog.messages if line.startswith("[ROUND")]
    assert said == ["[ROUND 4/5]", "[ROUND 5/5]"]
    assert any(line.startswith("going on after round 3 of 5") for line in caplog.messages)


def test_a_finished_run_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It says what to do, gives the model that is there, and changes nothing."""
    url = f"lmdb:{tmp_path / 'store'}"
    result = strategy_on(url).start(federation(), first_model(50), ROUNDS)
    with caplog.at_level(logging.INFO, "flwr"):
        again = strategy_on(url).start(federation(), first_model(50), ROUNDS)
    sentence = (
        f"already at round 3 of 3: raise num_rounds, or begin anew with `fedadavr memory reset "
        f"{url}` or with another store"
    )
    assert sentence in caplog.messages
    np.testing.assert_array_equal(again.arrays["x"].numpy(), result.arrays["x"].numpy())
    assert metrics_of(again) == metrics_of(result)


def test_resume(url: str) -> None:
    """`require` wants rounds to go on from, `never` wants none; both before anything is done."""
    with pytest.raises(ValueError, match=r"holds no rounds, and resume='require'"):
        strategy_on(url, resume="require").start(federation(), first_model(50), ROUNDS)
    strategy_on(url, resume="never").start(federation(), first_model(50), ROUNDS)
    with pytest.raises(ValueError, match=r"holds 3 rounds, and resume='never': begin anew with"):
        strategy_on(url, resume="never").start(federation(), first_model(50), 5)
    strategy_on(url, resume="require").start(federation(), first_model(50), 5)
    main(["memory", "reset", url])
    result = strategy_on(url, resume="never").start(federation(), first_model(50), ROUNDS)
    assert list(result.train_metrics_clientapp) == [1, 2, 3]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"resume": "yes"}, "resume must be 'auto', 'never' or 'require', got 'yes'"),
        ({"resume": "require"}, "resume='require' goes with a store"),
    ],
)
def test_resume_is_checked_at_once(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        FedAvg(**given)


def test_a_relative_store_is_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A ServerApp's folder may be another one in the next run, and the store would be empty."""
    monkeypatch.chdir(tmp_path)
    strategy = strategy_on("lmdb:here")
    assert strategy.store == f"lmdb:{tmp_path / 'here'}"
    assert any(str(tmp_path / "here") in line for line in caplog.messages)
    monkeypatch.chdir("/")
    strategy.start(federation(), first_model(50), 1)
    assert (tmp_path / "here" / "data.mdb").is_file()


@pytest.mark.parametrize("cls", [FedAvg, FedVARP])
def test_a_store_of_another_algorithm_is_refused(tmp_path: Path, cls: type[Strategy]) -> None:
    """With the name of the algorithm that can go on, and how to begin anew."""
    url = f"lmdb:{tmp_path / 'store'}"
    strategy_on(url).start(federation(), first_model(50), 1)
    with pytest.raises(ValueError, match=r"rounds of fedadavr, not of .*: go on with fedadavr, or"):
        cls(store=url).start(federation(), first_model(50), 2)
    strategy_on(url).start(federation(), first_model(50), 2)


def test_a_store_of_another_model_is_refused(tmp_path: Path) -> None:
    url = f"lmdb:{tmp_path / 'store'}"
    strategy_on(url).start(federation(), first_model(50), 1)
    with pytest.raises(ValueError, match=r"another model: .*begin anew with `fedadavr memory rese"):
        strategy_on(url).start(federation(), first_model(51), 2)


# --- hooks ---


class Hook:
    """Notes what it is told."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.seen: dict[int, dict[str, Any]] = {}
        self.history: dict[int, dict[str, Any]] | None = None
        self.sums: dict[int, float] = {}
        self.ended = 0
        self._stop_after = stop_after

    def begin(self, history: dict[int, dict[str, Any]]) -> None:
        self.history = history

    def __call__(self, round: int, arrays: ArrayRecord, metrics: dict[str, Any]) -> bool:
        assert not self.ended
        self.seen[round], self.sums[round] = metrics, float(arrays["x"].numpy().sum())
        return round == self._stop_after

    def end(self) -> None:
        self.ended += 1


def test_hooks_are_told_each_round(tmp_path: Path) -> None:
    """With the model after it and all metrics, and on resume with what came before."""
    url, first, second = f"lmdb:{tmp_path / 'store'}", Hook(), Hook()
    evaluating(url, on_round=first).start(grid(), first_model(50), 2, evaluate_fn=on_server)
    assert (first.history, first.ended, list(first.seen)) == ({}, 1, [0, 1, 2])
    assert first.seen[0] == {"server/round": 0, "server/sum": 0.0}
    assert {"train/loss", "evaluate/size", "server/sum"} <= first.seen[1].keys()
    assert all(first.sums[r] == first.seen[r]["server/sum"] for r in first.seen)
    evaluating(url, on_round=[second]).start(grid(), first_model(50), 3, evaluate_fn=on_server)
    assert second.history == first.seen
    assert list(second.seen) == [3]


def test_a_hook_ends_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After the round in which it says so; what was made is stored, and can be gone on from."""
    url = f"lmdb:{tmp_path / 'store'}"
    with caplog.at_level(logging.INFO, "flwr"):
        result = strategy_on(url, on_round=[Hook(2), Hook()]).start(
            federation(), first_model(50), 9
        )
    assert list(result.train_metrics_clientapp) == [1, 2]
    assert "round 2 was the last: Hook has ended the run" in caplog.messages
    assert list(strategy_on(url).start(federation(), first_model(50), 3).train_metrics_clientapp)[
        -1
    ] == 3  # fmt: skip


def test_what_a_hook_raises_is_raised(tmp_path: Path) -> None:
    """As it was, and the round that it was told of is not lost."""
    url, hook = f"lmdb:{tmp_path / 'store'}", Hook()

    def fails(round: int, arrays: ArrayRecord, metrics: dict[str, Any]) -> None:
        raise ZeroDivisionError(f"in round {round}")

    with pytest.raises(ZeroDivisionError, match="in round 1"):
        strategy_on(url, on_round=[hook, fails], commit_every=5).start(
            federation(), first_model(50), 3
        )
    assert hook.ended == 1
    result = strategy_on(url).start(federation(), first_model(50), 1)
    assert list(result.train_metrics_clientapp) == [1]


def test_no_hook() -> None:
    with pytest.raises(TypeError, match="on_round must be a function or a list of them, got 3"):
        FedAvg(on_round=3)  # type: ignore[arg-type]


def test_the_first_line_says_what_was_understood(caplog: pytest.LogCaptureFixture) -> None:
    """How many parameters there are, and which arrays are none: a wrong guess is seen at once."""
    arrays: dict[str, Any] = {
        "weight": np.zeros((100, 50), np.float32), "bias": np.zeros(100, np.float64),
        "running_mean": np.zeros(100, np.float32),
    }  # fmt: skip
    record = ArrayRecord({name: Array(values) for name, values in arrays.items()})
    with caplog.at_level(logging.INFO, "flwr"):
        strategy_on(None).start(federation(), record, 1)
    said = [line for line in caplog.messages if not line.startswith("fraction_evaluate")]
    assert said[0] == "the model: 5,100 parameters in 2 arrays, 1 buffers; float32, float64"


# --- the model out of the store ---


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_export(tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The file has the arrays of the result: names, order, shapes, dtypes, buffers and values."""
    arrays: dict[str, Any] = {
        "b.weight": np.ones((4, 3), np.float64), "a.bias": np.zeros(4, np.float16),
        "b.running_mean": np.full(4, 2, np.float32), "steps": np.array(7),
    }  # fmt: skip
    record = ArrayRecord({name: Array(values) for name, values in arrays.items()})

    def train(message: Message, context: Context) -> RecordDict:
        sent = message.content.array_records["arrays"]
        moved = {name: Array(np.asarray(a.numpy() * 2)) for name, a in sent.items()}
        return RecordDict(
            {"arrays": ArrayRecord(moved), "metrics": MetricRecord({"num-examples": 1})}
        )

    url, path = f"lmdb:{tmp_path / 'store'}", tmp_path / f"model.{suffix}"
    result = strategy_on(url).start(federation(train=train), record, 2)
    main(["memory", "export", url, str(path)])
    assert "after round 2: 21 numbers in 4 arrays" in capsys.readouterr().out
    if suffix == "npz":
        found = dict(np.load(path))
        assert list(found) == list(arrays)
    else:
        from safetensors.numpy import load_file

        found = load_file(path)
    for name, array in result.arrays.items():
        assert found[name].dtype == arrays[name].dtype
        np.testing.assert_array_equal(found[name], array.numpy())


def test_export_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"lmdb:{tmp_path / 'store'}"
    strategy_on(url).start(federation(), first_model(50), 1)
    for words, sentence in (
        ([url, str(tmp_path / "model.pt")], ".npz or .safetensors"),
        ([f"lmdb:{tmp_path / 'none'}", str(tmp_path / "model.npz")], "there is no store in"),
        ([url, str(tmp_path / "no" / "model.npz")], "there is no folder"),
    ):
        with pytest.raises(SystemExit):
            main(["memory", "export", *words])
        assert sentence in capsys.readouterr().err


def test_reset_waits_for_nobody_s_server(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that a server is using is not emptied under it."""
    strategy_on(url).start(federation(), first_model(50), 2)
    with open_store(url), pytest.raises(SystemExit):  # type: ignore[union-attr]
        main(["memory", "reset", url])
    assert "in use by another server" in capsys.readouterr().err
    main(["memory", "reset", url])
    assert "is empty: its model and the updates of" in capsys.readouterr().out
