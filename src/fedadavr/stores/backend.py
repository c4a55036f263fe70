"""What a persistent store must do itself: read and write tables, chunks and a manifest."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

TABLES = ("clients", "updates", "members", "rounds")

Manifest = dict[str, Any]
Chunks = dict[str, Any]
Changes = dict[str, dict[str, Any]]  # by table and key, the new value; None: removed


@dataclass
class Undo:
    """What a commit keeps and drops so that one can go back."""

    newest: int = -1  # the snapshot that entries are kept for
    entries: dict[str, bytes] = field(default_factory=dict)  # as they were before this commit
    snapshot: int = -1  # the round of a snapshot that this commit takes
    kept: Chunks = field(default_factory=dict)  # its manifest and chunks
    emptied: list[int] = field(default_factory=list)  # snapshots whose entries are dropped
    dropped: list[int] = field(default_factory=list)  # whose manifest and chunks are dropped


class Backend(ABC):
    """Tables of entries, chunks of arrays, a manifest: written together, or not at all."""

    def _settle(self) -> None:  # noqa: B027, most stores know
        """Find out what became of a commit that failed, where that is not known."""

    @abstractmethod
    def _read_manifest(self) -> Any | None:
        """The manifest's bytes, None if there is none yet."""

    @abstractmethod
    def _read(self, clients: Sequence[str]) -> list[tuple[Any | None, Any | None]]:
        """The header and the payload of each client's record."""

    @abstractmethod
    def _scan(self, data: bool) -> Iterator[tuple[str, Any, Any | None]]:
        """All clients with their header and, if asked for, payload."""

    @abstractmethod
    def _values(self, table: str, keys: Sequence[str]) -> list[Any | None]:
        """Entries of a table."""

    @abstractmethod
    def _entries(self, table: str) -> Iterator[tuple[str, Any]]:
        """All entries of a table."""

    @abstractmethod
    def _chunks(self, names: list[str]) -> Chunks:
        """Chunks of the state's arrays."""

    @abstractmethod
    def _write(
        self, changes: Changes, chunks: Chunks | None, manifest: Manifest, undo: Undo
    ) -> None:
        """All of this, or nothing; `chunks` replace all chunks, None leaves them as they are."""

    @abstractmethod
    def _not_undone(self, snapshot: int, names: list[str]) -> list[str]:
        """Those of these entries that are not kept for the snapshot yet."""

    @abstractmethod
    def _read_undo(self, snapshot: int) -> Iterator[Any]:
        """The entries kept for a snapshot."""

    @abstractmethod
    def _read_kept(self, snapshot: int, names: Iterable[str]) -> Chunks:
        """A snapshot's manifest and chunks."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The room that the store takes, in bytes."""

    @abstractmethod
    def erase(self) -> None:
        """Remove the store, with all of its records."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections."""


def pack_undo(table: str, key: str, value: Any | None) -> bytes:
    """An entry as it was, to be put back by a rewind."""
    head = json.dumps([table, key, value is not None]).encode()
    return b"".join((len(head).to_bytes(4, "little"), head, b"" if value is None else bytes(value)))


def unpack_undo(raw: Any) -> tuple[str, str, bytes | None]:
    """The table, key and value of such an entry."""
    raw = bytes(raw)
    end = 4 + int.from_bytes(raw[:4], "little")
    table, key, there = json.loads(raw[4:end])
    return table, key, raw[end:] if there else None
