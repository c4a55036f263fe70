"""The Flower strategy's bookkeeping: when it commits, what buffers weigh, how old memories are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, MetricRecord

import fedadavr.flower as flower
from fedadavr import Layout, Update, algorithm
from tests.flower_grid import LocalGrid, app_that, federation, first_model, strategy_on
from tests.rounds import opened
from tests.test_flower import reply


def kept(strategy: Any) -> int:
    """The last round that the strategy's store holds."""
    state = strategy.server.store.state()
    return 0 if state is None else int(state["extra"]["round"])


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_commit_comes_every_so_many_rounds(every: int, tmp_path: Path) -> None:
    """Neither later, which a crash would pay for, nor earlier; the last round is kept always."""
    address, seen = f"lmdb:{tmp_path / 'store'}", {}
    strategy = strategy_on(address, commit_every=every)

    def look(round: int, arrays: ArrayRecord) -> MetricRecord | None:
        seen[round] = kept(strategy)
        return None

    for first, last in ((0, 7), (7, 12)):
        seen.clear()
        strategy.start(federation(), first_model(5), last, evaluate_fn=look)
        rounds = range(first + 1, last + 1)
        assert list(seen) == list(range(first + 1 if first else 0, last + 1))  # none twice
        assert {r: seen[r] for r in rounds} == {r: first + (r - first) // every * every
                                                for r in rounds}  # fmt: skip
        with opened(address, read_only=True) as store:
            assert store.state()["extra"]["round"] == last


def start_with(answer: Callable[[Message, Context], Any], clients: int, rounds: int) -> Any:
    """All clients in every round; the strategy after it."""
    first = reply(0.0)["arrays"]
    assert isinstance(first, ArrayRecord)
    grid = LocalGrid(app_that(answer), {100 + k: str(k) for k in range(clients)})
    strategy = flower.FedAvg(min_available_nodes=clients, fraction_evaluate=0.0)
    strategy.start(grid, first, rounds)
    return strategy


def test_buffers_weigh_what_their_clients_examples_weigh() -> None:
    """Three examples count three times as much as one; a counter is rounded after that."""

    def answer(_: Message, context: Context) -> Any:
        many = context.node_id == 101
        return reply(metrics={"num-examples": 30 if many else 10}, var=2.0 if many else 1.0,
                     count=8 if many else 4)  # fmt: skip

    strategy = start_with(answer, 2, 1)
    np.testing.assert_allclose(strategy.buffer_values["bn.running_var"], [1.75, 1.75])
    assert strategy.buffer_values["bn.num_batches_tracked"] == 7


def test_a_rejected_reply_has_no_weight_in_the_buffers() -> None:
    """The others' weights are shares of what is left."""

    def answer(_: Message, context: Context) -> Any:
        wrong = context.node_id == 102
        size = {100: 10, 101: 30, 102: 60}[context.node_id]
        return reply(float("nan") if wrong else 0.5, {"num-examples": size},
                     var=2.0 if context.node_id == 101 else 1.0)  # fmt: skip

    strategy = start_with(answer, 3, 1)
    np.testing.assert_allclose(strategy.buffer_values["bn.running_var"], [1.75, 1.75])


def test_staleness_is_the_number_of_rounds_since() -> None:
    """Who was there in the round before is one round old; newcomers have no age."""
    layout = Layout({"x": (3,)})
    server: Any = algorithm("fedadavr", layout, population=9)
    w, told = layout.zeros(), []
    for cohort in ("ab", "a", "c", "abd", "abcd"):
        w = server.step(w, [Update(client, w - 0.1, 5) for client in cohort])
        told.append(server.staleness)
    # ab: new; a: 1; c: new; a: 2, b: 3; a, b and d: 1, c: 2
    assert told == [0.0, 1.0, 0.0, 2.5, 1.25]
    server.step(w, [Update("a", w - 0.1, 5)])
    server.step(w, [Update("b", w - 0.1, 5)])
    assert [server.memory.staleness(client) for client in "abcz"] == [1, 0, 2, None]


def test_the_rounds_metrics_tell_the_staleness() -> None:
    """Of those asked in the round, as the server has it; with all in all rounds it is one."""
    grid = LocalGrid(app_that(lambda *_: reply()), {100 + k: str(k) for k in range(3)})
    first = reply(0.0)["arrays"]
    assert isinstance(first, ArrayRecord)
    strategy = flower.FedAdaVR(min_available_nodes=3, fraction_evaluate=0.0)
    result = strategy.start(grid, first, 3)
    told = [metrics["staleness"] for metrics in result.train_metrics_clientapp.values()]
    assert told == [0.0, 1.0, 1.0]
