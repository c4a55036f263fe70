"""Who takes part: drawn by seed, round and purpose alone, never by a global generator."""

from __future__ import annotations

import numpy as np

TRAIN, EVALUATE, ORDER, CAP, DRAWS, PRESENCE, ANSWERS = 1, 2, 3, 4, 5, 6, 7
"""Purposes of random draws; a client's training has two, ORDER and DRAWS, keyed by it as well."""


def sample(seed: int, round: int, purpose: int, population: int, size: int) -> list[int]:
    """The places of those drawn, out of the population's."""
    rng = np.random.default_rng([seed, round, purpose])
    return rng.choice(population, size, replace=False).tolist()
