"""Stores by their address: ram, lmdb:FOLDER, redis://HOST:PORT."""

from __future__ import annotations

from pathlib import Path

from fedadavr.stores.format1 import OldLmdbStore, OldRedisStore, OldStore
from fedadavr.stores.persistent import OldFormat, PersistentStore
from fedadavr.stores.ram import RamStore
from fedadavr.stores.seal import read_key
from fedadavr.supported import check_platform


def open_store(
    address: str,
    key_file: Path | str | None = None,
    *,
    read_only: bool = False,
    must_exist: bool = False,
) -> PersistentStore | RamStore:
    """The store at an address, a new one unless it must exist; `key_file` encrypts it."""
    key = None if key_file is None else read_key(Path(key_file))
    kind, _, rest = address.partition(":")
    if address == "ram":
        if key is not None:
            raise ValueError("a memory in RAM is not encrypted: omit the key file")
        return RamStore()
    if kind == "lmdb" and rest:
        check_platform()
        from fedadavr.stores.lmdb import LmdbStore

        return LmdbStore(rest, key=key, read_only=read_only, must_exist=must_exist)
    if kind in ("redis", "rediss") and rest.startswith("//"):
        try:
            from fedadavr.stores.redis import RedisStore
        except ModuleNotFoundError:
            raise ValueError(
                "a store in Redis needs redis: pip install 'fedadavr[redis]'"
            ) from None
        return RedisStore(address, key=key, read_only=read_only, must_exist=must_exist)
    raise ValueError(
        f"no store has the address {public(address)!r}: it must be ram, lmdb:FOLDER or redis://HOST:PORT"
    )


def open_old_store(address: str, key_file: Path | str | None = None) -> OldStore:
    """A store of format 1, to look at or to convert."""
    key = None if key_file is None else read_key(Path(key_file))
    kind, _, rest = address.partition(":")
    if kind == "lmdb":
        return OldLmdbStore(Path(rest), key)
    from fedadavr.stores.redis import RedisStore

    return OldRedisStore(RedisStore.unread(address), key)


def open_any_store(
    address: str, key_file: Path | str | None = None, *, read_only: bool
) -> PersistentStore | OldStore:
    """A durable store that is there, of any format; one of an old format is read only."""
    if address == "ram":
        raise ValueError("a store in RAM is gone with its process: name a folder or a Redis")
    try:
        store = open_store(address, key_file, read_only=read_only, must_exist=True)
    except OldFormat:
        return open_old_store(address, key_file)
    assert isinstance(store, PersistentStore)
    return store


def public(address: str) -> str:
    """The address as it may be shown: without a user, a password, or options that may be one."""
    if address.startswith("lmdb:"):
        return address
    kind, sep, rest = address.partition("://" if "://" in address else ":")
    rest = rest.rpartition("@")[2]  # also where a password has a / or @ that is not quoted
    place, _, query = rest.partition("?")
    told = [part for part in query.split("&") if _is_harmless(part.partition("=")[0])]
    return f"{kind}{sep}{place}{'?' if told else ''}{'&'.join(told)}"


def _is_harmless(option: str) -> bool:
    return option in ("name", "patience") or (option.startswith("ssl_") and "pass" not in option)


def absolute(address: str) -> str:
    """The address, such that it means the same in any folder."""
    kind, _, rest = address.partition(":")
    return f"lmdb:{Path(rest).resolve()}" if kind == "lmdb" and rest else address
