"""A step of local training and an evaluation, plain and by fast paths.

Both are timed in one process, in turn: SGD with momentum on one thread, as clients train. What
counts is the thread's own time, so that other programs disturb less.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedadavr.clients import FlatModel, LocalSGD
from fedadavr.data import Arrays
from fedadavr.models import build
from fedadavr.models.fast import Plain
from fedadavr.naming import find

EPOCHS, BATCHES = 5, 10  # timed at once: a client of the CIFAR-10 protocol
EVALUATED = 500  # examples at once, as an engine does


class TrainingCase(NamedTuple):
    """A model, and what it is trained on."""

    classes: int
    shape: tuple[int, ...]
    batch: int


CASES = {
    "resnet18": TrainingCase(10, (3, 32, 32), 20),
    "gru": TrainingCase(80, (80,), 64),
    "lenet5": TrainingCase(10, (1, 28, 28), 20),
    "simple-cnn": TrainingCase(10, (3, 32, 32), 20),
    "cnn": TrainingCase(10, (3, 32, 32), 20),
}


@dataclass(frozen=True)
class TrainingTiming:
    """A step and an evaluation of a model, plain and fast, in milliseconds."""

    model: str
    batch: int
    plain: float
    fast: float
    evaluate_plain: float
    evaluate_fast: float


def measure_all(
    models: Sequence[str], repeats: int, tell: Callable[[str], None]
) -> list[TrainingTiming]:
    """Time each model on one thread."""
    if repeats < 1:
        raise ValueError(f"--repeats must be at least 1, got {repeats}")
    cases = {name: find("model", name, CASES) for name in models}
    tell("timing in turn")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [measure(name, case, repeats) for name, case in cases.items()]
    finally:
        torch.set_num_threads(threads)


def measure(name: str, case: TrainingCase, repeats: int) -> TrainingTiming:
    """In turn, medians."""
    torch.manual_seed(0)
    models = [FlatModel(build(name, case.classes, 0), fast=fast) for fast in (False, True)]
    number = BATCHES * case.batch
    train = Arrays(inputs(case, number), torch.randint(0, case.classes, (number,)))
    test = Arrays(inputs(case, EVALUATED), torch.randint(0, case.classes, (EVALUATED,)))
    assert type(models[1].path(train.x)) is not Plain, f"{name} has no fast path"
    local_sgd, start = LocalSGD(1e-3, 0.9, EPOCHS, case.batch), models[0].w.clone()
    part, every = torch.arange(number), torch.arange(EVALUATED)
    steps: list[list[float]] = [[], []]
    evaluations: list[list[float]] = [[], []]
    for turn in range(repeats + 1):
        for k, model in enumerate(models):
            began = time.thread_time()
            model.train(start, train, part, local_sgd, np.random.default_rng(turn))
            middle = time.thread_time()
            model.evaluate(start, test, every)
            if turn:  # the first warms up
                steps[k].append((middle - began) / (EPOCHS * BATCHES))
                evaluations[k].append(time.thread_time() - middle)
    plain, fast = (1000 * statistics.median(t) for t in steps)
    return TrainingTiming(
        name, case.batch, plain, fast, *(1000 * statistics.median(t) for t in evaluations)
    )


def inputs(case: TrainingCase, number: int) -> Tensor:
    """Made-up images or letters."""
    if len(case.shape) == 1:
        return torch.randint(0, case.classes, (number, *case.shape))
    return torch.randn(number, *case.shape)
