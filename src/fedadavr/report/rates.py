"""The server's rate over the rounds, where it was learned: one picture for a data set."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedadavr.experiments.records import RunRecord
from fedadavr.report.elements import Picture, Section
from fedadavr.report.grouping import Group, Variant
from fedadavr.report.palette import style

Line = tuple[int, str, npt.NDArray[np.float64]]
"""The number of a label, the label, and its rates, seeds by rounds."""


def rate_sections(group: Group, made_by: str) -> list[Section]:
    """The picture of the runs of a data set that learned their rate; none if none did."""
    panels = {
        column: lines
        for column in group.columns
        if (lines := [line for k, variant in enumerate(group.variants)
                      if (line := _line(k, variant, group.at(variant, column)))])
    }  # fmt: skip
    if not panels:
        return []
    note = "The rate that each round's step was made with: the geometric mean of the seeds, and a "
    note += "band from the lowest to the highest."
    title = f"{group.dataset}: the learned server rate"
    return [Picture(title, _draw(panels), f"{note} {_told(panels)}", made_by)]


def _line(number: int, variant: Variant, runs: Sequence[RunRecord]) -> Line | None:
    rates = [run.rates for run in runs if run.rates and run.failure is None]
    if not rates:
        return None
    common = min(map(len, rates))
    return number, variant.label, np.array([each[:common] for each in rates], np.float64)


def _told(panels: dict[str, list[Line]]) -> str:
    """The picture in words: where each rate began, its highest, and where it ended."""
    words = []
    for column, lines in panels.items():
        for _, label, rates in lines:
            mean = _mean(rates)
            known = mean[np.isfinite(mean)]
            words.append(
                f"{column}, {label}: from {known[0]:.2g} over at most {known.max():.2g} to "
                f"{known[-1]:.2g}"
            )
    return "; ".join(words) + "."


def _mean(rates: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = np.exp(np.log(rates).mean(axis=0))
    return found


def _draw(panels: dict[str, list[Line]]) -> bytes:
    """As PNG, a panel for each column."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    wide = min(3, len(panels))
    high = -(-len(panels) // wide)
    figure, axes = plt.subplots(
        high, wide, figsize=(4.2 * wide, 3.2 * high), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for place in axes.flat[len(panels) :]:
        place.set_axis_off()
    for place, (column, lines) in zip(axes.flat, panels.items(), strict=False):
        for number, label, rates in lines:
            look, rounds = style(number), np.arange(1, rates.shape[1] + 1)
            place.plot(rounds, _mean(rates), color=look.light, label=label, linewidth=1.6)
            place.fill_between(
                rounds, rates.min(axis=0), rates.max(axis=0), color=look.light, alpha=0.15
            )
        place.set(title=column, xlabel="round", yscale="log")
        place.grid(alpha=0.3)
        place.legend(fontsize=8)
    axes[0][0].set_ylabel("server rate")
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=120)
    plt.close(figure)
    return out.getvalue()
