"""What the stores that outlive a process have in common: the manifest, and arrays in chunks."""

from __future__ import annotations

import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedadavr.memory.records import SIZE, Wire
from fedadavr.memory.store import Damaged, Record, State, StoreError

FORMAT = 1
CHUNK = 1 << 26  # the largest value that is written in one piece, in bytes

Manifest = dict[str, Any]
Chunks = dict[str, Any]


class DurableStore(ABC):
    """A store whose commits outlive the process.

    The manifest is a small JSON object: the format, the number of the commit, a check of the key,
    and the state with its arrays taken out; the arrays lie beside it, in chunks with checksums.
    """

    durable = True
    where: str
    snapshot = False  # whether what is read does not change while a server goes on

    def __init__(self, key: bytes | None = None) -> None:
        self._wire = Wire(key)
        self._manifest: Manifest = {}

    def _adopt(self, manifest: Manifest | None) -> bool:
        """Take over what is there, after looking at the key; False if there is nothing."""
        if manifest is None:
            self._manifest = {
                "format": FORMAT, "commit": 0, "key_check": self._wire.key_check(), "state": None,
            }  # fmt: skip
            return False
        if manifest.get("format") != FORMAT:
            raise ValueError(
                f"{self.where} has format {manifest.get('format')}, this program reads {FORMAT}"
            )
        self._wire.test_key(manifest["key_check"], self.where)
        self._manifest = manifest
        if manifest["state"] is None and len(self):
            raise ValueError(
                f"{self.where} holds records but no state, as an interrupted convert leaves it: "
                "delete it first"
            )
        return True

    def refresh(self) -> int:
        """See what a server has committed meanwhile; the number of its last commit."""
        self._adopt(self._read_manifest())
        return int(self._manifest["commit"])

    # --- the interface ---

    longest: int = 1 << 20  # bytes of a client's id

    def refuses(self, client: str) -> str | None:
        """Why a client cannot be stored under this id; None if it can."""
        try:
            size = len(client.encode())
        except UnicodeEncodeError:
            return f"the id {client!r} is not valid Unicode"
        if 1 <= size <= self.longest:
            return None
        return f"a client's id must have 1 to {self.longest} bytes for this store, this has {size}"

    def get(self, clients: Sequence[str]) -> list[Record | Damaged | None]:
        """The records of these clients, None for one that has none."""
        found = self._read(clients)
        return [
            None if raw is None else self._unpack(client, *raw)
            for client, raw in zip(clients, found, strict=True)
        ]

    def commit(self, records: Mapping[str, Record | None], state: State | None = None) -> None:
        """Write records, remove those given as None, and replace the state: all or nothing."""
        self._settle()
        manifest = dict(self._manifest, commit=self._manifest["commit"] + 1)
        chunks: Chunks = {}
        if state is not None:
            manifest["state"], manifest["arrays"] = pack_state(state, chunks)
        packed = {
            client: None if record is None else self._wire.pack(client, record)
            for client, record in records.items()
        }
        self._write(packed, None if state is None else chunks, manifest)
        self._manifest = manifest

    def state(self) -> State | None:
        """The state of the last commit; None if there was none."""
        self._settle()
        tree = self._manifest["state"]
        if tree is None:
            return None
        names = [name for about in self._manifest["arrays"].values() for name in about["chunks"]]
        return unpack_state(tree, self._manifest["arrays"], self._chunks(names), self.where)

    def items(self, data: bool = True) -> Iterator[tuple[str, Record | Damaged]]:
        """All records, one by one; without `data` their bytes are left out and not checked."""
        for client, header, payload in self._scan(data):
            yield client, self._unpack(client, header, payload)

    @property
    def encrypted(self) -> bool:
        """Whether the records are encrypted."""
        return self._manifest["key_check"] is not None

    def __enter__(self) -> DurableStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _unpack(self, client: str, header: Any, payload: Any | None) -> Record | Damaged:
        record = self._wire.unpack(client, header, payload)
        if isinstance(record, Record) and record.data.ctypes.data % 4:
            record.data = record.data.copy()  # small values lie anywhere in a page
        return record

    def _settle(self) -> None:  # noqa: B027, most stores know
        """Find out what became of a commit that failed, where that is not known."""

    # --- what a store must do ---

    @abstractmethod
    def _read_manifest(self) -> Manifest | None:
        """The manifest, None if there is none yet."""

    @abstractmethod
    def _read(self, clients: Sequence[str]) -> list[tuple[Any, Any] | None]:
        """The headers and payloads of these clients."""

    @abstractmethod
    def _scan(self, data: bool) -> Iterator[tuple[str, Any, Any | None]]:
        """All clients, headers, and payloads if wanted."""

    @abstractmethod
    def _chunks(self, names: list[str]) -> dict[str, Any]:
        """The chunks of these names; one that is not there is left out."""

    @abstractmethod
    def _write(
        self,
        records: dict[str, tuple[bytes, Any] | None],
        chunks: Chunks | None,
        manifest: Manifest,
    ) -> None:
        """All of this, or nothing; `chunks` replace all chunks, None leaves them as they are."""

    @abstractmethod
    def __len__(self) -> int: ...

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


def pack_state(state: State, chunks: Chunks) -> tuple[Any, dict[str, Any]]:
    """The state without its arrays, and their descriptions; puts their bytes into `chunks`."""
    arrays: dict[str, Any] = {}
    tree = strip(state, "state", arrays)
    about = {}
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        pieces = {
            f"{name}/{k}": raw[at : at + CHUNK] for k, at in enumerate(range(0, len(raw), CHUNK))
        }
        about[name] = {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "chunks": {piece: _crc(data) for piece, data in pieces.items()},
        }
        chunks |= pieces
    return tree, about


def unpack_state(tree: Any, about: Mapping[str, Any], chunks: Mapping[str, Any], where: str) -> Any:
    """The state with its arrays put in again; a chunk that is wrong or missing is an error."""
    arrays = {}
    for name, description in about.items():
        array = np.empty(description["shape"], description["dtype"])
        raw, at = array.reshape(-1).view(np.uint8), 0
        for piece, checksum in description["chunks"].items():
            data = chunks.get(piece)
            if data is None or _crc(data) != checksum:
                wrong = "is missing" if data is None else "has a wrong checksum"
                raise StoreError(f"{where}: the array {piece} {wrong}: restore it from a backup")
            raw[at : at + len(data)] = np.frombuffer(data, np.uint8)
            at += len(data)
        if at != len(raw):
            raise StoreError(f"{where}: the array {name} has {at} of {len(raw)} bytes")
        arrays[name] = array
    return fill(tree, arrays)


def _crc(data: Any) -> int:
    return zlib.crc32(data)


def strip(tree: Any, name: str, arrays: dict[str, Any]) -> Any:
    """The tree with its arrays taken out and named."""
    if isinstance(tree, dict):
        return {key: strip(value, f"{name}.{key}", arrays) for key, value in tree.items()}
    if isinstance(tree, np.ndarray):
        arrays[name] = tree
        return {"array": name}
    return tree


def fill(tree: Any, arrays: Mapping[str, Any]) -> Any:
    """The tree with its arrays put in again."""
    if isinstance(tree, dict):
        if set(tree) == {"array"} and isinstance(tree["array"], str) and tree["array"] in arrays:
            return arrays[tree["array"]]
        return {key: fill(value, arrays) for key, value in tree.items()}
    return tree


def dump(manifest: Manifest) -> bytes:
    """The manifest as JSON, after its checksum in eight hexadecimal digits and a space."""
    raw = json.dumps(manifest).encode()
    return b"%08x %b" % (zlib.crc32(raw), raw)


def parse(raw: Any, where: str) -> Manifest:
    """The manifest from JSON."""
    raw = bytes(raw)
    if raw[:9] != b"%08x " % zlib.crc32(raw[9:]):
        raise StoreError(f"{where}: the manifest is damaged: restore it from a backup")
    manifest: Manifest = json.loads(raw[9:])
    return manifest


def halves(value: Any) -> tuple[Any, Any]:
    """Header and payload of a record that lies in one piece."""
    return value[:SIZE], value[SIZE:]
