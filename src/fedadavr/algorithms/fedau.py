"""FedAU (Wang and Ji 2024): a client that comes seldom counts for more, by how seldom it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from fedadavr.algorithms.base import Algorithm
from fedadavr.algorithms.cohort import Cohort, Direction
from fedadavr.algorithms.registry import register
from fedadavr.memory import ClientMemory


@register("fedau")
class FedAU(Algorithm):
    """w -= server_lr (1/N) sum_S omega_i (w - w_i), omega_i the mean interval between i's rounds.

    An interval ends when the client comes, or after `cutoff` rounds; before the first has ended
    omega_i is 1. The server keeps of each client when it last came and how many intervals have
    ended, and no update: since intervals follow one upon another, omega_i is the number of rounds
    that they cover over their number.
    """

    waits = True

    cutoff: int = 50
    """No interval is longer: a client that was away for so many rounds has ended one."""
    population: int | Mapping[str, int] | None = None
    """How many clients there are, or their sizes; None: those seen so far."""
    prune_after: int | None = None
    """Forget a client that was not seen for so many rounds; None: never."""

    memory: ClientMemory = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if type(self.cutoff) is not int or self.cutoff < 1:
            raise ValueError(f"cutoff must be a whole number from 1 up, got {self.cutoff!r}")
        super().__post_init__()

    def _build_memory(self) -> ClientMemory:
        return ClientMemory(
            self.layout, "none", weights="clients", population=self.population, store=self.store,
            prune_after=self.prune_after,
        )  # fmt: skip

    def _ended(self, cohort: Cohort) -> list[tuple[int, int]]:
        """For each client, how many intervals have ended before this round, and after which."""
        found = []
        for record in cohort.records:
            ended, last = (record.label, record.round) if record else (0, 0)
            away = self.memory.round - last  # complete rounds without it
            cut = away // self.cutoff
            found.append((ended + cut, last + cut * self.cutoff))
        return found

    def labels(self, cohort: Cohort) -> list[int]:
        """How many intervals have ended, this round's included."""
        return [ended + 1 for ended, _ in self._ended(cohort)]

    def direction(self, cohort: Cohort) -> Direction:
        """Each client by the mean of its intervals before this round."""
        omega = [last / ended if ended else 1.0 for ended, last in self._ended(cohort)]
        return Direction(gain=np.array(omega) / cohort.count)
