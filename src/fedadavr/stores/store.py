"""What a store keeps of a client, and what a store must do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fedadavr.plugins import Registry

State = dict[str, Any]


@dataclass(slots=True)
class Record:
    """What is kept of one client: its last update, encoded, and what is needed to read it."""

    weight: float  # in the total
    round: int  # when it was last seen
    data: npt.NDArray[np.uint8]
    codec: str
    layout: str  # the layout's digest
    owner: int = 0  # the node that the client's id is bound to; 0: none
    label: int = 0  # which vector of another memory predicted it last, from 1; 0: none


@dataclass(frozen=True, slots=True)
class Member:
    """A client without a record: it waits for its first round, or it has left."""

    size: int | None = None  # its number of examples, if it is known
    left: bool = False
    placed: bool = False  # it took the place of a client that was only counted


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record that cannot be read, and why."""

    why: str


class StoreError(OSError):
    """The store could not be read or written; what was committed before is as it was.

    It may be a passing fault: whatever failed can be tried again.
    """


class StoreLost(StoreError):
    """The store is not this server's any more, or has lost its state: trying again is no use."""


class Store(Protocol):
    """A mapping from client to record. Only the clients of a round are ever touched."""

    durable: bool
    """Whether a commit outlives this process. If not, new records are written over old ones."""

    def refuses(self, client: str) -> str | None:
        """Why a client cannot be stored under this id; None if it can."""
        ...

    def get(self, clients: Sequence[str]) -> list[Record | Damaged | None]:
        """The records of these clients, None for one that has none.

        Their bytes are good until the next `get` or `commit`.
        """
        ...

    def commit(
        self,
        records: Mapping[str, Record | None],
        state: State | None = None,
        *,
        members: Mapping[str, Member | None] | None = None,
        rounds: Mapping[int, Any] | None = None,
        metrics: Mapping[int, Any] | None = None,
        snapshot: int | None = None,
        lost: int | None = None,
        accept: bool = False,
    ) -> None:
        """Write all of this, or nothing.

        Parameters
        ----------
        records, members : Mapping
            What changed, by client; None removes.
        state : State, optional
            Replaces the state.
        rounds, metrics : Mapping[int, Any], optional
            What to note of rounds, and what they were measured to be, beside what is there of
            others.
        snapshot : int, optional
            The round that this is the end of, if it shall be possible to come back to it.
        lost : int, optional
            So many records were lost: count what is there instead of moving the counts.
        accept : bool
            Somebody has looked at what is there, and takes it as it is.
        """
        ...

    def state(self) -> State | None:
        """The state of the last commit; None if there was none."""
        ...

    def members(self) -> dict[str, Member]:
        """The clients without a record that are known by name."""
        ...

    def rounds(self) -> dict[int, Any]:
        """What was noted of each round."""
        ...

    def metrics(self) -> dict[int, Any]:
        """What each round was measured to be."""
        ...

    def items(self, data: bool = True) -> Iterator[tuple[str, Record | Damaged]]:
        """All records, one by one; without `data` their bytes are left out and not checked."""
        ...

    @property
    def snapshots(self) -> Sequence[int]:
        """The rounds that can be gone back to."""
        ...

    def intact(self) -> bool:
        """Whether as many records are there as there should be, where that is quick to tell."""
        ...

    def __len__(self) -> int: ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


class Opener(Protocol):
    """Opens the store at an address of its scheme."""

    def __call__(
        self, address: str, *, key: bytes | None, read_only: bool, must_exist: bool
    ) -> Store:
        """The store, a new one unless it must exist; with a key it is encrypted."""
        ...


STORES: Registry[Opener] = Registry("store", "fedadavr.stores")
"""Kinds of stores by the scheme of their addresses, what stands before the colon."""
