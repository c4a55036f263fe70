"""Stores by their address: ram, lmdb:FOLDER, redis://HOST:PORT."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
from pathlib import Path
from typing import Any

from fedadavr import stores
from fedadavr.stores.compression import Compress
from fedadavr.stores.compression import check as check_compression
from fedadavr.stores.format1 import OldLmdbStore, OldRedisStore, OldStore
from fedadavr.stores.persistent import OldFormat, PersistentStore
from fedadavr.stores.ram import RamStore
from fedadavr.stores.seal import read_key
from fedadavr.stores.store import STORES, Opener
from fedadavr.supported import check_platform

SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://|rediss?:/?", re.IGNORECASE)


def open_store(
    address: str,
    key_file: Path | str | None = None,
    *,
    read_only: bool = False,
    must_exist: bool = False,
    compress: Compress | None = None,
) -> PersistentStore | RamStore:
    """The store at an address, a new one unless it must exist; `key_file` encrypts it.

    `compress` is `"zstd"` or `"none"`, for the records that are written from now on; None: as it
    was.
    """
    if compress is not None:
        check_compression(compress)
    key = None if key_file is None else read_key(Path(key_file))
    if address != "ram":
        check_platform()
    opened: Any = _opener(address)(address, key=key, read_only=read_only, must_exist=must_exist)
    if compress is not None:
        if not hasattr(opened, "compress"):
            opened.close()
            raise ValueError(f"the store {public(address)} cannot compress: omit compress")
        opened.compress = compress
    return opened


def _opener(address: str) -> Opener:
    """What opens addresses of this scheme; modules of this room are imported until one does."""
    scheme = address.partition(":")[0]
    names = [module.name for module in pkgutil.iter_modules(stores.__path__)]
    for name in sorted(names, key=lambda name: name != scheme):
        if scheme in STORES:
            return STORES.find(scheme)
        try:
            importlib.import_module(f"fedadavr.stores.{name}")
        except ModuleNotFoundError as error:  # it belongs to another extra
            if name in (scheme, scheme.removesuffix("s")):
                raise ValueError(
                    f"a store in {name.title()} needs {error.name}: pip install 'fedadavr[{name}]'"
                ) from None
    if scheme not in STORES:
        raise bad_address(address)
    return STORES.find(scheme)


def bad_address(address: str) -> ValueError:
    """What is said of an address that no store has."""
    others = [name for name in STORES.names() if name not in ("ram", "lmdb", "redis", "rediss")]
    more = "".join(f", {name}:..." for name in others)
    return ValueError(
        f"no store has the address {public(address)!r}: it must be ram, lmdb:FOLDER or "
        f"redis://HOST:PORT{more}"
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


def is_address(text: str) -> bool:
    """Whether a text is meant as a store's address, perhaps a mistyped one, and not as a folder."""
    if text == "ram" or text.startswith("lmdb:") or SCHEME.match(text):
        return True
    if ":" in text and text.partition(":")[0] in STORES:  # one that somebody brings
        return True
    return ":" in text and "@" in text and not os.path.exists(text)  # which never raises


def public(address: str) -> str:
    """The address as it may be shown: without a user, a password, or options that may be one.

    Also of a mistyped one nothing is shown that stands before an @, but for a scheme.
    """
    if address.startswith("lmdb:"):
        return address
    scheme = SCHEME.match(address)
    kind = scheme[0] if scheme else ""
    secret, _, rest = address[len(kind) :].rpartition("@")
    if "?" in secret:  # of a password, or of options: where the host is cannot be told
        return f"{kind}..."
    place, _, query = rest.partition("?")
    told = [part for part in query.split("&") if _is_harmless(part.partition("=")[0])]
    return f"{kind}{place}{'?' if told else ''}{'&'.join(told)}"


def _is_harmless(option: str) -> bool:
    return option in ("name", "patience") or (option.startswith("ssl_") and "pass" not in option)


def absolute(address: str) -> str:
    """The address, such that it means the same in any folder."""
    kind, _, rest = address.partition(":")
    return f"lmdb:{Path(rest).resolve()}" if kind == "lmdb" and rest else address


def read_note(path: Path) -> str:
    """The address in the file `store` of a run's folder."""
    try:
        address = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        address = ""
    if not address:
        raise ValueError(
            f"{path} does not hold the address of the run's store, as it should: restore it from a "
            "backup, or write the address into it"
        )
    return address
