"""`fedadavr compare`: several algorithms and seeds on one setting, with error bars."""

from __future__ import annotations

import itertools
import json as json_format
import re
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from fedadavr.experiments.command_line import Arguments, parse
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.pool import in_processes
from fedadavr.experiments.run import Result, Row, RunOptions, run
from fedadavr.plugins import load_file


@dataclass(frozen=True)
class CompareArguments(Arguments):
    """Run several algorithms with several seeds on one setting, and compare them."""

    algorithms: tuple[str, ...] = ("fedavg", "fedvarp", "fedadavr-novr", "fedadavr")
    """Which, each with settings of its own: fedadavr:optimizer=yogi,server-lr=0.005."""
    seeds: tuple[int, ...] = (42, 43, 44)
    """One run each."""
    target: float | None = None
    """Also tell the first round that reaches this accuracy, in percent."""


@dataclass
class Contestant:
    """One algorithm with its settings, and how its runs are getting on."""

    label: str
    experiments: list[Experiment]
    rows: dict[int, list[dict[str, Any]]] = field(default_factory=dict)  # by seed
    results: dict[int, Result] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)

    def accuracies(self) -> list[float]:
        """The final accuracy of each finished run."""
        return [result.final_accuracy for result in self.results.values()]

    def rounds_to(self, target: float) -> list[int | None]:
        """The first round of each run that reaches a target; None if it never does."""
        return [
            next((r["round"] for r in self.rows[seed] if r.get("accuracy", -1.0) >= target), None)
            for seed in self.results
        ]

    def last_accuracy(self) -> float | None:
        """The mean of the runs' newest accuracies."""
        newest = [
            next((r["accuracy"] for r in reversed(rows) if "accuracy" in r), None)
            for rows in self.rows.values()
        ]
        known = [accuracy for accuracy in newest if accuracy is not None]
        return statistics.mean(known) if known else None


def contestant(spec: str, base: Experiment, seeds: tuple[int, ...]) -> Contestant:
    """An algorithm as it is typed: a name, and after a colon settings of its own."""
    chosen = base.with_algorithm(spec)
    return Contestant(spec, [replace(chosen, seed=seed).resolved() for seed in seeds])


def compare(
    contestants: list[Contestant], run_options: RunOptions, out: Path, console: Console
) -> None:
    """Run them all, as many at a time as there are workers, with a live table.

    A run that fails is noted with its reason; the others go on.
    """
    seeds = dict.fromkeys(e.seed for c in contestants for e in c.experiments)
    waiting = [  # seed by seed, so that all algorithms can be seen early
        (c, e) for seed in seeds for c in contestants for e in c.experiments if e.seed == seed
    ]
    single = replace(run_options, workers=1)
    tasks = [(e, single, out / folder_name(c.label, e.seed)) for c, e in waiting]
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        for number, kind, what in in_processes(_run, tasks, min(run_options.workers, len(tasks))):
            c, seed = waiting[number][0], waiting[number][1].seed
            if kind == "row":
                c.rows.setdefault(seed, []).append(what)
            elif kind == "done":
                done = c.results | {seed: what}
                # Whoever is finished first: the figures stand in the order of the seeds.
                c.results = {s: done[s] for s in seeds if s in done}
            else:
                c.failures[seed] = what
            live.update(progress_table(contestants))


def _run(task: tuple[Experiment, RunOptions, Path], tell: Callable[[Row], None]) -> Result:
    """One run of a comparison."""
    return run(*task, on_row=tell)


def folder_name(label: str, seed: int) -> str:
    """A label as part of a path."""
    return re.sub(r"[^\w.=-]+", "_", label) + f"-{seed}"


def progress_table(contestants: list[Contestant]) -> Table:
    """How far everybody is."""
    table = Table()
    for column in ("algorithm", "rounds done", "accuracy now", "time left"):
        table.add_column(column, justify="left" if column == "algorithm" else "right")
    for c in contestants:
        total = sum(e.rounds or 0 for e in c.experiments)
        done = sum(rows[-1]["round"] for rows in c.rows.values())
        spent = sum(rows[-1]["elapsed"] for rows in c.rows.values())
        now = c.last_accuracy()
        table.add_row(
            c.label,
            f"{done}/{total}",
            "" if now is None else f"{now:.1f} %",
            f"{spent / done * (total - done):.0f} s" if done else "",
        )
    return table


def summary(contestants: list[Contestant], target: float | None) -> list[dict[str, Any]]:
    """Each algorithm's mean and deviation over its seeds."""
    lines = []
    for c in contestants:
        if not c.results:
            continue
        accuracies = c.accuracies()
        results = list(c.results.values())
        line: dict[str, Any] = {
            "algorithm": c.label,
            "accuracy": statistics.mean(accuracies),
            "deviation": statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0,
            "accuracies": accuracies,
            "loss": statistics.mean(r.final_loss for r in results),
            "seconds": statistics.mean(r.seconds for r in results),
            "memory_bytes": max(r.memory_bytes for r in results),
        }
        if target is not None:
            line["rounds_to_target"] = c.rounds_to(target)
        lines.append(line)
    return lines


def show(lines: list[dict[str, Any]], title: str, target: float | None, console: Console) -> None:
    """The summary as a table."""
    best = max(line["accuracy"] for line in lines)
    header = ["algorithm", "accuracy %"]
    header += [f"to {target:g} %"] if target is not None else []
    header += ["s/run", "MB"]
    rows = []
    for line in lines:
        cells = [line["algorithm"], f"{line['accuracy']:.1f} ± {line['deviation']:.1f}"]
        if target is not None:
            cells.append(reached(line["rounds_to_target"]))
        rows.append([*cells, f"{line['seconds']:.0f}", f"{line['memory_bytes'] / 1e6:.1f}"])
    table = Table(title=title, title_justify="left")
    table.add_column("algorithm", overflow="fold")
    for k, column in enumerate(header[1:], 1):
        width = max(len(row[k]) for row in [header, *rows])
        table.add_column(column, justify="right", min_width=width)
    for line, row in zip(lines, rows, strict=True):
        table.add_row(*row, style="bold" if line["accuracy"] == best else "")
    console.print(table)


def reached(rounds: list[int | None]) -> str:
    """The mean of the rounds, and how many runs reached the target if not all did."""
    there = [r for r in rounds if r is not None]
    if not there:
        return "never"
    few = "" if len(there) == len(rounds) else f" ({len(there)} of {len(rounds)})"
    return f"{statistics.mean(there):.0f}{few}"


def draw(contestants: list[Contestant], title: str, path: Path) -> None:
    """Accuracy over rounds: the mean of the seeds, and a band from the worst to the best."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    import numpy as np

    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    for c in contestants:
        runs = [
            [(r["round"], r["accuracy"]) for r in c.rows[seed] if "accuracy" in r]
            for seed in c.results
        ]
        if not runs:
            continue
        rounds = [round for round, _ in runs[0]]
        curves = np.array([[accuracy for _, accuracy in run] for run in runs])
        (line,) = axes.plot(rounds, curves.mean(axis=0), label=c.label, linewidth=1.6)
        axes.fill_between(rounds, curves.min(axis=0), curves.max(axis=0),
                          color=line.get_color(), alpha=0.15, linewidth=0)  # fmt: skip
    axes.set(xlabel="round", ylabel="accuracy, %", title=title, ylim=(0, 100))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(argv: list[str], prog: str) -> None:
    """Compare algorithms from the command line."""
    options = parse(CompareArguments, argv, prog, checkpoint_every=0)
    if options.algorithm != Experiment().algorithm:
        raise ValueError("compare takes --algorithms (several), not --algorithm")
    if options.seed != Experiment().seed:
        raise ValueError("compare takes --seeds (several), not --seed")
    for name, values in (("algorithms", options.algorithms), ("seeds", options.seeds)):
        if not values:
            raise ValueError(f"--{name} needs at least one")
        if len(set(values)) < len(values):
            raise ValueError(f"--{name} names something twice: {' '.join(map(str, values))}")
    if options.target is not None and not 0 < options.target <= 100:
        raise ValueError(f"--target is an accuracy in percent, got {options.target:g}")
    options.run_options.check()
    if options.store is not None:
        raise ValueError("compare makes many runs, and each needs a store of its own: use run")
    if options.load:
        load_file(options.load)
    contestants = [contestant(s, options.experiment, options.seeds) for s in options.algorithms]
    out = options.out or new_folder()
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty: choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    compare(contestants, options.run_options, out, Console(stderr=True))
    e = contestants[0].experiments[0]
    title = (
        f"{e.dataset} {e.partition}, {e.clients} clients, {e.clients_per_round} a round, "
        f"{e.rounds} rounds, {len(options.seeds)} seeds"
    )
    lines = summary(contestants, options.target)
    for c in contestants:
        for seed, why in c.failures.items():
            print(f"fedadavr: {c.label}, seed {seed}: {why}", file=sys.stderr)
    if not lines:
        raise ValueError("no run has finished")
    picture = out / "curves.png"
    draw(contestants, title, picture)
    about = {"command": " ".join([prog, *argv]), "setting": asdict(e), "summary": lines}
    (out / "summary.json").write_text(json_format.dumps(about, indent=1) + "\n")
    if options.json:
        print(json_format.dumps({"summary": lines, "picture": str(picture), "out": str(out)}))
        return
    console = Console()
    about_table = f"{title}\naccuracy: mean of the last {e.average_last} rounds, ± over seeds"
    if options.target is not None:
        about_table += f"; to {options.target:g} %: rounds until an evaluation reached it"
    show(lines, about_table, options.target, console)
    console.print(f"curves: {picture}", soft_wrap=True)


def new_folder() -> Path:
    """runs/compare-NUMBER, the first that is free."""
    return next(p for i in itertools.count(1) if not (p := Path("runs") / f"compare-{i}").exists())
