"""How far a command is, on stderr, where somebody is looking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")


def counted(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """The items, with a bar on stderr where somebody is looking."""
    console = Console(stderr=True)
    yield from track(items, what, total, console=console, transient=True,
                     disable=not console.is_terminal)  # fmt: skip
