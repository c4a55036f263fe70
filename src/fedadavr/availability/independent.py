"""independent: in every round each client is there with a probability of its own.

All have p, or each has its own: drawn from a Beta distribution of mean p, or by its data, in the
manner of FedAU (Wang & Ji 2024). There every class c has a weight q_c, drawn from a Dirichlet
distribution, and p_i is proportional to the sum over c of q_c times the share of c in client i's
data, scaled so that the mean of all p_i is p, none below `least`. So who comes often is also alike.
"""

from typing import Literal

import numpy as np

from fedadavr.availability.base import (
    Availability,
    Clients,
    Floats,
    Mask,
    check_positive,
    check_share,
)
from fedadavr.availability.registry import availability


@availability("independent")
class Independent(Availability):
    """There with a probability, whatever was before."""

    p: float = 0.2
    """Probability that a client is there, in the mean over the clients."""
    each: Literal["same", "beta", "label"] = "same"
    """A client's own: p for all, drawn from a Beta distribution, or by the labels of its data."""
    concentration: float = 1.0
    """How alike the clients (beta) or the classes (label) are: the larger, the more alike."""
    least: float = 0.02
    """No client's probability is below this (beta and label)."""

    def check(self) -> None:
        """Probabilities are probabilities."""
        check_share("p", self.p)
        check_share("least", self.least)
        check_positive("concentration", self.concentration)
        if self.each != "same" and not self.least <= self.p < 1:
            raise ValueError(
                f"p must lie in [least, 1) where clients differ, got p={self.p:g}, "
                f"least={self.least:g}"
            )
        if self.each == "beta" and self.p == 0:
            raise ValueError("p must be above 0 where clients differ, got 0")

    def probabilities(self, clients: Clients) -> Floats:
        """Each client's own."""
        return clients.once((self, "p"), lambda: self._probabilities(clients))

    def _probabilities(self, clients: Clients) -> Floats:
        rng, k = clients.draws(0), self.concentration
        if self.each == "same":
            return np.full(clients.number, self.p)
        if self.each == "beta":
            drawn = rng.beta(2 * k * self.p, 2 * k * (1 - self.p), clients.number)
            return np.maximum(drawn, self.least)
        shares = clients.counts / clients.counts.sum(axis=0)
        weights = rng.dirichlet(np.full(len(shares), k))
        return with_mean(weights @ shares, self.p, self.least)

    def there(self, round: int, clients: Clients) -> Mask:
        """A draw for each."""
        return clients.draws(round).random(clients.number) < self.probabilities(clients)


def with_mean(values: Floats, mean: float, least: float) -> Floats:
    """The values times a number, cut to [least, 1], so that this is their mean."""
    low, high = 0.0, 1.0 / max(values[values > 0].min(initial=1.0), 1e-12)
    for _ in range(100):
        middle = (low + high) / 2
        if np.clip(middle * values, least, 1).mean() < mean:
            low = middle
        else:
            high = middle
    return np.clip(high * values, least, 1)
