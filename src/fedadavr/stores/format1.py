"""Stores as version 0.1.0 wrote them: to look at and to convert. Nothing is written so any more.

A record is one value, a header of 64 bytes and a payload; only payloads are encrypted. The manifest
holds the names of the population and, for FedAdaVR+, what was learned in each round.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

import lmdb
import numpy as np

from fedadavr.stores.persistent import parse_json
from fedadavr.stores.seal import NONCE, Seal
from fedadavr.stores.state_format import fill
from fedadavr.stores.store import Damaged, Member, Record, State, StoreError

HEADER = struct.Struct("<4sBBBx16sQQQQI")
SIZE = HEADER.size + 4
CODECS = ("none", "fp32", "fp16", "int8", "int4")
ENCRYPTED = 1


class OldStore:
    """A store of format 1, read only. A subclass knows where its values are."""

    durable = True
    steady = True
    where: str
    lost = 0
    snapshots: tuple[int, ...] = ()

    def __init__(self, key: bytes | None) -> None:
        self._seal = Seal(key)
        self._manifest: dict[str, Any] = {}

    def _adopt(self, raw: Any) -> None:
        manifest = parse_json(raw)
        if not isinstance(manifest, dict) or manifest.get("format") != 1:
            raise StoreError(f"{self.where}: the manifest is damaged: restore it from a backup")
        self._seal.test_key(manifest.get("key_check"), self.where)
        self._manifest = manifest

    def refresh(self) -> int:
        """Nothing writes into it."""
        return int(self._manifest["commit"])

    @property
    def encrypted(self) -> bool:
        """Whether its records are encrypted."""
        return self._seal.keyed

    def refuses(self, client: str) -> str | None:
        """It takes nobody."""
        return "the store is of an old format: convert it first"

    def get(self, clients: Sequence[str]) -> list[Record | Damaged | None]:
        """The records of these clients, None for one that has none."""
        found = [self._value(client) for client in clients]
        return [
            None if raw is None else self._unpack(client, raw, True)
            for client, raw in zip(clients, found, strict=True)
        ]

    def items(self, data: bool = True) -> Iterator[tuple[str, Record | Damaged]]:
        """All records, one by one."""
        for client, raw in self._all():
            yield client, self._unpack(client, raw, data)

    def state(self) -> State | None:
        """The state of the last commit; None if there was none."""
        tree, arrays = self._manifest["state"], {}
        if tree is None:
            return None
        for name, about in self._manifest["arrays"].items():
            pieces = []
            for piece, checksum in about["chunks"].items():
                data = self._chunk(piece)
                if data is None or zlib.crc32(data) != checksum:
                    wrong = "is missing" if data is None else "has a wrong checksum"
                    raise StoreError(
                        f"{self.where}: the array {piece} {wrong}: restore it from a backup"
                    )
                pieces.append(data)
            flat = np.frombuffer(b"".join(pieces), about["dtype"])
            arrays[name] = flat.reshape(about["shape"]).copy()
        return _as_now(fill(tree, arrays))

    def members(self) -> dict[str, Member]:
        """They stand in the state."""
        return {}

    def rounds(self) -> dict[int, Any]:
        """What FedAdaVR+ learned in each round."""
        tree = self._manifest["state"]
        learned = (tree or {}).get("server", {}).get("trust") or {}
        names: list[str] = learned.get("memories", [])
        noted = {}
        for round, row in enumerate(learned.get("history", []), 1):
            noted[round] = {"trust": dict(zip(names, row[: len(names)], strict=True))}
            if "centers" in names:
                noted[round]["shares"] = row[len(names) :]
        return noted

    def metrics(self) -> dict[int, Any]:
        """They were not kept."""
        return {}

    def commit(self, *_: Any, **__: Any) -> None:
        """Nothing is written in this format."""
        raise StoreError(
            f"{self.where} has format 1, which is only read: convert it first, with fedadavr "
            "memory upgrade"
        )

    def intact(self) -> bool:
        """It is not looked at."""
        return True

    def faults(self) -> list[str]:
        """Nothing but the records tells."""
        return []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _unpack(self, client: str, raw: Any, whole: bool) -> Record | Damaged:
        header, payload = bytes(raw[:SIZE]), raw[SIZE:]
        if len(header) != SIZE or header[:4] != b"FAVR":
            return Damaged("it does not begin as a record does")
        head = header[: HEADER.size]
        (checksum,) = struct.unpack("<I", header[HEADER.size :])
        _, version, code, flags, layout, weight, round, owner, length, label = HEADER.unpack(head)
        if version != 1 or code >= len(CODECS):
            return Damaged(f"its format is version {version}, its codec number {code}")
        if bool(flags & ENCRYPTED) != self._seal.keyed:
            return Damaged("it is encrypted and the store is not, or the other way round")
        data: Any = np.zeros(0, np.uint8)
        if whole:
            about = head + client.encode()
            if len(payload) != length:
                return Damaged(f"it has {len(payload)} bytes where its header says {length}")
            if zlib.crc32(payload, zlib.crc32(about)) != checksum:
                return Damaged("its checksum is wrong")
            data = np.frombuffer(payload, np.uint8).copy()
            if self._seal.keyed:
                tag = bytes(data[-16:])
                data = self._seal.open(about, tag, data[:-16]) if length > NONCE + 16 else None
                if data is None:
                    return Damaged("it cannot be decrypted")
        try:
            name = layout.decode()
        except UnicodeDecodeError:
            return Damaged("its layout is no digest")
        return Record(float(weight), round, data, CODECS[code], name, owner, label)

    def _value(self, client: str) -> Any | None:
        raise NotImplementedError

    def _all(self) -> Iterator[tuple[str, Any]]:
        raise NotImplementedError

    def _chunk(self, name: str) -> Any | None:
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """The room that the store takes, in bytes."""
        raise NotImplementedError

    def __len__(self) -> int:
        return sum(1 for _ in self._all())

    def close(self) -> None:
        """Let go of files and connections."""
        raise NotImplementedError


class OldLmdbStore(OldStore):
    """One in a folder."""

    def __init__(self, path: Path, key: bytes | None) -> None:
        super().__init__(key)
        self.path, self.where = path, f"the store {path}"
        try:
            self._env = lmdb.open(str(path), max_dbs=2, readonly=True)
            self._clients = self._env.open_db(b"clients", create=False)
            self._state = self._env.open_db(b"state", create=False)
            self._txn = self._env.begin(buffers=True)
        except lmdb.Error as error:
            raise StoreError(f"{self.where} cannot be opened: {error}") from None
        try:
            self._adopt(self._txn.get(b"manifest", db=self._state) or b"")
        except BaseException:
            self.close()
            raise

    def _value(self, client: str) -> Any | None:
        return self._txn.get(client.encode(), db=self._clients)

    def _all(self) -> Iterator[tuple[str, Any]]:
        for key, value in self._txn.cursor(db=self._clients):
            yield bytes(key).decode(errors="surrogateescape"), value

    def _chunk(self, name: str) -> Any | None:
        return self._txn.get(name.encode(), db=self._state)

    @property
    def nbytes(self) -> int:
        """The bytes on the disk."""
        return (self.path / "data.mdb").stat().st_blocks * 512

    def close(self) -> None:
        """Close the environment."""
        self._txn.abort()
        self._env.close()


class OldRedisStore(OldStore):
    """One in Redis; `redis` is a store that was opened and found this format."""

    def __init__(self, redis: Any, key: bytes | None) -> None:
        super().__init__(key)
        self._redis, self.where = redis, redis.where
        self._adopt(redis._read_manifest() or b"")

    def _value(self, client: str) -> Any | None:
        key = self._redis._key("client", client)
        (names,) = self._redis._send([("HKEYS", key)])
        versions = sorted(
            (int(name[1:].partition(b".")[0]), name[1:]) for name in names if name[:1] == b"h"
        )
        for commit, version in reversed(versions):
            eras = [era for era in self._manifest["eras"] if era[0] <= commit]
            token = version.partition(b".")[2].decode()
            if commit <= self._manifest["commit"] and eras and eras[-1][1] == token:
                fields = (b"h" + version, b"d" + version)
                header, payload = self._redis._send([("HMGET", key, *fields)])[0]
                return header + payload if header else None  # an empty header: removed
        return None

    def _all(self) -> Iterator[tuple[str, Any]]:
        start = len(self._redis._key("client", ""))
        names = (key[start:].decode() for key in self._redis._keys(self._redis._key("client", "*")))
        while some := list(islice(names, 100)):
            for name in some:
                value = self._value(name)
                if value is not None:
                    yield name, value

    def _chunk(self, name: str) -> Any | None:
        key = self._redis._key("array", self._manifest["arrays_at"], name)
        return self._redis._send([("GET", key)])[0]

    @property
    def nbytes(self) -> int:
        """The bytes of memory that Redis has in use."""
        return int(self._redis.nbytes)

    def close(self) -> None:
        """Close the connection."""
        self._redis.close()


def _as_now(state: State) -> State:
    """The state as it is kept today."""
    server = state["server"]
    if server.get("trust") is not None:
        server["trust"].pop("history", None)
    if server.get("memory") is not None:
        server["memory"].pop("recent", None)
    return state
