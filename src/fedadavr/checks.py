"""Numbers as users give them, checked; one clear sentence for those that are none."""

from __future__ import annotations

import math

import numpy as np


def number(name: str, value: float) -> float:
    """The value as a float, if it is a number; one clear sentence if not."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return float(value)


def positive(name: str, value: float) -> float:
    """The value, if it is a finite number above zero; one clear sentence if not."""
    value = number(name, value)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")
    return value
