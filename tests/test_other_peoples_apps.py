"""One line is changed, whatever the app does: subclasses, odd metrics, odd arguments."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg as FlowerFedAvg

from fedadavr.flower import FedAdaVR, FedAvg, Strategy
from fedadavr.flower.hooks import KeepBest
from fedadavr.stores import open_store
from tests.flower_grid import federation, first_model
from tests.test_flower_resume import grid

SIZE = 5


def new(cls: type[Strategy], store: str | None = None, **settings: Any) -> Any:
    given = {"fraction_train": 0.5, "fraction_evaluate": 0.0, "min_available_nodes": 6}
    return cls(store=store, **(given | settings))


def run(strategy: Strategy, rounds: int, **given: Any) -> Any:
    return strategy.start(federation(), first_model(SIZE), rounds, **given)


def values(arrays: ArrayRecord) -> np.ndarray[Any, Any]:
    return np.concatenate([array.numpy().ravel() for array in arrays.values()])


def stored(url: str) -> tuple[int, np.ndarray[Any, Any]]:
    with open_store(url, read_only=True) as store:  # type: ignore[union-attr]
        state = store.state()
        assert state is not None
        return state["extra"]["round"], np.asarray(state["w"])


# --- a subclass's aggregate_train ---


class Rounded(FedAdaVR):
    """Makes something else of the model that ours has made."""

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        arrays, _ = super().aggregate_train(server_round, replies)
        assert arrays is not None
        coarse = {name: Array(np.round(array.numpy(), 2)) for name, array in arrays.items()}
        return ArrayRecord(coarse), MetricRecord({"mine": server_round})


class EveryOther(FedAdaVR):
    """Has every other round evaluated."""

    def configure_evaluate(self, server_round: int, *given: Any) -> Any:
        return super().configure_evaluate(server_round, *given) if server_round % 2 else []


class Mean(FedAvg):
    """Has an aggregation of its own."""

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        models = [reply.content.array_records["arrays"] for reply in replies]
        means = {
            name: Array(
                np.asarray(np.mean([model[name].numpy() for model in models], 0), np.float32)
            )
            for name in models[0]
        }
        return ArrayRecord(means), MetricRecord({"mine": server_round})


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("cls", [Rounded, Mean])
def test_what_a_subclass_makes_of_a_round_is_stored(
    cls: type[Strategy], every: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A run in two parts ends as one in one part, with the subclass's models and metrics."""
    url = f"lmdb:{tmp_path / 'store'}"
    whole = run(new(cls), 5)
    half = run(new(cls, url, commit_every=every), 3)
    round, w = stored(url)
    assert round == 3
    np.testing.assert_array_equal(w, values(half.arrays))
    result = run(new(cls, url), 5)
    np.testing.assert_array_equal(values(result.arrays), values(whole.arrays))
    metrics = {round: dict(m) for round, m in result.train_metrics_clientapp.items()}
    assert metrics == {round: {"mine": round} for round in range(1, 6)}
    said = [line for line in caplog.messages if "Mean aggregates without ours" in line]
    assert len(said) == (2 if cls is Mean else 0)


def test_a_subclass_s_model_with_nan_is_not_stored(tmp_path: Path) -> None:
    """It raises, and the store stays one that can be gone on from."""

    class Broken(Mean):
        def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
            arrays, metrics = super().aggregate_train(server_round, replies)
            if server_round == 3:
                arrays = ArrayRecord({n: Array(a.numpy() * np.float32("nan")) for n, a in
                                      arrays.items()})  # fmt: skip
            return arrays, metrics

    url = f"lmdb:{tmp_path / 'store'}"
    with pytest.raises(ValueError, match="round 3: aggregate_train of Broken gave a model with Na"):
        run(new(Broken, url), 4)
    assert stored(url)[0] == 2
    assert np.isfinite(values(run(new(Mean, url), 4).arrays)).all()


def test_rounds_that_a_subclass_does_not_evaluate(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is said to be silent who was not asked."""
    result = run_evaluated(new(EveryOther, fraction_evaluate=0.5), 4)
    assert list(result.evaluate_metrics_clientapp) == [1, 3]
    assert "did not answer" not in caplog.text


@pytest.mark.parametrize("is_stored", [False, True])
def test_the_model_can_be_asked_for_after_the_end(is_stored: bool, tmp_path: Path) -> None:
    """As of Flower's FedOpt: `current_arrays`."""
    strategy = new(FedAdaVR, f"lmdb:{tmp_path / 'store'}" if is_stored else None)
    result = run(strategy, 2)
    assert values(strategy.current_arrays).tolist() == values(result.arrays).tolist()


# --- hooks ---


@pytest.mark.parametrize(
    ("said", "last"), [(True, 1), (np.True_, 1), (False, 3), (12, 3), ("no", 3), (np.ones(2), 3)]
)
def test_only_true_ends_a_run(said: Any, last: int) -> None:
    """A hook may be a lambda that gives whatever its last call gives, such as a file's write."""
    told: list[int] = []

    def hook(round: int, *_: Any) -> Any:
        told.append(round)
        return said

    run(new(FedAvg, on_round=hook), 3)
    assert told[-1] == last


@pytest.mark.parametrize("every", [1, 2])
def test_a_round_that_a_hook_has_not_got_is_told_again(every: int, tmp_path: Path) -> None:
    """A signal may come within or before a hook: the best model must not be missed by that."""
    url, told = f"lmdb:{tmp_path / 'store'}", []

    def interrupted(round: int, *_: Any) -> None:
        if round == 3 and 3 not in told:
            told.append(round)
            raise KeyboardInterrupt

    def strategy() -> Strategy:
        best = KeepBest(tmp_path / "best.npz", "server/best")
        settings = {"commit_every": every, "on_round": [interrupted, best]}
        return cast(Strategy, new(FedAdaVR, url, **settings))

    given: Any = {"evaluate_fn": lambda r, a: MetricRecord({"best": float(r == 3)})}
    with pytest.raises(KeyboardInterrupt):
        run(strategy(), 5, **given)
    assert stored(url)[0] == 3
    result = run(strategy(), 5, **given)
    assert sorted(result.evaluate_metrics_serverapp) == [0, 1, 2, 3, 4, 5]
    third = run(new(FedAdaVR), 3)
    np.testing.assert_array_equal(np.load(tmp_path / "best.npz")["x"], third.arrays["x"].numpy())


@pytest.mark.parametrize("every", [1, 3])
def test_a_signal_at_the_end_of_a_step_costs_no_metrics(every: int, tmp_path: Path) -> None:
    """It is held until the step has ended: what is stored then is the round, with its metrics."""
    url, told = f"lmdb:{tmp_path / 'store'}", []

    def mean(records: list[RecordDict], weighted_by: str) -> MetricRecord:
        told.append(len(records))
        if len(told) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return MetricRecord({"clients": len(records)})

    settings: Any = {
        "train_metrics_aggr_fn": mean,
        "on_round": lambda round, *_: told.append(-round),
    }
    with pytest.raises(KeyboardInterrupt):
        run(new(FedAdaVR, url, commit_every=every, **settings | {"on_round": None}), 4)
    assert stored(url)[0] == 2
    result = run(new(FedAdaVR, url, **settings), 4)
    assert {r: m["clients"] for r, m in result.train_metrics_clientapp.items()} == {
        1: 3, 2: 3, 3: 3, 4: 3}  # fmt: skip
    assert [-n for n in told if n < 0] == [2, 3, 4]


# --- metrics ---

ODD = {
    "numpy": np.float32(0.5),
    "array": np.ones(2, np.float32),
    "flag": True,
    "text": "fine",
    "nested": {"a": 1.0},
    "table": [[1.0, 2.0]],
    "none": None,
    "nan": float("nan"),
}
PLAIN = {"numpy": 0.5, "array": [1.0, 1.0], "flag": 1, "nan": float("nan")}


def test_odd_metrics_of_evaluate_fn_end_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As under Flower the result has them; hooks and the store get the numbers among them."""
    url, told = f"lmdb:{tmp_path / 'store'}", []
    best = KeepBest(tmp_path / "best.npz", "server/numpy")

    def hook(round: int, arrays: ArrayRecord, metrics: Any) -> None:
        told.append({n.removeprefix("server/"): v for n, v in metrics.items() if "server/" in n})

    given: Any = {"evaluate_fn": lambda round, arrays: dict(ODD)}
    first = run(new(FedAvg, url, on_round=[hook, best]), 2, **given)
    assert first.evaluate_metrics_serverapp == dict.fromkeys(range(3), ODD)
    assert [repr(metrics) for metrics in told] == [repr(PLAIN)] * 3
    odd = [line for line in caplog.messages if "not stored" in line]
    assert len(odd) == 1
    assert odd[0].endswith("server/nested, server/none, server/table, server/text")
    again = run(new(FedAvg, url, on_round=[hook, best]), 3, **given)
    stored = {k: repr(dict(v)) for k, v in again.evaluate_metrics_serverapp.items()}
    assert stored == dict.fromkeys(range(3), repr(PLAIN)) | {3: repr(ODD)}


@pytest.mark.parametrize("which", ["train_metrics_aggr_fn", "evaluate_metrics_aggr_fn"])
def test_odd_metrics_of_the_clients_end_no_run(which: str, tmp_path: Path) -> None:
    def odd(records: Any, weighted_by: str) -> Any:
        return dict(ODD)

    url = f"lmdb:{tmp_path / 'store'}"
    settings: dict[str, Any] = {which: odd, "fraction_evaluate": 0.5}
    for rounds in (1, 2):
        result = run_evaluated(new(FedAvg, url, **settings), rounds)
    part = result.train_metrics_clientapp if which[0] == "t" else result.evaluate_metrics_clientapp
    assert sorted(part) == [1, 2]
    assert {name: part[1][name] for name in PLAIN if name != "nan"} == {
        name: value for name, value in PLAIN.items() if name != "nan"}  # fmt: skip


@pytest.mark.parametrize("which", ["train_metrics_aggr_fn", "evaluate_metrics_aggr_fn", "evaluate"])
def test_metrics_that_are_none_at_all_are_said_at_once(which: str, tmp_path: Path) -> None:
    """Flower says so after the last round, with an AttributeError."""

    def odd(*_: Any) -> Any:
        return 0.5, {"accuracy": 0.5}

    url = f"lmdb:{tmp_path / 'store'}"
    settings: Any = {} if which == "evaluate" else {which: odd}
    given: Any = {"evaluate_fn": odd} if which == "evaluate" else {}
    name = "evaluate_fn" if which == "evaluate" else "odd"
    with pytest.raises(TypeError, match=f"^{name} must give a MetricRecord or None, and gave a tu"):
        run_evaluated(new(FedAvg, url, fraction_evaluate=0.5, **settings), 2, **given)


def run_evaluated(strategy: Strategy, rounds: int, **given: Any) -> Any:
    return strategy.start(grid(), first_model(SIZE), rounds, **given)


# --- a subclass's attributes ---

THEIRS = (
    "buffers", "config", "done", "epoch", "history", "loss", "metrics", "model", "name", "net",
    "results", "resume", "round", "rounds", "seed", "w", "weights", "_history", "_model", "_seed",
)  # fmt: skip


def test_a_subclass_keeps_what_it_likes(tmp_path: Path) -> None:
    """Names that people give to a model, a history or a seed are theirs, before and after ours."""

    class Keeps(FedAdaVR):
        def __init__(self, when: str, **settings: Any) -> None:
            for name in THEIRS if when == "before" else ():
                setattr(self, name, {"mine": name})
            super().__init__(**settings)
            for name in THEIRS if when == "after" else ():
                setattr(self, name, {"mine": name})

        def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
            assert [getattr(self, name)["mine"] for name in THEIRS] == list(THEIRS)
            return super().aggregate_train(server_round, replies)

    expected = values(run(new(FedAdaVR), 4).arrays)
    for when in ("before", "after"):
        for rounds in (2, 4):
            strategy = new(Keeps, f"lmdb:{tmp_path / when}", when=when)
            result = run(strategy, rounds)
        np.testing.assert_array_equal(values(result.arrays), expected)
        assert [getattr(strategy, name)["mine"] for name in THEIRS] == list(THEIRS)


def test_few_names_of_a_strategy_are_ours() -> None:
    """What is public beside Flower's FedAvg's could be a subclass's own: say why it must be."""
    ours = {name for name in vars(new(FedAdaVR)) if not name.startswith("_")}
    assert ours - set(vars(FlowerFedAvg())) == {
        "asked", "authenticated", "commit_every", "encrypt_with", "identities", "on_round",
        "roster", "server", "store",
    }  # fmt: skip


# --- arguments, and what is said ---


def test_no_timeout_is_one_without_end() -> None:
    """Flower's grids take None, and its type for the argument is not checked."""
    assert sorted(run(new(FedAdaVR), 2, timeout=None).train_metrics_clientapp) == [1, 2]


@pytest.mark.parametrize("stored", [False, True])
def test_no_rounds_only_evaluate(
    stored: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As under Flower, with no advice to begin anew where nothing was begun."""
    url = f"lmdb:{tmp_path / 'store'}" if stored else None
    result = run(new(FedAdaVR, url), 0, evaluate_fn=lambda r, a: MetricRecord({"a": 1.0}))
    assert list(result.evaluate_metrics_serverapp) == [0]
    np.testing.assert_array_equal(values(result.arrays), values(first_model(SIZE)))
    assert "already at round" not in caplog.text
    assert sorted(run(new(FedAdaVR, url, resume="auto"), 1).train_metrics_clientapp) == [1]


def test_a_round_whose_metrics_raised_is_evaluated_after_a_restart(tmp_path: Path) -> None:
    """It is stored, so it is evaluated and told to hooks as any other."""
    url, told = f"lmdb:{tmp_path / 'store'}", []

    def raises(records: Any, weighted_by: str) -> Any:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        run(new(FedAdaVR, url, train_metrics_aggr_fn=raises), 3)
    result = run(
        new(FedAdaVR, url, on_round=lambda round, *_: told.append(round)),
        3,
        evaluate_fn=lambda round, arrays: MetricRecord({"round": round}),
    )
    assert told == list(result.evaluate_metrics_serverapp) == [1, 2, 3]


@pytest.mark.parametrize("cls", [FedAvg, FedAdaVR])
def test_trees_are_refused_in_one_sentence(cls: type[Strategy]) -> None:
    """XGBoost's model travels as bytes, which cannot be averaged."""
    for trees in (b"", b'{"learner": 1}'):
        first = ArrayRecord([np.frombuffer(trees, np.uint8)])
        with pytest.raises(ValueError, match=r"the array '0' is uint8, .* trees .* have no mean"):
            new(cls).start(federation(), first, 1)
