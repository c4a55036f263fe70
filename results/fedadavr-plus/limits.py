"""What limits `sampler=kinds` on MNIST LQ-1: runs in which the server is told what it must learn.

    python limits.py SEED [told] [few] [grow] [equal] [lag] [from=0.8] [SETTING=VALUE ...]

told: the sampler knows every client's digit, and draws the five digits drawn longest ago.
few, grow: with `told`, ten clients a digit only; three, and one more every ten rounds.
equal: the shares of the kinds are equal, instead of counted.
lag: a kind that came counts by its share of the population, and not for those that did not come.
from: the part of a cohort that is drawn by kinds.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from fedadavr.algorithms import fedadavr_plus
from fedadavr.algorithms.base import Cohort, Direction
from fedadavr.algorithms.fedadavr_plus import FedAdaVRPlus
from fedadavr.algorithms.registry import register
from fedadavr.clients import LocalSGD, layout_of
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.run import make_federation
from fedadavr.models import build
from fedadavr.sampling import TRAIN
from fedadavr.simulation import Engine

FLAGS = ("told", "few", "grow", "equal", "lag")
ROUNDS, LAST = 100, 10


@register("plus-told")
class Told(FedAdaVRPlus):
    """FedAdaVR+ that is told some of what it has to learn."""

    def tell(self, flags: set[str], digits: Any) -> None:
        """What is told, and the digit that each client holds."""
        self.flags, self.digits = flags, digits
        self.drawn: dict[int, int] = {}

    def _population_shares(self, count: int) -> Any:
        if "equal" in self.flags and count:
            return np.full(count, 1 / count)
        return super()._population_shares(count)

    def weights_of(self, cohort: Cohort) -> Any:
        """With `lag`, shares of the population, which do not sum to one."""
        if "lag" not in self.flags or cohort.kinds is None:
            return super().weights_of(cohort)
        of = cohort.kinds.of
        within = cohort.kinds.shares(cohort.examples)[of]
        return cohort.examples / within * self._population_shares(len(cohort.kinds.keep))[of]

    def _centers(self, cohort: Cohort, go: Direction) -> tuple[Any, ...]:
        *others, part, cross = super()._centers(cohort, go)
        return *others, part / part.sum() if len(part) else part, cross

    def sample(self, seed: int, round: int, everyone: Any, size: int) -> list[str]:
        """With `told`, one client of each of the digits drawn longest ago."""
        if "told" not in self.flags:
            return super().sample(seed, round, everyone, size)
        rng = np.random.default_rng([seed, round, TRAIN])
        most = 10 if "few" in self.flags else 3 + round // 10 if "grow" in self.flags else None
        order = sorted(range(10), key=lambda k: (self.drawn.get(k, 0), rng.random()))[:size]
        self.drawn |= dict.fromkeys(order, round)
        return [str(rng.choice(np.flatnonzero(self.digits == k)[:most])) for k in order]


def accuracy(seed: int, flags: set[str], settings: dict[str, Any]) -> float:
    """Percent, the mean of the last ten rounds."""
    fedadavr_plus.FROM_KINDS = float(settings.pop("from", 0.8))
    experiment = Experiment.of(
        dataset="mnist", partition="lq-1", clients=500, rounds=ROUNDS, algorithm="plus-told",
        seed=seed, server_lr=0.005, **settings,
    ).resolved()  # fmt: skip
    federation = make_federation(experiment)
    parts, labels = federation.train_parts, federation.train.labels
    module = build("lenet5", 10, seed)
    sizes = {str(k): len(part) for k, part in enumerate(parts)}
    server: Any = experiment.server(layout_of(module), sizes)
    server.tell(flags, np.array([int(labels[part[0]]) for part in parts]))
    local_sgd = LocalSGD(0.01, 0.9, 1, 20)
    accuracies = []
    with Engine(server, module, federation, local_sgd, seed=seed, clients_per_round=5,
                evaluate_clients=250) as engine:  # fmt: skip
        for round in range(1, ROUNDS + 1):
            engine.finish_training()
            if round > ROUNDS - LAST:
                engine.begin_evaluation()
                accuracies.append(engine.finish_evaluation().accuracy)
    return float(np.mean(accuracies))


def main(seed: str, *words: str) -> None:
    """Run it and say the accuracy."""
    flags = {word for word in words if "=" not in word}
    if flags - set(FLAGS):
        raise SystemExit(f"unknown: {', '.join(sorted(flags - set(FLAGS)))}; there are {FLAGS}")
    given: dict[str, Any] = dict(word.split("=") for word in words if "=" in word)
    for name in ("center_rate", "center_similarity", "trust_decay"):
        if name in given:
            given[name] = float(given[name])
    print(f"{accuracy(int(seed), flags, given):.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
