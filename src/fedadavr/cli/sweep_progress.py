"""How a sweep is getting on, and what came of it, for people to look at."""

from __future__ import annotations

import json as json_format
import statistics
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from fedadavr.experiments.records import RECORDS, RunRecord, run_id, varying
from fedadavr.experiments.sweep import Progress, label


def finish(progress: Progress, records: list[RunRecord], out: Path, json: bool) -> None:
    """Show what came of it; a run that failed makes the program fail, after the others."""
    records = list({record.id: record for record in records}.values())
    if json:
        print(json_format.dumps({
            "runs": len(records), "new": len(progress.finished), "kept": progress.kept,
            "failed": len(progress.failures), "out": str(out),
        }))  # fmt: skip
    elif records:
        Console().print(results_table(records))
        print(f"{len(progress.finished)} new runs, {progress.kept} were there: {out / RECORDS}")
    for failure in progress.failures:
        print(f"fedadavr: {failure}", file=sys.stderr)
    if progress.failures:
        raise SystemExit(1)


class LiveProgress:
    """Shows how a sweep is getting on: a live picture, or a line for each run in a file."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=2, transient=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, tb)

    def update(self, progress: Progress, finished: RunRecord | None) -> None:
        """Something has changed."""
        if finished is not None and not self._console.is_terminal:
            say = finished.failure or f"{finished.final_accuracy:.1f} %"
            count = progress.kept + len(progress.finished)
            told = f"{count}/{progress.total} {label(finished.experiment)}: {say}"
            self._console.print(told, soft_wrap=True)
        self._live.update(picture(progress))


def picture(progress: Progress) -> Group:
    """A bar, and a line for each run under way."""
    done = progress.kept + len(progress.finished) + len(progress.failures)
    head = Table.grid(padding=(0, 1))
    head.add_row(
        f"{done} of {progress.total} runs", ProgressBar(progress.total, done, width=30),
        f"{progress.kept} were there, {len(progress.failures)} failed, {progress.left()} left",
    )  # fmt: skip
    table = Table.grid(padding=(0, 2))
    for experiment, row in progress.running.values():
        accuracy = f"{row['accuracy']:.1f} %" if "accuracy" in row else ""
        table.add_row("", label(experiment), f"{row['round']}/{experiment.rounds}", accuracy)
    return Group(head, table)


def by_seed(records: Iterable[RunRecord]) -> dict[str, list[RunRecord]]:
    """Runs that differ in their seed only, together."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(run_id(replace(record.experiment, seed=0)), []).append(record)
    return groups


def results_table(records: list[RunRecord], most: int = 40) -> Table:
    """The fields that vary, and the accuracy over the seeds; the best first.

    One that diverged counts as 0 % there.
    """
    groups = list(by_seed(records).values())
    names = varying(records)
    lines: list[tuple[float, list[str]]] = []
    for group in groups:
        found = [r.final_accuracy for r in group if r.final_accuracy is not None]
        text = f"{statistics.mean(found):.1f}" if found else ""
        text += f" ± {statistics.stdev(found):.1f}" if len(found) > 1 else ""
        lost = len(group) - len(found)
        text += f" ({lost} diverged)" if lost else ""
        cells = [_cell(group[0].experiment.get(name)) for name in names]
        lines.append((sum(found) / len(group), [*cells, text, str(len(group))]))
    lines.sort(key=lambda line: -line[0])
    title = f"the best {most} of {len(lines)}" if len(lines) > most else None
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name.replace("_", "-"))
    table.add_column("accuracy %", justify="right")
    table.add_column("seeds", justify="right")
    for worth, cells in lines[:most]:
        table.add_row(*cells, style="bold" if worth == lines[0][0] else "")
    return table


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)
