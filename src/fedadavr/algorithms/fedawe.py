"""FedAWE (Xiang et al. 2024): who was away makes up for it, and starts from its own last model."""

from __future__ import annotations

from fedadavr.algorithms.base import Algorithm
from fedadavr.algorithms.cohort import ClientNeeds, Cohort, Direction
from fedadavr.algorithms.registry import register
from fedadavr.checks import positive
from fedadavr.optimizers import Optimizer


@register("fedawe")
class FedAWE(Algorithm):
    """w <- (1/|S|) sum_S (x_i - server_lr a_i (x_i - w_i)), a_i the rounds since i last came.

    x_i is the model after the last round that client i came to, the first model if it never did;
    it trains from there to w_i. So what is learned from those that come seldom counts more, and
    models are averaged as by gossip.
    """

    waits = True

    @property
    def needs(self) -> ClientNeeds:
        """Clients that start from the model of their last visit, and go a_i times as far."""
        return ClientNeeds(echo=1.0 if self.server_lr is None else self.server_lr)

    def _build_optimizer(self) -> Optimizer:
        if self.server_lr is not None:
            positive("server_lr", self.server_lr)
        return Optimizer("sgd", self.layout, lr=1.0)  # the clients have stepped by server_lr

    def direction(self, cohort: Cohort) -> Direction:
        """The plain mean."""
        return Direction(gain=cohort.even)
