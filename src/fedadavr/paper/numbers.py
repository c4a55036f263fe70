"""The numbers of the paper's tables, read from `numbers.toml`; every name in them is ours.

A number that the paper does not give is None, or is not in the mapping.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from fedadavr.naming import find

HASH = "ca191094b5469558d9de8958a24f45c9f600222643b41da6bb84db4a2b51f93a"
"""What `digest` gives for the numbers as they were checked, cell by cell, against the paper."""

Targets = dict[int, int | None]
"""An accuracy in percent, and the rounds or seconds it took; None where it was not reached."""


class Configuration(NamedTuple):
    """One row of an accuracy table."""

    algorithm: str
    optimizer: str | None
    """None for FedVARP, which has none."""
    server_lr: float


@dataclass(frozen=True)
class Setup:
    """How the paper ran one data set; fields are named as in `Experiment`."""

    clients: int
    clients_per_round: int
    participation: str
    """The share of the clients that is, as printed."""
    evaluate_clients: int
    model: str
    batch_size: int
    local_epochs: int
    client_lrs: tuple[float, ...]
    """The rates searched; the paper does not tell which was the best where."""
    momentum: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float


@dataclass(frozen=True)
class Wallclock:
    """Seconds of one algorithm on CIFAR-10."""

    round: float
    """A round, on the iid partition."""
    to_target: Targets
    """To each accuracy, on lq-1."""


class Memory(NamedTuple):
    """One row of the table of what the server's memory takes, in the paper's "GB"."""

    model: str
    parameters_millions: float
    clients_thousands: int
    fp32: float
    fp16: float
    int8: float
    int4: float


class Complexity(NamedTuple):
    """What a round of one algorithm costs, as formulas."""

    communication: str
    server_memory: str
    client_computation: str


def datasets() -> list[str]:
    """The data sets of the paper."""
    return list(_numbers()["accuracy"])


def partitions(dataset: str) -> list[str]:
    """The partitions that the paper has of a data set."""
    return list(find("data set", dataset, _numbers()["rounds"]))


def accuracy(dataset: str) -> dict[Configuration, dict[str, float]]:
    """The accuracy in percent of each configuration on each partition."""
    table = find("data set", dataset, _numbers()["accuracy"])
    names = table["columns"][3:]
    return {
        Configuration(algorithm, _given(optimizer), server_lr): dict(zip(names, cells, strict=True))
        for algorithm, optimizer, server_lr, *cells in table["rows"]
    }


def best(dataset: str, partition: str, algorithm: str) -> tuple[Configuration, float]:
    """The configuration of an algorithm with the highest accuracy, and that accuracy."""
    find("partition", partition, dict.fromkeys(partitions(dataset)))
    cells = {
        row: cells[partition]
        for row, cells in accuracy(dataset).items()
        if row.algorithm == algorithm
    }
    if not cells:
        raise ValueError(f"the paper has no table of {algorithm!r} on {dataset}")
    return max(cells.items(), key=lambda cell: cell[1])


def rounds(dataset: str, partition: str) -> tuple[int, int]:
    """Rounds of training, and how many of the last the accuracy is averaged over."""
    of = find("data set", dataset, _numbers()["rounds"])
    trained, averaged = find("partition", partition, of)
    return trained, averaged


def setup(dataset: str) -> Setup:
    """The settings of the runs on a data set."""
    table = {name: row for name, row in _numbers()["setup"].items() if name != "shared"}
    shared = dict(_numbers()["setup"]["shared"])
    rates = tuple(shared.pop("client_lrs"))
    return Setup(**find("data set", dataset, table), **shared, client_lrs=rates)


def rounds_to_target() -> dict[str, Targets]:
    """Rounds that each algorithm took to each accuracy, on CIFAR-10 lq-1."""
    table = _numbers()["rounds_to_target"]
    return {name: _targets(table, cells) for name, cells in table["rounds"].items()}


def normalized_rounds_to_target() -> dict[str, dict[int, float | None]]:
    """The same as printed in multiples of FedAdaVR's."""
    table = _numbers()["rounds_to_target"]
    return {name: _targets(table, cells) for name, cells in table["normalized"].items()}


def wallclock() -> dict[str, Wallclock]:
    """Seconds of each algorithm on CIFAR-10."""
    table = _numbers()["wallclock"]
    return {
        name: Wallclock(seconds, _targets(table, table["to_target"][name]))
        for name, seconds in table["round"].items()
    }


def wallclock_figure() -> dict[str, tuple[int, int]]:
    """The small table beside the ablation: seconds per round, and seconds to 45 %."""
    return {name: (row[0], row[1]) for name, row in _numbers()["wallclock_figure"].items()}


def memory_table() -> list[Memory]:
    """What the memory of a population takes, by model and precision."""
    return [Memory(*row) for row in _numbers()["memory"]["rows"]]


def complexity() -> dict[str, Complexity]:
    """What a round of each algorithm costs."""
    return {name: Complexity(*row) for name, row in _numbers()["complexity"].items()}


def digest() -> str:
    """A sha256 over all numbers, which does not depend on how the file is laid out."""
    canonical = json.dumps(_numbers(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


@cache
def _numbers() -> dict[str, Any]:
    return tomllib.loads(files("fedadavr.paper").joinpath("numbers.toml").read_text("utf-8"))


def _given(cell: Any) -> Any:
    return None if cell == "-" else cell


def _targets(table: dict[str, Any], cells: list[Any]) -> dict[int, Any]:
    return dict(zip(table["targets"], map(_given, cells), strict=True))
