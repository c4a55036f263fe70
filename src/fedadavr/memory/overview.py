"""What a store holds: clients, bytes, how old their updates are, and what FedAdaVR+ has learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

import numpy as np

from fedadavr.memory.own import ClientMemory
from fedadavr.memory.verify import AnyStore, Watch, unwatched
from fedadavr.stores.record_format import SIZE
from fedadavr.stores.store import Record, State


@dataclass(frozen=True)
class Overview:
    """What a store holds."""

    store: str
    algorithm: str
    round: int
    population: int
    clients: int
    codec: str
    encrypted: bool
    compress: str
    lost: int
    snapshots: list[int]
    record_bytes: int
    store_bytes: int
    staleness: dict[str, int]
    stalest: list[dict[str, Any]]
    kinds: list[dict[str, Any]]
    alike: list[list[float]]
    trust: dict[str, list[float]]


def kinds_of(store: AnyStore, state: State) -> dict[str, Any]:
    """FedAdaVR+'s centers, their shares and its trust; empty for other algorithms."""
    told: dict[str, Any] = {"kinds": [], "alike": [], "trust": {}}
    server = state["server"]
    if server.get("kinds") is not None:
        vectors = server["kinds"]["vectors"].astype(np.float64)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = vectors / np.where(norms > 0, norms, 1.0)
        told["alike"] = (unit @ unit.T).round(4).tolist()
        weights = [server["memory"]["kinds"].get(str(k + 1), 0) for k in range(len(vectors))]
        told["kinds"] = [
            {"kind": k + 1, "share": weight / max(1, sum(weights)), "fed": fed}
            for k, (weight, fed) in enumerate(zip(weights, server["kinds"]["fed"], strict=True))
        ]
    if server.get("trust") is not None:
        rows = [note["trust"] for note in store.rounds().values() if "trust" in note]
        told["trust"] = {name: [row[name] for row in rows] for name in server["trust"]["memories"]}
    return told


def overview(store: AnyStore, stalest: int, watch: Watch = unwatched) -> Overview:
    """Read all headers."""
    memory, state = ClientMemory.stored(store)
    ages: Counter[int] = Counter()
    size = 0

    def heads() -> Iterator[tuple[int, str, float]]:
        nonlocal size
        for client, record in watch(store.items(data=False), len(store), "reading headers"):
            if isinstance(record, Record) and memory is not None:
                ages[memory.round - record.round] += 1
                size += SIZE + int(memory.offsets[-1])
                yield record.round, client, record.weight

    oldest = nsmallest(max(1, stalest), heads())[:stalest]
    now = 0 if memory is None else memory.round
    return Overview(
        store=store.where.removeprefix("the store "),
        algorithm=state["server"]["algorithm"],
        round=int(state["server"]["optimizer"]["steps"]),
        population=0 if memory is None else memory.count,
        clients=ages.total(),
        codec="none" if memory is None else memory.codec.name,
        encrypted=store.encrypted,
        compress=getattr(store, "compress", "none"),
        lost=store.lost,
        snapshots=list(store.snapshots),
        record_bytes=size,
        store_bytes=store.nbytes,
        staleness=histogram(ages),
        stalest=[
            {"client": client, "round": round, "staleness": now - round, "weight": weight}
            for round, client, weight in oldest
        ],
        **kinds_of(store, state),
    )


def histogram(ages: Counter[int]) -> dict[str, int]:
    """Ages in bins that double: 0, 1, 2-3, 4-7, ..."""
    bins: dict[str, int] = {}
    low, high = 0, 0
    while ages and low <= max(ages):
        label = str(low) if low == high else f"{low}-{high}"
        bins[label] = sum(n for age, n in ages.items() if low <= age <= high)
        low, high = high + 1, 2 * high + 1
    return bins
