"""The model that is served: a mean of the models so far, in which late ones count most.

With w_t the model after step t and k = 8,

    x_t = x_{t-1} + c_t (w_t - x_{t-1}),    c_t = (k + 1) / (t + k),

which is a mean over about the last ninth of the rounds, however many there are: polynomial-decay
averaging (Shamir and Zhang 2013). Clients train from w_t, so that nothing changes in training; x_t
is what is evaluated and handed out. A cohort of few clients pulls w_t to whoever came, to and fro;
x_t lies in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedadavr import kernels
from fedadavr.vector import Layout, Vector

POWER = 8  # k


class ModelAverage:
    """The mean of the models before the newest one, which whoever made it may still change."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.mean = np.zeros(layout.size, np.float32)
        self.count = 0
        """How many models are in it."""

    def served(self, w: Vector, out: Vector | None = None) -> Vector:
        """The mean with the newest model in it."""
        out = np.empty_like(self.mean) if out is None else out
        part = share(self.count + 1)
        kernels.run(kernels.blend, self.layout.blocks, part, self.mean, w, out)
        return out

    def take(self, w: Vector) -> None:
        """Count the newest model for good, before the next one is made."""
        self.served(w, out=self.mean)
        self.count += 1

    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """The mean, and how many models are in it."""
        return {"mean": self.mean.copy() if copy else self.mean, "count": self.count}

    def check_state(self, state: Mapping[str, Any] | None) -> None:
        """Raise unless it is a state of this; None, of a server that served its models, is."""
        if state is None:
            return
        mean, count = np.asarray(state["mean"]), state["count"]
        if mean.shape != self.mean.shape or mean.dtype != np.float32:
            raise ValueError(
                f"the state's average model has shape {mean.shape} and type {mean.dtype}, need "
                f"{self.mean.shape} and float32; nothing was changed"
            )
        if type(count) is not int or count < 0 or not np.isfinite(mean).all():
            raise ValueError(
                f"the state's average model, of {count!r} models, holds NaN or infinity, or is of "
                "no number of models; nothing was changed"
            )

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Take over a state made by `state_dict`; None: begin."""
        self.check_state(state)
        self.mean[...] = 0 if state is None else state["mean"]
        self.count = 0 if state is None else state["count"]


def share(number: int) -> float:
    """How much the newest of so many models counts.

    >>> share(1), share(10)
    (1.0, 0.5)
    """
    return (POWER + 1) / (number + POWER)
