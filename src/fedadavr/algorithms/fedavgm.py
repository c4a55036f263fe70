"""FedAvgM (Hsu, Qi and Brown 2019): FedAvg with momentum at the server, as Flower computes it."""

from __future__ import annotations

from fedadavr.algorithms.fedavg import FedAvg
from fedadavr.algorithms.registry import register
from fedadavr.checks import number
from fedadavr.optimizers import Optimizer


@register("fedavgm")
class FedAvgM(FedAvg):
    """m <- server_momentum m + sum p_i (w - w_i); w -= server_lr m."""

    server_lr: float | None = 1.0
    """Rate of the server's step; a lasting direction is stepped 1/(1 - server_momentum) as far."""
    server_momentum: float = 0.9
    """Decay of the momentum; 0 is FedAvg, which is Flower's default."""

    def _build_optimizer(self) -> Optimizer:
        if not 0 <= number("server_momentum", self.server_momentum) < 1:
            raise ValueError(f"server_momentum must lie in [0, 1), got {self.server_momentum!r}")
        return Optimizer("momentum", self.layout, lr=self.server_lr, beta1=self.server_momentum)
