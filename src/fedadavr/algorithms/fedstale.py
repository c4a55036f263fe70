"""FedStale (Rodio and Neglia 2024): FedVARP that trusts its memory by a fixed share."""

from __future__ import annotations

from fedadavr.algorithms.cohort import Cohort, Direction
from fedadavr.algorithms.fedvarp import FedVARP
from fedadavr.algorithms.registry import register
from fedadavr.checks import number


@register("fedstale")
class FedStale(FedVARP):
    """v = (1/|S|) sum_S (g_i - beta y_i) + beta (1/N) sum_j y_j; w -= server_lr * client_lr * v.

    beta = 0 is FedAvg with equal weights, beta = 1 is FedVARP.
    """

    beta: float = 0.5
    """How far the stale updates are trusted, from 0 to 1; less where some clients hardly come."""

    def __post_init__(self) -> None:
        if not 0 <= number("beta", self.beta) <= 1:
            raise ValueError(f"beta must lie in [0, 1], got {self.beta!r}")
        super().__post_init__()

    def direction(self, cohort: Cohort) -> Direction:
        """FedVARP's, with `beta` of the memory."""
        full = super().direction(cohort)
        return Direction(full.gain, recall=self.beta * full.recall, base=self.beta * full.base)
