"""FedBuff (Nguyen et al. 2022): the server does not wait, and steps when a buffer is full."""

from __future__ import annotations

import math

from fedadavr.algorithms.base import Algorithm
from fedadavr.algorithms.cohort import Cohort, Direction
from fedadavr.algorithms.registry import register
from fedadavr.checks import number


@register("fedbuff")
class FedBuff(Algorithm):
    """w -= server_lr (1/K) sum_i (1 + age_i)^(-discount) (w_start - w_i), over K replies.

    A reply is taken against the model that it started from, age_i steps ago. Where the server
    waits for a round's replies all ages are 0, and it is FedAvg with equal weights.
    """

    discount: float = 0.5
    """How much less an old reply counts; 0: as much as a new one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(number("discount", self.discount)) and self.discount >= 0):
            raise ValueError(f"discount must be a finite number from 0 up, got {self.discount!r}")

    def direction(self, cohort: Cohort) -> Direction:
        """The mean, the old ones counting less; it is not normalized by that."""
        return Direction(gain=cohort.even * (1 + cohort.ages) ** -self.discount)
