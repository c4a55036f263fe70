"""All algorithms by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

from fedadavr.algorithms.base import Algorithm
from fedadavr.naming import find, unknown
from fedadavr.vector import Layout

_ALGORITHMS: dict[str, type[Algorithm]] = {}

A = TypeVar("A", bound=Algorithm)


@dataclass_transform(kw_only_default=True, eq_default=False)
def register(name: str) -> Callable[[type[A]], type[A]]:
    """Class decorator: an algorithm's annotated attributes are its settings; list it by name."""

    def add(cls: type[A]) -> type[A]:
        cls = dataclass(kw_only=True, eq=False)(cls)
        if name in _ALGORITHMS:
            raise ValueError(f"there is an algorithm {name!r} already")
        cls.name = name
        _ALGORITHMS[name] = cls
        return cls

    return add


def algorithms() -> list[str]:
    """The names of all algorithms."""
    return list(_ALGORITHMS)


def algorithm_class(name: str) -> type[Algorithm]:
    """The class of that name."""
    return find("algorithm", name, _ALGORITHMS)


def settings_of(name: str) -> list[str]:
    """The settings that an algorithm has."""
    chosen = algorithm_class(name)
    return [field.name for field in fields(chosen) if field.init and field.name != "layout"]


def algorithm(name: str, layout: Layout, **settings: Any) -> Algorithm:
    """Build an algorithm by name.

    >>> server = algorithm("fedvarp", Layout({"x": (3,)}), population=10)
    """
    known = settings_of(name)
    for setting in settings:
        if setting not in known:
            raise ValueError(unknown(f"setting of {name}", setting, known))
    return algorithm_class(name)(layout, **settings)
