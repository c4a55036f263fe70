"""README's picture, on light and on dark: `make picture` runs the comparison, then this."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from fedadavr.experiments.records import read
from fedadavr.report.curve import curve
from fedadavr.report.palette import style

NAMES = {  # in the order of the legend, with the palette's numbers
    "fedadavr-plus": ("FedAdaVR+", 1),
    "fedadavr": ("FedAdaVR", 0),
    "fedyogi": ("FedYogi", 2),
    "fedavg": ("FedAvg", 4),
}


def draw(runs: Path, out: Path, *, dark: bool) -> None:
    """Each algorithm's mean over its seeds, and a band from the worst to the best."""
    ink = "#e6edf3" if dark else "#1f2328"
    mpl.rcParams |= {
        "svg.hashsalt": "fedadavr", "font.size": 11, "text.color": ink, "axes.labelcolor": ink,
        "xtick.color": ink, "ytick.color": ink, "axes.edgecolor": ink,
    }  # fmt: skip
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    records = read([runs])
    for algorithm, (name, number) in NAMES.items():
        look = style(number)
        color = look.dark if dark else look.light
        found = curve([r for r in records if r.experiment.algorithm == algorithm], "accuracy")
        axes.plot(found.rounds, found.mean, color=color, linewidth=2, label=name)
        axes.fill_between(found.rounds, found.low, found.high, color=color, alpha=0.18, linewidth=0)
        axes.set_xlim(0, found.rounds[-1])
    axes.set(xlabel="round", ylabel="accuracy, %", ylim=(0, 100))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2)
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(out, transparent=True, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    folder, beside = Path(sys.argv[1]), Path(__file__).parent
    draw(folder, beside / "accuracy.svg", dark=False)
    draw(folder, beside / "accuracy-dark.svg", dark=True)
