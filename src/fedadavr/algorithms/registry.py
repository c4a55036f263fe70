"""All algorithms by name, and their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

from fedadavr import settings as reading
from fedadavr.algorithms.base import Algorithm
from fedadavr.plugins import Registry
from fedadavr.settings import Setting
from fedadavr.vector import Layout

ALGORITHMS: Registry[type[Algorithm]] = Registry(
    "algorithm", "fedadavr.algorithms", "fedadavr.algorithms", "register"
)
PROVIDED = ("layout", "store", "snapshot_every", "population", "client_momentum", "client_lr")
"""Fields that whoever builds an algorithm knows: they are no settings of its user."""

A = TypeVar("A", bound=Algorithm)


@dataclass_transform(kw_only_default=True, eq_default=False)
def register(name: str) -> Callable[[type[A]], type[A]]:
    """Class decorator: an algorithm's annotated attributes are its settings; list it by name."""

    def add(cls: type[A]) -> type[A]:
        cls = dataclass(kw_only=True, eq=False)(cls)
        ALGORITHMS.add(name, cls)
        cls.name = name
        return cls

    return add


def algorithm_names() -> list[str]:
    """The names of all algorithms: those that are imported in their order, then the others."""
    return list(dict.fromkeys([*ALGORITHMS.loaded(), *ALGORITHMS]))


def algorithm_class(name: str) -> type[Algorithm]:
    """The class of that name."""
    return ALGORITHMS.find(name)


def settings_of(name: str) -> dict[str, Setting]:
    """What an algorithm can be told, by name: its settings, and what an engine provides."""
    found = reading.settings_of(algorithm_class(name))
    return {name: setting for name, setting in found.items() if name != "layout"}


def user_settings(name: str) -> dict[str, Setting]:
    """The settings of an algorithm that are its user's to choose, by name."""
    found = settings_of(name)
    return {name: setting for name, setting in found.items() if name not in PROVIDED}


def settings_in_use(server: Algorithm) -> dict[str, Any]:
    """Every setting as a server has it; what it leaves to its optimizer, as that has it."""
    found = {}
    for name in user_settings(server.name):
        value = getattr(server, name)
        if value is None:
            attribute = "lr" if name == "server_lr" else name
            value = getattr(server.server_optimizer, attribute, None)
        found[name] = value
    return found


def check_settings(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of an algorithm, each as its field's type; raises for a wrong name or value."""
    known, own = settings_of(name), user_settings(name)
    reading.check_names(given, known, f"setting of {name}")
    for key, setting in own.items():
        if setting.default is reading.REQUIRED and key not in given:
            raise ValueError(
                f"{name} needs a value of {key}: {setting.help or 'it has no default'}"
            )
    return {
        key: own[key].read(value, name) if key in own else value for key, value in given.items()
    }


def algorithm(name: str, layout: Layout, **settings: Any) -> Algorithm:
    """Build an algorithm by name.

    >>> server = algorithm("fedvarp", Layout({"x": (3,)}), population=10)
    """
    return algorithm_class(name)(layout, **check_settings(name, settings))
