"""FedAdaVR, FedAdaVR-Quant, and the two ablations that take one half of it away."""

from __future__ import annotations

from typing import Literal

from fedadavr.algorithms.base import Adaptive, Cohort, Direction, Remembering
from fedadavr.algorithms.registry import register
from fedadavr.memory.own import Weighting


@register("fedadavr-noopt")
class FedAdaVRNoOpt(Remembering):
    """FedAdaVR without its optimizer: w -= server_lr * client_lr * r.

    r = sum_S (n_i/a) (g_i - y_i) + (1/P) sum_j n_j y_j, where y_j is what is remembered of client
    j, a sums the examples of the cohort and P those of the population.
    """

    weighting: Literal["cohort", "population", "ht"] = "cohort"
    """The first sum's weights: n_i/a; n_i/P, as the paper reads literally; or N n_i/(|S| P)."""

    def __post_init__(self) -> None:
        if self.weighting not in ("cohort", "population", "ht"):
            raise ValueError(
                f"weighting must be 'cohort', 'population' or 'ht', got {self.weighting!r}"
            )
        super().__post_init__()

    def _weights(self) -> Weighting:
        return "examples"

    def direction(self, cohort: Cohort) -> Direction:
        """The cohort's news against its own memory, and the mean of all memory."""
        # With n_i/P the two sums collapse into the mean of the new memory (SAG): biased while the
        # memory fills. "ht" is Horvitz and Thompson's, unbiased also for unequal sizes.
        gain = {
            "cohort": cohort.shares,
            "population": cohort.examples / cohort.weight,
            "ht": cohort.examples * (cohort.count / (len(cohort) * cohort.weight)),
        }[self.weighting]
        return Direction(gain=gain, recall=gain, base=1 / cohort.weight)


@register("fedadavr-novr")
class FedAdaVRNoVR(Adaptive):
    """FedAdaVR without its memory: an adaptive step along the cohort's mean update."""

    def direction(self, cohort: Cohort) -> Direction:
        """Each client's share of the cohort's examples."""
        return Direction(gain=cohort.shares)


@register("fedadavr")
class FedAdaVR(Adaptive, FedAdaVRNoOpt):
    """The variance-reduced mean update, stepped with an adaptive optimizer."""


@register("fedadavr-quant")
class FedAdaVRQuant(FedAdaVR):
    """FedAdaVR with its memory quantized."""

    codec: str = "fp16"
    """How updates are stored: fp32, fp16, int8 or int4."""
