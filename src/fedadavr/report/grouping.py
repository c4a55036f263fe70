"""Records put in order: who is a row, what is a column, and which runs meet there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from fedadavr.algorithms import algorithm_names
from fedadavr.data.registry import partition_names
from fedadavr.experiments.experiment import OWN_FIELDS, Experiment
from fedadavr.experiments.records import RunRecord

SPOKEN = ("optimizer", "server_lr", "codec")  # whose values need no name
NOT_SHARED = {*OWN_FIELDS, "settings", "algorithm", "seed", "dataset", "partition", "load", "fast"}
SHARED = tuple(f.name for f in fields(Experiment) if f.name not in NOT_SHARED)


@dataclass(frozen=True)
class Variant:
    """An algorithm, and those of its settings that tell it from others of the report."""

    algorithm: str
    settings: str = ""

    @property
    def label(self) -> str:
        """Both, as `fedadavr yogi 0.005`."""
        return f"{self.algorithm} {self.settings}".strip()


@dataclass(frozen=True)
class Group:
    """The runs on one data set: variants by columns, and a run for each seed where they meet."""

    dataset: str
    variants: tuple[Variant, ...]
    columns: tuple[str, ...]
    runs: dict[tuple[Variant, str], tuple[RunRecord, ...]]

    def at(self, variant: Variant, column: str) -> tuple[RunRecord, ...]:
        """The runs that have a result, in the order of their seeds."""
        return tuple(r for r in self.runs.get((variant, column), ()) if r.failure is None)

    def of_column(self, column: str) -> tuple[RunRecord, ...]:
        """All runs of a column."""
        return tuple(r for c in self.variants for r in self.runs.get((c, column), ()))


def groups(records: Sequence[RunRecord]) -> list[Group]:
    """The records by data set; a run that is there twice, by its settings, counts once."""
    experiments = [record.experiment for record in records]
    owns = _own_settings(experiments)
    labels = _variants(experiments, owns)
    found = []
    for dataset in dict.fromkeys(e.dataset for e in experiments):
        here = [k for k, e in enumerate(experiments) if e.dataset == dataset]
        columns = _columns([experiments[k] for k in here])
        runs: dict[tuple[Variant, str], dict[int, RunRecord]] = defaultdict(dict)
        for k, column in zip(here, columns, strict=True):
            runs[labels[k], column][experiments[k].seed] = records[k]
        order = sorted(here, key=lambda k: _rank(experiments[k].algorithm, owns[k]))
        by_partition = sorted(zip(here, columns, strict=True),
                              key=lambda pair: _partition_rank(experiments[pair[0]]))  # fmt: skip
        found.append(Group(
            dataset,
            tuple(dict.fromkeys(labels[k] for k in order)),
            tuple(dict.fromkeys(column for _, column in by_partition)),
            {place: tuple(r[seed] for seed in sorted(r)) for place, r in runs.items()},
        ))  # fmt: skip
    return found


def _own_settings(experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
    """What is each run's own; the same names for all runs of an algorithm."""
    owns = [e.own_settings() | {"load": e.load} for e in experiments]
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for e, own in zip(experiments, owns, strict=True):
        names[e.algorithm] |= dict.fromkeys(own)
    return [
        {name: own.get(name) for name in names[e.algorithm]}
        for e, own in zip(experiments, owns, strict=True)
    ]


def _variants(experiments: Sequence[Experiment], owns: Sequence[dict[str, Any]]) -> list[Variant]:
    """Whose run each is; a setting is told if it differs between runs of the same algorithm."""
    values: dict[tuple[str, str], set[Any]] = defaultdict(set)
    for experiment, own in zip(experiments, owns, strict=True):
        for name, value in own.items():
            values[experiment.algorithm, name].add(value)
    return [
        Variant(e.algorithm, " ".join(
            _spoken(name, value) for name, value in own.items()
            if len(values[e.algorithm, name]) > 1
        ))
        for e, own in zip(experiments, owns, strict=True)
    ]  # fmt: skip


def _spoken(name: str, value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    text = "+".join(map(str, value)) if isinstance(value, tuple) else text
    if name in SPOKEN and value is not None:
        return text
    return f"{name.replace('_', '-')}={'default' if value is None else text}"


def _rank(algorithm: str, own: dict[str, Any]) -> tuple[Any, ...]:
    """Algorithms as they are listed, those that are not at the end; then by their settings."""
    listed = algorithm_names()
    place = listed.index(algorithm) if algorithm in listed else len(listed)
    return place, algorithm, *map(_sortable, own.values())


def _sortable(value: Any) -> tuple[Any, ...]:
    """Numbers first, words after them, nothing last."""
    if value is None or isinstance(value, bool | int | float):
        return value is None, False, value or 0
    return False, True, str(value)


def _columns(experiments: Sequence[Experiment]) -> list[str]:
    """The column of each: its partition, and what differs between runs on the same partition."""
    values: dict[tuple[str | None, str], set[Any]] = defaultdict(set)
    for e in experiments:
        for name in SHARED:
            values[e.partition, name].add(getattr(e, name))
    return [
        ", ".join([str(e.partition)] + [
            f"{name.replace('_', ' ')} {getattr(e, name)}" for name in SHARED
            if len(values[e.partition, name]) > 1
        ])
        for e in experiments
    ]  # fmt: skip


def _partition_rank(experiment: Experiment) -> tuple[Any, ...]:
    order = partition_names()
    place = order.index(experiment.partition) if experiment.partition in order else len(order)
    shared = (_sortable(getattr(experiment, name)) for name in SHARED)
    return place, str(experiment.partition), *shared
