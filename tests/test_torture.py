"""Fifty of the thousand faults of `make torture`, from a seed that is printed."""

from __future__ import annotations

import os
import time

from tests.rounds import play, server_on
from tests.torture import torture


def test_fifty_faults() -> None:
    """Kills, signals, full disks, a Redis that goes away, spoilt bytes, rewinds: all is kept."""
    seed = int(os.environ.get("SEED", time.time_ns() % 1_000_000))
    print(f"SEED={seed} repeats it")
    play(server_on(None), 2)  # the kernels are compiled before anything is killed
    assert torture(50, seed).total() == 50
