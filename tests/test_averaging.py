"""The average of the models: served, never trained on, part of every commit."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, MetricRecord
from hypothesis import given, settings
from hypothesis import strategies as st

from fedadavr import Layout, Update, algorithm
from fedadavr.algorithms import algorithm_names
from fedadavr.algorithms.registry import user_settings
from fedadavr.algorithms.replies import Rejected
from fedadavr.cli import main
from fedadavr.clients import LocalSGD, layout_of
from fedadavr.data import Federation, federate, load
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.records import command
from fedadavr.flower import FedAdaVR
from fedadavr.memory.average import POWER, ModelAverage
from fedadavr.models import build
from fedadavr.plugins import load_file
from fedadavr.simulation import Engine
from tests.flower_grid import LocalGrid, federation, first_model, strategy_on
from tests.rounds import LAYOUT, digest, one_round, opened, play, server_on


def mean_of(models: list[Any]) -> Any:
    """By the weights that the recursion gives each model, in float64."""
    weights = [1.0]
    for number in range(2, len(models) + 1):
        share = (POWER + 1) / (number + POWER)
        weights = [(1 - share) * weight for weight in weights] + [share]
    assert sum(weights) == pytest.approx(1)
    assert weights == sorted(weights), "a late model never counts less than an early one"
    return sum(a * np.asarray(w, np.float64) for a, w in zip(weights, models, strict=True))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), number=st.integers(1, 60), size=st.integers(1, 5000))
def test_agrees_with_its_twin(seed: int, number: int, size: int) -> None:
    """However many models there are, and however large."""
    rng, average = np.random.default_rng(seed), ModelAverage(Layout({"x": (size,)}))
    models = [rng.normal(size=size).astype(np.float32) for _ in range(number)]
    for w in models[:-1]:
        average.take(w)
    np.testing.assert_allclose(average.served(models[-1]), mean_of(models), rtol=0, atol=3e-6)


@pytest.mark.parametrize(
    "name", [name for name in algorithm_names() if name not in ("cluster-fedvarp", "fedawe")]
)
def test_training_is_the_same_to_the_bit(name: str) -> None:
    """An average changes what is served, and nothing that any client gets."""
    assert "averaging" in user_settings(name)
    plain, averaged = (algorithm(name, LAYOUT, averaging=flag) for flag in (False, True))
    w = x = LAYOUT.zeros()
    models = []
    for round in range(1, 9):
        w, x = one_round(plain, w, round), one_round(averaged, x, round)
        np.testing.assert_array_equal(w, x)
        assert plain.served(w) is w
        models.append(w)
        np.testing.assert_allclose(averaged.served(x), mean_of(models), rtol=1e-4, atol=1e-4)


def test_before_the_first_round_the_model_itself_is_served() -> None:
    """Whatever a model starts from, it is not in the average."""
    server, w = algorithm("fedavg", LAYOUT, averaging=True), LAYOUT.zeros() + 9
    np.testing.assert_array_equal(server.served(w), w)
    after = one_round(server, w, 1)
    np.testing.assert_array_equal(server.served(after), after)


def test_a_rejected_reply_changes_nothing() -> None:
    """The average is as it was, and so is what is served."""
    server, w = server_on(None, averaging=True), LAYOUT.zeros()
    for round in (1, 2, 3):
        w = one_round(server, w, round)
    before, served = digest(server, w), server.served(w)
    with pytest.raises(Rejected):
        server.step(w, [Update("1", np.full_like(w, np.nan), 1, 1)])
    assert digest(server, w) == before
    np.testing.assert_array_equal(server.served(w), served)


def test_it_is_part_of_every_commit(tmp_path: Path) -> None:
    """A run that is continued serves the same bits; one whose store has none begins there."""
    whole = server_on(None, averaging=True)
    w = play(whole, 9)
    for rounds in (4, 9):
        with opened(f"lmdb:{tmp_path / 'store'}") as store:
            server = server_on(store, averaging=True)
            x = play(server, rounds)
    np.testing.assert_array_equal(server.served(x), whole.served(w))
    with opened(f"lmdb:{tmp_path / 'plain'}") as store:
        play(server_on(store, averaging=False), 4)
    with opened(f"lmdb:{tmp_path / 'plain'}") as store:
        late = server_on(store, averaging=True)
        x, _ = late.restore()
        np.testing.assert_array_equal(late.served(x), x)
        after = one_round(late, x, 5)
        np.testing.assert_allclose(late.served(after), mean_of([x, after]), atol=1e-5)


@pytest.mark.parametrize("wrong", [
    {"mean": np.zeros(3, np.float32), "count": 2}, {"mean": LAYOUT.zeros() + np.nan, "count": 2},
    {"mean": np.zeros(LAYOUT.size), "count": 2}, {"mean": LAYOUT.zeros(), "count": -1},
])  # fmt: skip
def test_a_state_that_does_not_fit_changes_nothing(wrong: Any) -> None:
    """One sentence, and the server is as it was."""
    server, w = server_on(None, averaging=True), LAYOUT.zeros()
    w = one_round(server, one_round(server, w, 1), 2)
    before = digest(server, w)
    with pytest.raises(ValueError, match=r"average model.*nothing was changed"):
        server.load_state_dict(server.state_dict() | {"average": wrong})
    assert digest(server, w) == before


def test_an_average_that_is_not_finite_is_named_and_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the moments are: it begins anew, and the last model is served meanwhile."""
    where = str(tmp_path / "store")
    with opened(f"lmdb:{where}") as store:
        server = server_on(store, averaging=True)
        w = play(server, 5)
        server.average.mean[7] = np.nan
        server.commit(w, round=5)
    with pytest.raises(SystemExit):
        main(["memory", "verify", where])
    assert "the average of the models holds NaN or infinity" in capsys.readouterr().out
    main(["memory", "repair", where])
    assert "begins anew with the last one" in capsys.readouterr().out
    main(["memory", "verify", where])
    with opened(f"lmdb:{where}") as store:
        again = server_on(store, averaging=True)
        x, _ = again.restore()
        np.testing.assert_array_equal(again.served(x), w)


def test_a_record_names_it_as_one_types_it() -> None:
    """Where it is not the default; and the command that is told is understood."""
    told = {
        averaging: command(Experiment.of(algorithm="fedadavr", averaging=averaging).resolved())
        for averaging in (None, False)
    }
    assert told[None] == "fedadavr run --dataset mnist-5k"
    assert told[False].endswith("--averaging false")
    averaged = command(Experiment.of(algorithm="fedavg", averaging=True).resolved())
    assert averaged.endswith("--algorithm fedavg --averaging true")


# --- the engine ---


@pytest.fixture
def blobs(mine: str) -> Federation:
    """Four clouds of points, one cloud per client."""
    load_file(mine)
    return federate(load("blobs"), "lq-1", 20, seed=0)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("buffer", [None, 3])
def test_the_engine_evaluates_what_is_served(
    workers: int, buffer: int | None, blobs: Federation
) -> None:
    """While the next round trains, too; with and without waiting."""

    def engine(averaging: bool, **changes: Any) -> Engine:
        module = build("mlp", 4, 0)
        server = algorithm(
            "fedavg", layout_of(module), client_lr=0.05, averaging=averaging, server_lr=1.5
        )
        return Engine(server, module, blobs, LocalSGD(0.05, 0.9, 1, 20), seed=1,
                      clients_per_round=5, buffer=buffer, **changes)  # fmt: skip

    with engine(True, workers=workers) as training:
        losses, served, models = [], [], []
        for report in training.rounds(6, evaluate_every=1):
            served.append(training.served.copy())
            models.append(training.w.copy())
            if report.round < 6:
                training.begin_training()
            assert report.evaluation is not None
            losses.append(report.evaluation.loss)
    np.testing.assert_allclose(served[-1], mean_of(models), atol=1e-5)
    for round, (model, loss) in enumerate(zip(served, losses, strict=True), 1):
        with engine(False, w=model, round=round) as looking:
            looking.begin_evaluation()
            assert looking.finish_evaluation().loss == loss
    with engine(False) as plain:
        for report in plain.rounds(6):
            np.testing.assert_array_equal(plain.w, models[report.round - 1])


# --- Flower ---


class Watching(LocalGrid):
    """Notes what clients train on and evaluate."""

    def __init__(self) -> None:
        usual = federation()
        super().__init__(usual.app, usual.clients)
        self.got: dict[str, list[Any]] = {"train": [], "evaluate": []}

    def answer(self, message: Message) -> list[Message]:
        kind = message.metadata.message_type
        if kind in self.got:
            self.got[kind].append(message.content.array_records["arrays"]["x"].numpy().copy())
        return super().answer(message)


def test_flower_trains_on_the_last_model_and_serves_the_average(tmp_path: Path) -> None:
    """Clients evaluate it, `evaluate_fn` and hooks get it, it is returned and exported."""
    measured: dict[int, Any] = {}
    told: dict[int, Any] = {}

    def measure(round: int, arrays: ArrayRecord) -> MetricRecord:
        measured[round] = arrays["x"].numpy().copy()
        return MetricRecord({"round": round})

    def hook(round: int, arrays: ArrayRecord, metrics: Any) -> None:
        told[round] = arrays["x"].numpy().copy()

    url = f"lmdb:{tmp_path / 'store'}"
    plain = Watching()
    strategy_on(None, averaging=False).start(plain, first_model(50), 6)
    trained = [plain.got["train"][k] for k in range(0, 18, 3)]
    grid = Watching()
    for rounds in (3, 5):  # ended, and continued
        strategy = strategy_on(
            url, averaging=True, fraction_evaluate=1.0, on_round=hook, min_evaluate_nodes=1
        )
        result = strategy.start(grid, first_model(50), rounds, evaluate_fn=measure)
    assert [x.tobytes() for x in grid.got["train"]] == [
        x.tobytes() for x in plain.got["train"][:15]
    ], "clients train on the models that they would train on without an average"
    for round in range(1, 6):
        expected = mean_of(trained[1 : round + 1])
        for found in (measured[round], told[round], grid.got["evaluate"][6 * round - 1]):
            np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(result.arrays["x"].numpy(), measured[5])
    np.testing.assert_array_equal(measured[0], np.zeros(50))
    main(["memory", "export", url, str(tmp_path / "model.npz")])
    np.testing.assert_array_equal(np.load(tmp_path / "model.npz")["x"], measured[5])


def test_running_statistics_are_the_last_model_s(caplog: pytest.LogCaptureFixture) -> None:
    """Batch normalization's would not fit an average: then the last model is served, and said."""
    record = ArrayRecord({"x": Array(np.zeros(9, np.float32)),
                          "bn.running_mean": Array(np.zeros(3, np.float32))})  # fmt: skip
    arrays: list[Any] = []
    for averaging in (False, True):
        with caplog.at_level(logging.WARNING, "flwr"):
            caplog.clear()
            result = strategy_on(None, averaging=averaging).start(federation(), record, 3)
        arrays.append(result.arrays["x"].numpy())
        said = "averaging: bn.running_mean belongs to the last model" in caplog.text
        assert said == averaging
    np.testing.assert_array_equal(arrays[0], arrays[1])


def test_what_a_subclass_makes_of_the_model_is_served(caplog: pytest.LogCaptureFixture) -> None:
    """A mean of rounded or projected models is none: the last one is served, and that is said."""
    made: list[Any] = []

    class Rounded(FedAdaVR):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            arrays, metrics = super().aggregate_train(server_round, replies)
            assert arrays is not None
            made.append(np.round(arrays["x"].numpy(), 1))
            return ArrayRecord({"x": Array(made[-1]), "y": arrays["y"]}), metrics

    strategy = Rounded(fraction_train=0.5, fraction_evaluate=0.0, averaging=True, server_lr=0.1,
                       min_available_nodes=6)  # fmt: skip
    with caplog.at_level(logging.WARNING, "flwr"):
        result = strategy.start(federation(), first_model(50), 5)
    np.testing.assert_array_equal(result.arrays["x"].numpy(), made[-1])
    said = "averaging: Rounded makes models of its own, so that the last one is served"
    assert sum(said in line for line in caplog.messages) == 1


def test_after_the_end_the_model_is_the_one_that_was_served() -> None:
    """`current_arrays` trains on, and is the result once there is one."""
    strategy = strategy_on(None, averaging=True)
    result = strategy.start(federation(), first_model(50), 4)
    for arrays in (strategy.current_arrays, strategy.served_arrays):
        assert arrays is not None
        np.testing.assert_array_equal(arrays["x"].numpy(), result.arrays["x"].numpy())
