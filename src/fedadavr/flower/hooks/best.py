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
        self.begin({})

    def begin(self, history: History, *, anew: bool = False) -> None:
        """Start from these rounds; anew: but let the next value be the best."""
        self._history, self._anew = dict(history), anew
        self.value, self.round, self.waited, self._seen = math.nan, -1, 0, False

    def take(self, round: int, metrics: Metrics) -> bool | None:
        """Whether the round's value is better than all before; None if the round has none.

        `waited` is how many values came since the best.
        """
        self._replay(round)
        better = self._take(round, metrics)
        if round and not self._seen:
            there = ", ".join(sorted(scalars(metrics))) or "none"
            raise ValueError(
                f"round {round} has no metric {self.metric!r}, nor had one before it; there are: "
                f"{there}"
            )
        return better

    def _replay(self, upto: int) -> None:
        """Take the rounds before; the last of a run that was killed may be told again."""
        for round in sorted(self._history):
            if round < upto:
                self._take(round, self._history[round])
        self._history = {}
        if self._anew:
            self.value, self.round, self._anew = math.nan, -1, False

    def _take(self, round: int, metrics: Metrics) -> bool | None:
        value = scalars(metrics).get(self.metric)
        if value is None:
            return None
        self._seen = True
        better = not math.isnan(value) and (
            math.isnan(self.value) or self._sign * (value - self.value) > self._least
        )
        self.waited += 1
        if better:
            self.value, self.round, self.waited = value, round, 0
        return better
