"""SCAFFOLD (Karimireddy et al. 2020), option II, with the control variates on the server."""

from __future__ import annotations

import numpy as np

from fedadavr.algorithms.base import Remembering
from fedadavr.algorithms.cohort import ClientNeeds, Cohort, Direction, Stored, check_momentum
from fedadavr.algorithms.registry import register
from fedadavr.vector import Vector


@register("scaffold")
class Scaffold(Remembering):
    """w -= (1/|S|) sum (w - w_i); c_i <- c_i - c + g_i / a_i; c = (1/N) sum_j c_j.

    The c_i live in the server's memory and clients are sent c - c_i, so that they stay stateless.
    a_i is the effective number of steps: with it the new c_i is the client's mean gradient also
    under momentum, where the authors' 1/K is not.
    """

    client_momentum: float = 0.0
    """Momentum of the clients' SGD, on which a_i depends."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_momentum(self.client_momentum)

    @property
    def needs(self) -> ClientNeeds:
        """c - c_i in every gradient, and the number of steps."""
        return ClientNeeds(correction=True, steps=True, momentum=self.client_momentum)

    def correction(self, client: str) -> Vector:
        """c - c_i."""
        difference = self.memory.mean() - self.memory.update_of(client)
        return difference.astype(np.float32)

    def stored(self, cohort: Cohort) -> Stored:
        """c_i - c + g_i / a_i, with c as it was sent: over the population before this round."""
        lean = -1 / cohort.count if cohort.count else 0.0
        share = 1 / cohort.effective_steps(self.client_momentum)
        return Stored(share=share, keep=1.0, lean=lean)

    def direction(self, cohort: Cohort) -> Direction:
        """The plain mean over the cohort: the correction was made at the clients."""
        return Direction(gain=cohort.even)
