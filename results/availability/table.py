"""README.md and its pictures, from the records: `python results/availability/table.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from study import (
    AVAILABILITIES,
    CHOICES,
    HERE,
    PARTITIONS,
    SEEDS,
    chosen,
    found,
    scores,
    table,
)

from fedadavr.experiments.records import RunRecord, run_id

NAMES = {
    "fedavg": "FedAvg", "fedyogi": "FedYogi", "scaffold": "SCAFFOLD", "feddyn": "FedDyn",
    "ghbm": "GHBM", "fedau": "FedAU", "fedvarp": "FedVARP", "fedstale": "FedStale",
    "fedadavr": "FedAdaVR", "fedadavr-plus": "FedAdaVR+",
}  # fmt: skip
TITLES = {"lq-2": "LQ-2", "dirichlet": "Dirichlet"}
LEFT, RIGHT = 52, 86  # of the pictures, in percent
Cell = tuple[float, float]
Figure = Callable[[RunRecord], float]


def mean_of(record: RunRecord) -> float:
    """The accuracy over all clients; a run that diverged has none."""
    return record.final_accuracy or 0.0


def worst_of(record: RunRecord) -> float:
    """Of the worst tenth."""
    return record.worst_decile or 0.0


def quarter(k: int) -> Figure:
    """Of a quarter of the clients, from those that came least."""
    return lambda record: record.by_visits[k][1] if record.by_visits else 0.0


def cells(figure: Figure, records: dict[Any, RunRecord]) -> dict[Any, Cell]:
    """Mean and deviation over the seeds, by algorithm, partition and availability."""
    return {
        (a, p, who): (float(np.mean(values)), float(np.std(values, ddof=1)))
        for a in CHOICES
        for p in PARTITIONS
        for who in AVAILABILITIES
        if (values := [figure(records[a, p, who, seed]) for seed in SEEDS])
    }


def marked(column: dict[str, Cell]) -> set[str]:
    """The best, and those not below it by more than both deviations."""
    best = max(column, key=lambda a: column[a][0])
    top, spread = column[best]
    return {a for a, (mean, own) in column.items() if top - mean <= spread + own}


def markdown(found: dict[Any, Cell], partition: str) -> list[str]:
    """A table of a partition."""
    lines = ["| | " + " | ".join(AVAILABILITIES) + " |", "|---|" + "---|" * len(AVAILABILITIES)]
    best = {who: marked({a: found[a, partition, who] for a in CHOICES}) for who in AVAILABILITIES}
    for a in CHOICES:
        row = []
        for who in AVAILABILITIES:
            mean, deviation = found[a, partition, who]
            text = f"{mean:.1f} ± {deviation:.1f}"
            row.append(f"**{text}**" if a in best[who] else text)
        lines.append(f"| {NAMES[a]} | " + " | ".join(row) + " |")
    return lines


def settings_table() -> list[str]:
    """What was chosen on seed 41, and what it scored there."""
    best, score = chosen(), scores()
    lines = ["| | " + " | ".join(TITLES.values()) + " |", "|---|---|---|"]
    for a in CHOICES:
        own = [best[p, a] for p in PARTITIONS]
        told = [f"{s.partition(':')[2].replace(',', ', ')} ({score[p, s]:.1f})"
                for p, s in zip(PARTITIONS, own, strict=True)]  # fmt: skip
        lines.append(f"| {NAMES[a]} | " + " | ".join(told) + " |")
    return lines


def picture(partition: str, figures: dict[str, dict[Any, Cell]]) -> str:
    """The mean, and the quarters that came least and most, of every algorithm."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, len(AVAILABILITIES), figsize=(11, 3.6), sharey=True, sharex=True)
    order = list(CHOICES)[::-1]
    for ax, who in zip(axes, AVAILABILITIES, strict=True):
        for y, a in enumerate(order):
            key = (a, partition, who)
            if figures["mean"][key][0] < LEFT:
                ax.text(LEFT, y, f"◂ {figures['mean'][key][0]:.0f}", va="center", color="#35608d")
                continue
            low, high = figures["least"][key][0], figures["most"][key][0]
            color = "#c2571a" if a.startswith("fedadavr") else "#35608d"
            ax.plot([low, high], [y, y], color=color, alpha=0.3, lw=5, solid_capstyle="round")
            ax.plot(low, y, "o", mfc="white", mec=color, ms=5)
            ax.errorbar(figures["mean"][key][0], y, xerr=figures["mean"][key][1], fmt="o",
                        color=color, ms=5, lw=1)  # fmt: skip
        ax.set_title(who)
        ax.set_xlim(LEFT, RIGHT)
        ax.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(range(len(order)), [NAMES[a] for a in order])
    figure.supxlabel("accuracy, % (hollow: the quarter of the clients that came least)", fontsize=9)
    figure.suptitle(TITLES[partition], x=0.01, ha="left", fontweight="bold")
    figure.tight_layout()
    name = f"{partition}.png"
    figure.savefig(HERE / name, dpi=130)
    plt.close(figure)
    return name


def visits_table(records: dict[Any, RunRecord]) -> list[str]:
    """How often the quarters came, which hardly depends on the algorithm."""
    lines = ["| | least | | | most |", "|---|---|---|---|---|"]
    for who in AVAILABILITIES:
        came = np.mean(
            [[v for v, _ in records["fedavg", p, who, s].by_visits or []]
             for p in PARTITIONS for s in SEEDS], axis=0,
        )  # fmt: skip
        lines.append(f"| {who} | " + " | ".join(f"{v:.1f}" for v in came) + " |")
    return lines


def main() -> None:
    """Write README.md from what is recorded."""
    by_id = found("table")
    records = {key: by_id[run_id(experiment)] for key, experiment in table().items()}
    figures = {
        "mean": cells(mean_of, records), "worst": cells(worst_of, records),
        "least": cells(quarter(0), records), "most": cells(quarter(3), records),
    }  # fmt: skip
    lines = [(HERE / "findings.md").read_text().rstrip(), ""]
    for p in PARTITIONS:
        lines += [f"## {TITLES[p]}", "", f"![{TITLES[p]}: accuracy of ten algorithms under five "
                  f"availabilities]({picture(p, figures)})", ""]  # fmt: skip
        for what, title in (
            ("mean", "Accuracy over all clients, there or not"),
            ("least", "Of the quarter of the clients that came least"),
            ("worst", "Of the worst tenth of the clients"),
        ):
            lines += [f"{title}, %:", "", *markdown(figures[what], p), ""]
    failed = sum(record.failure is not None for record in records.values())
    lines += [(HERE / "waiting.md").read_text().rstrip(), ""]
    lines += ["## How often clients came", "", "Visits in 100 rounds, by quarters of the clients:",
              "", *visits_table(records), "",
              "## Settings", "", "Chosen on seed 41; in brackets the mean accuracy there.", "",
              *settings_table(), "",
              f"{len(records)} runs, {failed} diverged. [STUDY.md](STUDY.md) was written before. "
              "Run: `results/availability/run.sh`, then "
              "`python results/availability/table.py`."]  # fmt: skip
    (HERE / "README.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
