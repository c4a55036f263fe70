"""The paper's MNIST round, beside a plain loop, pfl and Flower.

500 clients of 120 images; five train one epoch at batch 20 and 250 evaluate, each round.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fedadavr.clients import LocalSGD, layout_of
from fedadavr.data import Federation
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.run import make_federation
from fedadavr.models import build
from fedadavr.naming import unknown
from fedadavr.simulation import Engine

EXPERIMENT = Experiment(dataset="mnist", partition="iid", algorithm="fedavg")
TRAIN, EVALUATE = 5, 250
PEERS = ("flower", "pfl")
ROUNDS = 10  # timed at once


@dataclass(frozen=True)
class RoundTiming:
    """How long a round of one of them takes."""

    name: str
    workers: int
    ms_per_round: float


class EngineLoop:
    """Our engine, kept warm between measurements."""

    def __init__(self, federation: Federation, workers: int) -> None:
        module = build("lenet5", 10, 42)
        server = EXPERIMENT.resolved().server(layout_of(module))
        self.engine = Engine(
            server, module, federation, LocalSGD(0.01, 0.9, 1, 20), seed=42,
            clients_per_round=TRAIN, evaluate_clients=EVALUATE, workers=workers,
        )  # fmt: skip
        self.evaluating = False

    def rounds(self, number: int) -> None:
        """Rounds as a run makes them: the next training is under way while one evaluates."""
        engine = self.engine
        for left in reversed(range(number)):
            engine.finish_training()
            if left:
                engine.begin_training()
            if self.evaluating:
                engine.finish_evaluation()
            engine.begin_evaluation()
            self.evaluating = True
        engine.finish_evaluation()  # nothing is under way while the others are timed
        self.evaluating = False


class OldLeNet5(nn.Module):
    """LeNet-5 as people write it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))


class PlainLoop:
    """A plain PyTorch loop: a model per client, DataLoaders, each client evaluated by itself."""

    def __init__(self, federation: Federation) -> None:
        self.model = OldLeNet5()
        self.rng = np.random.default_rng(0)

        def loaders(which: Any, parts: Any, shuffle: bool) -> list[Any]:
            sets = []
            for part in parts:
                indices = torch.from_numpy(part)
                sets.append(TensorDataset(which.inputs(indices), which.targets(indices)))
            return [DataLoader(s, batch_size=20, shuffle=shuffle) for s in sets]

        self.train = loaders(federation.train, federation.train_parts, True)
        self.test = loaders(federation.test, federation.test_parts, False)

    def rounds(self, number: int) -> None:
        """FedAvg, as in a tutorial."""
        for _ in range(number):
            states, sizes = [], []
            for client in self.rng.choice(len(self.train), TRAIN, replace=False):
                model = OldLeNet5()
                model.load_state_dict(self.model.state_dict())
                optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
                model.train()
                for x, y in self.train[client]:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                states.append(model.state_dict())
                sizes.append(len(self.train[client].dataset))
            total = sum(sizes)
            self.model.load_state_dict({
                name: sum(s[name] * (n / total) for s, n in zip(states, sizes, strict=True))
                for name in states[0]
            })  # fmt: skip
            right = seen = 0
            self.model.eval()
            for client in self.rng.choice(len(self.test), EVALUATE, replace=False):
                with torch.no_grad():
                    for x, y in self.test[client]:
                        right += int((self.model(x).argmax(1) == y).sum())
                        seen += len(y)


def measure(peers: Sequence[str], repeats: int, tell: Callable[[str], None]) -> list[RoundTiming]:
    """Time our engine, a plain loop, and those of the peers that are asked for.

    Parameters
    ----------
    peers : Sequence[str]
        Of `PEERS`, those to be timed, too; they must be installed.
    repeats : int
        How many times ten rounds of each are timed, in turn.
    tell : Callable[[str], None]
        Told what is being done.
    """
    for peer in peers:
        if peer not in PEERS:
            raise ValueError(unknown("peer", peer, PEERS))
        if importlib.util.find_spec({"flower": "flwr"}.get(peer, peer)) is None:
            raise ValueError(f"--peers {peer}: it is not installed")
    tell("reading data")
    federation = make_federation(replace(EXPERIMENT).resolved())
    torch.set_num_threads(1)
    tell("timing in turn: ours with 1 and 2 workers, and a plain loop")
    rows = [*_ours_and_plain(federation, repeats)]
    if "pfl" in peers:
        from fedadavr.bench import pfl_round

        tell("pfl")
        rows.append(RoundTiming("pfl", 1, pfl_round.ms(federation, 3 * repeats)))
    if "flower" in peers:
        from fedadavr.bench import flower_round

        tell("Flower's simulation on Ray: some minutes")
        rows.append(RoundTiming("flower", 2, flower_round.ms(2)))
    return rows


def _ours_and_plain(federation: Federation, repeats: int) -> list[RoundTiming]:
    """In turn, in one process, medians."""
    one, two = EngineLoop(federation, 1), EngineLoop(federation, 2)
    plain = PlainLoop(federation)
    works: dict[tuple[str, int], Callable[[int], None]] = {
        ("ours", 1): one.rounds,
        ("ours", 2): two.rounds,
        ("plain", 1): plain.rounds,
    }
    seconds: dict[tuple[str, int], list[float]] = {key: [] for key in works}
    for work in works.values():
        work(2)
    for _ in range(repeats):
        for key, work in works.items():
            began = time.perf_counter()
            work(ROUNDS)
            seconds[key].append((time.perf_counter() - began) / ROUNDS)
    one.engine.__exit__(None, None, None)
    two.engine.__exit__(None, None, None)
    return [RoundTiming(name, n, statistics.median(s) * 1000) for (name, n), s in seconds.items()]
