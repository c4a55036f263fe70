"""A client's record as bytes: a header of 96, and the encoded update. See docs/store-format.md."""

from __future__ import annotations

import math
import re
import struct
import zlib
from typing import Any

import numpy as np

from fedadavr.stores import compression
from fedadavr.stores.seal import TAG, Seal
from fedadavr.stores.store import Damaged, Record

HEADER = struct.Struct("<4sBBxx16s16sdQQQI")  # then a checksum of it, then the update's tag
MAGIC, VERSION = b"FAVR", 2
ENCRYPTED, COMPRESSED = 1, 2  # flags
SIZE = HEADER.size + 4 + TAG


def pack(
    seal: Seal, store: str, client: str, record: Record, compress: bool = False
) -> tuple[bytes, Any]:
    """The header and the payload of a client's record, compressed where that makes it smaller."""
    name = record.codec.encode()
    if len(name) > 16:
        raise ValueError(f"a codec's name must have at most 16 bytes, {record.codec!r} has more")
    data: Any = np.ascontiguousarray(record.data)
    flags = ENCRYPTED if seal.keyed else 0
    small = compression.pack(data) if compress else None
    if small is not None and len(small) < data.nbytes:
        data, flags = np.frombuffer(small, np.uint8), flags | COMPRESSED
    fields = HEADER.pack(
        MAGIC, VERSION, flags, name, record.layout.encode(), record.weight, record.round,
        record.owner, data.nbytes + seal.overhead, record.label,
    )  # fmt: skip
    head = fields + _checksum(fields, client)
    tag, payload = seal.close(_about(store, client, head), data)
    return head + tag, payload


def unpack(
    seal: Seal, store: str, client: str, header: Any, payload: Any | None
) -> Record | Damaged:
    """The record of a client; with no payload, without its bytes and unchecked."""
    header = bytes(header)
    if len(header) != SIZE or header[:4] != MAGIC:
        return Damaged("it does not begin as a record does")
    fields, tag = header[: HEADER.size], header[-TAG:]
    _, version, flags, codec, layout, weight, round, owner, length, label = HEADER.unpack(fields)
    if version != VERSION:
        return Damaged(f"its format is version {version}, this store has {VERSION}")
    if header[HEADER.size : -TAG] != _checksum(fields, client):
        return Damaged("its checksum is wrong")
    if bool(flags & ENCRYPTED) != seal.keyed or flags & ~(ENCRYPTED | COMPRESSED):
        return Damaged(f"it has the flags {flags}, which this store does not")
    if re.fullmatch(rb"[0-9a-f]{16}", layout) is None:
        return Damaged("its layout is no digest")
    if re.fullmatch(rb"[!-~]+\0*", codec) is None:
        return Damaged("its codec has no name")
    if not (math.isfinite(weight) and weight >= 0):
        return Damaged(f"its weight is {weight}")
    data: Any = np.zeros(0, np.uint8)
    if payload is not None:
        if len(payload) != length:
            return Damaged(f"it has {len(payload)} bytes where its header says {length}")
        data = seal.open(_about(store, client, header[:-TAG]), tag, payload)
        if data is None:
            return Damaged("it cannot be decrypted" if seal.keyed else "its checksum is wrong")
        if flags & COMPRESSED:
            data = compression.unpack(data)
            if data is None:
                return Damaged("it cannot be decompressed")
    return Record(weight, round, data, codec.rstrip(b"\0").decode(), layout.decode(), owner, label)


def _about(store: str, client: str, head: bytes) -> bytes:
    """What an update is sealed with: a record in another's place, or store, is wrong."""
    return b"\0".join((store.encode(), client.encode(errors="surrogateescape"), head))


def _checksum(fields: bytes, client: str) -> bytes:
    name = client.encode(errors="surrogateescape")
    return zlib.crc32(name, zlib.crc32(fields)).to_bytes(4, "little")
