"""A run as a loop of one's own: `engine.rounds`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedadavr import algorithm
from fedadavr.clients import LocalSGD, layout_of
from fedadavr.data import Federation, federate, load
from fedadavr.models import build
from fedadavr.plugins import load_file
from fedadavr.simulation import Diverged, Engine
from fedadavr.simulation.workers import TrainJob, Worker


@pytest.fixture
def federation(mine: str) -> Federation:
    """Four clouds of points, one cloud per client."""
    load_file(mine)
    return federate(load("blobs"), "lq-1", 20, seed=0)


def engine(federation: Federation, name: str = "fedadavr", **changes: Any) -> Engine:
    module = build("mlp", 4, 0)
    server = algorithm(name, layout_of(module), client_lr=0.05)
    settings: dict[str, Any] = {"seed": 1, "clients_per_round": 5} | changes
    return Engine(server, module, federation, LocalSGD(0.05, 0.9, 1, 20), **settings)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_loop_gives_the_bits_of_the_methods_that_it_is_made_of(
    workers: int, federation: Federation
) -> None:
    """Reports, weights and evaluations; also where an evaluation is asked for late, or never."""
    with engine(federation) as by_hand:
        expected: list[Any] = []
        for _ in range(7):
            trained = by_hand.finish_training()
            by_hand.begin_evaluation()
            evaluated = by_hand.finish_evaluation()
            expected.append((trained.round, trained.loss, trained.clients, evaluated.accuracy))
        w = by_hand.w.copy()
    for at_once in (True, False):
        with engine(federation, workers=workers) as looping:
            reports = []
            for report in looping.rounds(7, evaluate_every=3):
                assert looping.round == report.round
                if at_once:
                    assert (report.evaluation is None) == (report.round % 3 != 0)
                reports.append(report)
            np.testing.assert_array_equal(looping.w, w)
        for report, (round, loss, clients, accuracy) in zip(reports, expected, strict=True):
            assert (report.round, report.loss, report.clients) == (round, loss, clients)
            assert report.seconds == report.seconds_training + report.seconds_server > 0
            if report.round % 3 == 0:
                assert report.evaluation is not None
                assert report.evaluation.accuracy == accuracy
            else:
                assert report.evaluation is None


def test_a_loop_that_is_left_can_be_followed_by_another(federation: Federation) -> None:
    """The rounds are those of one loop, and the evaluation under way is not lost."""
    with engine(federation) as whole:
        list(whole.rounds(6))
        expected = whole.w.copy()
    with engine(federation) as parts:
        for last in parts.rounds(100, evaluate_every=1):
            if last.round == 4:
                break
        numbers = [report.round for report in parts.rounds(2, evaluate_every=1)]
        np.testing.assert_array_equal(parts.w, expected)
    assert numbers == [5, 6]
    assert last.evaluation is not None
    assert last.evaluation.round == 4


@pytest.mark.parametrize("workers", [1, 2])
def test_what_the_loop_changes_counts_from_the_next_round(
    workers: int, federation: Federation
) -> None:
    """A schedule of the clients' rate, evaluated or not, with any number of workers."""
    found = []
    for every in (None, 1):
        with engine(federation, "fedavg", workers=workers) as looping:
            before = looping.w.copy()
            for report in looping.rounds(3, evaluate_every=every):
                moved = np.abs(looping.w - before).max()
                assert (moved == 0) == (report.round == 3)
                looping.server.client_lr = 1e-30 if report.round == 2 else 0.02
                before = looping.w.copy()
            found.append(before)
    np.testing.assert_array_equal(found[0], found[1])


def spoiled(monkeypatch: pytest.MonkeyPatch, bad: Any) -> None:
    """Clients whose loss is NaN."""
    do = Worker.do

    def doing(self: Worker, job: Any, buffers: Any) -> Any:
        done = do(self, job, buffers)
        if isinstance(job, TrainJob) and bad(job):
            return done._replace(result=(float("nan"), done.result[1]))
        return done

    monkeypatch.setattr(Worker, "do", doing)


def test_a_rejected_reply_is_counted_and_costs_only_itself(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others of its round are stepped with, and the loop goes on."""
    spoiled(monkeypatch, lambda job: job.round == 2 and job.place < 2)
    with engine(federation) as looping:
        reports = list(looping.rounds(4))
        assert [report.rejected for report in reports] == [0, 2, 0, 0]
        assert all(report.loss is not None for report in reports)
        assert len(looping.server.memory) > 5  # type: ignore[arg-type]


def test_one_client_ends_no_run(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is so fast that it alone makes three steps in a row."""
    dropout = "deadline:seconds=1000,spread=2"
    options: Any = {"clients_per_round": 20, "buffer": 1, "dropout": dropout}
    with engine(federation, "fedbuff", **options) as running:
        speeds = running.participation.dropout.durations(1, running.participation.clients)
        fastest = int(np.argmin(speeds))
    spoiled(monkeypatch, lambda job: job.client == fastest)
    with engine(federation, "fedbuff", **options) as running:
        reports = list(running.rounds(60))
    assert sum(report.rejected for report in reports) > 3
    for wrong in ({"buffer": 0}, {"buffer": 2.5}, {"clients_per_round": 0}):
        with pytest.raises(ValueError, match="must be a whole number from 1 up"):
            engine(federation, "fedbuff", **wrong)


def test_a_loop_ends_only_when_nothing_finite_is_left(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two wholly rejected rounds are gone through, three in a row are the end."""
    spoiled(monkeypatch, lambda job: job.round in (2, 3, 5, 6, 7))
    with engine(federation) as looping:
        seen: list[int] = []
        with pytest.raises(Diverged, match="every reply of 3 rounds in a row was rejected"):
            seen.extend(report.rejected for report in looping.rounds(10))
        assert seen == [0, 5, 5, 0, 5, 5]


def test_wrong_numbers_are_refused(federation: Federation) -> None:
    """In one sentence."""
    with (
        engine(federation) as looping,
        pytest.raises(ValueError, match="evaluate_every must be at least 1, got 0"),
    ):
        next(looping.rounds(3, evaluate_every=0))
