"""A record as bytes: a header of 64, then the encoded update. See docs/store-format.md."""

from __future__ import annotations

import os
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from fedadavr.memory.codecs import CODECS, NOTHING
from fedadavr.memory.store import Damaged, Record

HEADER = struct.Struct("<4sBBBx16sQQQQI")  # all but the checksum, the last four of the 64 bytes
MAGIC, VERSION, ENCRYPTED = b"FAVR", 1, 1
SIZE = HEADER.size + 4
NONCE = 12
CHECK = b"the key of this store"

_CODES = {codec.name: codec.code for codec in (NOTHING, *CODECS.values())}
_NAMES = {code: name for name, code in _CODES.items()}


class WrongKey(ValueError):
    """The store is encrypted with another key, or the one is and the other is not."""


class Wire:
    """Packs records and reads them again, encrypted if there is a key."""

    def __init__(self, key: bytes | None = None) -> None:
        self._cipher: Any = None
        if key is not None:
            try:
                from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            except ModuleNotFoundError:
                raise ValueError(
                    "an encrypted store needs cryptography: pip install 'fedadavr[encryption]'"
                ) from None
            self._cipher = AESGCM(key)

    def pack(self, client: str, record: Record) -> tuple[bytes, Any]:
        """The header and the payload of a client's record."""
        payload: Any = np.ascontiguousarray(record.data)
        extra = NONCE + 16 if self._cipher else 0
        head = HEADER.pack(
            MAGIC, VERSION, _CODES[record.codec], ENCRYPTED if self._cipher else 0,
            record.layout.encode(), record.weight, record.round, record.owner,
            payload.nbytes + extra, record.kind,
        )  # fmt: skip
        if self._cipher:
            nonce = os.urandom(NONCE)
            payload = nonce + self._cipher.encrypt(nonce, payload, head + client.encode())
        return head + struct.pack("<I", _checksum(head, client, payload)), payload

    def unpack(self, client: str, header: Any, payload: Any | None) -> Record | Damaged:
        """The record of a client; with no payload, without its bytes and unchecked."""
        header = bytes(header)
        if len(header) != SIZE or header[:4] != MAGIC:
            return Damaged("it does not begin as a record does")
        head, (checksum,) = header[: HEADER.size], struct.unpack("<I", header[HEADER.size :])
        _, version, code, flags, layout, weight, round, owner, length, kind = HEADER.unpack(head)
        if version != VERSION:
            return Damaged(f"its format is version {version}, this program reads {VERSION}")
        if self._cipher and not flags & ENCRYPTED:
            return Damaged("it is not encrypted, in a store that is")
        if re.fullmatch(rb"[0-9a-f]{16}", layout) is None:
            return Damaged("its layout is no digest")
        data: Any = np.zeros(0, np.uint8)
        if payload is not None:
            data = np.frombuffer(payload, np.uint8) if len(payload) else data
            if len(data) != length:
                return Damaged(f"it has {len(data)} bytes where its header says {length}")
            if _checksum(head, client, data) != checksum:
                return Damaged("its checksum is wrong")
            if flags & ENCRYPTED:
                data = self._decrypt(head + client.encode(), data)
                if data is None:
                    return Damaged("it cannot be decrypted")
        name = _NAMES.get(code)
        if name is None:
            return Damaged(f"its codec has the unknown number {code}")
        return Record(weight, round, data, name, layout.decode(), owner, kind)

    def _decrypt(self, about: bytes, data: Any) -> Any | None:
        if self._cipher is None:
            return None
        from cryptography.exceptions import InvalidTag

        try:
            plain = self._cipher.decrypt(bytes(data[:NONCE]), data[NONCE:], about)
        except InvalidTag:
            return None
        return np.frombuffer(plain, np.uint8)

    def key_check(self) -> str | None:
        """What a new store keeps so that a wrong key can be told; None: it is not encrypted."""
        if self._cipher is None:
            return None
        nonce = os.urandom(NONCE)
        return (nonce + self._cipher.encrypt(nonce, CHECK, b"")).hex()

    def test_key(self, check: str | None, where: str) -> None:
        """Raise unless the key is the one that `key_check` was made with."""
        if check is None and self._cipher is None:
            return
        if check is None:
            raise WrongKey(f"{where} is not encrypted: leave the key file away, or convert it")
        if self._cipher is None:
            raise WrongKey(f"{where} is encrypted: give its key file with --encrypt-with")
        from cryptography.exceptions import InvalidTag

        raw = bytes.fromhex(check)
        try:
            self._cipher.decrypt(raw[:NONCE], raw[NONCE:], b"")
        except InvalidTag:
            raise WrongKey(
                f"{where} is encrypted with another key than the one given; nothing was changed"
            ) from None


def read_key(path: Path) -> bytes:
    """The 32 bytes of a key file: as they are, or as 64 hexadecimal digits."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ValueError(f"the key file {path} cannot be read: {error.strerror}") from None
    if len(raw) == 32:
        return raw
    try:
        key = bytes.fromhex(raw.decode().strip())
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ValueError(
            f"the key file {path} must hold 32 bytes, or 64 hexadecimal digits, and has "
            f"{len(raw)} bytes: make one with: head -c 32 /dev/urandom > {path}"
        )
    return key


def _checksum(head: bytes, client: str, payload: Any) -> int:
    """Over the header, the client's name and the payload: a record in another's place is wrong."""
    return zlib.crc32(payload, zlib.crc32(client.encode(), zlib.crc32(head)))
