"""The paper's theorem of convergence (theo:con), as formulas: its conditions, bound and proof.

It is about FedAdaVR with Adagrad. A, A_1, A_2, A_3 and Gamma are the paper's names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

TINY = 1e-9
"""Relative room for rounding where a rate is exactly at its limit."""


@dataclass(frozen=True)
class Constants:
    """What the theorem is told of a problem, and of how it is run."""

    L: float
    mu: float
    sigma: float
    sigma_g: float
    G: float
    gap: float
    """f(w0) - f*."""
    first: float
    """|grad f(w0)|."""
    clients: int
    per_round: int
    local_steps: int
    rounds: int
    epsilon: float

    @property
    def missing(self) -> float:
        """(N - M) / (M (N - 1)): the variance that sampling without replacement leaves."""
        N, M = self.clients, self.per_round
        return (N - M) / (M * (N - 1)) if N > 1 else 0.0

    @property
    def A(self) -> float:
        """1 + 4 (N - M) / (M (N - 1)); the proof calls it B."""
        return 1 + 4 * self.missing


@dataclass(frozen=True)
class Condition:
    """One condition: what is printed, the two numbers, and whether it holds."""

    text: str
    value: float
    limit: float
    at_least: bool = False
    """The value must be at least the limit; else at most."""

    @property
    def holds(self) -> bool:
        """Whether it holds, but for rounding."""
        if self.at_least:
            return self.value >= self.limit * (1 - TINY)
        return self.value <= self.limit * (1 + TINY)


def server_limits(c: Constants) -> dict[str, float]:
    """The theorem's limits of eta_s, as printed."""
    return {
        "1/(3L)": 1 / (3 * c.L),
        "sqrt(1/(12 eps L^2))": math.sqrt(1 / (12 * c.epsilon * c.L**2)),
    }


def client_limits(c: Constants) -> dict[str, float]:
    """The theorem's limits of eta_c, as printed; those with K - 1 do not bind for K = 1."""
    K, e, root = c.local_steps, c.epsilon, math.sqrt(c.rounds)
    drift = 64 * c.A * c.L**2 * K**2 * (K - 1) * c.G * root
    steps = 8 * math.sqrt(c.A) * c.L * math.sqrt(K * (K - 1))
    return {
        "(eps/(64 A L^2 K^2 (K-1) G sqrt(T)))^(1/3)": (e / drift) ** (1 / 3) if drift else math.inf,
        "1/(8 sqrt(A) L sqrt(K(K-1)))": 1 / steps if steps else math.inf,
        "eps^2/(6 K G^2)": e**2 / (6 * K * c.G**2),
        "eps/(4 (eps+2) K G sqrt(T))": e / (4 * (e + 2) * K * c.G * root),
    }


def largest_rates(c: Constants) -> tuple[float, float]:
    """The largest eta_c and eta_s that the theorem admits."""
    return min(client_limits(c).values()), min(server_limits(c).values())


def printed_conditions(c: Constants, client_lr: float, server_lr: float) -> list[Condition]:
    """The conditions that the theorem prints."""
    return [
        *(Condition(f"eta_s <= {k}", server_lr, v) for k, v in server_limits(c).items()),
        *(Condition(f"eta_c <= {k}", client_lr, v) for k, v in client_limits(c).items()),
    ]


def gamma(c: Constants, client_lr: float, server_lr: float) -> float:
    """The proof's Gamma where it is largest: in the first round, where z is 0."""
    K, e = c.local_steps, c.epsilon
    return server_lr * (1 / e - (1 + 8 * c.A * (client_lr * c.L) ** 2 * K * (K - 1)) / (2 * e))


def silent_conditions(c: Constants, client_lr: float, server_lr: float) -> Iterator[Condition]:
    """What the proof takes for granted, beyond what the theorem prints."""
    K, e = c.local_steps, c.epsilon
    yield Condition("Gamma >= 1/4", gamma(c, client_lr, server_lr), 0.25, at_least=True)
    yield Condition("B eta_s/eps <= 1", c.A * server_lr / e, 1.0)
    real = server_lr * client_lr * K
    factor = 4 * (real * c.L) ** 2 * c.missing + 2 * client_lr * K * c.G**2 / e**2
    text = "4 (eta_s eta_c K L)^2 (N-M)/(M(N-1)) + 2 eta_c K G^2/eps^2 + eta_s L/eps <= 1"
    yield Condition(text, factor + server_lr * c.L / e, 1.0)
    yield Condition("eps <= 1", e, 1.0)


@dataclass(frozen=True)
class BoundTerms:
    """The right side of the theorem, term by term, each with its factor 4."""

    start: float
    drift: float
    noise: float
    rest: float
    rescaled: float
    """All of it, but the first term with the rate of the server's real step."""

    @property
    def total(self) -> float:
        """What the theorem says min E|grad f|^2 is at most."""
        return self.start + self.drift + self.noise + self.rest


def bound(c: Constants, client_lr: float, server_lr: float) -> BoundTerms:
    """4 (f(w0) - f*)/T + 4 (A_1 sigma_g^2 + A_2 sigma^2 + A_3), as printed."""
    K, M, e = c.local_steps, c.per_round, c.epsilon
    a1 = 4 * (client_lr * c.L) ** 2 * K * (K - 1)
    a2 = (client_lr * c.L) ** 2 * (K - 1) + server_lr / (2 * M * K * e) + server_lr / (M * e)
    a3 = server_lr / (2 * e**2) * (client_lr * K * M * c.G) ** 2
    start, drift, noise, rest = (
        4 * c.gap / c.rounds, 4 * a1 * c.sigma_g**2, 4 * a2 * c.sigma**2, 4 * a3,
    )  # fmt: skip
    rescaled = start * e / (server_lr * client_lr * K) + drift + noise + rest
    return BoundTerms(start, drift, noise, rest, rescaled)


def floor(c: Constants) -> float:
    """What |grad f|^2 cannot fall below in T rounds of exact gradients at any admitted rates.

    |r| <= 3 K G, so a step is at most 3 eta_s eta_c K G/eps; T of them, with eta_s <= 1/(3L) and
    eta_c <= eps/(4 (eps+2) K G sqrt(T)), move the gradient by at most sqrt(T)/(4 (eps+2)).
    """
    return max(0.0, c.first - math.sqrt(c.rounds) / (4 * (c.epsilon + 2))) ** 2
