"""Where this runs: POSIX systems, that is Linux and macOS."""

from __future__ import annotations

import importlib.util


class Unsupported(ValueError):
    """This system lacks what a store's locks are made of."""


def check_platform() -> None:
    """Raise one clear sentence where there are no POSIX locks, as on Windows."""
    if importlib.util.find_spec("fcntl") is None:
        raise Unsupported(
            "fedadavr needs a POSIX system, Linux or macOS: on Windows, use it in WSL 2"
        )
