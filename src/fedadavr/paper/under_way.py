"""Runs that are not finished: their curves, and how far all of them have come.

A run works in `unfinished/HASH` of its preset's folder, with a store too large to be kept. What is
worth keeping of it is its curve: `unfinished.jsonl`, written by `fedadavr paper status --keep`, has
a line for each, as `records.jsonl` has for those that are finished. No verdict is made from either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fedadavr.experiments.folder import METRICS, RunFolder, write_whole
from fedadavr.experiments.records import RunRecord, from_rows, read_lines
from fedadavr.experiments.sweep import UNFINISHED
from fedadavr.paper.protocol import TUNING_SEED
from fedadavr.paper.results import Results, seed_of

KEPT = f"{UNFINISHED}.jsonl"


def under_way(place: Path) -> list[RunRecord]:
    """The curves in one preset's folder: of its working folders, and those that were kept.

    A run that is in both has the longer one. One that rates are chosen by, or that was not
    evaluated yet, has nothing to show.
    """
    found = {run.id: run for run in (read_lines(place / KEPT) if (place / KEPT).is_file() else [])}
    for file in sorted((place / UNFINISHED).glob(f"*/{METRICS}")):
        run = _curve(RunFolder(file.parent))
        if run is not None and len(run.rounds) >= len(found.get(run.id, run).rounds):
            found[run.id] = run
    return [run for run in found.values() if run.rounds and seed_of(run) != TUNING_SEED]


def _curve(folder: RunFolder) -> RunRecord | None:
    try:
        run = from_rows(folder.experiment(), folder.rows())
    except (FileNotFoundError, ValueError):
        if folder.path.exists():
            raise
        return None  # it was finished this moment
    return replace(run, final_accuracy=None, final_loss=None, worst_decile=None, by_visits=None)


def all_under_way(out: Path) -> list[RunRecord]:
    """Those of all presets."""
    places = [place for place in sorted(out.glob("*")) if place.is_dir()]
    return [run for place in places for run in under_way(place)]


def keep(place: Path, done: set[str]) -> int:
    """Write the curves of one preset's runs that are not finished; how many there are."""
    runs = [run for run in under_way(place) if run.id not in done]
    if runs:
        lines = "".join(run.to_json() + "\n" for run in runs)
        write_whole(place / KEPT, lines.encode())
    else:
        (place / KEPT).unlink(missing_ok=True)
    return len(runs)


@dataclass(frozen=True)
class UpTo:
    """The runs of a preset on one partition with one seed, all cut at the same round."""

    partition: str
    seed: int
    round: int
    """The last at which all that have begun were evaluated."""
    runs: dict[str, RunRecord]
    """By label; those that are finished, too."""
    unfinished: frozenset[str]
    """The labels of those that are not."""


def up_to(results: Results, preset: str) -> Iterator[UpTo]:
    """Each partition and seed of a preset that some run is not finished of."""
    waiting = {run.id for run in results.under_way}
    found: dict[tuple[str, int], dict[str, RunRecord]] = {}
    for label, row in results.begun(preset).items():
        for partition, runs in row.items():
            for run in runs:
                if run.failure is None:
                    found.setdefault((partition, seed_of(run)), {})[label] = run
    for (partition, seed), begun in found.items():
        open_ = frozenset(label for label, run in begun.items() if run.id in waiting)
        common = set.intersection(*(set(run.rounds) for run in begun.values()))
        if open_ and common:
            last = max(common)
            cut = {label: _cut(run, last) for label, run in begun.items()}
            yield UpTo(partition, seed, last, cut, open_)


def _cut(run: RunRecord, last: int) -> RunRecord:
    size = sum(round <= last for round in run.rounds)
    return replace(run, rounds=run.rounds[:size], accuracy=run.accuracy[:size],
                   loss=run.loss[:size])  # fmt: skip
