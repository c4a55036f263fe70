"""`fedadavr compare`: several algorithms and seeds on one setting, with error bars."""

from __future__ import annotations

import itertools
import json as json_format
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from fedadavr.cli.arguments import Arguments, parse
from fedadavr.experiments.compare import Contestant, compare, contestant, draw, summary
from fedadavr.experiments.experiment import Experiment


@dataclass(frozen=True)
class CompareArguments(Arguments):
    """Run several algorithms with several seeds on one setting, and compare them."""

    algorithms: tuple[str, ...] = ("fedavg", "fedvarp", "fedadavr-novr", "fedadavr")
    """Which, each with settings of its own: fedadavr:optimizer=yogi,server-lr=0.005."""
    seeds: tuple[int, ...] = (42, 43, 44)
    """One run each."""
    target: float | None = None
    """Also tell the first round that reaches this accuracy, in percent."""


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
    contestants = [contestant(s, options.experiment, options.seeds) for s in options.algorithms]
    out = options.out or new_folder()
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty: choose another --out")
    out.mkdir(parents=True, exist_ok=True)
    with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
        compare(contestants, options.run_options, out, lambda now: live.update(progress_table(now)))
    e = contestants[0].experiments[0]
    title = (
        f"{e.dataset} {e.partition}, {e.clients} clients, {e.clients_per_round} per round, "
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
    about = {"command": " ".join([prog, *argv]), "setting": e.flat(), "summary": lines}
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
