"""`fedadavr run`: one experiment from the command line."""

from __future__ import annotations

import json as json_format
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedadavr.algorithms.registry import user_settings
from fedadavr.cli.arguments import Arguments, parse, words_of
from fedadavr.experiments.experiment import Experiment, fields_of_experiment
from fedadavr.experiments.folder import RunFolder
from fedadavr.experiments.run import Result, Row, run
from fedadavr.plugins import load_file
from fedadavr.settings import flag


@dataclass(frozen=True)
class RunArguments(Arguments):
    """Train one model with a federated algorithm, into a folder that can be continued."""

    resume: Path | None = None
    """Continue the run in this folder."""


def main(argv: list[str], prog: str) -> None:
    """Run an experiment from the command line."""
    saved = _saved(argv)
    options = parse(RunArguments, argv, prog, [] if saved is None else [saved.algorithm])
    experiment, out = options.experiment, options.out
    if options.resume is not None:
        if out is not None:
            raise ValueError("--resume goes on in the run's own folder: --out cannot change it")
        out = options.resume
        saved = RunFolder(out).experiment()
        check_load(saved.load, experiment.load, out)
        if saved.load:
            load_file(saved.load)
            saved = RunFolder(out).experiment()  # with the defaults of an algorithm that is there
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

        result = run(
            experiment, options.run_options, out, resume=options.resume is not None, on_row=show
        )
    if not result.finished:
        load = f" --load {shlex.quote(experiment.load)}" if experiment.load else ""
        console.print(
            f"stopped after round {result.rounds} of {experiment.rounds}; "
            f"go on with: fedadavr run --resume {result.run_dir}{load}", soft_wrap=True,
        )  # fmt: skip
    print(json_format.dumps(asdict(result)) if options.json else _told(experiment, result))


def _told(experiment: Experiment, result: Result) -> str:
    """What came of it, in a sentence."""
    return (
        f"{experiment.algorithm} on {experiment.dataset} {experiment.partition}, seed "
        f"{experiment.seed}: accuracy {result.final_accuracy:.1f} %, loss "
        f"{result.final_loss:.3f} (mean of the last {experiment.average_last} of "
        f"{result.rounds} rounds), {result.seconds:.1f} s, in {result.run_dir}"
    )


def _saved(argv: list[str]) -> Experiment | None:
    """The settings of the run to be continued, whose flags are those of its algorithm."""
    for word, after in zip(argv, [*argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == "--resume":
            return RunFolder(Path(value if equals else after)).experiment()
    return None


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
    words = set(words_of(argv))
    known = fields_of_experiment() | user_settings(saved.algorithm)
    for name in known:
        if name in ("rounds", "load", "settings") or not {name, f"no_{name}"} & words:
            continue
        if known[name].read(typed.get(name), saved.algorithm) != saved.get(name):
            raise ValueError(
                f"--resume goes on with the run's settings: {flag(name)} cannot change"
            )
    if "rounds" not in words or not typed.rounds:
        return saved
    was_default = saved.average_last == replace(saved, average_last=None).resolved().average_last
    average = None if was_default else saved.average_last
    return replace(saved, rounds=typed.rounds, average_last=average)
