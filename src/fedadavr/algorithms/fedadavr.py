"""FedAdaVR, FedAdaVR-Quant, and the two ablations that take one half of it away.

One round, line by line as the paper's Algorithm 1 has it (t is the round, S the cohort, eta_c the
clients' rate; what differs is marked *):

    for i in S: w_i <- local SGD from w                                   (the clients)
    g_i <- (w - w_i) / eta_c                                              `Round`
    r   <- sum_S p_i (g_i - y_i) + sum_j p_j y_j                          `variance_reduced`  *1
    y_i <- Quant(g_i) for i in S; all others stay                         `Stored`, the codec *2
    G   <- eta_c r                                                        `OptimizerStep.client_lr`
    w   <- optimizer(w, G)                                                `optimizers/`       *3

*1 In the first sum p_i = n_i/a is normalized over the cohort (`weighting="cohort"`); read
   literally, as a share of the population, the two sums collapse into MIFA's, which does not train.
*2 y_i in the first sum is what was stored, decoded, in the quantized variant, too.
*3 Weight decay is added once; LAMB's trust ratio is per tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fedadavr.algorithms.base import Adaptive, Fading
from fedadavr.algorithms.cohort import Cohort, Direction
from fedadavr.algorithms.registry import register
from fedadavr.memory.own import Weighting
from fedadavr.optimizers import Rate

Weights = Literal["cohort", "population", "ht"]


def variance_reduced(cohort: Cohort, weighting: Weights) -> Direction:
    """r = sum_S p_i (g_i - y_i) + (1/P) sum_j n_j y_j.

    y_j is what is remembered of client j, a sums the examples of the cohort and P those of the
    population. p_i is n_i/a; or n_i/P, as the paper reads literally: then the two sums collapse
    into the mean of the new memory (SAG), biased while the memory fills; or N n_i/(|S| P), Horvitz
    and Thompson's, unbiased also for unequal sizes.
    """
    n, N, P = cohort.examples, cohort.count, cohort.weight
    if weighting == "cohort":
        p = cohort.shares
    elif weighting == "population":
        p = n / P
    else:
        p = n * (N / (len(cohort) * P))
    return Direction(gain=p, recall=p, base=1 / P)


@dataclass(kw_only=True, eq=False)
class _VarianceReduced(Fading):
    """The memory of FedAdaVR: every client's last update, weighed by its examples."""

    weighting: Weights = "cohort"
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
        return variance_reduced(cohort, self.weighting)


@register("fedadavr")
class FedAdaVR(Adaptive, _VarianceReduced):
    """The variance-reduced mean update, stepped with an adaptive optimizer."""

    learns: ClassVar[bool] = True

    server_lr: Rate | None = None  # type: ignore[assignment]
    """Rate of the server's step; learned: from round to round, which None is, too, if it can be."""
    averaging: bool | None = None
    """Serve a mean of the models so far, late ones most; None: where the rate is learned."""


@register("fedadavr-quant")
class FedAdaVRQuant(FedAdaVR):
    """FedAdaVR with its memory quantized."""

    codec: str = "fp16"
    """Stored as fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1."""


@register("fedadavr-noopt")
class FedAdaVRNoOpt(_VarianceReduced):
    """FedAdaVR without its optimizer: w -= server_lr * client_lr * r."""


@register("fedadavr-novr")
class FedAdaVRNoVR(Adaptive):
    """FedAdaVR without its memory: an adaptive step along the cohort's mean update."""

    def direction(self, cohort: Cohort) -> Direction:
        """Each client's share of the cohort's examples."""
        return Direction(gain=cohort.shares)
