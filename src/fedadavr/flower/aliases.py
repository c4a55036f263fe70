"""Flower's names of settings that are called otherwise here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

ALIASES = {
    "eta": "server_lr",
    "eta_l": "client_lr",
    "server_learning_rate": "server_lr",
    "beta_1": "beta1",
    "beta_2": "beta2",
    "proximal_mu": "mu",
}

ATTRIBUTES = (*ALIASES, "tau", "server_momentum")
"""What Flower's strategies have as attributes."""


def meant(name: str, known: Collection[str]) -> str | None:
    """The setting that one of `ATTRIBUTES` is, if the algorithm has it."""
    new = name if name in known else ALIASES.get(name, name)
    return new if new in known else None


def ours(given: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Settings with Flower's names replaced by ours.

    A name that the algorithm itself has is its own, and one that would mean a setting that it does
    not have stays as it was given, so that the error names what was typed.

    >>> ours({"eta": 0.1, "codec": "int8"}, ["server_lr", "codec"])
    {'server_lr': 0.1, 'codec': 'int8'}
    """
    found = {}
    for name, value in given.items():
        new = name if name in known else ALIASES.get(name, name)
        new = new if new in known else name
        if new != name and new in given:
            raise ValueError(f"{name} is Flower's name of {new}: give one of them, not both")
        found[new] = value
    return found
