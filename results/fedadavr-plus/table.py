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


def confirmation() -> str:
    """Fashion-MNIST: all seeds that were run, together."""
    names = ("FedAvg", "FedVARP", "FedAdaVR", "FedYogi", "FedAdaVR+")
    rows = [f"| | {' | '.join(names)} | seeds |", "|---|" + "---|" * (len(names) + 1)]
    for partition in PARTITIONS:
        runs = [lines(f"fmnist-{partition}-{seed}") for seed in (42, 43, 44)]
        runs = [run for run in runs if len(run) == len(names)]
        if runs:
            columns = zip(*runs, strict=True)
            cells = [cell([a for line in column for a in line["accuracies"]]) for column in columns]
            rows.append(f"| {partition} | {' | '.join(cells)} | {len(runs)} |")
    return "\n".join(rows) if len(rows) > 2 else "Not run yet."


def main() -> None:
    """Fill in README.md."""
    text = (HERE / "README.template.md").read_text()
    for name in ("lq1-plus", "lq1-fedavg", "lq1-fedadavr", "lq1-study", "lq1-sampler", "lq1-fifty"):
        text = text.replace(f"<{name}>", table(name))
    text = text.replace("<partitions>", partitions()).replace("<confirmation>", confirmation())
    (HERE / "README.md").write_text(text.replace("<bias>", (HERE / "bias.md").read_text().strip()))


if __name__ == "__main__":
    main()
