"""What a client does: local training from the server's model, and evaluation."""

import warnings
from typing import Any

from fedadavr.clients.local import FlatModel, LocalSGD, layout_of

__all__ = ["FlatModel", "LocalSGD", "layout_of"]


def __getattr__(name: str) -> Any:
    if name == "Recipe":  # until 0.3
        warnings.warn("Recipe is called LocalSGD", DeprecationWarning, stacklevel=2)
        return LocalSGD
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
