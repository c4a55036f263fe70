"""A client's record, and what a store of records must do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

State = dict[str, Any]


@dataclass(slots=True)
class Record:
    """What is kept of one client: its last update, encoded, and what is needed to read it."""

    weight: int  # in the total
    round: int  # when it was last seen
    data: npt.NDArray[np.uint8]
    codec: str
    layout: str  # the layout's digest
    owner: int = 0  # the node that the client's id is bound to; 0: none
    kind: int = 0  # the kind of client that it was last, from 1; 0: none


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record that cannot be read, and why."""

    why: str


class StoreError(OSError):
    """The store could not be read or written; what was committed before is as it was."""


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

    def commit(self, records: Mapping[str, Record | None], state: State | None = None) -> None:
        """Write records, remove those given as None, and replace the state: all or nothing."""
        ...

    def state(self) -> State | None:
        """The state of the last commit; None if there was none."""
        ...

    def items(self, data: bool = True) -> Iterator[tuple[str, Record | Damaged]]:
        """All records, one by one; without `data` their bytes are left out and not checked."""
        ...

    def __len__(self) -> int: ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
