"""deadline: the server waits so long, and the slow never make it.

A client's round takes examples x epochs / speed. Its speed is drawn once, by seed: log-normal,
median * exp(spread * z), or with a Pareto tail of the time that an example takes, whose exponent is
1 / spread: median * (2 u)^spread. With `jitter` the time of each round is multiplied by
exp(jitter * z), too.
"""

from typing import Literal

import numpy as np

from fedadavr.availability.base import Clients, Dropout, Floats, Mask, check_positive
from fedadavr.availability.registry import dropout
from fedadavr.sampling import ANSWERS


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

    def speeds(self, clients: Clients) -> Floats:
        """Examples per second, of each client."""
        return clients.once((self, "speeds"), lambda: self._speeds(clients))

    def _speeds(self, clients: Clients) -> Floats:
        rng = clients.draws(0, ANSWERS)
        if self.tail == "lognormal":
            return self.median * np.exp(self.spread * rng.standard_normal(clients.number))
        return self.median * (2 * (1 - rng.random(clients.number))) ** self.spread

    def durations(self, round: int, clients: Clients) -> Floats:
        """How long each client would take in a round."""
        lasts: Floats = np.asarray(clients.sizes) * clients.epochs / self.speeds(clients)
        if self.jitter:
            z = clients.draws(round, ANSWERS).standard_normal(clients.number)
            lasts = lasts * np.exp(self.jitter * z)
        return lasts

    def answers(self, round: int, clients: Clients) -> Mask:
        """Those that make it in time."""
        return self.durations(round, clients) <= self.seconds
