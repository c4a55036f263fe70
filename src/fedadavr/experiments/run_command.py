"""`fedadavr run`: one experiment from the command line."""

from __future__ import annotations

import json as json_format
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedadavr.experiments.command_line import Arguments, parse
from fedadavr.experiments.experiment import Experiment, flag
from fedadavr.experiments.folder import RunFolder
from fedadavr.experiments.run import Row, run


@dataclass(frozen=True)
class RunArguments(Arguments):
    """Train one model with a federated algorithm, into a folder that can be continued."""

    resume: Path | None = None
    """Continue the run in this folder."""


def main(argv: list[str], prog: str) -> None:
    """Run an experiment from the command line."""
    options = parse(RunArguments, argv, prog)
    experiment = options.experiment
    out, resume = options.out, options.resume is not None
    if options.resume is not None:
        if options.out is not None:
            raise ValueError("--resume goes on in the run's own folder: --out cannot change it")
        out = options.resume
        saved = RunFolder(out).experiment()
        check_load(saved.load, experiment.load, out)
        experiment = resumed_settings(saved, replace(experiment, load=saved.load), argv)
    experiment = experiment.resolved()
    options.run_options.check()
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"{experiment.algorithm}: reading data", total=experiment.rounds)

        def show(row: Row) -> None:
            accuracy = f"  accuracy {row['accuracy']:.1f} %" if "accuracy" in row else ""
            loss = "none" if row["train_loss"] is None else f"{row['train_loss']:.3f}"
            text = f"{experiment.algorithm}: training loss {loss}{accuracy}"
            progress.update(task, completed=row["round"], description=text)

        result = run(experiment, options.run_options, out, resume=resume, on_row=show)
    if not result.finished:
        load = f" --load {shlex.quote(experiment.load)}" if experiment.load else ""
        console.print(
            f"stopped after round {result.rounds} of {experiment.rounds}; "
            f"go on with: fedadavr run --resume {result.run_dir}{load}", soft_wrap=True,
        )  # fmt: skip
    if options.json:
        print(json_format.dumps(asdict(result)))
    else:
        print(
            f"{experiment.algorithm} on {experiment.dataset} {experiment.partition}, seed "
            f"{experiment.seed}: accuracy {result.final_accuracy:.1f} %, loss "
            f"{result.final_loss:.3f} (mean of the last {experiment.average_last} of "
            f"{result.rounds} rounds), {result.seconds:.1f} s, in {result.run_dir}"
        )


def check_load(saved: str | None, typed: str | None, out: Path) -> None:
    """A folder can come from anybody: the Python file that its settings name is to be typed."""
    if typed is not None and (saved is None or Path(typed).resolve() != Path(saved).resolve()):
        raise ValueError("--resume goes on with the run's settings: --load cannot change")
    if saved is not None and typed is None:
        raise ValueError(
            f"the run in {out} executes a Python file: if you trust it, add --load "
            f"{shlex.quote(saved)}"
        )


def resumed_settings(saved: Experiment, typed: Experiment, argv: list[str]) -> Experiment:
    """A run goes on with its own settings; only its length can be changed."""
    words = {word.partition("=")[0].replace("_", "-") for word in argv}
    given = {
        name: value for name, value in asdict(typed).items()
        if flag(name) in words or flag(f"no_{name}") in words
    }  # fmt: skip
    rounds = given.pop("rounds", None)
    for name, value in given.items():
        if value != getattr(saved, name):
            raise ValueError(
                f"--resume goes on with the run's settings: {flag(name)} cannot change"
            )
    if not rounds:
        return saved
    was_default = saved.average_last == replace(saved, average_last=None).resolved().average_last
    return replace(saved, rounds=rounds, average_last=None if was_default else saved.average_last)
