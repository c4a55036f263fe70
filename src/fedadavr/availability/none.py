"""none: every reply comes."""

import numpy as np

from fedadavr.availability.base import Clients, Dropout, Mask
from fedadavr.availability.registry import dropout


@dropout("none")
class NoDropout(Dropout):
    """Every reply comes."""

    def answers(self, round: int, clients: Clients) -> Mask:
        """All of them."""
        return np.ones(clients.number, bool)
