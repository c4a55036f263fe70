"""Where the bytes live: RAM, a folder (LMDB), or Redis; encrypted, if there is a key."""

from fedadavr.stores.addresses import open_store
from fedadavr.stores.ram import RamStore
from fedadavr.stores.store import Damaged, Member, Record, Store, StoreError, StoreLost

__all__ = [
    "Damaged", "Member", "RamStore", "Record", "Store", "StoreError", "StoreLost", "open_store",
]  # fmt: skip
