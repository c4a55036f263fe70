"""FedAvg (McMahan et al. 2017) and FedProx (Li et al. 2020), which differ at the client only."""

from __future__ import annotations

import math

from fedadavr.algorithms.base import Algorithm
from fedadavr.algorithms.cohort import ClientNeeds, Cohort, Direction
from fedadavr.algorithms.registry import register
from fedadavr.checks import number


@register("fedavg")
class FedAvg(Algorithm):
    """The example-weighted mean of the clients' models: w -= server_lr * sum p_i (w - w_i)."""

    def direction(self, cohort: Cohort) -> Direction:
        """Each client's share of the cohort's examples."""
        return Direction(gain=cohort.shares)


@register("fedprox")
class FedProx(FedAvg):
    """FedAvg whose clients are held near the model they got, by mu/2 |w - w_start|^2."""

    mu: float = 0.01
    """Weight of the proximal term."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(number("mu", self.mu)) and self.mu >= 0):
            raise ValueError(f"mu must be a finite number from 0 up, got {self.mu!r}")

    @property
    def needs(self) -> ClientNeeds:
        """The proximal term."""
        return ClientNeeds(proximal_mu=self.mu)
