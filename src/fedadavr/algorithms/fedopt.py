"""FedAdagrad, FedAdam, FedYogi (Reddi et al. 2021), as Flower 1.41's Message API computes them."""

from __future__ import annotations

from fedadavr.algorithms.fedavg import FedAvg
from fedadavr.algorithms.registry import register
from fedadavr.optimizers import Optimizer


@register("fedadagrad")
class FedAdagrad(FedAvg):
    """FedAvg's pseudo-gradient, stepped with Adagrad."""

    server_lr: float | None = 0.1
    """Rate of the server's step."""
    tau: float = 1e-3
    """Added to the denominator; Flower's legacy classes had 1e-9."""

    def _build_optimizer(self) -> Optimizer:
        return Optimizer(self.name, self.layout, lr=self.server_lr, eps=self.tau)


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
            beta1=self.beta1,
            beta2=self.beta2,
            eps=self.tau,
        )


@register("fedyogi")
class FedYogi(FedAdam):
    """FedAvg's pseudo-gradient, stepped with Yogi."""

    server_lr: float | None = 0.01
    """Rate of the server's step."""
