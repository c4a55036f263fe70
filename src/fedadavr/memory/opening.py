"""Stores by their address: ram, lmdb:FOLDER, redis://HOST:PORT."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from fedadavr.memory.durable import DurableStore
from fedadavr.memory.ram import RamStore
from fedadavr.memory.records import read_key


def open_store(
    address: str,
    key_file: Path | str | None = None,
    *,
    read_only: bool = False,
    must_exist: bool = False,
) -> DurableStore | RamStore:
    """The store at an address, a new one unless it must exist; `key_file` encrypts its records."""
    key = None if key_file is None else read_key(Path(key_file))
    kind, _, rest = address.partition(":")
    if address == "ram":
        if key is not None:
            raise ValueError("a memory in RAM is not encrypted: leave the key file away")
        return RamStore()
    if kind == "lmdb" and rest:
        from fedadavr.memory.lmdb import LmdbStore

        return LmdbStore(rest, key=key, read_only=read_only, must_exist=must_exist)
    if kind in ("redis", "rediss") and rest.startswith("//"):
        try:
            from fedadavr.memory.redis import RedisStore
        except ModuleNotFoundError:
            raise ValueError(
                "a store in Redis needs redis: pip install 'fedadavr[redis]'"
            ) from None
        return RedisStore(address, key=key, read_only=read_only, must_exist=must_exist)
    raise ValueError(
        f"no store has the address {address!r}: it must be ram, lmdb:FOLDER or redis://HOST:PORT"
    )


def public(address: str) -> str:
    """The address without its password."""
    if "://" not in address:
        return address
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def absolute(address: str) -> str:
    """The address, such that it means the same in any folder."""
    kind, _, rest = address.partition(":")
    return f"lmdb:{Path(rest).resolve()}" if kind == "lmdb" and rest else address
