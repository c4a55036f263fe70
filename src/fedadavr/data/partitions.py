"""Who holds what: a partition is a matrix, the share of each class that each client gets.

The list is that of NIID-Bench (Li et al. 2022). Train and test examples are dealt out by the same
matrix, so that a client is tested on what it trains on. (flwr-datasets has partitioners of the same
kinds, but they cut one set of examples and do not tell the shares by which another could be cut.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedadavr.data.registry import PARTITIONS, Labels, Partition, Shares, partition

__all__ = ["PARTITIONS", "Labels", "Shares", "checked_shares", "deal", "label_quantity"]

Rng = np.random.Generator

DIRICHLET = 0.5
SMALLEST = 10  # examples that a client has at least, under dirichlet
TRIES = 2000


@partition("iid")
def iid(labels: Labels, classes: int, clients: int, rng: Rng) -> Shares:
    """Everybody has an equal share of every class."""
    return np.full((classes, clients), 1 / clients)


def label_quantity(number: int) -> Partition:
    """Each client has `number` classes; a class is split evenly over its clients."""

    def shares(labels: Labels, classes: int, clients: int, rng: Rng) -> Shares:
        if number > classes:
            raise ValueError(f"lq-{number} needs {number} classes, the data set has {classes}")
        if clients < classes:
            raise ValueError(
                f"lq-{number} with {clients} clients would leave classes unused: "
                f"use at least {classes} clients"
            )
        holds = np.zeros((classes, clients))
        for client in range(clients):
            first = client % classes
            others = [c for c in range(classes) if c != first]
            holds[[first, *rng.choice(others, number - 1, replace=False)], client] = 1.0
        return holds / holds.sum(axis=1, keepdims=True)

    return shares


@partition("iid-noniid")
def iid_noniid(labels: Labels, classes: int, clients: int, rng: Rng) -> Shares:
    """Half of the data as iid, half by two classes per client."""
    half = label_quantity(2)(labels, classes, clients, rng)
    return 0.5 * iid(labels, classes, clients, rng) + 0.5 * half


@partition("dirichlet")
def dirichlet(labels: Labels, classes: int, clients: int, rng: Rng) -> Shares:
    """Each class by Dirichlet(0.5) over clients; who has its even share already gets no more."""
    even = len(labels) / clients
    sizes = np.bincount(labels, minlength=classes)
    if even < SMALLEST:
        raise ValueError(
            f"dirichlet: {len(labels)} examples over {clients} clients are {even:.1f} each, and "
            f"every client should have at least {SMALLEST}: use fewer clients"
        )
    for _ in range(TRIES):
        shares, held = np.zeros((classes, clients)), np.zeros(clients)
        for c in range(classes):
            row = rng.dirichlet(np.full(clients, DIRICHLET)) * (held < even)
            shares[c] = row / row.sum()
            held += shares[c] * sizes[c]
        if np.floor(held).min() >= SMALLEST:
            return shares
    raise ValueError(
        f"dirichlet: in {TRIES} draws some client of {clients} always had fewer than {SMALLEST} "
        f"of the {len(labels)} examples: use fewer clients"
    )


partition("lq-1")(label_quantity(1))
partition("lq-2")(label_quantity(2))
partition("lq-3")(label_quantity(3))


def checked_shares(name: str, shares: Any, classes: int, clients: int) -> Shares:
    """What a partition returned, if it can be dealt by."""
    if not isinstance(shares, np.ndarray) or shares.shape != (classes, clients):
        got = shares.shape if isinstance(shares, np.ndarray) else f"a {type(shares).__name__}"
        raise ValueError(
            f"the partition {name} must return an array of shares of shape ({classes}, {clients}), "
            f"a row for each class and a column for each client, and returned {got}"
        )
    with np.errstate(invalid="ignore"):
        whole = np.abs(shares.sum(axis=1) - 1) < 1e-6
    for row in np.flatnonzero(~(whole & (shares >= 0).all(axis=1))):
        raise ValueError(
            f"the partition {name} must return shares from 0 up that add up to 1 for each class, "
            f"and those of class {row} do not: they add up to {shares[row].sum():g}, the least is "
            f"{shares[row].min():g}"
        )
    return shares


def deal(labels: Labels, shares: Shares, rng: Rng) -> list[npt.NDArray[np.int64]]:
    """Each client's examples: every class is shuffled and cut by the clients' shares."""
    parts: list[list[npt.NDArray[np.int64]]] = [[] for _ in range(shares.shape[1])]
    for c, row in enumerate(shares):
        members = rng.permutation(np.flatnonzero(labels == c))
        cuts = np.round(np.cumsum(row)[:-1] * len(members)).astype(int)
        for part, own in zip(parts, np.split(members, cuts), strict=True):
            part.append(own)
    return [np.concatenate(part) for part in parts]
