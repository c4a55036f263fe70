"""GHBM (Zaccone et al. 2023): heavy-ball momentum over the last tau rounds, at the clients."""

from __future__ import annotations

import numpy as np

from fedadavr.algorithms.cohort import ClientNeeds, Cohort, Direction
from fedadavr.algorithms.past_gradients import MomentumAtClients
from fedadavr.algorithms.registry import register
from fedadavr.checks import number
from fedadavr.vector import Vector


@register("ghbm")
class GHBM(MomentumAtClients):
    """Clients step by grad + beta (w_(t-tau) - w_t) / (tau client_lr a); w is as FedAvg has it.

    a is the mean number of effective steps, so that all steps of a round together go beta of the
    way that the model went in a round, in the mean over the last tau. With tau rounds in which
    everybody came once, that mean is over all clients. None before tau rounds have passed.
    """

    tau: int = 10
    """How many rounds back: about one over the share of clients that come to a round."""
    beta: float = 0.9
    """Weight of the momentum."""

    def __post_init__(self) -> None:
        if type(self.tau) is not int or self.tau < 1:
            raise ValueError(f"tau must be a whole number from 1 up, got {self.tau!r}")
        if not 0 <= number("beta", self.beta) < 1:
            raise ValueError(f"beta must lie in [0, 1), got {self.beta!r}")
        super().__post_init__()

    def _rounds(self) -> int:
        return self.tau

    @property
    def needs(self) -> ClientNeeds:
        """The momentum in every gradient, and the number of steps."""
        return ClientNeeds(correction=True, steps=True, momentum=self.client_momentum)

    def correction(self, client: str) -> Vector:
        """The momentum, the same for all."""
        if self.round < self.tau:
            return self.layout.zeros()
        mean = self.past.vectors.mean(axis=0, dtype=np.float64)
        return (self.beta * self.server_optimizer.lr * mean).astype(np.float32)

    def direction(self, cohort: Cohort) -> Direction:
        """Each client's share of the cohort's examples."""
        return Direction(gain=cohort.shares)
