"""A round's cost in a store, from few clients to a million.

Every case is filled with as many records as it has clients, then rounds of five clients are read,
stepped and committed, in turn with the other cases, each in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from fedadavr.algorithms import Algorithm, Update, algorithm
from fedadavr.codecs import CODECS
from fedadavr.experiments.plan import row
from fedadavr.stores import Record, open_store
from fedadavr.stores.persistent import PersistentStore
from fedadavr.vector import Layout

COHORT = 5
BATCH = 1 << 28  # bytes written at once while filling
SPARE = 0.9  # of the free disk may be filled


@dataclass(frozen=True)
class MemoryTiming:
    """A round's cost in one store; times are medians."""

    store: str
    codec: str
    clients: int
    commit_ms: float
    read_ms: float
    round_ms: float  # reading (twice, the second time from the cache), the step, the commit
    rss_mb: float
    disk_mb: float


@dataclass(frozen=True)
class StoreCase:
    """A store to be measured."""

    address: str
    layout: Layout
    codec: str
    clients: int

    @property
    def store(self) -> str:
        """Its kind."""
        return self.address.partition(":")[0]


def measure_all(
    clients: Sequence[int],
    layout: Layout,
    stores: Sequence[str],
    codecs: Sequence[str],
    rounds: int,
    folder: Path | None,
    tell: Callable[[str], None],
    warn: Callable[[str], None],
) -> list[MemoryTiming]:
    """Time every kind of store with every codec and number of clients.

    Parameters
    ----------
    clients : Sequence[int]
        How many clients are remembered.
    layout : Layout
        Of the model.
    stores, codecs : Sequence[str]
        Kinds or addresses of stores, and names of codecs.
    rounds : int
        How many rounds are timed.
    folder : Path or None
        Where LMDB's stores are made, which are removed; None: a temporary folder.
    tell : Callable[[str], None]
        Told what is being done.
    warn : Callable[[str], None]
        Told what there is no room for.
    """
    if min(clients) < COHORT or rounds < 1:
        raise ValueError(f"--clients must be at least {COHORT}, and --rounds at least 1")
    rows: list[MemoryTiming] = []
    base = Path(tempfile.mkdtemp(prefix="fedadavr-bench-", dir=folder))
    try:
        for kind, name in product(stores, codecs):
            cases = [
                StoreCase(_address(kind, base, name, n), layout, name, n)
                for n in _fitting(clients, kind, name, layout, base, warn)
            ]
            rows += measure(cases, rounds, tell)
    finally:
        shutil.rmtree(base)
    return rows


def _address(kind: str, base: Path, codec: str, clients: int) -> str:
    if kind == "lmdb":
        return f"lmdb:{base / f'{codec}-{clients}'}"
    joint = "&" if "?" in kind else "?"
    return kind if kind == "ram" else f"{kind}{joint}name=bench-{codec}-{clients}"


def _fitting(
    numbers: Sequence[int],
    kind: str,
    codec: str,
    layout: Layout,
    base: Path,
    warn: Callable[[str], None],
) -> list[int]:
    """The numbers of clients for which there is room; where there is less, it says so."""
    if kind != "lmdb":
        return list(numbers)
    left, fitting = shutil.disk_usage(base).free * SPARE, []
    for n in numbers:
        one = row("", layout, n, CODECS[codec], COHORT).lmdb_disk_gb * 1e9 / n
        room = min(n, int(left / one))
        if room < n:
            warn(f"the disk has room for {room:,} clients in {codec} only, not for {n:,}")
        if room >= COHORT:
            fitting.append(room)
            left -= room * one
    return fitting


def measure(cases: list[StoreCase], rounds: int, tell: Callable[[str], None]) -> list[MemoryTiming]:
    """Fill the stores, then make rounds in turn, some at a time."""
    context = multiprocessing.get_context("spawn")
    workers = []
    for case in cases:
        tell(f"filling {case.store}, {case.codec}, {case.clients:,} clients")
        for work in (_rounds,) if case.address == "ram" else (_fill, _rounds):
            # A process of its own fills, so that the server's RAM shows its rounds only.
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(work, case, theirs), daemon=True)
            process.start()
            theirs.close()
            _answer(ours)
        workers.append((process, ours))
    samples: list[list[tuple[float, float, float]]] = [[] for _ in cases]
    tell("rounds")
    for _ in range(rounds):
        for (_, pipe), sample in zip(workers, samples, strict=True):
            pipe.send("round")
            sample.append(_answer(pipe))
    rows = []
    for case, (process, pipe), sample in zip(cases, workers, samples, strict=True):
        pipe.send("end")
        rss, disk = _answer(pipe)
        process.join()
        reads, commits, whole = (
            1e3 * statistics.median(column) for column in zip(*sample, strict=True)
        )
        rows.append(
            MemoryTiming(case.store, case.codec, case.clients, commits, reads, whole, rss, disk)
        )
    return rows


def _answer(pipe: Connection) -> Any:
    try:
        answer = pipe.recv()
    except EOFError:
        raise ValueError("a process of the benchmark died: perhaps the RAM is full") from None
    if isinstance(answer, str):
        raise ValueError(answer)
    return answer


def _work(work: Callable[[StoreCase, Connection], None], case: StoreCase, pipe: Connection) -> None:
    """What a process does; what goes wrong is sent as a sentence."""
    try:
        work(case, pipe)
    except (ValueError, OSError) as error:
        pipe.send(str(error))


def _server(case: StoreCase) -> Algorithm:
    settings = {"codec": case.codec, "population": case.clients, "store": open_store(case.address)}
    return algorithm("fedadavr", case.layout, **settings)


def _fill(case: StoreCase, pipe: Connection) -> None:
    server = _server(case)
    fill(server, case)
    assert server.store is not None
    server.store.close()
    pipe.send(None)


def _rounds(case: StoreCase, pipe: Connection) -> None:
    server = _server(case)
    store = server.store
    assert store is not None
    if case.address == "ram":
        fill(server, case)
    else:
        server.restore()
    w = case.layout.zeros()
    rng = np.random.default_rng(1)
    replies = rng.normal(0, 0.01, (COHORT, case.layout.size)).astype(np.float32)

    def one() -> tuple[float, float, float]:
        chosen = [f"{k:07d}" for k in rng.integers(case.clients, size=COHORT)]
        updates = [Update(c, r, 1) for c, r in zip(dict.fromkeys(chosen), replies, strict=False)]
        began = time.perf_counter()
        server.memory.open([u.client for u in updates])  # type: ignore[union-attr]
        read = time.perf_counter()
        server.step(w, updates, out=w)
        stepped = time.perf_counter()
        server.commit(w)
        done = time.perf_counter()
        return read - began, done - stepped, done - began

    for _ in range(10):
        one()
    pipe.send(None)
    while pipe.recv() == "round":
        pipe.send(one())
    disk = store.nbytes / 1e6 if isinstance(store, PersistentStore) else 0.0
    pipe.send((_anonymous_mb(), disk))
    if case.store.startswith("redis") and isinstance(store, PersistentStore):
        store.erase()
    store.close()


def fill(server: Any, case: StoreCase) -> None:
    """A record for every client, all alike, and the state that belongs to them."""
    memory = server.memory
    update = np.random.default_rng(0).normal(0, 0.01, case.layout.size).astype(np.float32)
    data = memory.codec.encode(case.layout, update)
    some = max(1, BATCH // len(data))
    for start in range(0, case.clients, some):
        names = [f"{k:07d}" for k in range(start, min(case.clients, start + some))]
        memory.store.commit({
            name: Record(1, 0, data.copy() if case.address == "ram" else data, case.codec,
                         case.layout.digest)
            for name in names
        })  # fmt: skip
    memory.born[:] = 0
    memory.codec.accumulate(case.layout, data, float(case.clients), memory.total)
    memory.population.anonymous = 0
    memory.population.recount(case.clients, case.clients, 0)
    server.commit(case.layout.zeros())


def _anonymous_mb() -> float:
    """This process's own memory; pages of a map can be dropped at will, and do not count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024 / 1e6
    return float("nan")
