"""Who is in the population, and how much data there is in all."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from fedadavr.naming import shown
from fedadavr.stores.store import Member

log = logging.getLogger(__name__)

Undo = Callable[[], object]

UNIT = 2.0**-20
"""What weights that are not whole are multiples of: the sums of such are exact in float64."""


class Population:
    """The clients and the sum of their sizes, kept in sums: nothing here is done client by client.

    A member is *seen* (its update is remembered), *waiting* (named, but not seen yet, perhaps with
    a size) or *anonymous* (counted only). A client that is forgotten becomes anonymous, and the
    next new name takes such a place; one that leaves takes its place with it.

    Parameters
    ----------
    population : int or Mapping[str, int], optional
        `None` counts the clients seen or joined and not left; a number is a floor, which grows
        with a warning; a mapping gives the sizes of all clients (a reply's own count wins).
    """

    def __init__(self, population: int | Mapping[str, int] | None = None) -> None:
        self.seen = 0
        self.seen_size = 0.0
        self.waiting: dict[str, int | None] = {}
        self.anonymous = 0
        self.left: set[str] = set()
        self.placed: set[str] = set()  # waiting clients in the place of an anonymous one
        self.open = population is None  # grows without a warning
        self.changed: set[str] = set()  # who began or ceased to wait or to be gone, for a commit
        if isinstance(population, Mapping):
            for client, size in population.items():
                if not isinstance(client, str):
                    raise TypeError(f"population: a client's id must be a string, got {client!r}")
                self.waiting[client] = check_examples(size, f"population: client {client!r}")
        elif population is not None:
            if isinstance(population, bool) or not isinstance(population, (int, np.integer)):
                raise TypeError(
                    "population must be a number of clients, a mapping from client to its number "
                    f"of examples, or None, got {population!r}"
                )
            if population < 1:
                raise ValueError(f"population must be at least 1, got {population}")
            self.anonymous = int(population)
        self.changed.update(self.waiting)
        self._sized = sum(size is not None for size in self.waiting.values())
        self._waiting_size = sum(size or 0 for size in self.waiting.values())

    @property
    def count(self) -> int:
        """The number of clients, N."""
        return self.seen + len(self.waiting) + self.anonymous

    @property
    def size(self) -> float:
        """The sum of all sizes, P; a client whose size is unknown has the mean size of the seen."""
        known = self.seen_size + self._waiting_size
        unknown = len(self.waiting) - self._sized + self.anonymous
        if not unknown:
            return float(known)
        if self.seen:
            return known + unknown * (self.seen_size / self.seen)
        return known + unknown * (self._waiting_size / self._sized if self._sized else 0.0)

    def size_of(self, client: str) -> int | None:
        """The size of a client that was told and has not been seen yet; None: not known."""
        return self.waiting.get(client)

    def join(self, client: str, size: int | None = None) -> None:
        """Count a client that is there but has not sent an update yet. Twice is once."""
        if size is not None:
            size = check_examples(size, f"join: client {client!r}")
        if client in self.waiting:
            if size is not None:
                self._stop_waiting(client)
                self._wait(client, size)
        else:
            if self.anonymous and client not in self.left:
                self.placed.add(client)
            self._place(client)
            self._wait(client, size)

    def withdraw(self, client: str) -> None:
        """Undo `join`: a client that only was there is not counted any more.

        It changes nothing for one that was seen, or whose size is known, as of those given.
        """
        if client in self.waiting and self.waiting[client] is None:
            anonymous = client in self.placed
            self._stop_waiting(client)
            self.anonymous += anonymous

    def see(self, client: str, before: float | None, size: float) -> Undo:
        """A client's update is remembered now; `before` is its size so far, None if it is new.

        What it gives back takes that back, in case the round cannot be made.
        """
        if before is not None:
            self._grow(size - before)
            return lambda: self._grow(before - size)
        restore = self._stop_waiting(client) if client in self.waiting else self._place(client)
        self._grow(size, 1)

        def undo() -> None:
            self._grow(-size, -1)
            restore()

        return undo

    def _grow(self, size: float, seen: int = 0) -> None:
        self.seen_size += size
        self.seen += seen

    def recount(self, seen: int, size: float, lost: int) -> None:
        """Records were counted again: the lost ones' clients are counted, but not known."""
        self.seen, self.seen_size = seen, size
        self.anonymous += lost

    def forget(self, client: str, size: float | None) -> None:
        """Name and size are gone, the count stays. `size` is None if the client was never seen."""
        if client in self.left:
            self._return(client)  # it had been taken out of the count before
            return
        self._drop(client, size)
        self._add_anonymous()

    def leave(self, client: str, size: float | None) -> None:
        """The client is not counted any more, until it comes back. Twice is once."""
        if client in self.left:
            return
        if size is None and client not in self.waiting and self.anonymous:
            self.anonymous -= 1
        else:
            self._drop(client, size)
        self._depart(client)

    def _depart(self, client: str) -> None:
        self.left.add(client)
        self.changed.add(client)

    def _return(self, client: str) -> None:
        self.left.remove(client)
        self.changed.add(client)

    def _drop(self, client: str, size: float | None) -> None:
        if size is not None:
            self.seen -= 1
            self.seen_size -= size
        elif client in self.waiting:
            self._stop_waiting(client)
        else:
            raise ValueError(f"client {client!r} is not in the population: nothing to take out")

    def _wait(self, client: str, size: int | None) -> None:
        self.waiting[client] = size
        self.changed.add(client)
        self._sized += size is not None
        self._waiting_size += size or 0

    def _stop_waiting(self, client: str) -> Undo:
        size = self.waiting.pop(client)
        self.changed.add(client)
        placed = self.placed & {client}
        self.placed -= placed
        self._sized -= size is not None
        self._waiting_size -= size or 0

        def undo() -> None:
            self._wait(client, size)
            self.placed |= placed

        return undo

    def _place(self, client: str) -> Undo:
        """A place for a client that was not named so far."""
        if client in self.left:
            self._return(client)
            return lambda: self._depart(client)
        if self.anonymous:
            self.anonymous -= 1
            return self._add_anonymous
        if not self.open:
            log.warning(
                "client %r is not among the %d clients of the population given: it grows to %d",
                client,
                self.count,
                self.count + 1,
            )
        return lambda: None

    def _add_anonymous(self) -> None:
        self.anonymous += 1

    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """The state, as plain numbers, lists and dictionaries."""
        names: dict[str, Any] = {"waiting": self.waiting, "left": self.left, "placed": self.placed}
        if copy:
            names = {
                "waiting": dict(self.waiting),
                "left": sorted(self.left),
                "placed": sorted(self.placed),
            }
        return self.counts() | names

    def counts(self) -> dict[str, Any]:
        """The state without the names, which a store keeps beside it."""
        return {
            "seen": self.seen,
            "seen_size": self.seen_size,
            "anonymous": self.anonymous,
            "open": self.open,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state made by `state_dict`."""
        self.waiting, self._sized, self._waiting_size = {}, 0, 0
        self.seen, self.seen_size = int(state["seen"]), float(state["seen_size"])
        self.anonymous, self.open = int(state["anonymous"]), bool(state["open"])
        self.left, self.placed = set(state.get("left", ())), set(state.get("placed", ()))
        for client, size in state.get("waiting", {}).items():
            self._wait(client, size)
        self.changed = {*self.waiting, *self.left}

    def member(self, client: str) -> Member | None:
        """What a store keeps of a client that has no record; None: nothing."""
        if client in self.waiting:
            return Member(self.waiting[client], placed=client in self.placed)
        return Member(left=True) if client in self.left else None


def in_units(weight: float, unit: float) -> float:
    """A weight rounded down to multiples of a unit, at least one; a whole number is an int."""
    rounded = max(unit, math.floor(weight / unit) * unit)
    return int(rounded) if unit == 1 else rounded


def unit_of(weights: Iterable[float]) -> float:
    """One where all weights are whole numbers, else `UNIT`."""
    return 1.0 if all(float(weight).is_integer() for weight in weights) else UNIT


def check_weight(value: Any) -> None:
    """Raise unless a reply can count with it: a number of examples, or a fraction above zero."""
    if isinstance(value, (float, np.floating)):
        if not 0 < value < 2**63:
            raise ValueError(
                f"the number of examples must be a finite number above 0, got {float(value)}"
            )
    else:
        check_examples(value)


def check_examples(value: Any, where: str = "") -> int:
    """The number of examples as an int, if it is a whole number above zero."""
    where = where and f"{where}: "
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{where}the number of examples must be a whole number, got {shown(value)}")
    if not 1 <= value < 2**63:
        what = "at least 1" if value < 1 else "less than 2^63"
        raise ValueError(f"{where}the number of examples must be {what}, got {shown(int(value))}")
    return int(value)
