"""A comparison: several algorithms and seeds on one setting."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.options import RunOptions
from fedadavr.experiments.pool import in_processes
from fedadavr.experiments.run import Result, Row, run


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
    contestants: list[Contestant],
    run_options: RunOptions,
    out: Path,
    on_change: Callable[[list[Contestant]], None],
) -> None:
    """Run them all, as many at a time as there are workers; `on_change` is told of every line.

    A run that fails is noted with its reason; the others go on.
    """
    seeds = dict.fromkeys(e.seed for c in contestants for e in c.experiments)
    waiting = [  # seed by seed, so that all algorithms can be seen early
        (c, e) for seed in seeds for c in contestants for e in c.experiments if e.seed == seed
    ]
    single = replace(run_options, workers=1)
    tasks = [(e, single, out / folder_name(c.label, e.seed)) for c, e in waiting]
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
        on_change(contestants)


def _run(task: tuple[Experiment, RunOptions, Path], tell: Callable[[Row], None]) -> Result:
    """One run of a comparison."""
    return run(*task, on_row=tell)


def folder_name(label: str, seed: int) -> str:
    """A label as part of a path."""
    return re.sub(r"[^\w.=-]+", "_", label) + f"-{seed}"


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
