"""FedVARP and ClusterFedVARP (Jhunjhunwala et al. 2022): SAGA over clients, or over groups."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Literal

import numpy as np

from fedadavr.algorithms.base import Fading, Remembering
from fedadavr.algorithms.cohort import Cohort, Direction, Stored
from fedadavr.algorithms.registry import register
from fedadavr.memory.cohort_records import CohortRecords
from fedadavr.memory.own import Weighting


@register("fedvarp")
class FedVARP(Fading):
    """v = (1/|S|) sum_S (g_i - y_i) + (1/N) sum_j y_j; w -= server_lr * client_lr * v."""

    weighting: Literal["uniform", "examples"] = "uniform"
    """Each client counts the same, as its authors have it; or by its examples, in both sums."""

    def __post_init__(self) -> None:
        if self.weighting not in ("uniform", "examples"):
            raise ValueError(f"weighting must be 'uniform' or 'examples', got {self.weighting!r}")
        super().__post_init__()

    def _weights(self) -> Weighting:
        return "clients" if self.weighting == "uniform" else "examples"

    def direction(self, cohort: Cohort) -> Direction:
        """The cohort's news against its own memory, and the mean of all memory."""
        gain = cohort.even if self.weighting == "uniform" else cohort.shares
        return Direction(gain=gain, recall=gain, base=1 / cohort.weight)


@register("cluster-fedvarp")
class ClusterFedVARP(Remembering):
    """FedVARP with one memory a cluster: v = (1/|S|) sum_S (g_i - y_k(i)) + sum_k (N_k/N) y_k.

    y_k becomes the mean of its sampled clients' g_i. With a number of clusters, clients are
    spread over them by a stable hash and the clusters are taken as equally large, unless
    `population` names the clients: then they are counted.
    """

    clusters: int | Mapping[str, int] = 10
    """The cluster of each client, or a number of clusters; fixed for the run."""

    def __post_init__(self) -> None:
        if isinstance(self.clusters, Mapping):
            if not self.clusters:
                raise ValueError("clusters is empty: it must name the cluster of every client")
        elif type(self.clusters) is not int or self.clusters < 1:
            raise ValueError(
                "clusters must be a whole number from 1 up, or name the cluster of every client, "
                f"got {self.clusters!r}"
            )
        super().__post_init__()

    def _weights(self) -> Weighting:
        return "examples"

    def _population(self) -> dict[str, int]:
        """The memory's clients are the clusters, and their sizes count clients."""
        self._size = self._count()
        return self._size

    def _count(self) -> dict[str, int]:
        if isinstance(self.clusters, Mapping):
            return dict(Counter(str(k) for k in self.clusters.values()))
        if isinstance(self.population, Mapping):
            return dict(Counter(self.record_of(client) for client in self.population))
        return {str(k): 1 for k in range(self.clusters)}

    def record_of(self, client: str) -> str:
        """The client's cluster."""
        if not isinstance(self.clusters, Mapping):
            return str(zlib.crc32(client.encode()) % self.clusters)
        if client not in self.clusters:
            raise ValueError("it is in none of the clusters given")
        return str(self.clusters[client])

    def sizes(self, cohort: Cohort, records: CohortRecords) -> list[float]:
        """How many clients each of the round's clusters has."""
        return [self._size.get(key, 1) for key in cohort.keys]  # 1: the first of its cluster

    def stored(self, cohort: Cohort) -> Stored:
        """The mean of each cluster's clients of this round."""
        group = np.diff(cohort.first)
        return Stored(share=1 / np.repeat(group, group))

    def direction(self, cohort: Cohort) -> Direction:
        """The cohort's news against its clusters' memory, and the mean over the clusters."""
        recall = np.diff(cohort.first) / len(cohort)
        return Direction(gain=cohort.even, recall=recall, base=1 / cohort.weight)
