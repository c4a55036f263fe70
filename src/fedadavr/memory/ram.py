"""Where the bytes live: the store's interface, and the store in RAM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class Record:
    """What is kept of one client: its weight in the total, when it was last seen, and its bytes."""

    weight: int
    round: int
    data: npt.NDArray[np.uint8]


class Store(Protocol):
    """A mapping from client to record. Only the clients of a round are ever touched."""

    in_place: bool
    """Whether a new record may be written over the bytes of the one that `get` gave."""

    def get(self, clients: Sequence[str]) -> list[Record | None]:
        """The records of these clients, None for one that has none."""
        ...

    def commit(self, records: Mapping[str, Record | None]) -> None:
        """Write the records of a round, and remove those given as None."""
        ...

    def items(self) -> Iterator[tuple[str, Record]]:
        """All records."""
        ...

    def __len__(self) -> int: ...


class RamStore:
    """The store in this process's memory."""

    in_place = True

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def get(self, clients: Sequence[str]) -> list[Record | None]:
        """The records of these clients, None for one that has none."""
        return [self._records.get(client) for client in clients]

    def commit(self, records: Mapping[str, Record | None]) -> None:
        """Write the records of a round, and remove those given as None."""
        for client, record in records.items():
            if record is None:
                self._records.pop(client, None)
            else:
                self._records[client] = record

    def items(self) -> Iterator[tuple[str, Record]]:
        """All records."""
        return iter(self._records.items())

    def __len__(self) -> int:
        return len(self._records)
