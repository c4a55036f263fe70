"""A picture of dots: for a page as SVG that needs no script, and as a PNG file."""

from __future__ import annotations

import io
from html import escape
from typing import Any

from fedadavr.report.elements import Cell, Dots, ReportRow
from fedadavr.report.palette import style

LANE = 8  # pixels between the dots of a line
GRAY = ("#8a929b", "#7d8790")
Span = tuple[float, float]
PAPER, OTHERS = "the paper's", "others"


def places(dots: Dots, row: ReportRow) -> list[tuple[int, int, Cell]]:
    """For every figure of a line: its lane, its column, and itself; others share the last lane."""
    return [
        (min(k, dots.named), k, cell) for k, cell in enumerate(row.cells) if cell.value is not None
    ]


def lanes(dots: Dots) -> int:
    """How many lanes a line has."""
    return dots.named + (len(dots.table.columns) > dots.named)


def ticks(span: Span) -> list[int]:
    """Whole tens, or twenties on a long axis, fives on a short one."""
    low, high = map(int, span)
    step = 20 if high - low > 60 else 10 if high - low > 20 else 5
    return [tick for tick in range(0, 101, step) if low <= tick <= high]


# --- SVG ---


def svg(dots: Dots) -> str:
    """A legend, and a panel for each data set."""
    panels = "".join(_panel(dots, title, rows) for title, rows in dots.panels)
    keys = "".join(_key(_color(k), name) for k, name in enumerate(dots.table.columns[: dots.named]))
    if lanes(dots) > dots.named:
        keys += _key(_color(dots.named, others=True), OTHERS, small=True)
    hollow = (
        '<svg width="14" height="12" aria-hidden="true"><use href="#hollow" x="7" y="6"/></svg>'
    )
    return (
        '<svg width="0" height="0" class="marks" aria-hidden="true"><defs><path id="hollow" '
        'd="M0 -5 L5 0 L0 5 L-5 0 Z"/>'
        '<path id="beyond" d="M-4 0 L2 -3.5 L2 3.5 Z"/></defs></svg>'
        f'<div class="dotkeys">{keys}<span class="dotkey hollow">{hollow}{PAPER}</span></div>\n'
        f'<div class="dotpanels">{panels}</div>'
    )


def _color(number: int, *, others: bool = False) -> str:
    look = style(number)
    light, dark = GRAY if others else (look.light, look.dark)
    return f"--light:{light};--dark:{dark}"


def _key(color: str, name: str, *, small: bool = False) -> str:
    return (
        f'<span class="dotkey" style="{color}"><svg width="12" height="12" aria-hidden="true">'
        f'<circle cx="6" cy="6" r="{2.2 if small else 4}"/></svg>{escape(name)}</span>'
    )


def _panel(dots: Dots, title: str, rows: list[ReportRow]) -> str:
    span = dots.span(rows)
    lines = "".join(_line(dots, row, span) for row in rows)
    axis = "".join(
        f'<text x="{_at(tick, span):.2f}%" y="12" text-anchor="middle">{tick}</text>'
        for tick in ticks(span)
    )
    return (
        f'<figure role="group" aria-label="{escape(title)}: accuracy in percent; '
        f'the figures are in the table below"><figcaption>{escape(title)}</figcaption>'
        f'<div class="dotrows">{lines}<span></span>'
        f'<svg class="axis" height="16" aria-hidden="true">{axis}</svg></div></figure>'
    )


def _at(value: float, span: Span) -> float:
    """Percent of the width, with some room at either side."""
    low, high = span
    return 3 + 94 * (min(max(value, low), high) - low) / (high - low)


def _line(dots: Dots, row: ReportRow, span: Span) -> str:
    height = LANE * (lanes(dots) + 1)
    drawn = [
        f'<line class="grid" x1="{_at(tick, span):.2f}%" x2="{_at(tick, span):.2f}%" y1="0" '
        f'y2="{height}"/>'
        for tick in ticks(span)
    ]
    for lane, column, cell in places(dots, row):
        drawn.append(_dot(dots, lane, column, cell, span))
    return (
        f'<span class="dotlabel">{escape(row.labels[-1])}</span>'
        f'<svg height="{height}" role="img" aria-label="{escape(_said(dots, row))}">'
        f"{''.join(drawn)}</svg>"
    )


def _said(dots: Dots, row: ReportRow) -> str:
    """A line's figures in words."""
    named = zip(dots.table.columns, row.cells, strict=True)
    return f"{' '.join(row.labels)}: " + ", ".join(
        f"{name} {cell.line()}" for name, cell in named if cell.value is not None
    )


def _dot(dots: Dots, lane: int, column: int, cell: Cell, span: Span) -> str:
    assert cell.value is not None
    y, others = LANE * (lane + 1), column >= dots.named
    parts = [f"<title>{escape(dots.table.columns[column])}: {escape(cell.line())}</title>"]
    if cell.deviation and not others:
        left, right = (_at(cell.value + d, span) for d in (-cell.deviation, cell.deviation))
        parts.append(f'<line x1="{left:.2f}%" x2="{right:.2f}%" y1="{y}" y2="{y}"/>')
    x = f"{_at(cell.value, span):.2f}%"
    if cell.value < span[0]:
        parts.append(f'<use href="#beyond" class="full" x="{x}" y="{y}"/>')
    else:
        parts.append(f'<circle cx="{x}" cy="{y}" r="{2.2 if others else 3.6}"/>')
    if cell.paper is not None:
        parts.append(f'<use href="#hollow" x="{_at(cell.paper, span):.2f}%" y="{y}"/>')
    return f'<g style="{_color(column, others=others)}">{"".join(parts)}</g>'


# --- PNG ---


def png(dots: Dots, columns: int = 2) -> bytes:
    """The panels beside each other, or one below the other for a narrow screen."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    panels = dots.panels
    columns = min(columns, len(panels))
    grid = [panels[k : k + columns] for k in range(0, len(panels), columns)]
    tall = [0.55 + 0.62 * max(len(rows) for _, rows in line) for line in grid]
    names = dots.table.columns[: dots.named]
    keys = [Line2D([], [], color=style(k).light, marker="o", markersize=6, linewidth=1.2,
                   label=name) for k, name in enumerate(names)]  # fmt: skip
    if lanes(dots) > dots.named:
        keys.append(Line2D([], [], color=GRAY[0], marker="o", markersize=3.5, linewidth=0,
                           label=OTHERS))  # fmt: skip
    keys.append(Line2D([], [], color="#2b2b2b", marker="D", markersize=5, linewidth=0,
                       fillstyle="none", label=PAPER))  # fmt: skip
    wide = 4.4 * columns + 0.2
    across = max(1, int(wide / 1.5))
    legend = 0.24 * -(-len(keys) // across) + 0.15
    figure, axes = plt.subplots(
        len(grid), columns, figsize=(wide, sum(tall) + legend), squeeze=False,
        layout="constrained", height_ratios=tall,
    )  # fmt: skip
    for line, panel_line in zip(axes, grid, strict=True):
        for place in line[len(panel_line) :]:
            place.set_axis_off()
        for place, (title, rows) in zip(line, panel_line, strict=False):
            _draw(place, dots, title, rows)
    figure.legend(handles=keys, loc="outside upper center", ncols=across, fontsize=10,
                  frameon=False, handlelength=1.6, columnspacing=1.1)  # fmt: skip
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=150)
    plt.close(figure)
    return out.getvalue()


def _draw(place: Any, dots: Dots, title: str, rows: list[ReportRow]) -> None:
    (low, top), high = dots.span(rows), lanes(dots) + 2
    for k, row in enumerate(rows):
        if k:
            place.axhline(k * high - 1, color="#d9dde2", linewidth=0.8)
        for lane, column, cell in places(dots, row):
            assert cell.value is not None
            y, others = k * high + lane, column >= dots.named
            color = GRAY[0] if others else style(column).light
            if cell.deviation and not others:
                ends = (
                    max(low, cell.value - cell.deviation),
                    min(top, cell.value + cell.deviation),
                )
                place.plot(ends, (y, y), color=color, linewidth=1.2, solid_capstyle="butt")
            mark, size = ("<", 3.6) if cell.value < low else ("o", 2.8 if others else 4.4)
            place.plot(min(top, max(low, cell.value)), y, mark, color=color, markersize=size)
            if cell.paper is not None:
                place.plot(cell.paper, y, "D", color=color, markersize=5.4, fillstyle="none",
                           markeredgewidth=1.1)  # fmt: skip
    names = [row.labels[-1].replace(", ", ",\n") for row in rows]
    middles = [k * high + (lanes(dots) - 1) / 2 for k in range(len(rows))]
    place.set_yticks(middles, names, fontsize=10)
    place.set_ylim(len(rows) * high - 1, -1)
    room = 0.02 * (top - low)
    place.set_xlim(low - room, top + room)
    place.set_xticks(ticks((low, top)))
    place.tick_params(axis="x", labelsize=9.5)
    place.tick_params(axis="y", length=0)
    place.grid(axis="x", alpha=0.35)
    for side in ("top", "right", "left"):
        place.spines[side].set_visible(False)
    place.set_title(f"{title}: accuracy, %", fontsize=11, loc="left", parse_math=False)
