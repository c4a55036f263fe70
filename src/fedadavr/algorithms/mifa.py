"""MIFA (Gu et al. 2021): step along the mean of everybody's last update."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedadavr.algorithms.base import Fading
from fedadavr.algorithms.cohort import ClientNeeds, Cohort, Direction
from fedadavr.algorithms.registry import register


@register("mifa")
class MIFA(Fading):
    """w -= server_lr * client_lr * (1/N) sum_j y_j, the cohort's y_i being its new updates."""

    waits = True

    warmup: Literal["all", "zeros", "seen"] = "all"
    """Everyone in the first round; or the unseen count as zero; or the mean is over the seen."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warmup not in ("all", "zeros", "seen"):
            raise ValueError(f"warmup must be 'all', 'zeros' or 'seen', got {self.warmup!r}")

    @property
    def needs(self) -> ClientNeeds:
        """With warmup="all", the first round takes everybody."""
        return ClientNeeds(everyone_first=self.warmup == "all")

    def direction(self, cohort: Cohort) -> Direction:
        """The mean after the cohort's updates have taken the place of the old ones."""
        among = self.memory.population.seen if self.warmup == "seen" else cohort.count
        gain = np.full(len(cohort), 1 / among)
        return Direction(gain=gain, recall=gain, base=1 / among)
