"""A report as CSV: every cell of every table is one line, with all its digits; so is a claim."""

from __future__ import annotations

import csv
import io

from fedadavr.report.elements import Claims, Dots, Report, Table

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
        if isinstance(section, Claims):
            for claim in section.claims:
                told = ((claim.verdict, "here"), ("; ".join(claim.figures), "figures"))
                for text, column in told:
                    writer.writerow([section.title, "", claim.text, column, *[None] * 5, text])
            continue
        table = section.table if isinstance(section, Dots) else section
        if not isinstance(table, Table):
            continue
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                writer.writerow([
                    section.title, row.group, " / ".join(row.labels), column, cell.value,
                    cell.deviation, cell.paper, cell.difference, cell.count, cell.text,
                ])  # fmt: skip
    return out.getvalue()
