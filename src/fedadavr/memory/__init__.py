"""What the server remembers of its clients."""

from fedadavr.memory.own import ClientMemory
from fedadavr.memory.population import Population

__all__ = ["ClientMemory", "Population"]
