"""What the last rounds' mean gradients were, for algorithms that send them to their clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedadavr.algorithms.base import Algorithm
from fedadavr.algorithms.cohort import Cohort, Floats, check_momentum
from fedadavr.kernels import LARGEST
from fedadavr.optimizers import Optimizer
from fedadavr.vector import Vector


class PastGradients:
    """A round's mean gradient is its update over its length, the rate times the steps."""

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
            raise ValueError(
                "the state's past gradients hold NaN or infinity: see fedadavr memory repair"
            )
        self.vectors[...] = found


@dataclass(kw_only=True, eq=False)
class MomentumAtClients(Algorithm):
    """An algorithm whose server steps plainly and remembers the mean gradients of late."""

    client_momentum: float = 0.0
    """Momentum of the clients' SGD, on which the number of effective steps depends."""

    past: PastGradients = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_momentum(self.client_momentum)
        self.past = PastGradients(self.layout.size, self._rounds())

    def _rounds(self) -> int:
        """How many rounds' gradients are kept."""
        return 1

    def _build_optimizer(self) -> Optimizer:
        return Optimizer("momentum", self.layout, lr=self.server_lr, beta1=0.0)  # m: the update

    def learn(self, cohort: Cohort, products: Floats) -> None:
        """The round's mean gradient, from its mean update."""
        steps = float(cohort.effective_steps(self.client_momentum).mean())
        self.past.keep(self.round, self.server_optimizer.m, self.client_lr * steps)

    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """The base's, and the past gradients."""
        vectors = self.past.vectors
        return super().state_dict(copy=copy) | {"past": vectors.copy() if copy else vectors}

    def load_state_dict(self, state: Any) -> None:
        """Take over a state made by `state_dict`; one that does not fit changes nothing."""
        if state.get("past") is None:
            raise ValueError("the state lacks past; nothing was changed")
        trial = PastGradients(self.layout.size, self._rounds())
        trial.load(state["past"])
        super().load_state_dict(state)
        self.past = trial
