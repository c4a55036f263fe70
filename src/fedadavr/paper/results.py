"""What the records say about the cells of the paper's tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.records import RunRecord, run_id
from fedadavr.paper import numbers
from fedadavr.paper.presets import PRESETS, Preset
from fedadavr.paper.protocol import RATE, RATES, TUNING_SEED
from fedadavr.report.elements import Cell

Cells = dict[str, dict[str, tuple[RunRecord, ...]]]
"""Runs by label and partition, in the order of their seeds."""


class Results:
    """Records, found by their settings whatever the seed."""

    def __init__(
        self,
        records: Iterable[RunRecord],
        presets: tuple[str, ...] = tuple(PRESETS),
        under_way: Iterable[RunRecord] = (),
    ) -> None:
        self.presets = presets
        """The tables and figures that are looked at."""
        self.records = list({record.id: record for record in records}.values())
        done = {record.id for record in self.records}
        self.under_way = [run for run in under_way if run.id not in done]
        """Runs that are not finished: they are in no cell, and decide nothing."""
        self._runs: dict[str, list[RunRecord]] = {}
        for record in self.records:
            if seed_of(record) != TUNING_SEED:
                name = _name(record.experiment)
                self._runs.setdefault(name, []).append(record)
        self._cells: dict[tuple[str, float | None], Cells] = {}
        self._all: Results | None = None  # the same with those that are not finished

    def runs(self, experiment: Experiment | None) -> tuple[RunRecord, ...]:
        """The runs of a cell, in the order of their seeds."""
        if experiment is None:
            return ()
        found = self._runs.get(_name(experiment.resolved()), [])
        return tuple(sorted(found, key=seed_of))

    def cells(self, preset: str, client_lr: float | None = None) -> Cells:
        """The runs of every cell of a preset that has any.

        With a client rate: those of the rows that leave it open.
        """
        known = PRESETS[preset]
        if (preset, client_lr) not in self._cells:
            table = known.cells(self.records) if client_lr is None else known.at_rate(client_lr)
            rows = {
                label: {partition: self.runs(experiment) for partition, experiment in row.items()}
                for label, row in table.items()
            }
            found = {label: row for label, row in rows.items() if any(row.values())}
            self._cells[preset, client_lr] = found
        return self._cells[preset, client_lr]

    def complete(self, preset: str, seeds: frozenset[int] | None = None) -> Cells:
        """The runs of every cell, of the seeds that all cells have; nothing before there are some.

        `seeds` leaves only these.
        """
        if preset not in self.presets:
            return {}
        known, rows = PRESETS[preset], self.cells(preset)
        cells = [
            rows.get(row.label, {}).get(partition, ())
            for partition in known.partitions
            for row in known.rows(partition)
        ]
        common = frozenset.intersection(*(frozenset(map(seed_of, runs)) for runs in cells))
        common = common if seeds is None else common & seeds
        return {
            label: {p: tuple(r for r in runs if seed_of(r) in common) for p, runs in row.items()}
            for label, row in (rows.items() if common else ())
        }

    def begun(self, preset: str) -> Cells:
        """The runs of every cell, also those that are not finished."""
        if self._all is None:
            self._all = Results([*self.records, *self.under_way]) if self.under_way else self
        return self._all.cells(preset)

    def standing(self, preset: str) -> Standing:
        """How much of a preset is done, of the seeds that were begun."""
        waiting = {run.id for run in self.under_way}
        runs = [run for row in self.begun(preset).values() for cell in row.values() for run in cell]
        known = PRESETS[preset]
        cells = sum(len(known.rows(partition)) for partition in known.partitions)
        short = [run for run in runs if run.id in waiting]
        return Standing(
            len(runs) - len(short), cells * len(set(map(seed_of, runs))), len(short),
            min((run.rounds[-1] for run in short), default=None),
        )  # fmt: skip

    def other_rates(self, preset: str) -> list[float]:
        """The client rates besides the usual one that this preset was run with.

        A run that a preset chose or fixed such a rate for is no reason for a table.
        """
        rates = {record.experiment.client_lr for record in self.records} - {RATE}
        return sorted(
            rate
            for rate in rates
            if any(
                _name(run.experiment) not in _not_free()
                for row in self.cells(preset, rate).values()
                for runs in row.values()
                for run in runs
            )
        )

    def tables(self, preset: str) -> list[Cells]:
        """Its cells, and those at other client rates; none if nothing of it was run."""
        rates = (None, *self.other_rates(preset))
        return [cells for rate in rates if (cells := self.cells(preset, rate))]

    def reported(self) -> list[RunRecord]:
        """Every run that is in some cell."""
        rows = [row for name in self.presets for t in self.tables(name) for row in t.values()]
        return list({run.id: run for row in rows for runs in row.values() for run in runs}.values())

    def chosen(self, preset: Preset) -> dict[str, dict[str, Experiment | None]]:
        """The settings of every cell, as far as choices have been made."""
        return preset.cells(self.records)


class Standing(NamedTuple):
    """How far the runs of a preset are."""

    finished: int
    planned: int
    """Every cell with every seed that was begun; 0 before any was."""
    under_way: int
    round: int | None
    """What all that are under way have reached."""

    def __str__(self) -> str:
        reached = "" if self.round is None else f", {self.under_way} more up to round {self.round}"
        return f"{self.finished} of {self.planned} runs{reached}"


@cache
def _not_free() -> frozenset[str]:
    """The names of what rows choose, or say themselves, in all presets."""
    return frozenset(
        _name(preset.base(partition).updated(**candidate).resolved())
        for preset in PRESETS.values()
        for partition in preset.partitions
        for row in preset.rows(partition)
        if not row.free
        for candidate in row.candidates
    )


def seed_of(record: RunRecord) -> int:
    """The seed of a run."""
    return int(record.settings["seed"])


def _name(experiment: Experiment) -> str:
    return run_id(replace(experiment, seed=0))


def accuracy_cell(runs: tuple[RunRecord, ...], paper: float | None = None) -> Cell:
    """The final accuracy over seeds; runs that diverged are told, not left out in silence."""
    cell = Cell.of((run.final_accuracy for run in runs), paper)
    lost = sum(run.failure is not None for run in runs)
    if not lost:
        return cell
    if lost == len(runs):
        return replace(cell, text="diverged")
    return replace(cell, text=f"{cell.ours}, {lost} of {len(runs)} diverged")


class Figure(NamedTuple):
    """An accuracy, or whatever else, over seeds."""

    mean: float
    deviation: float
    seeds: frozenset[int]

    @staticmethod
    def of(values: Sequence[float], seeds: Iterable[int]) -> Figure:
        """The mean and the standard deviation."""
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        return Figure(statistics.fmean(values), deviation, frozenset(seeds))

    def __format__(self, sign: str) -> str:
        """As a text; with + always with a sign."""
        spread = " (1 seed)" if len(self.seeds) == 1 else f" ± {self.deviation:.1f}"
        return f"{self.mean:{sign}.1f}{spread}"

    def __str__(self) -> str:
        return format(self, "")


def figure(runs: Sequence[RunRecord], of: Callable[[RunRecord], float]) -> Figure | None:
    """What runs come to over their seeds."""
    if not runs:
        return None
    return Figure.of([of(run) for run in runs], map(seed_of, runs))


def accuracy(runs: Sequence[RunRecord]) -> Figure | None:
    """The final accuracy; a run that diverged counts as zero."""
    return figure(runs, lambda run: run.final_accuracy or 0.0)


def of_paper(experiment: Experiment) -> float | None:
    """The paper's accuracy for the settings of a run, if it has them in a table.

    It is the best of three client rates, which the paper does not tell: ours may be any of them.
    """
    e = experiment
    if e.dataset not in numbers.datasets() or e.client_lr not in RATES:
        return None
    return _table(e.dataset).get(_name(_any_rate(e)))


@cache
def _table(dataset: str) -> dict[str, float]:
    """The paper's figures by the names of their settings."""
    preset, paper = PRESETS[f"{dataset}-optimizers"], list(numbers.accuracy(dataset).values())
    return {
        _name(_any_rate(preset.base(p).updated(**settings.candidates[0]).resolved())): row[p]
        for p in preset.partitions
        for settings, row in zip(preset.rows(p), paper, strict=True)
    }


def _any_rate(experiment: Experiment) -> Experiment:
    """The settings without those that a cell of the paper leaves open."""
    return replace(experiment, client_lr=RATE, evaluate_every=1)
