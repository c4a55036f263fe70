"""A federation whose answer is known: every client a quadratic, the optimum their mean.

All clients have the same size and Hessian and different optima, gradients are exact, and one
client in ten takes part: what is left of the error is what sampling clients does to an algorithm.
Two seconds here tell more about a new server algorithm than an hour of training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedadavr.algorithms import Algorithm, Update, algorithm, algorithm_names, settings_of
from fedadavr.vector import Layout, Vector


@dataclass(frozen=True)
class Quadratic:
    """f_i(w) = (w - x_i)' H (w - x_i) / 2, with H diagonal and the same for all."""

    clients: int = 50
    per_round: int = 5
    dimension: int = 20
    local_steps: int = 5
    client_lr: float = 0.05
    seed: int = 0

    @property
    def layout(self) -> Layout:
        """Two tensors, so that what is done tensor by tensor shows."""
        return Layout({"a": (self.dimension // 2,), "b": (self.dimension - self.dimension // 2,)})

    @cached_property
    def centers(self) -> npt.NDArray[np.float32]:
        """Each client's own optimum."""
        rng = np.random.default_rng(self.seed)
        return rng.normal(size=(self.clients, self.dimension)).astype(np.float32)

    @cached_property
    def curvature(self) -> npt.NDArray[np.float32]:
        """The diagonal of H."""
        return np.linspace(0.5, 2.0, self.dimension, dtype=np.float32)

    def optimum(self) -> npt.NDArray[np.float64]:
        """The mean of the clients' optima."""
        return self.centers.mean(axis=0, dtype=np.float64)

    def train(self, server: Algorithm, client: int, w: Vector) -> Update:
        """What a client sends back: exact gradient steps, with what the algorithm asks for."""
        needs, name = server.needs, str(client)
        correction = server.correction(name) if needs.correction else 0.0
        center, h, x = self.centers[client], self.curvature, w.copy()
        velocity = np.zeros_like(x)
        for _ in range(self.local_steps):
            gradient = needs.gradient_scale * h * (x - center) + correction
            gradient += needs.proximal_mu * (x - w)
            velocity = (needs.momentum or 0.0) * velocity + gradient
            x -= np.float32(self.client_lr) * velocity
        return Update(name, x.astype(np.float32), examples=10, steps=self.local_steps)

    def train_from_own(
        self, server: Algorithm, client: int, models: dict[int, tuple[int, Vector]], round: int
    ) -> Update:
        """As FedAWE's clients do: from the model of its last visit, and as many times as far."""
        came, start = models.get(client, (0, self.layout.zeros()))
        reply = self.train(server, client, start)
        factor = np.float32(server.needs.echo * (round - came))
        return replace(reply, weights=start - factor * (start - np.asarray(reply.weights)))

    def solve(self, name: str, rounds: int, **settings: Any) -> list[float]:
        """Run an algorithm; the distance from the optimum after each round."""
        server = algorithm(name, self.layout, client_lr=self.client_lr, **settings)
        w, optimum, distances = self.layout.zeros(), self.optimum(), []
        rng = np.random.default_rng(self.seed + 1)
        models: dict[int, tuple[int, Vector]] = {}  # of clients' last visits
        for t in range(rounds):
            everyone = t == 0 and server.needs.everyone_first
            size = self.clients if everyone else self.per_round
            cohort: Sequence[int] = rng.choice(self.clients, size, replace=False).tolist()
            if server.needs.echo:
                replies = [self.train_from_own(server, i, models, t + 1) for i in cohort]
            else:
                replies = [self.train(server, i, w) for i in cohort]
            w = server.step(w, replies)
            if server.needs.echo:
                models |= dict.fromkeys(cohort, (t + 1, w))
            distances.append(float(np.linalg.norm(w - optimum)))
        return distances


ADAPTIVE = ("adam", "yogi", "adabelief", "adagrad", "lamb")


def cases(problem: Quadratic) -> list[tuple[str, dict[str, Any]]]:
    """Every algorithm, with each adaptive optimizer where it has a choice of one."""
    found: list[tuple[str, dict[str, Any]]] = []
    for name in algorithm_names():
        known = settings_of(name)
        memory = {"population": problem.clients} if "population" in known else {}
        choices = ADAPTIVE if "optimizer" in known else (None,)
        found += [(name, memory | ({"optimizer": o} if o else {})) for o in choices]
    return found
