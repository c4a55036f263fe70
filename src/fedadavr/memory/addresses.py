"""Stores as people name them: an address, a folder, or the folder of a run."""

from __future__ import annotations

from pathlib import Path

from fedadavr.memory.verify import AnyStore
from fedadavr.stores.addresses import is_address, open_any_store, read_note
from fedadavr.stores.persistent import PersistentStore


def find_address(address: str) -> str:
    """The address of a store, of one in a folder, or of that of the run in a folder."""
    if is_address(address):
        return address
    note, checkpoint = Path(address) / "store", Path(address) / "checkpoint"
    if note.is_file():
        return read_note(note)
    return f"lmdb:{checkpoint if (checkpoint / 'data.mdb').is_file() else address}"


def is_run(address: str) -> bool:
    """Whether it is the folder of a run, which has more than a store."""
    return not is_address(address) and (Path(address) / "config.toml").is_file()


def open_address(address: str, key_file: Path | None, *, read_only: bool) -> AnyStore:
    """The durable store at an address, in a folder, or of the run in a folder."""
    return open_any_store(find_address(address), key_file, read_only=read_only)


def open_to_write(address: str, key_file: Path | None) -> PersistentStore:
    """The same, to change it."""
    store = open_address(address, key_file, read_only=False)
    if isinstance(store, PersistentStore):
        return store
    store.close()
    raise ValueError(f"{store.where} has format 1: convert it first, with fedadavr memory upgrade")
