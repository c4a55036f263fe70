"""The report of any runs: settings, curves and tables, a grid and a table for each data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fedadavr.algorithms import algorithm_names, settings_of
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.records import RunRecord
from fedadavr.report.elements import (
    Cell,
    Curves,
    Panel,
    Report,
    ReportRow,
    Section,
    Series,
    Table,
    mark_best,
)
from fedadavr.report.grouping import Group, Variant, groups
from fedadavr.report.presence import presence_sections
from fedadavr.report.rates import rate_sections

Paper = Callable[[Experiment], float | None]
"""The paper's final accuracy for the same settings, if it has one."""

SETTINGS = {
    "model": "model", "clients": "clients", "clients_per_round": "per round", "rounds": "rounds",
    "average_last": "averaged", "local_epochs": "epochs", "batch_size": "batch",
    "evaluate_clients": "evaluated",
}  # fmt: skip
AUTOMATIC = 3  # targets, if none is asked for
BESIDE = (
    " Beside it, where the paper has the same cell, its figure, from one seed and the best of three"
    " client rates, and ours minus it."
)


def standard_page(
    records: Sequence[RunRecord],
    title: str = "Runs",
    targets: Sequence[float] = (),
    paper: Paper | None = None,
    made_by: str = "",
) -> Report:
    """A page about any records; `made_by` is the command that makes it again."""
    if not records:
        raise ValueError("there are no runs to report")
    found = groups(records)
    sections: list[Section] = [settings_table(found)]
    for group in found:
        sections += group_sections(group, targets, paper, made_by)
    failures = failures_table(found)
    if failures.rows:
        sections.append(failures)
    failed = sum(record.failure is not None for record in records)
    about = f"{_number(len(records), 'run')}, {failed or 'none'} of them without a result."
    return Report(title, tuple(sections), about)


def group_sections(
    group: Group, targets: Sequence[float], paper: Paper | None, made_by: str
) -> list[Section]:
    """What there is to tell of one data set."""
    name = group.dataset
    asked = list(targets) or automatic_targets(group)
    chosen = " The targets are the highest multiples of ten below the best accuracy."
    same = "Of the same runs."
    has_paper = any(_of_paper(runs, paper) is not None for runs in group.runs.values())
    sections: list[Section] = [
        curves(group, made_by),
        table(f"{name}: final accuracy, %", group,
              lambda runs: Cell.of((r.final_accuracy for r in runs), _of_paper(runs, paper)),
              "Means over the averaged rounds, ± the standard deviation over seeds; the best of "
              "each column is bold." + (BESIDE if has_paper else ""), commands(group)),
    ]  # fmt: skip
    sections += [
        table(f"{name}: rounds to {target:g} %", group, partial(rounds_cell, target=target),
              "The first evaluated round that reaches it, ± the standard deviation over seeds; "
              "where not all seeds reach it, the mean of those that do, and their number."
              + ("" if targets else chosen), made_by, lowest=True)
        for target in asked
    ]  # fmt: skip
    sections += [
        table(f"{name}: accuracy of the worst tenth of the clients, %", group,
              lambda runs: Cell.of(r.worst_decile for r in runs),
              f"{same} The mean accuracy of the evaluated clients that fare worst, over the "
              "averaged rounds.", made_by),
        costs_table(group, made_by),
        *rate_sections(group, made_by),
        *presence_sections(group),
    ]  # fmt: skip
    return sections


def curves(group: Group, made_by: str) -> Curves:
    """A panel for each column."""
    panels = [
        Panel(column, tuple(
            Series(variant.label, runs) for variant in group.variants
            if (runs := group.at(variant, column))
        ))
        for column in group.columns
    ]  # fmt: skip
    note = "The commands of the runs are under the next table."
    return Curves(f"{group.dataset}: accuracy and loss", tuple(panels), note, made_by)


def table(
    title: str,
    group: Group,
    cell: Callable[[tuple[RunRecord, ...]], Cell],
    note: str,
    command: str,
    lowest: bool = False,
) -> Table:
    """Variants by columns; a place without runs stays empty."""
    rows = [
        ReportRow(labels, tuple(
            cell(runs) if (runs := group.at(variant, column)) else Cell()
            for column in group.columns
        ))
        for variant, labels in _labels(group)
    ]  # fmt: skip
    header = (*_label_header(group), *group.columns)
    return Table(title, header, mark_best(rows, lowest=lowest), note, command, "partition")


def rounds_cell(runs: Sequence[RunRecord], target: float) -> Cell:
    """The rounds to a target over seeds; `never`, or how many get there, in words."""
    rounds = [run.rounds_to(target) for run in runs]
    cell = Cell.of(rounds, digits=0)
    if cell.value is None:
        return replace(cell, text="never")
    if None in rounds:
        return replace(cell, text=f"{cell.value:.0f} ({cell.count} of {len(rounds)})")
    return cell


def automatic_targets(group: Group) -> list[float]:
    """The highest multiples of ten that some mean accuracy reaches."""
    means = [
        Cell.of(r.final_accuracy for r in group.at(variant, column)).value
        for variant in group.variants for column in group.columns
    ]  # fmt: skip
    best = max((mean for mean in means if mean is not None), default=0.0)
    return [float(t) for t in range(10, 100, 10) if t < best][-AUTOMATIC:]


def costs_table(group: Group, made_by: str) -> Table:
    """Time and memory of each variant, apart where the work of a round differs."""
    kinds: dict[str, list[str]] = {}
    for column in group.columns:
        kinds.setdefault(_work(group, column), []).append(column)
    rows = []
    for work, columns in kinds.items():
        for variant, labels in _labels(group):
            runs = [run for column in columns for run in group.at(variant, column)]
            if runs:
                cells = _costs(variant, runs)
                rows.append(ReportRow(labels, cells, work if len(kinds) > 1 else ""))
    header = (
        "training, s per round",
        "server, s per round",
        "s per evaluation",
        "s per run",
        "memory, MB",
    )
    return Table(
        f"{group.dataset}: time and memory", (*_label_header(group), *header), tuple(rows),
        "Means over all runs of a row, ± the standard deviation. Times are those of the machine "
        "that ran it, with whatever else it was doing. Memory is what the server keeps of the "
        "clients; – where a run's folder does not tell.", made_by,
    )  # fmt: skip


def _work(group: Group, column: str) -> str:
    """What a round's work depends on, but for the partition."""
    first = group.of_column(column)[0].experiment
    told = ("model", "clients", "clients_per_round", "local_epochs", "batch_size",
            "evaluate_clients", "evaluate_examples")  # fmt: skip
    words = [f"{name.replace('_', ' ')} {getattr(first, name)}" for name in told
             if getattr(first, name) is not None]  # fmt: skip
    return ", ".join(words)


def _costs(variant: Variant, runs: Sequence[RunRecord]) -> tuple[Cell, ...]:
    name = variant.algorithm
    remembers = name not in algorithm_names() or "codec" in settings_of(name)

    def a_round(seconds: str) -> Iterable[float | None]:
        return (getattr(r, seconds) / r.rounds[-1] if r.rounds else None for r in runs)

    return (
        Cell.of(a_round("seconds_training"), digits=3),
        Cell.of(a_round("seconds_server"), digits=4),
        Cell.of((r.seconds_evaluating / len(r.rounds) if r.rounds else None for r in runs),
                digits=3),
        Cell.of((r.seconds for r in runs), digits=1),
        Cell.of(r.memory_bytes / 1e6 if r.memory_bytes or not remembers else None for r in runs),
    )  # fmt: skip


def settings_table(found: Sequence[Group]) -> Table:
    """What was run, before what came of it."""
    rows = []
    for group in found:
        for column in group.columns:
            runs = group.of_column(column)
            first = runs[0].experiment
            cells = [_told(getattr(first, name)) for name in SETTINGS]
            seeds = sorted({run.experiment.seed for run in runs})
            cells += [Cell(", ".join(map(str, seeds))), _told(len(runs))]
            rows.append(ReportRow((group.dataset, column), tuple(cells)))
    return Table(
        "Settings", ("data set", "partition", *SETTINGS.values(), "seeds", "runs"), tuple(rows),
        "a round: clients that train in a round; averaged: last rounds whose mean is the final "
        "figure; evaluated: clients that each evaluation draws, where there are so many.",
    )  # fmt: skip


def _told(value: Any) -> Cell:
    if value is None:
        return Cell()
    return Cell(value) if isinstance(value, str) else Cell(value=float(value), digits=0)


def failures_table(found: Sequence[Group]) -> Table:
    """The runs without a result, and why."""
    rows = [
        ReportRow((group.dataset, column, variant.label),
            (Cell(str(run.experiment.seed)), Cell(run.failure)))
        for group in found for variant in group.variants for column in group.columns
        for run in group.runs.get((variant, column), ()) if run.failure is not None
    ]  # fmt: skip
    return Table("Runs without a result",
                 ("data set", "partition", "algorithm", "seed", "why"), tuple(rows),
                 "They are counted nowhere above.")  # fmt: skip


def commands(group: Group) -> str:
    """What to type for each row and column, with the first of its seeds."""
    lines = []
    for variant in group.variants:
        for column in group.columns:
            runs = group.at(variant, column)
            if runs:
                others = ", ".join(str(run.experiment.seed) for run in runs[1:])
                more = f"; also --seed {others}" if others else ""
                lines.append(f"# {variant.label}, {column}{more}")
                lines.append(runs[0].command())
    return "\n".join(lines)


def _of_paper(runs: Sequence[RunRecord], paper: Paper | None) -> float | None:
    return paper(runs[0].experiment) if paper else None


def _labels(group: Group) -> list[tuple[Variant, tuple[str, ...]]]:
    """Each variant with its labels: its name, and its settings if any has some."""
    both = len(_label_header(group)) == 2
    return [(c, (c.algorithm, c.settings) if both else (c.algorithm,)) for c in group.variants]


def _label_header(group: Group) -> tuple[str, ...]:
    told = any(variant.settings for variant in group.variants)
    return ("algorithm", "settings") if told else ("algorithm",)


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
