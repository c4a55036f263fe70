"""A server that does not wait: what counts, what is remembered, and that it goes on exactly."""

from __future__ import annotations

import heapq
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout, Update, algorithm
from fedadavr.algorithms.replies import Rejected
from fedadavr.availability import find_availability, find_dropout
from fedadavr.availability.base import Clients
from fedadavr.cli import main
from fedadavr.experiments.quadratic import Quadratic
from fedadavr.experiments.run import RunOptions, run
from fedadavr.simulation.participation import Participation
from fedadavr.simulation.schedules import Buffered, Job, Rounds, visits
from tests import reference
from tests.test_runs import outcome, small

LAYOUT = Layout({"a": (5, 7), "b": (3,)})
RULES = ["fedbuff", "fedavg", "fedvarp", "fedadavr", "fedadavr-noopt"]


def expected_direction(
    rule: str, replies: list[Any], y: dict[str, Any], n: dict[str, int], lr: float
) -> Any:
    """r, by the equations; y and n become what is remembered: a client's last reply."""
    g = [u.weights.astype(np.float64) / lr for u in replies]
    old = [y.get(u.client, np.zeros(LAYOUT.size)) for u in replies]
    mean = {c: v.copy() for c, v in y.items()}
    for u, x in zip(replies, g, strict=True):  # in the order of their visits
        y[u.client], n[u.client] = x, u.examples
    if rule == "fedbuff":
        return sum(x / np.sqrt(1 + u.age) for u, x in zip(replies, g, strict=True)) / len(g)
    a, P = sum(u.examples for u in replies), sum(n.values())
    shares = [u.examples / a for u in replies]
    if rule == "fedavg":
        return sum(p * x for p, x in zip(shares, g, strict=True))
    if rule == "fedvarp":
        news = sum(x - o for x, o in zip(g, old, strict=True)) / len(g)
        return news + sum(mean.values(), np.zeros(LAYOUT.size)) / len(n)
    news = sum(p * (x - o) for p, x, o in zip(shares, g, old, strict=True))
    return news + sum((n[c] * v for c, v in mean.items()), np.zeros(LAYOUT.size)) / P


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(5))
def test_all_replies_of_a_client_count_and_the_last_is_remembered(rule: str, seed: int) -> None:
    """Against the equations, replies that are old or come twice included; in any order."""
    rng = np.random.default_rng(seed)
    server_lr = 0.01 if rule == "fedadavr" else None  # one that is learned has its own twin
    server = algorithm(rule, LAYOUT, client_lr=0.1, clip=0.0, server_lr=server_lr)
    optimizer = reference.Optimizer(
        server.server_optimizer.name, LAYOUT.shapes, server.server_optimizer.lr
    )
    y: dict[str, Any] = {}
    n: dict[str, int] = {}
    w = rng.normal(size=LAYOUT.size).astype(np.float32)
    for _ in range(8):
        jobs = [Job(0, 0, int(c), 0, True) for c in rng.integers(0, 4, 5)]
        replies = [
            Update(
                str(job.client), rng.normal(size=LAYOUT.size).astype(np.float32),
                int(rng.integers(1, 50)), difference=True, age=int(rng.integers(0, 4)), visit=visit,
            )
            for job, visit in zip(jobs, visits(jobs), strict=True)
        ]  # fmt: skip
        r = expected_direction(rule, replies, y, n, 0.1)
        expected = optimizer.step(w, 0.1 * r)
        shuffled = [replies[k] for k in rng.permutation(len(replies))]
        w = server.step(w, shuffled)
        np.testing.assert_allclose(w, expected, rtol=2e-4, atol=2e-4)
        if server.memory is not None:
            for client, stored in y.items():
                got = server.memory.update_of(client)
                np.testing.assert_allclose(got, stored, rtol=1e-5, atol=1e-5)


def test_fedadavr_plus_keeps_its_total_when_clients_come_twice() -> None:
    """The total is the sum of what is stored, the kinds' weights are the clients', in any order."""
    ends = []
    for order in (1, -1):
        rng = np.random.default_rng(3)
        server = algorithm("fedadavr-plus", LAYOUT, client_lr=0.1, population=6)
        w = rng.normal(size=LAYOUT.size).astype(np.float32)
        for _ in range(12):
            who = rng.integers(0, 5, 6)
            replies = [
                Update(str(c), rng.normal(size=LAYOUT.size).astype(np.float32), 1 + int(c),
                       difference=True, visit=visit)
                for c, visit in zip(who, visits([Job(0, 0, int(c), 0, True) for c in who]),
                                    strict=True)
            ]  # fmt: skip
            w = server.step(w, replies[::order])
        assert server.memory is not None
        total = sum(
            (record.weight * server.memory.update_of(client).astype(np.float64))
            for client, record in server.memory.records()
        )
        np.testing.assert_allclose(server.memory.total, total, rtol=1e-9, atol=1e-9)
        kinds = sum(server.memory.label_weight.values())
        assert kinds == sum(r.weight for _, r in server.memory.records())
        ends.append(w)
    assert (ends[0] == ends[1]).all()


def test_the_same_visit_twice_is_refused() -> None:
    """Two replies of a client that do not say which came later: nothing is changed."""
    server = algorithm("fedbuff", LAYOUT)
    twice = [Update("a", LAYOUT.zeros() + 1, 3), Update("a", LAYOUT.zeros() + 2, 3)]
    with pytest.raises(Rejected, match="client 'a': came twice in one round"):
        server.step(LAYOUT.zeros(), twice)
    assert server.round == 0


def test_a_client_counts_with_its_share_however_often_it_comes() -> None:
    """`max_share` bounds all replies of a client together."""
    server = algorithm("fedavg", LAYOUT, clip=0.0, max_share=0.25)
    four = [Update("a", LAYOUT.zeros() + 1, 10, difference=True, visit=v) for v in range(4)]
    rest = [Update(c, LAYOUT.zeros(), 10, difference=True) for c in "bcde"]
    w = server.step(LAYOUT.zeros(), [*four, *rest])
    assert 0.2 < float(-w[0]) <= 0.25  # without the bound, a half


@pytest.mark.parametrize(("field", "value"), [("age", -1), ("age", "x"), ("visit", [1])])
def test_a_wrong_age_costs_only_its_reply(field: str, value: Any) -> None:
    """One sentence, and the others are stepped with."""
    server = algorithm("fedbuff", LAYOUT)
    bad: Any = {"difference": True, field: value}
    replies = [Update("a", LAYOUT.zeros() + 1, 3, **bad), Update("b", LAYOUT.zeros() + 1, 3)]
    _, rejected = server.step_good(LAYOUT.zeros(), replies)
    assert list(rejected) == ["a"]
    assert f"its {field} must be a whole number from 0 up" in rejected["a"]


def test_every_reply_of_a_client_must_be_of_its_node() -> None:
    """Also the first of two; and a strange id beside it changes nothing of that."""
    server = algorithm("fedadavr", LAYOUT)
    server.step(LAYOUT.zeros(), [Update("a", LAYOUT.zeros() + 1, 3, owner=5)])
    others = [Update("z\0", LAYOUT.zeros() + 1, 3, owner=9)]
    foreign = Update("a", LAYOUT.zeros() + 1, 3, owner=7)
    again = Update("a", LAYOUT.zeros() + 1, 3, owner=5, visit=1)
    for replies in ([foreign], [foreign, *others], [foreign, again]):
        with pytest.raises(Rejected, match="belongs to node 5, and node 7 claims it"):
            server.step(LAYOUT.zeros(), replies)


# --- who is under way ---


def buffered(availability: str = "uniform", dropout: Any = "none", **sizes: int) -> Buffered:
    clients = Clients(12, 5, [10 + k for k in range(12)])
    who = Participation(find_availability(availability), find_dropout(dropout), clients)
    return Buffered(who, sizes.get("under_way", 4), sizes.get("buffer", 3))


def test_replies_come_in_the_order_of_a_simulated_clock() -> None:
    """As a queue of events has it, written anew: who is asked when, from which model."""
    schedule, server = buffered(), algorithm("fedbuff", LAYOUT)
    durations = schedule.participation.dropout.durations(1, schedule.participation.clients)
    queue: list[Any] = []
    number, clock = 0, 0.0
    for version in range(30):
        replies: list[Any] = []
        while len(replies) < 3:
            while len(queue) < 4:
                number += 1
                busy = {entry[2] for entry in queue}
                free = [str(c) for c in range(12) if c not in busy]
                client = int(server.sample(5, number, free, 1)[0])
                heapq.heappush(queue, (clock + durations[client], number, client, version))
            clock, *reply = heapq.heappop(queue)
            replies.append(reply)
        got = schedule.next(server, version)
        assert [[j.number, j.client, j.version] for j in got.replies] == replies
        assert (schedule.clock, got.there) == (clock, 12)


def test_a_fast_client_answers_twice_and_an_old_model_stays_out() -> None:
    """What the mode is for: some come several times in a buffer, others are many steps old."""
    schedule, server = buffered(buffer=6), algorithm("fedbuff", LAYOUT)
    ages, again = [], 0
    for version in range(40):
        replies = schedule.next(server, version).replies
        ages += [version - job.version for job in replies]
        again += max(visits(replies))
        under_way = {job.client for job in schedule.jobs}
        assert len(under_way) == len(schedule.jobs)  # nobody twice
    assert max(ages) >= 3
    assert again > 0


def test_a_step_goes_without_those_that_never_come() -> None:
    """Nobody there, or all replies lost: a step has what there is, and ends."""
    server = algorithm("fedbuff", LAYOUT)
    gone = buffered("churn:joining=0,leaving=1,rounds=2")
    assert gone.next(server, 200).replies == []
    lost = buffered(dropout=1.0)
    arrivals = lost.next(server, 0)
    assert (arrivals.replies, arrivals.asked > 12, lost.clock > 0) == ([], True, True)
    seldom = buffered(dropout=0.9, buffer=20)
    assert [len(seldom.next(server, version).replies) for version in range(5)] == [20] * 5
    late = buffered(dropout="deadline:seconds=1.5")
    for version in range(5):
        for job in late.next(server, version).replies:
            takes = late.participation.dropout.durations(1, late.participation.clients)
            assert takes[job.client] <= 1.5


# --- runs ---


@pytest.mark.parametrize(
    ("name", "buffer"), [("fedbuff", 3), ("fedadavr-plus", 3), ("fedawe", None)]
)
def test_a_run_goes_on_exactly_with_those_under_way(
    name: str, buffer: int | None, mine: str, tmp_path: Path
) -> None:
    """Continued after any round, with any number of workers: the same bits, clock and ages."""
    given: Any = {"algorithm": name, "buffer": buffer, "dropout": "deadline:seconds=30"}
    run(small(mine, **given), RunOptions(checkpoint_every=1), tmp_path / "whole")
    parts = tmp_path / "parts"
    for rounds, workers in ((5, 1), (8, 2), (12, 1)):
        experiment = small(mine, **given, rounds=rounds, average_last=1)
        options = RunOptions(checkpoint_every=1, workers=workers)
        run(experiment, options, parts, resume=rounds > 5)
    (whole, rows), (part, others) = outcome(tmp_path / "whole"), outcome(parts)
    assert rows == others
    assert whole[1] == part[1]
    assert buffer is None or max(row["age"] for row in rows) > 0
    clocks = [row["clock"] for row in rows]
    assert clocks == sorted(clocks)


def test_what_needs_a_server_that_waits_is_said(
    mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, before any work."""
    for name in ("scaffold", "mifa", "fedau", "feddyn"):
        words = ["run", "--load", mine, "--dataset", "blobs", "--model", "mlp", "--buffer", "3"]
        with pytest.raises(SystemExit):
            main([*words, "--algorithm", name])
        assert f"{name} needs a server that waits" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["run", "--load", mine, "--dataset", "blobs", "--model", "mlp", "--buffer", "0"])
    assert "--buffer must be at least 1, got 0" in capsys.readouterr().err


# --- FedAWE, whose clients start from old models, too ---


def test_fedawe_is_its_equation_on_quadratics() -> None:
    """Clients that start from the model of their last visit, and make up for what they missed."""
    problem = Quadratic(seed=2)
    got = problem.solve("fedawe", 40, server_lr=0.5)
    rng = np.random.default_rng(problem.seed + 1)
    w = np.zeros(problem.dimension)
    x = np.zeros((problem.clients, problem.dimension))
    came = np.zeros(problem.clients, int)  # as if all had come in round 0
    for t in range(1, 41):
        S = rng.choice(problem.clients, problem.per_round, replace=False)
        sent = []
        for i in S:
            local = x[i].copy()
            for _ in range(problem.local_steps):
                local -= problem.client_lr * problem.curvature * (local - problem.centers[i])
            sent.append(x[i] - 0.5 * (t - came[i]) * (x[i] - local))
        w = np.mean(sent, axis=0)
        x[S], came[S] = w, t
        assert got[t - 1] == pytest.approx(np.linalg.norm(w - problem.optimum()), rel=1e-3)


def test_the_engine_starts_fedawe_where_its_clients_were() -> None:
    """Each from the model after the round that it came to last, which is kept as long."""
    clients = Clients(6, 5, [10] * 6)
    who = Participation(find_availability("uniform"), find_dropout("none"), clients)
    schedule, server = Rounds(who, 2), algorithm("fedawe", LAYOUT)
    last = dict.fromkeys(range(6), 0)
    for version in range(12):
        jobs = schedule.next(server, version).replies
        assert [job.version for job in jobs] == [last[job.client] for job in jobs]
        last |= {job.client: version + 1 for job in jobs}
        assert schedule.versions == set(last.values())
