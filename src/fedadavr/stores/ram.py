"""The store in this process's memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedadavr.stores import compression
from fedadavr.stores.store import STORES, Damaged, Member, Record, State


class RamStore:
    """A dictionary; with `compress="zstd"` of smaller records, which takes some time each."""

    durable = False
    snapshots: Sequence[int] = ()

    def __init__(self, compress: compression.Compress = "none") -> None:
        self._records: dict[str, Record] = {}
        self.compress = compress

    @property
    def compress(self) -> compression.Compress:
        """How records are compressed."""
        return "zstd" if self._small else "none"

    @compress.setter
    def compress(self, how: compression.Compress) -> None:
        compression.check(how)
        if self._records:
            raise ValueError("a memory in RAM that holds records cannot be compressed any more")
        self._small = how == "zstd"

    def _opened(self, record: Record) -> Record:
        if not self._small:
            return record
        return replace(record, data=np.array(compression.unpack(record.data)))

    def refuses(self, client: str) -> str | None:
        """Any id will do."""
        return None

    def get(self, clients: Sequence[str]) -> list[Record | Damaged | None]:
        """The records of these clients, None for one that has none."""
        found = [self._records.get(client) for client in clients]
        return [None if record is None else self._opened(record) for record in found]

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
        """Write records, and remove those given as None. All else is the caller's to keep."""
        for client, record in records.items():
            if record is None:
                self._records.pop(client, None)
            elif self._small:
                small = np.frombuffer(compression.pack(record.data), np.uint8)
                self._records[client] = replace(record, data=small)
            else:
                self._records[client] = record

    def state(self) -> State | None:
        """Nothing outlives this process."""
        return None

    def members(self) -> dict[str, Member]:
        """Nothing outlives this process."""
        return {}

    def rounds(self) -> dict[int, Any]:
        """Nothing outlives this process."""
        return {}

    def metrics(self) -> dict[int, Any]:
        """Nothing outlives this process."""
        return {}

    def items(self, data: bool = True) -> Iterator[tuple[str, Record | Damaged]]:
        """All records."""
        return ((c, self._opened(r) if data else r) for c, r in self._records.items())

    def intact(self) -> bool:
        """What is here is here."""
        return True

    def __len__(self) -> int:
        return len(self._records)

    def close(self) -> None:
        """There is nothing to let go of."""


@STORES.named("ram")
def open_ram(address: str, *, key: bytes | None, read_only: bool, must_exist: bool) -> RamStore:
    """A new store in RAM."""
    if address != "ram":
        raise ValueError(f"{address!r}: it must be ram, lmdb:FOLDER or redis://HOST:PORT")
    if key is not None:
        raise ValueError("a memory in RAM is not encrypted: omit the key file")
    return RamStore()
