"""What the server remembers of its clients."""

import warnings
from typing import Any

from fedadavr import codecs, stores
from fedadavr.memory import kinds as _kinds  # noqa: F401, registers itself
from fedadavr.memory.own import ClientMemory
from fedadavr.memory.population import Population

__all__ = ["ClientMemory", "Population"]

_MOVED = {"CODECS": codecs, "Codec": codecs} | dict.fromkeys(
    ("RamStore", "Record", "Store", "StoreError", "StoreLost", "open_store"), stores
)


def __getattr__(name: str) -> Any:
    if name in _MOVED:  # until 0.3
        place = _MOVED[name]
        warnings.warn(f"{name} is in {place.__name__}", DeprecationWarning, stacklevel=2)
        return getattr(place, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
