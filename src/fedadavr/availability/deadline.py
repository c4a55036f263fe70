"""deadline: the server waits so long, and the slow never make it."""

from typing import Literal

import numpy as np

from fedadavr.availability.base import Clients, Dropout, Floats, Mask, Speed, check_positive
from fedadavr.availability.registry import dropout


@dropout("deadline")
class Deadline(Dropout):
    """Replies that come too late do not count."""

    seconds: float
    """How long the server waits for replies, in simulated seconds."""
    median: float = 10.0
    """Speed of a client in the middle, in examples per second."""
    tail: Literal["lognormal", "pareto"] = "lognormal"
    """How speeds are spread."""
    spread: float = 1.0
    """How far they are: the deviation of their logarithm, or one over Pareto's exponent."""
    jitter: float = 0.0
    """The same from round to round; 0: a client always takes as long."""

    def check(self) -> None:
        """Times and speeds are above zero."""
        check_positive("seconds", self.seconds)
        check_positive("median", self.median)
        for name, value in (("spread", self.spread), ("jitter", self.jitter)):
            if not 0 <= value <= 20:
                raise ValueError(f"{name} must lie in [0, 20], got {value:g}")

    @property
    def speed(self) -> Speed:
        """How fast clients are."""
        return Speed(median=self.median, tail=self.tail, spread=self.spread, jitter=self.jitter)

    def durations(self, round: int, clients: Clients) -> Floats:
        """How long each client would take in a round."""
        return self.speed.durations(round, clients)

    def answers(self, round: int, clients: Clients) -> Mask:
        """Those that make it in time."""
        return self.durations(round, clients) <= self.seconds

    def waits(self, round: int, clients: Clients) -> Floats:
        """Until the deadline at most."""
        return np.minimum(self.durations(round, clients), self.seconds)
