"""The paper's MNIST round in pfl (Apple), its FederatedAveraging on a simulated backend."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel

from fedadavr.bench.round import EVALUATE, TRAIN, OldLeNet5
from fedadavr.data import Examples, Federation


class Model(OldLeNet5):
    """LeNet-5 with the two functions that pfl asks for."""

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The training loss."""
        self.train()
        return F.cross_entropy(self(x), y)

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        """Accuracy, as pfl keeps it."""
        self.eval()
        return {"accuracy": Weighted(int((self(x).argmax(1) == y).sum()), len(y))}


class Clock(TrainingProcessCallback):  # type: ignore[misc]
    """Notes when each round ends."""

    def __init__(self) -> None:
        self.times = [time.perf_counter()]

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Called by pfl."""
        self.times.append(time.perf_counter())
        return False, Metrics()


def _data(examples: Examples, parts: list[Any]) -> FederatedDataset:
    sets = []
    for part in parts:
        indices = torch.from_numpy(part)
        sets.append(Dataset(raw_data=[examples.inputs(indices), examples.targets(indices)]))
    return FederatedDataset(sets.__getitem__, get_user_sampler("random", range(len(sets))))


def ms(federation: Federation, rounds: int) -> float:
    """Milliseconds per round, after the first."""
    np.random.seed(0)  # noqa: NPY002 (pfl draws from it)
    module = Model()
    model = PyTorchModel(
        module,
        lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9),
        torch.optim.SGD(module.parameters(), lr=1.0),
    )
    backend = SimulatedBackend(
        _data(federation.train, federation.train_parts),
        _data(federation.test, federation.test_parts),
    )
    clock = Clock()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds + 1, evaluation_frequency=1,
            train_cohort_size=TRAIN, val_cohort_size=EVALUATE,
        ),
        backend, model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=0.01, local_batch_size=20),
        NNEvalHyperParams(local_batch_size=None),
        [clock], send_metrics_to_platform=False,
    )  # fmt: skip
    return statistics.median(np.diff(clock.times)[1:].tolist()) * 1000
