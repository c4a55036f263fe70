"""Writes README.md beside it from the summaries that are there: `python table.py`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PARTITIONS = ("lq-1", "lq-2", "lq-3", "dirichlet", "iid-noniid", "iid")


def lines(name: str) -> list[dict[str, Any]]:
    """The lines of a comparison; none if it was not run."""
    path = HERE / f"{name}.json"
    if not path.exists():
        return []
    told = json.loads(path.read_text())
    return told["summary"] if isinstance(told, dict) else told


def cell(accuracies: list[float]) -> str:
    """Mean and deviation."""
    mean = statistics.mean(accuracies)
    if len(accuracies) == 1:
        return f"{mean:.1f}"
    return f"{mean:.1f} ± {statistics.stdev(accuracies):.1f}"


def table(name: str) -> str:
    """All lines of a comparison, seed by seed."""
    rows = ["| | accuracy, % | seeds |", "|---|---|---|"]
    for line in lines(name):
        seeds = " ".join(f"{a:.1f}" for a in line["accuracies"])
        rows.append(f"| `{line['algorithm']}` | {cell(line['accuracies'])} | {seeds} |")
    return "\n".join(rows) if len(rows) > 2 else "Not run yet."


def partitions() -> str:
    """FedAdaVR and FedAdaVR+ on MNIST."""
    rows = ["| | FedAdaVR | FedAdaVR+ |", "|---|---|---|"]
    for partition in PARTITIONS[1:]:
        cells = [cell(line["accuracies"]) for line in lines(partition)]
        if cells:
            rows.append(f"| {partition} | {' | '.join(cells)} |")
    return "\n".join(rows)


def limits() -> str:
    """What was tried with `limits.py`, seed by seed."""
    rows = ["| | seed 1 | seed 2 |", "|---|---|---|"]
    for line in json.loads((HERE / "limits.json").read_text()):
        cells = [f"{a:.1f}" for a in line["accuracies"]]
        rows.append(f"| {line['what']} | {' | '.join([*cells, '–'][:2])} |")
    return "\n".join(rows)


def recorded(preset: str, **settings: Any) -> list[float | None]:
    """The accuracies of runs in ../paper, seed by seed; None for one that diverged."""
    path = HERE.parent / "paper" / preset / "records.jsonl"
    found = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        record = json.loads(line)
        run = record["settings"]
        if run["seed"] != 41 and all(run.get(k) == v for k, v in settings.items()):
            found[run["seed"]] = record.get("final_accuracy")
    return [found[seed] for seed in sorted(found)]


def told(accuracies: list[float | None]) -> str:
    """Mean and deviation, and how many diverged."""
    known = [a for a in accuracies if a is not None]
    lost = len(accuracies) - len(known)
    parts = [cell(known)] if known else []
    parts += [f"{lost} of {len(accuracies)} diverged"] if lost else []
    return ", ".join(parts) or "–"


def fifteen() -> str:
    """FedAdaVR on MNIST LQ-1, five optimizers by three server rates."""
    rates = (0.001, 0.005, 0.01)
    rows = [f"| | {' | '.join(f'{rate:g}' for rate in rates)} |", "|---|---|---|---|"]
    for optimizer in ("adabelief", "adam", "adagrad", "lamb", "yogi"):
        cells = [
            told(recorded("mnist-optimizers", algorithm="fedadavr", partition="lq-1",
                          optimizer=optimizer, server_lr=rate))
            for rate in rates
        ]  # fmt: skip
        rows.append(f"| {optimizer} | {' | '.join(cells)} |")
    return "\n".join(rows)


def confirmation() -> str:
    """Fashion-MNIST: all seeds that were run."""
    columns: dict[str, tuple[str, dict[str, Any]]] = {
        "FedAvg": ("fmnist-baselines", {"algorithm": "fedavg"}),
        "FedVARP": ("fmnist-baselines", {"algorithm": "fedvarp"}),
        "FedYogi": ("fmnist-baselines", {"algorithm": "fedyogi", "tau": None}),
        "FedAdaVR": ("fmnist-optimizers", {"algorithm": "fedadavr", "optimizer": "adam",
                                           "server_lr": 0.005}),
        "FedAdaVR+": ("fmnist-baselines", {"algorithm": "fedadavr-plus"}),
    }  # fmt: skip
    rows = [f"| | {' | '.join(columns)} | seeds |", "|---|" + "---|" * (len(columns) + 1)]
    for partition in PARTITIONS:
        runs = [recorded(name, partition=partition, **own) for name, own in columns.values()]
        seeds = sorted({len(run) for run in runs})
        count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        rows.append(f"| {partition} | {' | '.join(map(told, runs))} | {count} |")
    return "\n".join(rows)


def main() -> None:
    """Fill in README.md."""
    text = (HERE / "README.template.md").read_text()
    for name in ("lq1-plus", "lq1-fedavg", "lq1-study", "lq1-sampler", "lq1-fifty",
                 "lq1-variants", "lq1-cover", "lq1-shrink", "lq1-replace"):  # fmt: skip
        text = text.replace(f"<{name}>", table(name))
    text = text.replace("<partitions>", partitions()).replace("<confirmation>", confirmation())
    text = text.replace("<limits>", limits()).replace("<fifteen>", fifteen())
    (HERE / "README.md").write_text(text.replace("<bias>", (HERE / "bias.md").read_text().strip()))


if __name__ == "__main__":
    main()
