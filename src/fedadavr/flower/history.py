"""What the rounds were measured to be: for the result, for hooks, and for the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from logging import WARNING
from typing import Any

from flwr.app import MetricRecord
from flwr.serverapp.strategy import Result

from fedadavr.flower.log import log

TRAINED, EVALUATED, MEASURED = "train", "evaluate", "server"
RESULT = {
    TRAINED: "train_metrics_clientapp",
    EVALUATED: "evaluate_metrics_clientapp",
    MEASURED: "evaluate_metrics_serverapp",
}

Flat = dict[str, Any]  # metrics by names like train/loss
Row = dict[str, dict[str, Any]]  # a round's metrics as the store has them


class History:
    """The metrics of all rounds, those of the store included.

    A round that is finished, that is trained and evaluated, goes into the store once and is never
    written again. Until then its metrics travel with the state, so that a crash between training
    and evaluation loses neither.
    """

    def __init__(self) -> None:
        self._rounds: dict[int, dict[str, Any]] = {}
        self._finished: set[int] = set()
        self._written: set[int] = set()

    def take_over(self, written: Mapping[int, Row], unfinished: Mapping[str, Row]) -> None:
        """The metrics that a store has, and those of a round that was not evaluated yet."""
        rows = {int(round): row for round, row in unfinished.items()} | dict(written)
        for round, row in sorted(rows.items()):
            try:
                self._rounds[round] = {
                    part: MetricRecord(row[part]) for part in RESULT if part in row
                }
            except (TypeError, ValueError, KeyError):
                log(WARNING, "the stored metrics of round %d cannot be read", round)
        self._finished = set(written)
        self._written = set(written)

    def note(self, round: int, part: str, metrics: Any) -> None:
        """Metrics of a round; None: there are none."""
        row = self._rounds.setdefault(round, {})
        if metrics is not None:
            row[part] = metrics

    def finish(self, upto: int) -> None:
        """Rounds up to this one are evaluated, or never will be."""
        self._finished.update(round for round in self._rounds if round <= upto)

    @property
    def unfinished(self) -> list[int]:
        """The rounds that were trained and not evaluated."""
        return sorted(self._rounds.keys() - self._finished)

    def to_write(self, upto: int) -> dict[int, Row]:
        """What the store does not have yet, of finished rounds up to one that is stored."""
        new = self._finished - self._written
        return {round: self._row(round) for round in sorted(new) if round <= upto}

    def to_keep(self, upto: int) -> dict[str, Row]:
        """What the store's state must have meanwhile, of rounds that are not finished."""
        return {str(round): self._row(round) for round in self.unfinished if round <= upto}

    def written(self, rounds: Mapping[int, Row]) -> None:
        """The store has these now."""
        self._written.update(rounds)

    def _row(self, round: int) -> Row:
        row: Row = {}
        for part, metrics in self._rounds[round].items():
            try:
                plain = dict(metrics)
                json.dumps(plain)
                MetricRecord(plain)
            except (TypeError, ValueError):
                log(WARNING, "round %d: what the evaluation gave is not made of numbers, and not "
                    "stored", round)  # fmt: skip
            else:
                row[part] = plain
        return row

    def flat(self, round: int) -> Flat:
        """A round's metrics by names like train/loss, for hooks."""
        row = self._rounds.get(round, {})
        found: Flat = {}
        for part, metrics in row.items():
            if isinstance(metrics, Mapping):
                found |= {f"{part}/{name}": value for name, value in metrics.items()}
        return found

    def all_flat(self) -> dict[int, Flat]:
        """The same of all rounds."""
        return {round: self.flat(round) for round in sorted(self._rounds)}

    def fill(self, result: Result) -> None:
        """Put all metrics into a result."""
        for part, name in RESULT.items():
            found = {r: row[part] for r, row in sorted(self._rounds.items()) if part in row}
            setattr(result, name, found)
