"""The picture a report begins with: each algorithm at its best, and the paper's figure."""

from __future__ import annotations

from collections.abc import Iterator

from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.records import RunRecord
from fedadavr.paper import numbers
from fedadavr.paper.hard_claims import HARD
from fedadavr.paper.presets import NAMES, PRESETS
from fedadavr.paper.results import Results, accuracy, seed_of
from fedadavr.report.elements import Cell, Dots, ReportRow, Table

NAMED = ("fedadavr", "fedadavr-quant", "fedadavr-plus", "fedavg", "fedvarp", "scaffold", "fedyogi")
"""What has a color of its own, in the order of the curves; others are gray."""
KINDS = ("optimizers", "baselines", "best", "iid", "cnn")
"""The presets with the paper's protocol; others vary it, or are only a beginning."""
MODELS = {"simple-cnn": "small CNN"}
Runs = tuple[RunRecord, ...]


def best_of_each(results: Results) -> Dots:
    """The best mean over seeds of each algorithm, for each data set and partition."""
    found: dict[tuple[str, str], dict[str, list[Runs]]] = {}
    for place, runs in _cells(results):
        found.setdefault(place, {}).setdefault(runs[0].experiment.algorithm, []).append(runs)
    algorithms = {name for row in found.values() for name in row}
    columns = [name for name in NAMED if name in algorithms]
    columns += sorted(algorithms - set(NAMED))
    rows = tuple(
        ReportRow(place, tuple(_best(row.get(name, [])) for name in columns))
        for place, row in found.items()
    )
    most = {name: max(len(row.get(name, ())) for row in found.values()) for name in columns}
    told = ", ".join(f"{name} {most[name]}" for name in columns)
    return Dots(
        "The best of each algorithm",
        Table("The best of each algorithm: accuracy, %", ("data", "partition", *columns), rows),
        sum(name in algorithms for name in NAMED),
        "Accuracy in percent, the mean over seeds with the standard deviation, of a single seed "
        "without; hollow, the best of the paper's table for the same algorithm (one seed). Gray at "
        "the edge is below the axis. Each algorithm has the settings that were best on the seeds "
        "which all of its settings were run with, and which are among those shown: that favors "
        f"those with many settings ({told}).",
    )


def _cells(results: Results) -> Iterator[tuple[tuple[str, str], Runs]]:
    """Every cell with some run, once, and the line that it belongs to."""
    seen = set()
    waits = {claim.preset for claim in HARD}
    for dataset, title in NAMES.items():
        for name in results.presets:
            preset = PRESETS[name]
            if preset.dataset != dataset or name.partition("-")[2] not in KINDS:
                continue
            about = MODELS.get(str(dict(preset.common).get("model")), "")
            finished, planned, *_ = results.standing(name)
            part = f"{finished} of {planned} runs" if name in waits and finished < planned else ""
            for partition in preset.partitions:
                label = ", ".join(filter(None, (partition, about, part)))
                for runs in _runs(results, name, partition):
                    if runs[0].id not in seen:
                        seen.add(runs[0].id)
                        yield (title, label), runs


def _runs(results: Results, preset: str, partition: str) -> Iterator[Runs]:
    rows = (row for table in results.tables(preset) for row in table.values())
    return (runs for row in rows if (runs := row.get(partition, ())))


def _best(cells: list[Runs]) -> Cell:
    """The settings with the highest mean over the seeds that all have, and what the paper has."""
    if not cells:
        return Cell()
    common = frozenset.intersection(*(frozenset(map(seed_of, runs)) for runs in cells))

    def mean(runs: Runs) -> float:
        found = accuracy([run for run in runs if not common or seed_of(run) in common])
        return found.mean if found else 0.0

    runs = max(cells, key=mean)
    own = accuracy(runs)
    assert own is not None
    return Cell(
        value=own.mean, deviation=own.deviation if len(runs) > 1 else None, count=len(runs),
        paper=_of_paper(runs[0].experiment),
    )  # fmt: skip


def _of_paper(e: Experiment) -> float | None:
    """The best of the paper's rows of the algorithm, if it was run with the paper's protocol."""
    assert e.partition is not None
    table = numbers.accuracy(e.dataset)
    own = [cells[e.partition] for row, cells in table.items() if row.algorithm == e.algorithm]
    usual = Experiment(algorithm=e.algorithm).resolved().get("codec")
    same = e.model == numbers.setup(e.dataset).model and e.get("codec") == usual
    return max(own) if own and same else None
