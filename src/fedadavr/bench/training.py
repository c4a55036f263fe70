"""`fedadavr bench training`: a step of local training and an evaluation, plain and by fast paths.

Both are timed in one process, in turn: SGD with momentum on one thread, as clients train. What
counts is the thread's own time, so that other programs disturb less.
"""

from __future__ import annotations

import json as json_format
import statistics
import time
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from fedadavr.clients import FlatModel, LocalSGD
from fedadavr.data import Arrays
from fedadavr.models import build
from fedadavr.models.fast import Plain
from fedadavr.naming import find

EPOCHS, BATCHES = 5, 10  # timed at once: a client of the CIFAR-10 protocol
EVALUATED = 500  # examples at once, as an engine does


class Case(NamedTuple):
    """A model, and what it is trained on."""

    classes: int
    shape: tuple[int, ...]
    batch: int


CASES = {
    "resnet18": Case(10, (3, 32, 32), 20),
    "gru": Case(80, (80,), 64),
    "lenet5": Case(10, (1, 28, 28), 20),
}


@dataclass(frozen=True)
class Row:
    """One line of the table; milliseconds."""

    model: str
    batch: int
    plain: float
    fast: float
    evaluate_plain: float
    evaluate_fast: float


def main(models: tuple[str, ...] = tuple(CASES), json: bool = False, repeats: int = 5) -> None:
    """Time local training, plain and by fast paths.

    Args:
        models: Which: resnet18, gru, lenet5.
        json: Print the rows as JSON.
        repeats: How many times fifty steps of each are timed, in turn.
    """
    if repeats < 1:
        raise ValueError(f"--repeats must be at least 1, got {repeats}")
    cases = {name: find("model", name, CASES) for name in models}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with Console(stderr=True).status("timing in turn"):
            rows = [measure(name, case, repeats) for name, case in cases.items()]
    finally:
        torch.set_num_threads(threads)
    if json:
        print(json_format.dumps([asdict(row) for row in rows]))
        return
    table = Table(title="Local training on one thread, ms")
    for column in ("model", "batch", "plain step", "fast", "times", f"{EVALUATED} tested, plain",
                   "fast", "times"):  # fmt: skip
        table.add_column(column, justify="left" if column == "model" else "right")
    for r in rows:
        table.add_row(
            r.model, str(r.batch), f"{r.plain:.1f}", f"{r.fast:.1f}", f"{r.plain / r.fast:.2f}",
            f"{r.evaluate_plain:.0f}", f"{r.evaluate_fast:.0f}",
            f"{r.evaluate_plain / r.evaluate_fast:.2f}",
        )  # fmt: skip
    Console().print(table)


def measure(name: str, case: Case, repeats: int) -> Row:
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
    return Row(name, case.batch, plain, fast, *(1000 * statistics.median(t) for t in evaluations))


def inputs(case: Case, number: int) -> Tensor:
    """Made-up images or letters."""
    if len(case.shape) == 1:
        return torch.randint(0, case.classes, (number, *case.shape))
    return torch.randn(number, *case.shape)
