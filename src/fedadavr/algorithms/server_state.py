"""A server's state: to plain values and back, to its store and back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from fedadavr.algorithms.influence import Influence
from fedadavr.algorithms.replies import bad_vector
from fedadavr.memory import ClientMemory
from fedadavr.memory.average import ModelAverage
from fedadavr.memory.own import stored_state
from fedadavr.memory.vectors import VectorMemory
from fedadavr.optimizers import Optimizer
from fedadavr.stores import Store, StoreError
from fedadavr.vector import Layout, Vector

log = logging.getLogger(__name__)


class Torn(RuntimeError):
    """A server whose last step was broken off half-way: it neither steps nor commits any more."""

    def __init__(self) -> None:
        super().__init__(
            "a step of this server was broken off half-way, so that its state is no round's: open "
            "its store again, and go on from the last commit"
        )


class ServerState:
    """What outlives a round: the optimizer, the memories, what was accepted so far."""

    name: ClassVar[str]
    layout: Layout
    store: Store | None
    snapshot_every: int | None
    memory: ClientMemory | None
    vectors: VectorMemory | None
    server_optimizer: Optimizer
    influence: Influence
    average: ModelAverage | None
    clipped: dict[str, float]
    torn: bool
    _notes: dict[int, Any]  # what rounds have reported since the last commit
    _told_of_state = False

    @property
    def round(self) -> int:
        """The number of rounds applied so far."""
        return self.server_optimizer.steps

    def _check_whole(self) -> None:
        if self.torn:
            raise Torn

    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """All of the state but the records of the client memory, which its store holds.

        Plain numbers, strings, lists, dictionaries and arrays; the arrays are copies unless told.
        """
        return {
            "algorithm": self.name,
            "layout": self.layout.digest,
            "optimizer": self.server_optimizer.state_dict(copy=copy),
            "memory": None if self.memory is None else self.memory.state_dict(copy=copy),
            "kinds": None if self.vectors is None else self.vectors.state_dict(copy=copy),
            "influence": self.influence.state_dict(),
        } | ({} if self.average is None else {"average": self.average.state_dict(copy=copy)})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state made by `state_dict`; one that does not fit changes nothing."""
        missing = [
            key
            for key in ("algorithm", "layout", "optimizer", "memory", "kinds")
            if key not in state
        ]
        if missing:
            raise ValueError(f"the state lacks {', '.join(missing)}; nothing was changed")
        for key, mine in (("algorithm", self.name), ("layout", self.layout.digest)):
            if state.get(key) != mine:
                raise ValueError(
                    f"the state is of {key} {state.get(key)!r}, this server has {mine!r}; "
                    "nothing was changed"
                )
        self.server_optimizer.check_state(state["optimizer"])
        self.influence.check_state(state.get("influence"))  # states of 0.1 have none
        if self.average is not None:
            self.average.check_state(state.get("average"))
        if self.vectors is not None:
            self.vectors.check_state(state["kinds"])
        if self.memory is not None:
            self.memory.check_state(state["memory"])
            self.memory.load_state_dict(state["memory"])
        self.server_optimizer.load_state_dict(state["optimizer"])
        self.influence.load_state_dict(state.get("influence"))
        if self.average is not None:
            self.average.load_state_dict(state.get("average"))
        self.clipped = {}
        if self.vectors is not None:
            self.vectors.load_state_dict(state["kinds"])
        self.torn = False

    def commit(self, w: Vector, *, metrics: Mapping[int, Any] | None = None, **extra: Any) -> None:
        """Write the model, the state, the memory and whatever else to the store, all or nothing.

        `metrics` are what rounds were measured to be: they are added to those of other rounds.
        Without a durable store it does nothing. If it fails, the last commit is as it was, nothing
        is lost here, and it can be tried again, also after more rounds.
        """
        self._check_whole()
        if self.store is None or not self.store.durable:
            return
        if not self._told_of_state:
            self._told_of_state = True
            self._tell_unsaved()
        state = {
            "layout": {name: list(shape) for name, shape in self.layout.shapes.items()},
            "w": w,
            "server": self.state_dict(copy=False),
            "extra": extra,
        }
        round = int(extra.get("round", self.round))
        every, newest = self.snapshot_every, max(self.store.snapshots, default=0)
        due = every is not None and round // every > newest // every  # the first commit after it
        kept: dict[str, Any] = {
            "rounds": self._notes, "metrics": metrics, "snapshot": round if due else None,
        }  # fmt: skip
        if self.memory is not None:
            self.memory.commit(state, **kept)
        else:
            self.store.commit({}, state, **kept)
        self._notes = {}

    def _tell_unsaved(self) -> None:
        """Warn of what an algorithm of somebody's own keeps, and no commit holds."""
        own: Any = type(self)
        house: Any = next(c for c in own.__mro__ if c.__module__.startswith(f"{__package__}."))
        if own.state_dict is not house.state_dict:
            return
        brought = {f.name for f in fields(house)} | {f.name for f in fields(own) if f.init}
        kept = [name for name in vars(self) if name not in brought | {"_notes", "_told_of_state"}]
        if own is not house and kept:
            log.warning(
                "algorithm %s: its %s is not saved, and a run that is resumed begins without: add "
                "it to state_dict and load_state_dict (as algorithms/past_gradients.py does)",
                self.name, ", ".join(map(repr, kept)),
            )  # fmt: skip

    def restore(self) -> tuple[Vector, dict[str, Any]] | None:
        """Take over the store's last commit: its model and its extra; None if there is none."""
        state = None if self.store is None else stored_state(self.store)
        if state is None:
            return None
        why = bad_vector(state.get("w"), self.layout.size)
        if why:
            raise StoreError(f"the model in the store does not fit: {why}")
        try:
            self.load_state_dict(state["server"])
            extra = dict(state["extra"])
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError):
            raise StoreError(
                f"{getattr(self.store, 'where', 'the store')}: its state is not one of this "
                "program: restore it from a backup"
            ) from None
        if self.memory is not None:
            self.memory.population.changed.clear()
        self._notes = {}
        return state["w"], extra
