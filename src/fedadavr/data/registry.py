"""Data sets and partitions by name; listing them needs no PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from fedadavr.naming import unknown
from fedadavr.plugins import Registry

if TYPE_CHECKING:
    from fedadavr.data.sources import Dataset

Shares = npt.NDArray[np.float64]  # classes x clients, each row sums to 1
Labels = npt.NDArray[np.int64]
Partition = Callable[[Labels, int, int, np.random.Generator], Shares]
Loader = Callable[[], "Dataset"]
F = TypeVar("F", bound=Callable[..., Any])

DATASETS: Registry[Loader] = Registry("data set", "fedadavr.datasets", "fedadavr.data", "dataset")
PARTITIONS: Registry[Partition] = Registry(
    "partition", "fedadavr.partitions", "fedadavr.data", "partition"
)
NATURAL = "natural"
"""The partition of a data set that comes with its clients."""


@dataclass(frozen=True)
class Protocol:
    """What a data set is run with where nothing else is said; the fields of an experiment."""

    partition: str = "lq-1"
    clients: int = 100
    model: str = "lenet5"
    rounds: int = 100
    local_epochs: int = 1
    batch_size: int = 20
    evaluate_clients: int = 250


def dataset(name: str, **protocol: Any) -> Callable[[F], F]:
    """Decorator: a function that makes a `Dataset` becomes known by a name.

    Parameters
    ----------
    name : str
        The data set's name.
    **protocol
        What it is run with where nothing else is said: the fields of `Protocol`.
    """
    Protocol(**protocol)  # a wrong name is said here

    def add(loader: F) -> F:
        DATASETS.add(name, loader, **protocol)
        return loader

    return add


def partition(name: str) -> Callable[[F], F]:
    """Decorator: a function that shares classes out to clients becomes known by a name.

    It takes the labels, the numbers of classes and of clients, and a random generator, and returns
    the share of each class (rows) that each client (columns) gets.
    """

    def add(shares: F) -> F:
        PARTITIONS.add(name, shares)
        return shares

    return add


def datasets() -> list[str]:
    """The names of all data sets."""
    return DATASETS.names()


def partition_names() -> list[str]:
    """The names of all partitions."""
    return [*PARTITIONS.names(), NATURAL]


def protocol_of(name: str) -> Protocol:
    """What a data set is run with where nothing else is said."""
    return Protocol(**DATASETS.facts(name))


def check_partition(name: str | None) -> None:
    """Refuse a partition that is not known."""
    if name not in partition_names():
        raise ValueError(unknown("partition", name, partition_names()))
