"""FedAdagrad, FedAdam, FedYogi (Reddi et al. 2021), as Flower 1.41's Message API computes them."""

from __future__ import annotations

from fedadavr.algorithms.base import RateLearning
from fedadavr.algorithms.fedavg import FedAvg
from fedadavr.algorithms.registry import register
from fedadavr.optimizers import Optimizer, Rate


@register("fedadagrad")
class FedAdagrad(RateLearning, FedAvg):
    """FedAvg's pseudo-gradient, stepped with Adagrad."""

    server_lr: Rate | None = 0.1  # type: ignore[assignment]
    """Rate of the server's step; learned: found from round to round."""
    tau: float = 1e-3
    """Added to the denominator; Flower's legacy classes had 1e-9."""

    def _build_optimizer(self) -> Optimizer:
        return Optimizer(
            self.name,
            self.layout,
            lr=self.server_lr,
            lr_start=self.server_lr_start,
            eps=self.tau,
        )


@register("fedadam")
class FedAdam(FedAdagrad):
    """FedAvg's pseudo-gradient, stepped with Adam."""

    beta1: float = 0.9
    """Decay of the first moment."""
    beta2: float = 0.99
    """Decay of the second moment."""

    def _build_optimizer(self) -> Optimizer:
        return Optimizer(
            self.name,
            self.layout,
            lr=self.server_lr,
            lr_start=self.server_lr_start,
            beta1=self.beta1,
            beta2=self.beta2,
            eps=self.tau,
        )


@register("fedyogi")
class FedYogi(FedAdam):
    """FedAvg's pseudo-gradient, stepped with Yogi."""

    server_lr: Rate | None = 0.01  # type: ignore[assignment]
    """Rate of the server's step; learned: found from round to round."""
