"""FedDyn (Acar et al. 2021): clients' losses are bent so that their optima agree."""

from __future__ import annotations

import numpy as np

from fedadavr.algorithms.base import Remembering
from fedadavr.algorithms.cohort import ClientNeeds, Cohort, Direction, Stored
from fedadavr.algorithms.registry import register
from fedadavr.checks import positive
from fedadavr.vector import Vector


@register("feddyn")
class FedDyn(Remembering):
    """h_i <- h_i + alpha (w - w_i), h = (1/N) sum_j h_j; w <- (1/|S|) sum_S w_i - h / alpha.

    Clients descend along grad f_i(x) - h_i + alpha (x - w). The h_i live in the server's memory and
    clients are sent -h_i, so that they stay stateless; h is their mean, which is the authors' own
    recursion as long as no client is forgotten.
    """

    alpha: float = 0.01
    """Weight of the dynamic regularizer; the authors chose among 0.1, 0.01 and 0.001."""

    def __post_init__(self) -> None:
        positive("alpha", self.alpha)
        super().__post_init__()

    @property
    def needs(self) -> ClientNeeds:
        """-h_i in every gradient, and the proximal term."""
        return ClientNeeds(correction=True, proximal_mu=self.alpha)

    def correction(self, client: str) -> Vector:
        """-h_i."""
        return np.negative(self.memory.update_of(client))

    def stored(self, cohort: Cohort) -> Stored:
        """h_i + alpha (w - w_i)."""
        return Stored(share=np.full(len(cohort), self.alpha * self.client_lr), keep=1.0)

    def direction(self, cohort: Cohort) -> Direction:
        """The mean over the cohort, and h / alpha with the cohort's new h_i in it."""
        N = cohort.count
        base = 1 / (self.alpha * self.client_lr * N)
        return Direction(gain=cohort.even + 1 / N, base=base)
