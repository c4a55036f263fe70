"""What the server remembers of its clients."""

from fedadavr.memory import kinds as _kinds  # noqa: F401, registers itself
from fedadavr.memory.own import ClientMemory
from fedadavr.memory.population import Population

__all__ = ["ClientMemory", "Population"]
