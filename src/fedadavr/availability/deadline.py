"""deadline: the server waits so long, and the slow never make it."""

import numpy as np

from fedadavr.availability.base import Clients, Dropout, Floats, Mask, Speed, check_positive
from fedadavr.availability.registry import dropout


@dropout("deadline")
class Deadline(Speed, Dropout):
    """Replies that come too late do not count."""

    seconds: float
    """How long the server waits for replies, in simulated seconds."""

    def check(self) -> None:
        """Times and speeds are above zero."""
        check_positive("seconds", self.seconds)
        check_positive("median", self.median)
        for name, value in (("spread", self.spread), ("jitter", self.jitter)):
            if not 0 <= value <= 20:
                raise ValueError(f"{name} must lie in [0, 20], got {value:g}")

    def answers(self, round: int, clients: Clients) -> Mask:
        """Those that make it in time."""
        return self.durations(round, clients) <= self.seconds

    def waits(self, round: int, clients: Clients) -> Floats:
        """Until the deadline at most."""
        return np.minimum(self.durations(round, clients), self.seconds)
