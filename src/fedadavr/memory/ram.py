"""The store in this process's memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fedadavr.memory.store import Damaged, Record, State


class RamStore:
    """A dictionary."""

    durable = False

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def refuses(self, client: str) -> str | None:
        """Any id will do."""
        return None

    def get(self, clients: Sequence[str]) -> list[Record | Damaged | None]:
        """The records of these clients, None for one that has none."""
        return [self._records.get(client) for client in clients]

    def commit(self, records: Mapping[str, Record | None], state: State | None = None) -> None:
        """Write records, and remove those given as None. The state is the caller's to keep."""
        for client, record in records.items():
            if record is None:
                self._records.pop(client, None)
            else:
                self._records[client] = record

    def state(self) -> State | None:
        """Nothing outlives this process."""
        return None

    def items(self, data: bool = True) -> Iterator[tuple[str, Record | Damaged]]:
        """All records."""
        return iter(self._records.items())

    def __len__(self) -> int:
        return len(self._records)

    def close(self) -> None:
        """There is nothing to let go of."""
