"""The curve of several seeds: mean, deviation and band at the rounds that all have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedadavr.experiments.records import RunRecord

Metric = Literal["accuracy", "loss"]
METRICS: tuple[Metric, ...] = ("accuracy", "loss")


@dataclass(frozen=True)
class Curve:
    """One line with its band."""

    rounds: list[int]
    mean: npt.NDArray[np.float64]
    deviation: npt.NDArray[np.float64]
    """The standard deviation over seeds; of a single one, zeros."""
    low: npt.NDArray[np.float64]
    """The lowest of the seeds."""
    high: npt.NDArray[np.float64]
    """The highest."""
    count: int
    """How many seeds there are."""


def curve(records: Sequence[RunRecord], metric: Metric) -> Curve:
    """The runs that have a result, at the rounds that are common to them; there may be none."""
    runs = [
        dict(zip(record.rounds, getattr(record, metric), strict=True))
        for record in records
        if record.failure is None
    ]
    rounds = sorted(set.intersection(*(set(run) for run in runs))) if runs else []
    values = np.array([[run[r] for r in rounds] for run in runs], np.float64)
    values = values.reshape(len(runs), len(rounds))
    if not rounds:
        empty = np.zeros(0)
        return Curve([], empty, empty, empty, empty, len(runs))
    deviation = values.std(axis=0, ddof=1) if len(runs) > 1 else np.zeros(len(rounds))
    return Curve(
        rounds, values.mean(axis=0), deviation, values.min(axis=0), values.max(axis=0), len(runs)
    )
