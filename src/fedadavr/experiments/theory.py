"""The theorem, checked where everything it names is known: a federation of noisy quadratics.

f_i(w) = (w - x_i)' H_i (w - x_i) / 2 with H_i diagonal, and gradients with noise of a known
variance. The servers are the real ones; what is measured is measured in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedadavr.algorithms import Algorithm, Update, algorithm, settings_of
from fedadavr.experiments.quadratic import Quadratic
from fedadavr.experiments.theorem import (
    BoundTerms,
    Condition,
    Constants,
    bound,
    floor,
    largest_rates,
    printed_conditions,
    silent_conditions,
)
from fedadavr.vector import Vector

Doubles = npt.NDArray[np.float64]

LEAST_UPDATE, LEAST_STEP = 1e-5, 1e-6
"""Clients' updates and server's steps that are shorter, as shares of the model, float32 loses."""


@dataclass(frozen=True)
class NoisyQuadratic(Quadratic):
    """Quadratics of different curvature, a start far away, and noise in the gradients."""

    sigma: float = 2.0
    """E|noise|^2 of a gradient is sigma^2 exactly: Gaussian, sigma^2/d per coordinate."""
    spread: float = 0.5
    """A client's curvatures are the common ones times 1 - spread to 1 + spread."""
    scale: float = 1.0
    """What all curvatures are multiplied with."""
    distance: float = 10.0
    """How far from the optimum it begins."""

    def __post_init__(self) -> None:
        for name, least in (("clients", 1), ("per_round", 1), ("dimension", 2), ("local_steps", 1)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name} must be a whole number from {least} up, got {value!r}")
        if self.per_round > self.clients:
            raise ValueError(
                f"per_round is {self.per_round}, but there are only {self.clients} clients"
            )
        for name in ("client_lr", "scale", "distance"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"{name} must be a finite number above 0, got {value!r}")
        if not 0 <= self.sigma < math.inf:
            raise ValueError(f"sigma must be a finite number from 0 up, got {self.sigma!r}")
        if not 0 <= self.spread < 1:
            raise ValueError(f"spread must lie in [0, 1), got {self.spread!r}")

    @cached_property
    def curvatures(self) -> Doubles:
        """The diagonals of the clients' H_i."""
        rng = np.random.default_rng((self.seed, 1))
        factors = 1 + self.spread * rng.uniform(-1, 1, size=(self.clients, self.dimension))
        return self.scale * np.asarray(self.curvature, dtype=np.float64) * factors

    @cached_property
    def mean_curvature(self) -> Doubles:
        """The diagonal of f's Hessian."""
        return np.asarray(self.curvatures.mean(axis=0))

    def optimum(self) -> Doubles:
        """Where the clients' gradients sum to zero."""
        return np.asarray((self.curvatures * self.centers).mean(axis=0) / self.mean_curvature)

    def start(self) -> Vector:
        """Away from the optimum, as far along every axis."""
        w = self.optimum() + self.distance / math.sqrt(self.dimension)
        return w.astype(np.float32)

    def gradient(self, w: npt.NDArray[Any]) -> Doubles:
        """The gradient of f, the mean of the clients' functions."""
        return np.asarray(self.mean_curvature * (np.asarray(w, np.float64) - self.optimum()))

    def value(self, w: npt.NDArray[Any]) -> float:
        """f(w), of which `value(optimum())` is the least."""
        apart = np.asarray(w, np.float64) - self.centers
        return float((self.curvatures * apart**2).sum(axis=1).mean() / 2)

    def constants(self, rounds: int, epsilon: float) -> Constants:
        """What the theorem asks for.

        A quadratic has no bounded gradient on R^d, and with different curvatures no bounded
        sigma_g: G and sigma_g are bounds over the ball around the optimum on whose edge w0 lies.
        """
        if rounds < 1:
            raise ValueError(f"rounds must be a whole number from 1 up, got {rounds!r}")
        if not 0 < epsilon < math.inf:
            raise ValueError(f"epsilon must be a finite number above 0, got {epsilon!r}")
        w, h = self.start(), self.curvatures
        at_optimum = np.linalg.norm(h * (self.optimum() - self.centers), axis=1)
        apart = np.abs(h - self.mean_curvature).max(axis=1)
        return Constants(
            L=float(h.max()), mu=float(self.mean_curvature.min()), sigma=self.sigma,
            sigma_g=float((at_optimum + apart * self.distance).max()),
            G=float((at_optimum + h.max(axis=1) * self.distance).max()),
            gap=self.value(w) - self.value(self.optimum()),
            first=float(np.linalg.norm(self.gradient(w))),
            clients=self.clients, per_round=self.per_round, local_steps=self.local_steps,
            rounds=rounds, epsilon=epsilon,
        )  # fmt: skip

    def noise(self, seed: int, t: int) -> Doubles:
        """A round's noise by step, client and coordinate: a function of these and the seed."""
        shape = (self.local_steps, self.clients, self.dimension)
        scale = self.sigma / math.sqrt(self.dimension)
        return np.random.default_rng((seed, t, 0)).normal(scale=scale, size=shape)

    def replies(self, w: Vector, cohort: npt.NDArray[np.int64], noise: Doubles) -> list[Update]:
        """What the cohort sends back: plain gradient steps in float64."""
        x = np.repeat(np.asarray(w, np.float64)[None], len(cohort), axis=0)
        h, centers = self.curvatures[cohort], self.centers[cohort]
        for k in range(self.local_steps):
            x -= self.client_lr * (h * (x - centers) + noise[k][cohort])
        return [
            Update(str(i), model.astype(np.float32), examples=10, steps=self.local_steps)
            for i, model in zip(cohort, x, strict=True)
        ]

    def gradients(self, name: str, rounds: int, seed: int, **settings: Any) -> Doubles:
        """Run an algorithm; |grad f(w)|^2 at the start of each round."""
        if "population" in settings_of(name):
            settings["population"] = self.clients
        server: Algorithm = algorithm(
            name, self.layout, client_lr=self.client_lr, clip=0.0, **settings
        )
        w, found = self.start(), np.empty(rounds)
        silent = np.zeros((self.local_steps, self.clients, self.dimension))
        for t in range(rounds):
            found[t] = (self.gradient(w) ** 2).sum()
            draw = np.random.default_rng((seed, t, 1))
            cohort = np.sort(draw.choice(self.clients, self.per_round, replace=False))
            noise = self.noise(seed, t) if self.sigma else silent
            w = server.step(w, self.replies(w, cohort, noise))
        return found


@dataclass(frozen=True)
class Check:
    """The theorem at one pair of rates."""

    rates: str
    client_lr: float
    server_lr: float
    printed: list[Condition]
    silent: list[Condition]
    bound: BoundTerms
    curve: Doubles | None
    """E|grad f(w_t)|^2 over the rounds; None: float32 cannot carry updates so small."""

    @property
    def measured(self) -> float | None:
        """Min over the rounds of E|grad f|^2, which the theorem bounds."""
        return None if self.curve is None else float(self.curve.min())

    @property
    def mean(self) -> float | None:
        """Its mean over the rounds, which the proof bounds."""
        return None if self.curve is None else float(self.curve.mean())

    @property
    def ratio(self) -> float | None:
        """Measured over bound: above 1, the bound does not hold."""
        return None if self.measured is None else self.measured / self.bound.total


def check(
    problem: NoisyQuadratic, constants: Constants, client_lr: float, server_lr: float, *,
    rates: str, seeds: int,
) -> Check:  # fmt: skip
    """Conditions, bound and measurement of FedAdaVR with Adagrad."""
    curve = None
    update = client_lr * constants.local_steps * constants.first / problem.distance
    if update >= LEAST_UPDATE and update * server_lr / constants.epsilon >= LEAST_STEP:
        run = replace(problem, client_lr=client_lr)
        settings = {"optimizer": "adagrad", "server_lr": server_lr, "eps": constants.epsilon}
        curve = mean_curve(run, "fedadavr", constants.rounds, seeds, settings)
    return Check(
        rates, client_lr, server_lr,
        printed_conditions(constants, client_lr, server_lr),
        list(silent_conditions(constants, client_lr, server_lr)),
        bound(constants, client_lr, server_lr), curve,
    )  # fmt: skip


def mean_curve(
    problem: NoisyQuadratic, name: str, rounds: int, seeds: int, settings: dict[str, Any]
) -> Doubles:
    """The mean over the seeds; one run where nothing is drawn."""
    drawn = problem.sigma > 0 or problem.per_round < problem.clients
    runs = [
        problem.gradients(name, rounds, seed, **settings) for seed in range(seeds if drawn else 1)
    ]
    return np.asarray(np.mean(runs, axis=0))


ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg": ("fedavg", {}),
    "fedvarp": ("fedvarp", {}),
    "fedadavr, sgd": ("fedadavr", {"optimizer": "sgd", "server_lr": 1.0}),
    "fedadavr, adam": ("fedadavr", {"optimizer": "adam", "server_lr": 0.02}),
}


@dataclass(frozen=True)
class Split:
    """Where an algorithm's error comes from: what each thing adds to E|grad f|^2 at the end."""

    algorithm: str
    base: float
    """Everyone takes part, one exact step."""
    drift: float
    """What local steps add."""
    participation: float
    """What sampling clients adds."""
    stochastic: float
    """What noise adds, averaged over those sampled."""
    curve: Doubles
    """|grad f|^2 with local steps and sampled clients, without noise."""

    @property
    def total(self) -> float:
        """With all of it."""
        return self.base + self.drift + self.participation + self.stochastic


def split(problem: NoisyQuadratic, label: str, rounds: int, seeds: int) -> Split:
    """Four runs, each with one thing more; noise last, since fewer clients average less of it."""
    name, settings = ALGORITHMS[label]
    exact = replace(problem, sigma=0.0)
    everyone = replace(exact, per_round=problem.clients)
    cases = (replace(everyone, local_steps=1), everyone, exact, problem)
    curves = [mean_curve(case, name, rounds, seeds, settings) for case in cases]
    base, steps, sampled, noisy = (float(c[-max(1, rounds // 10) :].mean()) for c in curves)
    return Split(label, base, steps - base, sampled - steps, noisy - sampled, curves[2])


@dataclass(frozen=True)
class Theory:
    """All that is found."""

    constants: Constants
    floor: float
    checks: list[Check]
    splits: list[Split]


def theory(
    problem: NoisyQuadratic, *, rounds: int, seeds: int, server_lr: float, epsilon: float,
    with_split: bool = True, track: Callable[[list[str]], Iterator[str]] = iter,
) -> Theory:  # fmt: skip
    """The theorem at the rates given and at the largest it admits; then the split."""
    if seeds < 1:
        raise ValueError(f"seeds must be a whole number from 1 up, got {seeds!r}")
    if not 0 < server_lr < math.inf:
        raise ValueError(f"server_lr must be a finite number above 0, got {server_lr!r}")
    constants = problem.constants(rounds, epsilon)
    rates = {"given": (problem.client_lr, server_lr), "largest admitted": largest_rates(constants)}
    checks, splits = [], []
    for work in track([*rates, *(ALGORITHMS if with_split else ())]):
        if work in rates:
            checks.append(check(problem, constants, *rates[work], rates=work, seeds=seeds))
        else:
            splits.append(split(problem, work, rounds, seeds))
    return Theory(constants, floor(constants), checks, splits)


def draw(found: Theory, out: Path) -> None:
    """Left, the theorem's bound and what is measured; right, who gets below FedAvg's floor."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for color, each in zip(("C0", "C3"), found.checks, strict=True):
        if each.curve is not None:
            left.plot(each.curve, color=color, label=f"measured, rates {each.rates}")
        left.axhline(each.bound.total, color=color, ls="--", label=f"bound, rates {each.rates}")
    left.set_title("FedAdaVR with Adagrad, and the theorem", fontsize=10)
    styles = (("C7", "-"), ("C1", "-"), ("C0", "--"), ("C2", "-"))
    for (color, style), part in zip(styles, found.splits, strict=False):
        right.plot(np.maximum(part.curve, 1e-14), style, color=color, label=part.algorithm)
    right.set_title("Exact gradients, local steps, sampled clients", fontsize=10)
    for axes in (left, right):
        axes.set_yscale("log")
        axes.set_xlabel("round")
        axes.set_ylabel("|grad f|²")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=130)
    plt.close(figure)
