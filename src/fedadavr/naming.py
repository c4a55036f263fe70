"""Looking things up by the name a user typed, with an answer that helps when it is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """One sentence: what was not found, the nearest known name, and all there are."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"unknown {kind} {name!r}{hint}; there are: {', '.join(names)}"


def find(kind: str, name: str, known: Mapping[str, T]) -> T:
    """The entry of that name, or a `ValueError` that lists what there is."""
    if name not in known:
        raise ValueError(unknown(kind, name, known))
    return known[name]


def shown(value: object) -> str:
    """A value as it stands in a sentence: short, whatever somebody has sent.

    >>> shown("x" * 1000)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'"
    """
    try:
        if isinstance(value, str):
            return repr(value if len(value) <= 60 else f"{value[:56]}...")
        if isinstance(value, int) and abs(value) >= 2**128:
            return "a number of more than 128 bits"
        text = repr(value)
    except Exception:  # whatever an object can be made to raise
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
