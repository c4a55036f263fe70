"""FedCM (Xu et al. 2021): clients blend their gradients with the federation's last one."""

from __future__ import annotations

import numpy as np

from fedadavr.algorithms.cohort import ClientNeeds, Cohort, Direction
from fedadavr.algorithms.past_gradients import MomentumAtClients
from fedadavr.algorithms.registry import register
from fedadavr.checks import number
from fedadavr.vector import Vector


@register("fedcm")
class FedCM(MomentumAtClients):
    """Clients step by alpha grad + (1 - alpha) Delta; w -= server_lr D, D = (1/|S|) sum (w - w_i).

    Delta <- D / (client_lr a), a the mean number of effective steps: the mean of what the clients
    stepped by.
    """

    alpha: float = 0.1
    """The weight of a client's own gradient against the federation's."""

    def __post_init__(self) -> None:
        if not 0 < number("alpha", self.alpha) <= 1:
            raise ValueError(f"alpha must lie in (0, 1], got {self.alpha!r}")
        super().__post_init__()

    @property
    def needs(self) -> ClientNeeds:
        """The blend, and the number of steps."""
        return ClientNeeds(
            correction=True, gradient_scale=self.alpha, steps=True, momentum=self.client_momentum
        )

    def correction(self, client: str) -> Vector:
        """(1 - alpha) Delta, the same for all; zero in the first round."""
        return np.float32(1 - self.alpha) * self.past.vectors[0]

    def direction(self, cohort: Cohort) -> Direction:
        """The plain mean."""
        return Direction(gain=cohort.even)
