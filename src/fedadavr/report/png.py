"""A report's curves as one picture: a row of panels for each grid, as in the paper's figure."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from fedadavr.report.curve import Metric, curve
from fedadavr.report.elements import Curves, Report
from fedadavr.report.palette import style

WIDE = 3  # panels in a row at most


def render(page: Report, metric: Metric = "accuracy") -> bytes:
    """All grids, one below the other, over one legend."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

    grids = [section for section in page.sections if isinstance(section, Curves)]
    if not grids:
        raise ValueError("the report has no curves to draw")
    columns = min(WIDE, max(len(grid.panels) for grid in grids))
    rows = [(grid, start) for grid in grids for start in range(0, len(grid.panels), columns)]
    width = max(5.5, 3.1 * columns)
    key = 0.75 + 0.065 * max((len(label) for label in page.labels), default=0)  # inches
    keys = max(1, min(len(page.labels), int(width / key)))
    legend = 0.22 * -(-len(page.labels) // keys) + 0.2
    figure, axes = plt.subplots(
        len(rows), columns, figsize=(width, 2.9 * len(rows) + legend),
        squeeze=False, layout="constrained",
    )  # fmt: skip
    numbers = {label: number for number, label in enumerate(page.labels)}
    for (grid, start), line in zip(rows, axes, strict=True):
        panels = grid.panels[start : start + columns]
        for place in line[len(panels) :]:
            place.set_axis_off()
        for place, panel in zip(line, panels, strict=False):
            for series in panel.series:
                band = 0.13 if len(panel.series) <= 8 else 0.05  # many on top of each other
                _draw(place, series.records, numbers[series.label], series.label, metric, band)
            heading = f"{grid.title}\n" if place is line[0] and start == 0 else "\n"
            place.set_title(heading + panel.title, fontsize=9, loc="left", parse_math=False)
            place.set_xlabel("round", fontsize=8)
            place.grid(alpha=0.3)
            place.tick_params(labelsize=8)
            if metric == "loss":
                place.set_yscale("log")
                place.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                place.yaxis.set_major_formatter(FormatStrFormatter("%g"))
                place.yaxis.set_minor_locator(NullLocator())
        line[0].set_ylabel("accuracy, %" if metric == "accuracy" else "loss", fontsize=8)
    found: dict[str, Any] = {}
    for place in axes.flat:
        found |= dict(zip(*reversed(place.get_legend_handles_labels()), strict=True))
    if found:
        shown = [label for label in page.labels if _name(label) in found]
        box = figure.legend(
            [found[_name(label)] for label in shown], [_name(label) for label in shown],
            loc="outside lower center", ncols=keys, fontsize=8, frameon=False, handlelength=3.2,
        )  # fmt: skip
        for text in box.get_texts():
            text.set_parse_math(False)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=150)
    plt.close(figure)
    return out.getvalue()


def _name(label: str) -> str:
    return f"\u200b{label}"  # matplotlib leaves labels that begin with _ out of the legend


def _draw(place: Any, records: Any, number: int, label: str, metric: Metric, band: float) -> None:
    found = curve(records, metric)
    if not found.rounds:
        return
    look = style(number)
    dash: Any = (0, tuple(length / 1.5 for length in look.dash)) if look.dash else "solid"
    mark = "." if len(found.rounds) == 1 else None
    place.plot(found.rounds, found.mean, color=look.light, linestyle=dash, linewidth=1.4,
               label=_name(label), marker=mark)  # fmt: skip
    if found.count > 1:
        low, high = np.asarray(found.low), np.asarray(found.high)
        place.fill_between(found.rounds, low, high, color=look.light, alpha=band, linewidth=0)
