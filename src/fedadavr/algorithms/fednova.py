"""FedNova (Wang et al. 2020): clients that take more steps do not count for more."""

from __future__ import annotations

from fedadavr.algorithms.base import Algorithm
from fedadavr.algorithms.cohort import ClientNeeds, Cohort, Direction, check_momentum
from fedadavr.algorithms.registry import register


@register("fednova")
class FedNova(Algorithm):
    """Normalized averaging: w -= (sum p_i a_i) * sum p_i (w - w_i) / a_i."""

    client_momentum: float = 0.0
    """Momentum of the clients' SGD, on which a_i depends."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_momentum(self.client_momentum)

    @property
    def needs(self) -> ClientNeeds:
        """The number of steps, made with the momentum that a_i reckons with."""
        return ClientNeeds(steps=True, momentum=self.client_momentum)

    def direction(self, cohort: Cohort) -> Direction:
        """The mean of updates per step, times the mean number of steps."""
        a, p = cohort.effective_steps(self.client_momentum), cohort.shares
        return Direction(gain=(p @ a) * p / a)
