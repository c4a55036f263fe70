"""A federation: examples, and which client holds which of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedadavr.data.partitions import checked_shares, deal
from fedadavr.data.registry import DATASETS, NATURAL, PARTITIONS, Protocol, check_partition
from fedadavr.data.sources import Dataset

if TYPE_CHECKING:
    from fedadavr.data.examples import Examples

if TYPE_CHECKING:
    from fedadavr.data.examples import Examples

Parts = list[npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Federation:
    """What an engine runs on. Bring your own: any examples, and lists of indices into them.

    Clients that test are those that train (`test_parts[i]` is of client i), unless `held_out`.
    """

    train: Examples
    test: Examples
    train_parts: Parts
    test_parts: Parts
    classes: int
    held_out: bool = False

    def __post_init__(self) -> None:
        for name, parts, examples in (
            ("train_parts", self.train_parts, self.train),
            ("test_parts", self.test_parts, self.test),
        ):
            for client, part in enumerate(parts):
                if len(part) and (part.min() < 0 or part.max() >= len(examples)):
                    raise ValueError(
                        f"{name}: client {client} has an index outside the {len(examples)} examples"
                    )
        if not self.held_out and len(self.train_parts) != len(self.test_parts):
            raise ValueError(
                f"{len(self.train_parts)} clients train and {len(self.test_parts)} test: "
                "with held_out=False they must be the same"
            )
        empty = [client for client, part in enumerate(self.train_parts) if not len(part)]
        if empty:
            raise ValueError(f"client {empty[0]} has no example to train on ({len(empty)} such)")

    @property
    def clients(self) -> int:
        """How many clients train."""
        return len(self.train_parts)


def federate(dataset: Dataset, partition: str, clients: int | None, seed: int) -> Federation:
    """Deal a data set out to clients."""
    if partition == NATURAL:
        if not dataset.train_clients:
            raise ValueError(f"{dataset.name} does not come with clients: natural is not for it")
        parts = list(dataset.train_clients.values())
        if clients not in (None, len(parts)):
            raise ValueError(f"{dataset.name} has {len(parts)} natural clients, not {clients}")
        tests = list(dataset.test_clients.values())
        return Federation(dataset.train, dataset.test, parts, tests, dataset.classes, held_out=True)
    check_partition(partition)
    shares_of = PARTITIONS.find(partition)
    if dataset.train_clients:
        raise ValueError(f"{dataset.name} comes with clients: its partition is natural")
    if clients is None:
        known = DATASETS.facts(dataset.name) if dataset.name in DATASETS else {}
        clients = Protocol(**known).clients
    if clients < 1:
        raise ValueError(f"there must be at least one client, got {clients}")
    labels, test_labels = dataset.train.labels.numpy(), dataset.test.labels.numpy()
    if clients > len(labels):
        raise ValueError(f"{clients} clients, but only {len(labels)} examples to train on")
    rng = np.random.default_rng([seed, 0])
    shares = checked_shares(
        partition, shares_of(labels, dataset.classes, clients, rng), dataset.classes, clients
    )
    return Federation(
        dataset.train,
        dataset.test,
        deal(labels, shares, rng),
        deal(test_labels, shares, rng),
        dataset.classes,
    )
