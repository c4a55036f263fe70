"""`fedadavr sweep`: a grid over any settings, or a search, from the command line or a TOML file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedadavr.cli.arguments import Arguments, parse

if TYPE_CHECKING:
    from fedadavr.experiments.records import RunRecord


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

    from rich.console import Console

    from fedadavr.cli.sweep_progress import LiveProgress, finish
    from fedadavr.experiments.experiment import Experiment
    from fedadavr.experiments.grid import grid
    from fedadavr.experiments.sweep import BACKENDS, check_store, sweep
    from fedadavr.naming import unknown
    from fedadavr.plugins import load_file

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
        with LiveProgress(console) as live:
            progress = search(
                options.experiment, options.grid, options.trials, options.run_options, out,
                live.update, options.on, records.append,
            )  # fmt: skip
    else:
        experiments = grid(options.experiment, options.grid, options.algorithms)
        with LiveProgress(console) as live:
            progress = sweep(
                experiments, options.run_options, out, live.update, on=options.on,
                on_record=records.append,
            )  # fmt: skip
    finish(progress, records, out, options.json)
