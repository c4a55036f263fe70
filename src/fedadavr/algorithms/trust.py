"""How far to trust each memory: the control variates' coefficients, learned from the cohorts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

RIDGE = 1e-3


class Trust:
    """alpha minimizes the variance alpha' C_yy alpha - 2 alpha' C_yg of the corrected mean.

    C holds the weighted, centered products of (g, y^1, ...) over a cohort, divided by the round's
    C_gg and averaged over rounds. Before the first cohort there is no trust.

    Parameters
    ----------
    memories : int
        How many there are.
    fixed : float, optional
        The same trust in all, at all times; None: learned.
    decay : float
        Of the average over rounds.
    """

    def __init__(self, memories: int, fixed: float | None, decay: float) -> None:
        self.fixed, self.decay = fixed, decay
        self.products = np.zeros((memories + 1, memories + 1))
        self.alpha = np.full(memories, 0.0 if fixed is None else fixed)

    def learn(self, products: Floats) -> None:
        """A round's products; the trust that follows holds from the next round on."""
        if products[0, 0] > 0 and np.isfinite(products).all():
            with np.errstate(over="ignore"):
                new = products / products[0, 0]
            if np.isfinite(new).all():
                self.products = self.decay * self.products + (1 - self.decay) * new
        if self.fixed is None:
            self.alpha = smallest_variance(self.products)

    def state_dict(self) -> dict[str, Any]:
        """The average products, and the trust."""
        return {"products": self.products.copy(), "alpha": self.alpha.copy()}

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raise unless the state fits; changes nothing."""
        for name, mine in (("products", self.products), ("alpha", self.alpha)):
            array = np.asarray(state[name])
            if array.shape != mine.shape or array.dtype != mine.dtype:
                raise ValueError(
                    f"the state's trust has {name} of shape {array.shape} and type {array.dtype}, "
                    f"this server {mine.shape} and {mine.dtype}; nothing was changed"
                )
            if not np.isfinite(array).all():
                raise ValueError(f"the state's trust has {name} that hold NaN or infinity")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state made by `state_dict`."""
        self.check_state(state)
        self.products = np.array(state["products"])
        if self.fixed is None:
            self.alpha = np.array(state["alpha"])


def smallest_variance(products: Floats) -> Floats:
    """The best alpha in the unit cube: the best of the optima on all of its faces.

    >>> smallest_variance(np.array([[1.0, 0.9], [0.9, 0.9]])).round(2).tolist()
    [1.0]
    """
    inner, cross = products[1:, 1:].copy(), products[1:, 0]
    np.fill_diagonal(inner, np.maximum(np.diag(inner), 0.0))  # below it is rounding
    count = len(cross)
    if not inner.any():
        return np.zeros(count)
    inner += RIDGE * np.mean(np.diag(inner)) * np.eye(count)
    best, least = np.zeros(count), 0.0
    for face in product((0.0, 1.0, None), repeat=count):
        alpha = np.array([0.0 if x is None else x for x in face])
        free = np.array([x is None for x in face])
        if free.any():
            rest = cross[free] - inner[np.ix_(free, ~free)] @ alpha[~free]
            try:
                alpha[free] = np.linalg.solve(inner[np.ix_(free, free)], rest)
            except np.linalg.LinAlgError:
                continue  # updates so alike that their variances are only rounding
            if not ((alpha >= 0).all() and (alpha <= 1).all()):
                continue
        value = alpha @ inner @ alpha - 2 * alpha @ cross
        if value < least:
            best, least = alpha, value
    return best
