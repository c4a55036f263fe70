"""FedCM (Xu et al. 2021): clients blend their gradients with the federation's last one."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from fedadavr.algorithms.base import Algorithm
from fedadavr.algorithms.cohort import ClientNeeds, Cohort, Direction, Floats, check_momentum
from fedadavr.algorithms.registry import register
from fedadavr.kernels import LARGEST
from fedadavr.optimizers import Optimizer
from fedadavr.vector import Vector


class PastGradients:
    """What the last rounds' mean gradients were: a round's mean update over its length in steps."""

    def __init__(self, size: int, rounds: int) -> None:
        self.vectors = np.zeros((rounds, size), np.float32)

    def keep(self, round: int, update: Vector, length: float) -> None:
        """A round, from 1: its update takes the place of the oldest."""
        into = self.vectors[(round - 1) % len(self.vectors)]
        with np.errstate(over="ignore"):
            np.divide(update, np.float32(length), out=into)
        np.clip(into, -LARGEST, LARGEST, out=into)

    def load(self, vectors: Any) -> None:
        """Take over those of a state; what does not fit changes nothing."""
        found = np.asarray(vectors)
        if found.shape != self.vectors.shape or found.dtype != np.float32:
            raise ValueError(
                f"the state's past gradients have shape {found.shape} and type {found.dtype}, this "
                f"server's {self.vectors.shape} and float32; nothing was changed"
            )
        if not np.isfinite(found).all():
            raise ValueError("the state's past gradients hold NaN or infinity; nothing was changed")
        self.vectors[...] = found


@register("fedcm")
class FedCM(Algorithm):
    """Clients step by alpha grad + (1 - alpha) Delta; w -= server_lr D, D = (1/|S|) sum (w - w_i).

    Delta <- D / (client_lr a), a the mean number of effective steps: the mean of what the clients
    stepped by.
    """

    alpha: float = 0.1
    """The weight of a client's own gradient against the federation's."""
    client_momentum: float = 0.0
    """Momentum of the clients' SGD, on which a depends; the authors have none."""

    past: PastGradients = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_momentum(self.client_momentum)
        if not 0 < self.alpha <= 1:
            raise ValueError(f"alpha must lie in (0, 1], got {self.alpha!r}")
        self.past = PastGradients(self.layout.size, 1)

    def _build_optimizer(self) -> Optimizer:
        return Optimizer("momentum", self.layout, lr=self.server_lr, beta1=0.0)  # m is D

    @property
    def needs(self) -> ClientNeeds:
        """The blend, and the number of steps."""
        return ClientNeeds(
            correction=True, gradient_scale=self.alpha, steps=True, momentum=self.client_momentum
        )

    def correction(self, client: str) -> Vector:
        """(1 - alpha) Delta, the same for all; zero in the first round."""
        return np.float32(1 - self.alpha) * self.past.vectors[0]

    def direction(self, cohort: Cohort) -> Direction:
        """The plain mean."""
        return Direction(gain=cohort.even)

    def learn(self, cohort: Cohort, products: Floats) -> None:
        """Delta, from the round's mean update."""
        steps = float(cohort.effective_steps(self.client_momentum).mean())
        self.past.keep(self.round, self.server_optimizer.m, self.client_lr * steps)

    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """The base's, and Delta."""
        vectors = self.past.vectors
        return super().state_dict(copy=copy) | {"past": vectors.copy() if copy else vectors}

    def load_state_dict(self, state: Any) -> None:
        """Take over a state made by `state_dict`; one that does not fit changes nothing."""
        if state.get("past") is None:
            raise ValueError("the state lacks past; nothing was changed")
        trial = PastGradients(self.layout.size, len(self.past.vectors))
        trial.load(state["past"])
        super().load_state_dict(state)
        self.past = trial
