"""Outages cost time and no round: the store away or lost, the network down, under Flower."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message, MetricRecord, RecordDict

from fedadavr.memory.verify import check
from fedadavr.stores import StoreError, open_store
from fedadavr.stores.persistent import PersistentStore
from fedadavr.stores.store import StoreLost
from tests.conftest import _need_redis
from tests.flower_grid import LocalGrid, app_that, drawn, federation, first_model, strategy_on
from tests.redis_servers import RedisServer

ROUNDS = 12


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own, that it may kill."""
    _need_redis()
    made = RedisServer(tmp_path / "redis", killed=True)
    yield made
    made.stop()


class Moments(LocalGrid):
    """Does something when a round's replies are in; the clients are those of `federation`."""

    def __init__(self, do: dict[int, Callable[[], None]]) -> None:
        super().__init__(app_that(drawn), federation().clients)
        self._do, self.round = do, 0

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        messages = list(messages)
        replies = super().send_and_receive(messages, timeout=timeout)
        if any(m.metadata.message_type == "train" for m in messages):
            self.round += 1
            self._do.get(self.round, lambda: None)()
        return replies


def later(seconds: float, do: Callable[[], object]) -> None:
    threading.Timer(seconds, do).start()


def state_of(url: str) -> tuple[int, bytes]:
    """The last round and the model of a sound store."""
    with open_store(url, read_only=True) as store:  # type: ignore[union-attr]
        assert isinstance(store, PersistentStore)
        assert check(store)[0] == []
        state = store.state()
        assert state is not None
        return state["extra"]["round"], state["w"].tobytes()


@pytest.mark.parametrize("every", [1, 3])
def test_no_round_is_lost_while_redis_is_away(
    every: int, server: RedisServer, tmp_path: Path, said: list[str]
) -> None:
    """Killed before a step reads, before a commit writes, and stalled: all rounds are made."""
    url = f"{server.url}?patience=0.2"

    def outage() -> None:
        server.kill()
        later(1.5, server.start)

    def stall() -> None:
        server.signal(signal.SIGSTOP)
        later(0.5, lambda: server.signal(signal.SIGCONT))

    def metrics(records: list[RecordDict], weighted_by: str) -> MetricRecord:
        if grid.round == 6:  # after the step, before its commit
            outage()
        return MetricRecord({})

    grid = Moments({4: outage, 9: stall})
    strategy = strategy_on(url, commit_every=every, store_timeout=60, train_metrics_aggr_fn=metrics)
    result = strategy.start(grid, first_model(500), ROUNDS)
    assert list(result.train_metrics_clientapp) == list(range(1, ROUNDS + 1))
    assert any("round 4 waits for the store" in line and "kept" in line for line in said)
    rounds = "round 6 is" if every == 1 else "rounds 4 to 6 are"
    assert any(f"{rounds} in the RAM of this process only" in line for line in said)
    assert any("the store answers again" in line for line in said)
    alone = f"lmdb:{tmp_path / 'alone'}"
    strategy_on(alone).start(federation(), first_model(500), ROUNDS)
    assert state_of(url) == state_of(alone)


def test_a_redis_that_comes_back_empty_ends_the_run(server: RedisServer, said: list[str]) -> None:
    """At once, with the reason, and without a round made from nothing."""

    def lose() -> None:
        server.kill()
        server.lose_data()
        server.start()

    strategy = strategy_on(f"{server.url}?patience=5", store_timeout=3600)
    began = time.monotonic()
    with pytest.raises(StoreLost, match="has lost its state"):
        strategy.start(Moments({4: lose}), first_model(500), ROUNDS)
    assert time.monotonic() - began < 30
    assert server.client.get("fedadavr:manifest") is None
    assert not any("[ROUND 5/12]" in line for line in said)


def test_the_wait_has_an_end(server: RedisServer, said: list[str]) -> None:
    """After `store_timeout` the run ends with a sentence, and goes on later, nothing lost."""
    url = f"{server.url}?patience=0.1"
    strategy = strategy_on(url, store_timeout=1.0)
    with pytest.raises(StoreError, match=r"round 4: gave up waiting .*\(store_timeout\)"):
        strategy.start(Moments({4: server.kill}), first_model(500), ROUNDS)
    server.start()
    server.client.delete("fedadavr:lease")  # a new process would see that its holder is dead
    result = strategy_on(url).start(federation(), first_model(500), 5)
    assert list(result.train_metrics_clientapp) == [1, 2, 3, 4, 5]


def test_start_raises_if_the_last_rounds_are_not_stored(
    server: RedisServer, said: list[str]
) -> None:
    """A run whose end is in RAM only is no success."""
    url = f"{server.url}?patience=0.1"

    def evaluate(round: int, arrays: Any) -> None:
        if round == 3:
            server.kill()

    strategy = strategy_on(url, commit_every=5, store_timeout=0.5)
    with pytest.raises(StoreError, match="the commit of round 3: gave up waiting"):
        strategy.start(federation(), first_model(500), 3, evaluate_fn=evaluate)
    assert any("rounds 1 to 3 are in the RAM of this process only and cannot be stored" in line
               for line in said)  # fmt: skip
    server.start()


def test_a_signal_does_not_wait_for_the_store(server: RedisServer) -> None:
    """Ctrl-C while a round waits ends the run, long before `store_timeout`."""
    strategy = strategy_on(f"{server.url}?patience=0.1", store_timeout=3600)

    def outage() -> None:
        server.kill()
        later(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        strategy.start(Moments({2: outage}), first_model(500), ROUNDS)
    assert time.monotonic() - began < 30
    server.start()


def test_an_outage_costs_an_evaluation_and_no_run(server: RedisServer, said: list[str]) -> None:
    """A new node cannot be looked up in the store: the evaluation is left out, training waits."""
    url = f"{server.url}?patience=0.1"

    def metrics(records: list[RecordDict], weighted_by: str) -> MetricRecord:
        return MetricRecord({"clients": len(records)})

    class Evaluating(Moments):
        def get_node_ids(self) -> Iterable[int]:
            if self.round == 2 and 999 not in self.clients:  # asked again, to evaluate
                self.clients[999] = "new"
                server.kill()
                later(1.0, server.start)
            return super().get_node_ids()

    strategy = strategy_on(url, authenticated=True, fraction_evaluate=1.0,
                           evaluate_metrics_aggr_fn=metrics)  # fmt: skip
    result = strategy.start(Evaluating({}), first_model(500), 4)
    assert list(result.train_metrics_clientapp) == [1, 2, 3, 4]
    assert any("round 2 is not evaluated: " in line for line in said)


def test_a_network_that_fails_is_asked_again(said: list[str]) -> None:
    """Exceptions of the grid in listing nodes or asking who they are end no run."""

    class Failing(LocalGrid):
        fails = 2

        def get_node_ids(self) -> Iterable[int]:
            self.fails -= 1
            if self.fails >= 0:
                raise ConnectionError("the SuperLink is away")
            return super().get_node_ids()

        def send_and_receive(
            self, messages: Iterable[Message], *, timeout: float | None = None
        ) -> Iterable[Message]:
            messages = list(messages)
            if self.fails == -1 and messages[0].metadata.message_type.startswith("query"):
                raise ConnectionError("the SuperLink is away again")
            return super().send_and_receive(messages, timeout=timeout)

    grid = Failing(app_that(drawn), federation().clients)
    result = strategy_on(None).start(grid, first_model(10), 2, timeout=30)
    assert list(result.train_metrics_clientapp) == [1, 2]
    assert any("the SuperLink is away" in line for line in said)


def test_a_redis_that_has_gone_back_says_so(tmp_path: Path) -> None:
    """One that lost what it had answered is not taken for another server's."""
    _need_redis()
    made = RedisServer(tmp_path / "redis", killed=True)
    try:
        files = made.folder / "appendonlydir"

        def go_back() -> None:
            made.kill()
            shutil.rmtree(files)
            shutil.copytree(tmp_path / "earlier", files)
            made.start()

        def copy() -> None:
            shutil.copytree(files, tmp_path / "earlier")

        with pytest.raises(StoreLost, match=r"has gone back to an earlier commit.*appendfsync"):
            strategy_on(f"{made.url}?patience=5").start(
                Moments({3: copy, 5: go_back}), first_model(500), ROUNDS
            )
        result = strategy_on(f"{made.url}?patience=5").start(federation(), first_model(500), ROUNDS)
        assert list(result.train_metrics_clientapp) == list(range(1, ROUNDS + 1))
    finally:
        made.stop()
