"""The rate of the server's step, learned from round to round: `server_lr="learned"`.

With G the round's gradient, m the first moment before it, u the direction of its step, d the number
of coordinates, and <x, y> = sum_j x_j y_j / (sqrt(v_j) + eps), the metric that the optimizer steps
in:

    c   = <G, m> / sqrt(<G, G> <m, m>)              does the round go on where the last ones went?
    a   = (a + c) / 2
    lr  = min(lr exp(a / 2), longest / |u|)         which acts in the next round
    longest = min(|w|, |w_0|) / 10

As long as rounds agree, steps were too short; when they turn back, too long. That is the sign of
the gradient of the loss after a step with respect to the rate of the steps before (hypergradient
descent: Almeida et al. 1999; Baydin et al. 2018), as a cosine, so that its size does not depend on
the loss, with the mean of some rounds in place of one step, since cohorts differ. It is blind where
a model was thrown far away, since there all gradients agree again: so no step is longer than a
tenth of the model, or of the first one, w_0, if that is shorter: steps that are too long make a
model grow, and must not make room for longer ones. A first model that is hardly there, as one of
zeros, is no measure: then longest = max(|w| / 10, reach), with reach the median length of the
round's updates over the number of the round, at first as long as FedAvg's own step. |w|, |w_0| and
d are of the tensors that the round moves: a frozen layer, or a constant among the weights, is none
of it. In the first round |u| is not known; no coordinate of an adaptive step is much above one
then, so that sqrt(d) stands for it. The rate starts at that bound, unless told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

GAIN = 0.5  # of the logarithm of the rate, by a
DECAY = 0.5  # of a
SHARE = 0.1  # of the model's length, that a step has at most
LEAST = 0.01  # a root mean square weight, below which the first model is no measure
SHORTEST = 1e-3  # a root mean square step that is always allowed
SMALLEST, LARGEST = 1e-12, 1e12  # rates


class LearnedRate:
    """The rate, and what it is learned from.

    Parameters
    ----------
    start : float, optional
        The first rate, where it is not above the bound; None: the bound.
    """

    def __init__(self, start: float | None = None) -> None:
        self.start = start
        self.rate: float | None = None
        """The next step's; None before the first."""
        self.used: float | None = None
        """The last step's, since this object was made."""
        self.agreement = 0.0
        self.first: float | None = None
        """The first model's length; None before the first step."""

    def next(self, length: float, size: int, direction: float, reach: float) -> float:
        """The next step's rate; in the first round, from the lengths of the model and direction."""
        if self.rate is not None:
            return self.rate
        bound = longest(length, length, size, reach) / direction
        return min(bound, bound if self.start is None else self.start)

    def learn(
        self, rate: float, products: Floats, length: float, size: int, step: float, reach: float
    ) -> None:
        """After a round.

        Parameters
        ----------
        rate : float
            That the round has used.
        products : Floats
            <G, m>, <m, m> and <G, G>.
        length, step : float
            |w| and |u|.
        size : int
            d.
        reach : float
            The median length of the round's updates, over the number of the round.
        """
        self.first = length if self.first is None else self.first
        across, before, now = (float(x) for x in products)
        square = before * now
        if math.isfinite(square) and square > 0:
            cosine = max(-1.0, min(1.0, across / math.sqrt(square)))
            self.agreement = DECAY * self.agreement + (1 - DECAY) * cosine
        new = rate * math.exp(GAIN * self.agreement)
        if math.isfinite(step) and step > 0:
            new = min(new, longest(length, self.first, size, reach) / step)
        self.used, self.rate = rate, max(SMALLEST, min(LARGEST, new))

    def state_dict(self) -> dict[str, Any]:
        """The rate of the next step, the agreement so far, the first model's length."""
        return {"rate": self.rate, "agreement": self.agreement, "first": self.first}

    @staticmethod
    def check_state(state: Mapping[str, Any] | None) -> None:
        """Raise unless it is a state of this; None, of a server whose rate was fixed, is."""
        if state is None:
            return
        rate, agreement, first = state["rate"], state["agreement"], state.get("first")
        bad = not (rate is None or SMALLEST <= rate <= LARGEST) or not -1 <= agreement <= 1
        if bad or not (first is None or 0 <= first < math.inf):
            raise ValueError(
                f"the state's learned rate is {rate!r}, its agreement {agreement!r}, and its first "
                f"model's length {first!r}; nothing was changed"
            )

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Take over a state made by `state_dict`; None: begin."""
        self.check_state(state)
        self.rate = None if state is None or state["rate"] is None else float(state["rate"])
        self.agreement = 0.0 if state is None else float(state["agreement"])
        first = None if state is None else state.get("first")  # which early states do not have
        self.first = None if first is None else float(first)
        self.used = None


def longest(length: float, first: float, size: int, reach: float) -> float:
    """The longest step of a model of that length and size.

    Parameters
    ----------
    length, first : float
        |w| and |w_0|.
    size : int
        d.
    reach : float
        The median length of the round's updates, over the number of the round.

    Examples
    --------
    >>> longest(5.0, 4.0, 10_000, 2.0), longest(5.0, 0.0, 10_000, 2.0)
    (0.4, 2.0)
    """
    root = math.sqrt(size)
    if first >= LEAST * root:
        return SHARE * max(min(length, first), LEAST * root)
    return max(SHARE * length, reach if math.isfinite(reach) else 0.0, SHORTEST * root)
