"""A report as CSV: every cell of every table is one line, with all its digits."""

from __future__ import annotations

import csv
import io

from fedadavr.report.elements import Report, Table

HEADER = (
    "section", "group", "row", "column", "value", "deviation", "paper", "difference", "count",
    "text",
)  # fmt: skip


def render(page: Report) -> str:
    """All tables, one below the other; the labels of a row are joined by ` / `."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for section in page.sections:
        if not isinstance(section, Table):
            continue
        for row in section.rows:
            for column, cell in zip(section.columns, row.cells, strict=True):
                writer.writerow([
                    section.title, row.group, " / ".join(row.labels), column, cell.value,
                    cell.deviation, cell.paper, cell.difference, cell.count, cell.text,
                ])  # fmt: skip
    return out.getvalue()
