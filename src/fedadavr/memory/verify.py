"""What is wrong with a store, and mending what can be mended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from fedadavr.memory.own import ClientMemory
from fedadavr.stores.format1 import OldStore
from fedadavr.stores.persistent import PersistentStore
from fedadavr.stores.store import Damaged, State, StoreError

TOLERANCE = 1e-6  # of the total against a re-sum, relative to the sum of all but the largest
SWALLOWED = TOLERANCE / np.finfo(np.float64).eps  # how much larger one record may be than the rest

AnyStore = PersistentStore | OldStore
T = TypeVar("T")
Watch = Callable[[Iterable[Any], int, str], Iterable[Any]]  # shows how far one is


def unwatched(items: Iterable[Any], total: int, what: str) -> Iterator[Any]:
    """Nobody is looking."""
    return iter(items)


def check(store: AnyStore, watch: Watch = unwatched) -> tuple[list[str], int]:
    """What is wrong with a store, and how many clients it holds."""

    def look() -> tuple[list[str], int]:
        try:
            return _check(store, watch)
        except StoreError as error:
            return [str(error)], 0

    return steadily(store, look)


def steadily(store: AnyStore, look: Callable[[], T]) -> T:
    """What a look at a store gives; again, if a server has changed it under our eyes."""
    for _ in range(5):
        commit = store.refresh()
        found: T | None = None
        trouble: StoreError | None = None
        try:
            found = look()
        except StoreError as error:
            trouble = error
        if store.steady or store.refresh() == commit:
            if trouble is not None:
                raise trouble
            return found  # type: ignore[return-value]
    raise StoreError(f"{store.where} changes faster than it can be read: stop the server first")


def _check(store: AnyStore, watch: Watch) -> tuple[list[str], int]:
    memory, state = ClientMemory.stored(store)
    faults = [*not_finite(state), *store.faults()]
    if memory is None:
        return faults, 0
    sums = _Sums(memory)
    clients, size = 0, 0.0
    labels: Counter[int] = Counter()
    for client, record in watch(memory.all(), len(store), "checking records"):
        if isinstance(record, Damaged):
            faults.append(f"client {client!r}: its record cannot be read, {record.why}")
            continue
        clients, size = clients + 1, size + record.weight
        labels[record.label] += record.weight
        held = memory.read(record) if memory.codec.bits else np.zeros(0, np.float32)
        sums.add(client, record.weight, memory.share(record), held)
    known = memory.population
    if clients != known.seen:
        faults.append(f"{clients} clients can be read, {known.seen} should be there")
    elif size != known.seen_size:
        faults.append(f"the weights add up to {size:g}, not to {known.seen_size:g}")
    elif +labels != +Counter(memory.label_weight):
        faults.append("the weights of the kinds are not the sums of their clients'")
    return faults + sums.faults(memory.total), clients


class _Sums:
    """The sum of what is stored, that of the largest record apart from the others'."""

    def __init__(self, memory: ClientMemory) -> None:
        self.others = np.zeros_like(memory.total)
        self.largest = np.zeros_like(memory.total)
        self.name, self.peak, self.count = "", 0.0, 0
        half = memory.staleness_half_life
        # What fades is rounded in every round, of which the last few count.
        self.roundings = 0.0 if half is None else min(max(half, 1.0), max(memory.round, 1))
        self.fresh, self.fresh_peak = 0.0, 0.0  # peaks as if nothing had faded: all, the largest

    def add(self, client: str, weight: float, share: float, update: Any) -> None:
        term = share * update.astype(np.float64)
        peak = float(np.abs(term).max(initial=0.0))
        fresh = weight * float(np.abs(update).max(initial=0.0))
        self.fresh, self.fresh_peak = self.fresh + fresh, max(self.fresh_peak, fresh)
        self.count += 1
        if peak > self.peak:
            self.others += self.largest
            self.name, self.peak, self.largest = client, peak, term
        else:
            self.others += term

    def faults(self, total: Any) -> list[str]:
        scale = float(np.abs(self.others).max(initial=0.0)) if self.count > 1 else self.peak
        faded = self.roundings and self.fresh_peak <= SWALLOWED * (self.fresh - self.fresh_peak)
        if scale and self.peak > SWALLOWED * scale and not faded:
            return [
                f"client {self.name!r}: its record is so large ({self.peak:.3g}) that the total "
                f"has no digits left for the others ({scale:.3g} together): forget it, then run "
                "fedadavr memory repair"
            ]
        off = float(np.abs(self.others + self.largest - total).max(initial=0.0))
        rounded = 4 * np.finfo(np.float64).eps * self.peak * self.roundings
        if off <= TOLERANCE * max(scale, 1e-30) + 1e-12 + rounded:
            return []
        return [f"the total differs from the sum of what is stored by up to {off:.3g}"]


def not_finite(state: State) -> list[str]:
    """The arrays of a state that hold NaN or infinity, each as a sentence."""
    server = state["server"]
    optimizer, kinds = server["optimizer"], server.get("kinds") or {}
    arrays = {
        "the model": state["w"],
        "the optimizer's first moment": optimizer["m"],
        "the optimizer's second moment": optimizer["v"],
        "the total": (server["memory"] or {}).get("total"),
        "the centers of the kinds": kinds.get("vectors"),
        "what past rounds stepped by": server.get("past"),
        "the average of the models": (server.get("average") or {}).get("mean"),
    }
    faults = [
        f"{name} holds NaN or infinity"
        for name, array in arrays.items()
        if array is not None and not np.isfinite(array).all()
    ]
    if (np.asarray(optimizer["v"]) < 0).any():
        faults.append("the optimizer's second moment is negative somewhere")
    return faults


def mend(memory: ClientMemory | None, state: State) -> list[str]:
    """Mend a state and its memory, not yet the store; what was done, each as a sentence."""
    if not np.isfinite(state["w"]).all():
        raise ValueError(
            "the model holds NaN or infinity, which nothing can mend: go back to a snapshot with "
            "fedadavr memory rewind, or restore a backup; nothing was changed"
        )
    done = []
    m, v = state["server"]["optimizer"]["m"], state["server"]["optimizer"]["v"]
    bad = ~np.isfinite(v) | (v < 0)
    if len(m):
        bad = ~np.isfinite(m) | (bad if len(v) else False)
        m[bad] = 0
    if len(v):
        v[bad] = 0
    if bad.any():
        done.append(f"{int(bad.sum())} of {len(bad)} moments were not finite: they begin anew")
    past = state["server"].get("past")
    if past is not None and not np.isfinite(past).all():
        done.append(f"{int((~np.isfinite(past)).sum())} numbers of past rounds' steps are zero now")
        past[~np.isfinite(past)] = 0
    average = state["server"].get("average")
    if average is not None and not np.isfinite(average["mean"]).all():
        average["mean"][...], average["count"] = 0, 0
        done.append("the average of the models was not finite: it begins anew with the last one")
    kinds = state["server"].get("kinds")
    if kinds is not None:
        for name in ("vectors", "sketches"):
            broken = ~np.isfinite(kinds[name])
            kinds[name][broken] = 0
            if broken.any():
                done.append(f"{int(broken.sum())} numbers of the kinds' {name} are zero now")
    if memory is not None:
        before = memory.total.copy()
        lost = memory.repair()
        if lost:
            done.append(f"{lost} records were lost or damaged: their clients count as never seen")
        scale = float(np.abs(memory.total).max(initial=0.0))
        with np.errstate(invalid="ignore"):
            off = float(np.abs(before - memory.total).max(initial=0.0))
        if not off <= TOLERANCE * scale:
            done.append(f"the total was off by up to {off:.3g}: it is the sum of what is stored")
    return done
