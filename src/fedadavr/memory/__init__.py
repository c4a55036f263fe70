"""What the server remembers of each client."""

from fedadavr.memory.codecs import CODECS, Codec
from fedadavr.memory.memory import ClientMemory
from fedadavr.memory.population import Population
from fedadavr.memory.ram import RamStore, Record, Store

__all__ = ["CODECS", "ClientMemory", "Codec", "Population", "RamStore", "Record", "Store"]
