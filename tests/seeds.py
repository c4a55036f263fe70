"""Where tests draw the moments of their kills from: a seed that is printed, and can be given again.

FEDADAVR_TEST_SEED=7 python -m pytest tests/test_crashes.py
"""

from __future__ import annotations

import os
import random
import time

NAME = "FEDADAVR_TEST_SEED"


def new_seed() -> int:
    """The seed given in the environment, else a new one; pytest shows it if the test fails."""
    seed = int(os.environ.get(NAME) or time.time_ns() % 1_000_000_000)
    print(f"{NAME}={seed} draws the same again", flush=True)
    return seed


def new_rng() -> random.Random:
    """Draws from such a seed."""
    return random.Random(new_seed())
