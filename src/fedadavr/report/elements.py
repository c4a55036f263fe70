"""What a report is made of: cells, tables, curves, claims, text, whatever they are written as."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from fedadavr.experiments.records import RunRecord

MISSING = "–"
BAND = (
    "Lines are means over seeds; bands reach from the lowest seed to the highest; a run that "
    "diverged is omitted."
)


@dataclass(frozen=True)
class Cell:
    """A figure with its deviation over seeds and the paper's figure beside it, or words."""

    text: str = ""
    """Shown instead of the value, if it is given."""
    value: float | None = None
    """The mean over seeds."""
    deviation: float | None = None
    """The standard deviation over seeds; one seed has none."""
    paper: float | None = None
    """The paper's figure."""
    best: bool = False
    """Whether it is set in bold."""
    count: int | None = None
    """How many runs it is the mean of."""
    digits: int = 1
    """Digits after the point."""

    def __post_init__(self) -> None:
        for name in ("value", "deviation", "paper"):  # what is not a number is not there
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                object.__setattr__(self, name, None)

    @classmethod
    def of(
        cls, values: Iterable[float | None], paper: float | None = None, digits: int = 1
    ) -> Cell:
        """The mean and deviation of the values that are there."""
        known = [value for value in values if value is not None and math.isfinite(value)]
        return cls(
            value=statistics.fmean(known) if known else None,
            deviation=statistics.stdev(known) if len(known) > 1 else None,
            paper=paper,
            count=len(known),
            digits=digits,
        )

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        if self.value is None or self.paper is None:
            return None
        return self.value - self.paper

    @property
    def is_words(self) -> bool:
        """Whether it is a text that says nothing about a number."""
        return bool(self.text) and self.value is None and self.count is None

    @property
    def ours(self) -> str:
        """Our figure, as `89.7 ± 2.0`."""
        if self.text:
            return self.text
        if self.value is None:
            return MISSING
        deviation = "" if self.deviation is None else f" ± {self.deviation:.{self.digits}f}"
        return f"{self.value:.{self.digits}f}{deviation}"

    @property
    def papers(self) -> str:
        """The paper's figure; nothing if it has none."""
        return "" if self.paper is None else f"{self.paper:.{self.digits}f}"

    @property
    def gap(self) -> str:
        """The difference with its sign; nothing if there is none."""
        if self.difference is None:
            return ""
        return f"{round(self.difference, self.digits) + 0.0:+.{self.digits}f}"  # not -0.0

    def line(self) -> str:
        """All of it, as `89.7 ± 2.0 (paper 82.8, +6.9)`."""
        beside = ", ".join(filter(None, [self.papers and f"paper {self.papers}", self.gap]))
        return f"{self.ours} ({beside})" if beside else self.ours


@dataclass(frozen=True)
class ReportRow:
    """A line of a table: its labels on the left, and its cells."""

    labels: tuple[str, ...]
    """Labels that equal those of the row above are merged with them."""
    cells: tuple[Cell, ...]
    """One for each column."""
    group: str = ""
    """A heading above the rows that share it."""


@dataclass(frozen=True)
class Table:
    """Rows under a header."""

    title: str
    header: tuple[str, ...]
    """Over the labels and over the cells."""
    rows: tuple[ReportRow, ...]
    note: str = ""
    command: str = ""
    """What to type for it; several lines are folded."""
    above: str = ""
    """A word over all columns of cells."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.labels) != self.labels or len(self.header) != self.labels + len(row.cells):
                raise ValueError(
                    f"{self.title}: the row {' '.join(row.labels)} does not fit its header"
                )

    @property
    def labels(self) -> int:
        """How many columns hold labels."""
        return len(self.rows[0].labels) if self.rows else 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The header over the cells."""
        return self.header[self.labels :]

    def is_words(self, column: int) -> bool:
        """Whether a column of cells has words only, which stand on the left."""
        return all(row.cells[column].is_words for row in self.rows)

    def few(self, cell: Cell) -> str:
        """The number of runs, for a cell with fewer than others have; else nothing."""
        most = max((c.count or 0 for row in self.rows for c in row.cells), default=0)
        if cell.count is None or cell.value is None or cell.text or cell.count == most:
            return ""
        return "1 run" if cell.count == 1 else f"{cell.count} runs"


@dataclass(frozen=True)
class Series:
    """Runs that differ in their seeds: one line of a panel."""

    label: str
    records: tuple[RunRecord, ...]


@dataclass(frozen=True)
class Panel:
    """One small picture of a grid."""

    title: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Curves:
    """A grid of panels, accuracy or loss over rounds."""

    title: str
    panels: tuple[Panel, ...]
    note: str = ""
    command: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all panels, each once."""
        return tuple(dict.fromkeys(s.label for p in self.panels for s in p.series))


@dataclass(frozen=True)
class Text:
    """Paragraphs."""

    title: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Dots:
    """A table as a picture: a panel for each first label, in it a line of dots for each second.

    A column is a dot of one color in every line, with its deviation and the paper's figure.
    """

    title: str
    table: Table
    """Two labels a row; what is drawn, and its figures for those who want them."""
    named: int
    """So many columns have a color and a place in the legend; the others are gray."""
    note: str = ""

    @property
    def panels(self) -> list[tuple[str, list[ReportRow]]]:
        """The rows by their first label."""
        rows = groupby(self.table.rows, key=lambda row: row.labels[0])
        return [(title, list(own)) for title, own in rows]

    def span(self, rows: Iterable[ReportRow]) -> tuple[float, float]:
        """The axis of a panel, in whole tens; what is gray may be below it."""
        lines = [row.cells for row in rows]
        colored = [v for line in lines for c in line[: self.named] for v in _known(c)] or [0.0]
        highest = max(v for line in lines for c in line for v in _known(c) or [0.0])
        low, high = 10 * math.floor((min(colored) - 1) / 10), 10 * math.ceil((highest + 1) / 10)
        return float(max(0, low)), float(min(100, high))


def _known(cell: Cell) -> list[float]:
    """Our figure and the paper's."""
    return [figure for figure in (cell.value, cell.paper) if figure is not None]


Holds = Literal["holds", "holds in part", "does not hold", "not decided", "not run"]


@dataclass(frozen=True)
class Claim:
    """A sentence, whether it is so, and the figures that say so."""

    text: str
    holds: Holds
    figures: tuple[str, ...] = ()
    """A line each."""
    why: str = ""
    """Beside the verdict: what is missing for one."""

    @property
    def verdict(self) -> str:
        """In words."""
        return f"{self.holds}: {self.why}" if self.why else self.holds


@dataclass(frozen=True)
class Claims:
    """Claims, one line each, their figures folded."""

    title: str
    claims: tuple[Claim, ...]
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture that was drawn elsewhere, and what it shows in words."""

    title: str
    png: bytes
    note: str
    command: str = ""


Section = Table | Curves | Text | Dots | Claims | Picture


@dataclass(frozen=True)
class Report:
    """A report."""

    title: str
    sections: tuple[Section, ...]
    about: str = ""
    """What it is, in a sentence or two under the title."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all curves, each once: their order gives them their colors."""
        curves = [section for section in self.sections if isinstance(section, Curves)]
        return tuple(dict.fromkeys(label for c in curves for label in c.labels))


def mark_best(
    rows: Sequence[ReportRow], *, lowest: bool = False, shared: int = 0
) -> tuple[ReportRow, ...]:
    """The rows with the best of each column marked, ties included.

    Cells with a text of their own do not compete. With `shared`, only rows with the same group and
    the same first `shared` labels compete with each other.
    """
    best: dict[tuple[object, ...], float] = {}
    for row in rows:
        for key, figure in _figures(row, shared):
            best[key] = min(best.get(key, figure), figure) if lowest else max(
                best.get(key, figure), figure)  # fmt: skip
    marked = []
    for row in rows:
        leading = {key[0] for key, figure in _figures(row, shared) if figure == best[key]}
        cells = (replace(cell, best=k in leading) for k, cell in enumerate(row.cells))
        marked.append(replace(row, cells=tuple(cells)))
    return tuple(marked)


def _figures(row: ReportRow, shared: int) -> list[tuple[tuple[object, ...], float]]:
    """What competes in a row: where it competes, and the figure as it is shown."""
    where = (row.group, row.labels[:shared]) if shared else ()
    return [
        ((k, *where), round(cell.value, cell.digits))
        for k, cell in enumerate(row.cells)
        if cell.value is not None and not cell.text
    ]
