"""Names of a package that are imported when they are first asked for, so that help is quick."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazily(package: str, places: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """A package's `__getattr__`: each name is taken from its module when it is asked for.

    Parameters
    ----------
    package : str
        The package's own name, `__name__`.
    places : Mapping[str, Sequence[str]]
        The names that each module has, by the module.
    """
    modules = {name: module for module, names in places.items() for name in names}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # the next time it is there
        return value

    return get
