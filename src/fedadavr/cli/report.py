"""`fedadavr report`: what came of runs, the paper's figures beside them where it has any."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import tyro

TITLE = "Runs"
METRIC = "accuracy"


def main(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional],
    /,
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
    format: str | None = None,
    targets: tuple[float, ...] = (),
    title: str = TITLE,
    metric: str = METRIC,
) -> None:
    """Write a report of runs: settings, curves, accuracy, rounds to targets, time, memory.

    Args:
        runs: Folders of runs, comparisons and sweeps, or files of records.
        out: The file (default: report.html, or report.FORMAT).
        format: html, md, csv (the tables) or png (the curves); default: as the file is named.
        targets: Accuracies in percent, to tell the rounds to them (default: chosen from the runs).
        title: The report's heading.
        metric: What a png shows, accuracy or loss; the page has a switch.
    """
    from fedadavr.experiments.records import read
    from fedadavr.naming import find
    from fedadavr.paper.results import of_paper
    from fedadavr.report.curve import METRICS
    from fedadavr.report.output import place, write
    from fedadavr.report.standard import standard_page

    if not runs:
        raise ValueError("name the runs to report: folders, or files of records")
    for target in targets:
        if not 0 < target <= 100:
            raise ValueError(f"--targets are accuracies in percent, got {target:g}")
    find("metric", metric, {name: name for name in METRICS})
    file, chosen = place(out, format)
    made_by = _typed(runs, file, format, targets, title, metric)
    page = standard_page(read(runs), title, targets, of_paper, made_by)
    write(page, file, chosen, metric)
    print(f"{file}: {file.stat().st_size / 1e6:.2f} MB, {page.about}")


def _typed(
    runs: tuple[Path, ...], out: Path, format: str | None, targets: tuple[float, ...], title: str,
    metric: str,
) -> str:  # fmt: skip
    """The command that makes the report again."""
    words = ["fedadavr", "report", *map(str, runs), "--out", str(out)]
    words += ["--format", format] if format else []
    words += ["--targets", *(f"{target:g}" for target in targets)] if targets else []
    words += ["--title", title] if title != TITLE else []
    return shlex.join([*words, *(["--metric", metric] if metric != METRIC else [])])
