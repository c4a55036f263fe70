"""The defaults of former versions, with which what they wrote is read.

Version 0.1 wrote only the settings that were given. Since then every setting is written, and a
setting that is missing is one that came later: its default means what was done before it, or else
`BEFORE` says what does.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedadavr.algorithms.registry import algorithm_class, user_settings
from fedadavr.settings import REQUIRED

FIRST = "0.1.0"
"""The version of what does not say by which it was written."""

BEFORE: dict[str, Any] = {"averaging": False}
"""What was done before there was such a setting, where some algorithm's default is another."""


@functools.cache
def former() -> dict[str, Any]:
    """The defaults of version 0.1."""
    return tomllib.loads(Path(__file__).with_name("defaults-0.1.toml").read_text())


def as_meant(values: Mapping[str, Any]) -> dict[str, Any]:
    """What 0.1 wrote as words, as what it meant: `trust = "0.5"`, `memories = "centers+own"`."""
    meant = dict(values)
    trust, memories = values.get("trust"), values.get("memories")
    if isinstance(trust, str) and trust != "learned":
        with contextlib.suppress(ValueError):  # an algorithm of one's own may mean something else
            meant["trust"] = float(trust)
    if isinstance(memories, str) and values.get("algorithm") == "fedadavr-plus":
        words = re.split("[,+]", memories)
        meant["memories"] = tuple(sorted(words, key=lambda word: word != "own"))
    return meant


def filled(name: str, given: Mapping[str, Any], version: str = FIRST) -> dict[str, Any]:
    """All settings of an algorithm from those that a version wrote, with that version's defaults.

    Parameters
    ----------
    name : str
        The algorithm.
    given : Mapping[str, Any]
        The settings that were written.
    version : str
        The version that wrote them.
    """
    known = user_settings(name)
    old = _defaults_of_0_1(name) if version.startswith("0.1.") else {}
    found = {}
    for key, setting in known.items():
        usual = old.get(key, BEFORE.get(key, setting.default))
        value = given.get(key, usual)
        if value is not REQUIRED:  # else the algorithm will say that it is missing
            found[key] = setting.read(value, name)
    if version.startswith("0.1."):
        step = former()["optimizers"].get(found.get("optimizer") or "sgd", {})
        for key, value in found.items():
            if value is None and key in step:
                found[key] = step[key]
    return found


def _defaults_of_0_1(name: str) -> dict[str, Any]:
    """Those of the nearest class that 0.1 had, as far as the classes below it say nothing else."""
    own: set[str] = set()
    for cls in algorithm_class(name).__mro__:
        there = former()["algorithms"].get(cls.__dict__.get("name"))
        if there is not None or cls.__module__ == "fedadavr.algorithms.base":
            found = former()["base"] if there is None else there
            return {key: value for key, value in found.items() if key not in own}
        own |= set(inspect.get_annotations(cls))
    return {}
