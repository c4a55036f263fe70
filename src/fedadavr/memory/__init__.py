"""What the server remembers of each client."""

from fedadavr.memory.codecs import CODECS, Codec
from fedadavr.memory.memory import ClientMemory
from fedadavr.memory.opening import open_store
from fedadavr.memory.population import Population
from fedadavr.memory.ram import RamStore
from fedadavr.memory.store import Record, Store, StoreError, StoreLost

__all__ = [
    "CODECS", "ClientMemory", "Codec", "Population", "RamStore", "Record", "Store", "StoreError",
    "StoreLost", "open_store",
]  # fmt: skip
