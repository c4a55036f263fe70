"""FedExP (Jhunjhunwala, Wang and Joshi 2023): FedAvg that steps further where clients disagree."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from fedadavr.algorithms.cohort import Cohort, Direction, Floats
from fedadavr.algorithms.fedavg import FedAvg
from fedadavr.algorithms.registry import register
from fedadavr.kernels.terms import OptimizerStep
from fedadavr.optimizers import Optimizer
from fedadavr.optimizers.optimizer import Flags
from fedadavr.vector import Layout, Vector


class Extrapolation(Optimizer):
    """Plain steps, held back until the length of the mean update is known, and then scaled by it.

    `squares` is the mean square of the updates' lengths, which the algorithm tells before a step.
    """

    def __init__(self, layout: Layout, lr: float | None, eps: float) -> None:
        super().__init__("momentum", layout, lr=lr, beta1=0.0, eps=eps)
        self.squares, self.extrapolation = 0.0, 1.0

    def next(
        self, client_lr: float = 1.0, w: Vector | None = None, reach: float = 0.0,
        moved: Flags | None = None,
    ) -> OptimizerStep:  # fmt: skip
        """The numbers of the next step, which waits for the norms."""
        return super().next(client_lr, w, reach, moved)._replace(hold=True)

    def _trust(self, norms: Floats) -> Floats:
        """eta_g, for every tensor."""
        mean = float(norms[1].sum())
        self.extrapolation = min(max(1.0, self.squares / (2 * (mean + self.eps))), 1e30)
        return np.full(len(self.layout.shapes), self.extrapolation)


@register("fedexp")
class FedExP(FedAvg):
    """w -= server_lr eta_g D, D = sum p_i D_i; eta_g = max(1, sum p_i |D_i|^2 / (2 (|D|^2 + eps))).

    D_i = w - w_i. The more the updates differ, the shorter is their mean against them, and the
    further the step goes.
    """

    eps: float = 1e-3
    """Added to |D|^2: less extrapolation where updates are short."""

    server_optimizer: Extrapolation = field(init=False, repr=False)

    def _build_optimizer(self) -> Optimizer:
        return Extrapolation(self.layout, self.server_lr, self.eps)

    def direction(self, cohort: Cohort) -> Direction:
        """FedAvg's; the step's length is the optimizer's."""
        self.server_optimizer.squares = float(cohort.shares @ cohort.lengths**2)
        return super().direction(cohort)

    def report(self) -> dict[str, Any]:
        """How far the last step was extrapolated."""
        return super().report() | {"extrapolation": self.server_optimizer.extrapolation}
