"""Bytes as they are stored: with a checksum, or encrypted and authenticated where there is a key.

Whatever is stored is sealed together with what it is (`about`: the store, the table, the key, the
header), so that nothing can stand in for something else.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from pathlib import Path
from typing import Any

import numpy as np

TAG = 16
NONCE = 12
CHECK = b"the key of this store"


class WrongKey(ValueError):
    """The store is encrypted with another key, or the one is and the other is not."""


class Seal:
    """AES-256-GCM under a key of 32 bytes; without one, a CRC-32 that only chance can break."""

    def __init__(self, key: bytes | None = None) -> None:
        self._cipher: Any = None
        self._entry_key = b""
        if key is not None:
            try:
                from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            except ModuleNotFoundError:
                raise ValueError(
                    "an encrypted store needs cryptography: pip install 'fedadavr[encryption]'"
                ) from None
            self._cipher = AESGCM(key)
            self._entry_key = hashlib.blake2b(b"entries", key=key).digest()

    @property
    def keyed(self) -> bool:
        """Whether there is a key."""
        return self._cipher is not None

    @property
    def overhead(self) -> int:
        """By how many bytes what is stored is longer."""
        return NONCE if self.keyed else 0

    def close(self, about: bytes, data: Any) -> tuple[bytes, Any]:
        """The tag, and the bytes to store."""
        if self._cipher is None:
            return zlib.crc32(data, zlib.crc32(about)).to_bytes(TAG, "little"), data
        nonce = os.urandom(NONCE)
        sealed = memoryview(self._cipher.encrypt(nonce, data, about))
        return bytes(sealed[-TAG:]), b"".join((nonce, sealed[:-TAG]))

    def open(self, about: bytes, tag: bytes, stored: Any) -> Any | None:
        """The bytes that were sealed; None if anything of all this was changed."""
        if self._cipher is None:
            whole = zlib.crc32(stored, zlib.crc32(about)).to_bytes(TAG, "little") == tag
            return np.frombuffer(stored, np.uint8) if whole else None
        from cryptography.exceptions import InvalidTag

        try:
            stored = memoryview(stored)
            nonce, text = bytes(stored[:NONCE]), b"".join((stored[NONCE:], tag))
            return np.frombuffer(self._cipher.decrypt(nonce, text, about), np.uint8)
        except (InvalidTag, ValueError):
            return None

    def digest(self, store: str, table: str, key: str, value: Any) -> int:
        """A number for an entry of a table; a store keeps the sum of all of them."""
        state = hashlib.blake2b(key=self._entry_key, digest_size=16)
        for part in (store.encode(), table.encode(), key.encode(errors="surrogateescape"), value):
            state.update(len(part).to_bytes(8, "little"))
            state.update(part)
        return int.from_bytes(state.digest(), "little")

    def key_check(self) -> str | None:
        """What a new store keeps so that a wrong key can be told; None: it is not encrypted."""
        if self._cipher is None:
            return None
        nonce = os.urandom(NONCE)
        return (nonce + self._cipher.encrypt(nonce, CHECK, b"")).hex()

    def test_key(self, check: Any, where: str) -> None:
        """Raise unless the key is the one that `key_check` was made with."""
        if check is None and self._cipher is None:
            return
        if check is None:
            raise WrongKey(f"{where} is not encrypted: omit the key file, or convert the store")
        if self._cipher is None:
            raise WrongKey(f"{where} is encrypted: give its key (--encrypt-with, encrypt_with=)")
        from cryptography.exceptions import InvalidTag

        try:
            raw = bytes.fromhex(check)
            self._cipher.decrypt(raw[:NONCE], raw[NONCE:], b"")
        except (InvalidTag, ValueError, TypeError):
            raise WrongKey(
                f"{where} is encrypted with another key than the one given; nothing was changed"
            ) from None


def read_key(path: Path) -> bytes:
    """The 32 bytes of a key file: as they are, or as 64 hexadecimal digits."""
    try:
        mode = path.stat().st_mode
        raw = path.read_bytes()
    except OSError as error:
        raise ValueError(f"the key file {path} cannot be read: {error.strerror}") from None
    if stat.S_ISREG(mode) and mode & 0o077:
        raise ValueError(
            f"the key file {path} can be read by others than its owner: chmod 600 {path}"
        )
    if len(raw) == 32:
        return raw
    try:
        key = bytes.fromhex(raw.decode().strip())
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ValueError(
            f"the key file {path} must hold 32 bytes, or 64 hexadecimal digits, and has "
            f"{len(raw)} bytes: make one with: (umask 077; head -c 32 /dev/urandom > {path})"
        )
    return key
