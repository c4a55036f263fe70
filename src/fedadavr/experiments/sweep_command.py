"""`fedadavr sweep`: a grid over any settings, or a search, from the command line or a TOML file."""

from __future__ import annotations

import json as json_format
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from fedadavr.cli.arguments import Arguments, parse
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.grid import grid
from fedadavr.experiments.records import RECORDS, RunRecord
from fedadavr.experiments.sweep import BACKENDS, Progress, check_store, results_table, sweep
from fedadavr.naming import unknown
from fedadavr.plugins import load_file


@dataclass(frozen=True)
class SweepArguments(Arguments):
    """Do many runs, each once, in parallel processes; a sweep that was stopped goes on."""

    grid: tuple[str, ...] = ()
    """Fields and their values: server-lr=0.001,0.01 seed=42,43; in TOML a table [grid]."""
    algorithms: tuple[str, ...] = ()
    """Several algorithms with settings of their own: fedavg fedadavr:optimizer=yogi."""
    out: Path | None = None
    """Where the records go, and where a sweep that was stopped goes on (default: runs/sweep)."""
    checkpoint_every: int | None = 50
    """A run that is cut short goes on from the last such round; on Ray it starts again."""
    store: str | None = None
    """lmdb: each run has a store of its own instead of checkpoints, removed once it is recorded."""
    commit_every: int | None = None
    """With --store lmdb: commit every so many rounds (default: 1)."""
    encrypt_with: Path | None = None
    """Not for a sweep, whose stores do not stay."""
    tensorboard: bool = False
    """Not for a sweep, which keeps only the figures of its runs."""
    on: str = "processes"
    """processes: of this machine; ray: on a Ray cluster (RAY_ADDRESS, or one started here)."""
    search: str | None = None
    """optuna: search instead of trying all; a range is typed server-lr=0.0001..0.1.

    With several workers the points depend on which run ends first, so that a search that was
    stopped may go on elsewhere; finished runs are kept either way.
    """
    trials: int = 20
    """How many points a search tries."""


def main(argv: list[str], prog: str) -> None:
    """Sweep from the command line."""
    options = parse(SweepArguments, argv, prog)
    if options.on not in BACKENDS:
        raise ValueError(unknown("--on", options.on, BACKENDS))
    if options.search not in (None, "optuna"):
        raise ValueError(unknown("--search", options.search, ["optuna"]))
    if options.trials < 1:
        raise ValueError(f"--trials must be at least 1, got {options.trials}")
    options.run_options.check()
    check_store(options.store, options.commit_every)
    if options.encrypt_with is not None:
        raise ValueError("a sweep's stores do not stay: --encrypt-with is for run")
    if options.tensorboard:
        raise ValueError("a sweep keeps only the figures of its runs: --tensorboard is for run")
    if options.load:
        load_file(options.load)
    if options.algorithms and options.algorithm != Experiment().algorithm:
        raise ValueError("give --algorithm or --algorithms, not both")
    out = options.out or Path("runs") / "sweep"
    console = Console(stderr=True)
    records: list[RunRecord] = []
    if options.search:
        from fedadavr.experiments.search import search

        if options.algorithms:
            raise ValueError("a search is over one --algorithm, not several --algorithms")
        progress = search(
            options.experiment, options.grid, options.trials, options.run_options, out, console,
            options.on, records.append,
        )  # fmt: skip
    else:
        experiments = grid(options.experiment, options.grid, options.algorithms)
        progress = sweep(
            experiments, options.run_options, out, console, on=options.on, on_record=records.append
        )
    finish(progress, records, out, options.json)


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
