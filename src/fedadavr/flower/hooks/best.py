"""The best value of a metric so far."""

from __future__ import annotations

import math

from fedadavr.checks import number
from fedadavr.flower.hooks.hook import History, Metrics, scalars


class Best:
    """The best value of a metric so far, and its round; NaN is never the best.

    Parameters
    ----------
    metric : str
        Its name, as in "evaluate/accuracy"; of a list's numbers, "evaluate/recall/0".
    mode : str
        "max" or "min": which is better.
    min_delta : float
        How much better than the best a value must be.
    """

    def __init__(self, metric: str, mode: str, min_delta: float = 0.0) -> None:
        if mode not in ("max", "min"):
            raise ValueError(f"mode must be 'max' or 'min', got {mode!r}")
        self._least = number("min_delta", min_delta)
        if not 0 <= self._least < math.inf:
            raise ValueError(f"min_delta must be a finite number from 0 up, got {min_delta!r}")
        self.metric, self._sign = metric, 1.0 if mode == "max" else -1.0
        self.value, self.round, self._seen = math.nan, -1, False

    def begin(self, history: History) -> list[bool]:
        """Start from these rounds; for those with the metric, whether it was better."""
        self.value, self.round, self._seen = math.nan, -1, False
        found = [self._take(round, history[round]) for round in sorted(history)]
        return [better for better in found if better is not None]

    def clear(self) -> None:
        """Let the next value be the best."""
        self.value, self.round = math.nan, -1

    def take(self, round: int, metrics: Metrics) -> bool | None:
        """Whether the round's value is better than all before; None if the round has none."""
        better = self._take(round, metrics)
        if round and not self._seen:
            there = ", ".join(sorted(scalars(metrics))) or "none"
            raise ValueError(
                f"round {round} has no metric {self.metric!r}, nor had one before it; there are: "
                f"{there}"
            )
        return better

    def _take(self, round: int, metrics: Metrics) -> bool | None:
        value = scalars(metrics).get(self.metric)
        if value is None:
            return None
        self._seen = True
        better = not math.isnan(value) and (
            math.isnan(self.value) or self._sign * (value - self.value) > self._least
        )
        if better:
            self.value, self.round = value, round
        return better
