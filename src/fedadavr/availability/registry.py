"""Availabilities and dropouts by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

from fedadavr.availability.base import Availability, Dropout
from fedadavr.availability.specs import read
from fedadavr.plugins import Registry

AVAILABILITIES: Registry[type[Availability]] = Registry(
    "availability", "fedadavr.availability", "fedadavr.availability", "availability"
)
DROPOUTS: Registry[type[Dropout]] = Registry(
    "dropout", "fedadavr.dropout", "fedadavr.availability", "dropout"
)
A = TypeVar("A", bound=Availability)
D = TypeVar("D", bound=Dropout)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def availability(name: str) -> Callable[[type[A]], type[A]]:
    """Class decorator: annotated attributes are settings; the availability is known by a name."""

    def add(cls: type[A]) -> type[A]:
        cls = dataclass(frozen=True, kw_only=True)(cls)
        AVAILABILITIES.add(name, cls)
        cls.name = name
        return cls

    return add


@dataclass_transform(kw_only_default=True, frozen_default=True)
def dropout(name: str) -> Callable[[type[D]], type[D]]:
    """Class decorator: annotated attributes are settings; the dropout is known by a name."""

    def add(cls: type[D]) -> type[D]:
        cls = dataclass(frozen=True, kw_only=True)(cls)
        DROPOUTS.add(name, cls)
        cls.name = name
        return cls

    return add


def find_availability(given: str | Availability) -> Availability:
    """The availability that is meant by `markov` or `markov:on=0.2,off=0.1`."""
    return given if isinstance(given, Availability) else read(AVAILABILITIES, given)


def find_dropout(given: str | float | Dropout) -> Dropout:
    """The dropout that is meant by `deadline:seconds=60`; a number is a probability."""
    if isinstance(given, Dropout):
        return given
    text = str(given)
    try:
        float(text)
    except ValueError:
        return read(DROPOUTS, text)
    return read(DROPOUTS, f"random:p={text}")
