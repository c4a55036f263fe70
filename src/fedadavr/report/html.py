"""A report as one HTML page that needs nothing but itself: no network, no other file."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from html import escape
from importlib import resources
from itertools import groupby
from typing import Any

from fedadavr import __version__
from fedadavr.report.curve import METRICS, Metric, curve
from fedadavr.report.dots import svg
from fedadavr.report.elements import (
    BAND,
    Cell,
    Claim,
    Claims,
    Curves,
    Dots,
    Picture,
    Report,
    ReportRow,
    Section,
    Table,
)
from fedadavr.report.palette import style

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
"""The browser itself refuses whatever would come from elsewhere."""


def render(page: Report) -> str:
    """The whole page."""
    names = [f"s{k}" for k in range(1, len(page.sections) + 1)]
    sections = list(zip(names, page.sections, strict=True))
    links = "".join(f'<li><a href="#{n}">{escape(s.title)}</a></li>' for n, s in sections)
    body = "\n".join(_section(name, section, page.labels) for name, section in sections)
    drawn = any(isinstance(section, Curves) for section in page.sections)
    pictured = any(isinstance(section, Dots) for section in page.sections[:1])
    unfolded = "" if pictured else " open"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(page.title)}</title>
<style>
{_file("page.css")}</style>
</head>
<body>
<header>
<h1>{escape(page.title)}</h1>
<button type="button" id="theme" class="button" aria-pressed="false">Dark</button>
{_paragraph(page.about, "about")}
<nav aria-label="Contents"><details{unfolded}><summary>Contents</summary><ul>{links}</ul></details>
</nav>
</header>
<main>
{body}
</main>
<footer>fedadavr {escape(__version__)}</footer>
{_drawing(page) if drawn else ""}
<script>
{_file("page.js")}</script>
</body>
</html>
"""


def _file(name: str) -> str:
    return resources.files("fedadavr.report").joinpath(name).read_text(encoding="utf-8")


def _paragraph(text: str, kind: str) -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if text else ""


def _section(name: str, section: Section, labels: tuple[str, ...]) -> str:
    if isinstance(section, Table):
        inside = _table(name, section)
    elif isinstance(section, Curves):
        inside = _curves(section, labels)
    elif isinstance(section, Dots):
        inside = _dots(name, section)
    elif isinstance(section, Claims):
        inside = _claims(section)
    elif isinstance(section, Picture):
        inside = _picture(section)
    else:
        inside = "".join(_paragraph(text, "text") for text in section.paragraphs)
    kind = type(section).__name__.lower()
    return (
        f'<section id="{name}" class="{kind}" aria-labelledby="{name}-title">\n'
        f'<h2 id="{name}-title">{escape(section.title)}</h2>\n{inside}\n</section>'
    )


def _command(command: str) -> str:
    """One command is shown, several are folded."""
    if not command:
        return ""
    lines = command.splitlines()
    code = f'<pre class="command" tabindex="0"><code>{escape(command)}</code></pre>'
    if len(lines) == 1:
        return code
    number = sum(not line.startswith("#") for line in lines)
    return f"<details><summary>The commands ({number})</summary>{code}</details>"


# --- the first screen ---


def _dots(name: str, dots: Dots) -> str:
    return (
        f"{svg(dots)}\n{_paragraph(dots.note, 'note')}\n"
        f"<details><summary>The figures</summary>{_table(name, dots.table)}</details>"
    )


def _picture(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode()
    return (
        f"{_paragraph(picture.note, 'note')}\n"
        f'<img alt="{escape(picture.title)}" src="data:image/png;base64,{data}">\n'
        f"{_command(picture.command)}"
    )


def _claims(claims: Claims) -> str:
    lines = "\n".join(f"<li>{_claim(claim)}</li>" for claim in claims.claims)
    rule = _paragraph(claims.note, "note")
    rule = f"<details><summary>When a claim holds</summary>{rule}</details>" if rule else ""
    return f'<ul class="verdicts">{lines}</ul>\n{rule}'


def _claim(claim: Claim) -> str:
    """A line; what has figures can be unfolded."""
    kind = claim.holds.replace(" ", "-")
    why = f" <small>({escape(claim.why)})</small>" if claim.why else ""
    line = (
        f'<span class="verdict {kind}">{escape(claim.holds)}</span> '
        f"<span>{escape(claim.text)}{why}</span>"
    )
    if not claim.figures:
        return f'<div class="claim">{line}</div>'
    figures = "".join(f"<li>{escape(text)}</li>" for text in claim.figures)
    return f'<details><summary class="claim">{line}</summary><ul>{figures}</ul></details>'


# --- tables ---


def _table(name: str, table: Table) -> str:
    groups = "".join(_group(table, group, list(rows)) for group, rows in _groups(table))
    names = table.header[: table.labels]
    labels = "".join(
        f'<th scope="col" class="label{" last" if k == len(names) - 1 else ""}" '
        f'rowspan="{2 if table.above else 1}">'
        f"{_others(', '.join(names[:-1]) if k == len(names) - 1 else '', ', ')}{escape(text)}</th>"
        for k, text in enumerate(names)
    )
    columns = "".join(
        f'<th scope="col"{_words(table, k)}>{escape(text)}</th>'
        for k, text in enumerate(table.columns)
    )
    if table.above:
        above = f'<th scope="colgroup" colspan="{len(table.columns)}">{escape(table.above)}</th>'
        head = f"<tr>{labels}{above}</tr>\n<tr>{columns}</tr>"
    else:
        head = f"<tr>{labels}{columns}</tr>"
    return (
        f"{_paragraph(table.note, 'note')}\n"
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}-title">\n'
        f"<table><caption>{escape(table.title)}</caption>\n<thead>{head}</thead>\n"
        f"{groups}</table></div>\n{_command(table.command)}"
    )


def _groups(table: Table) -> Iterable[tuple[str, Iterable[ReportRow]]]:
    return groupby(table.rows, key=lambda row: row.group)


def _group(table: Table, group: str, rows: list[ReportRow]) -> str:
    lines = []
    if group:
        lines.append(
            f'<tr class="group"><th scope="rowgroup" colspan="{len(table.header)}">'
            f"<span>{escape(group)}</span></th></tr>"
        )
    for k, row in enumerate(rows):
        heads = []
        for column, label in enumerate(row.labels):
            shared = row.labels[: column + 1]
            if k and rows[k - 1].labels[: column + 1] == shared and column < table.labels - 1:
                continue
            span = 1
            while (column < table.labels - 1 and k + span < len(rows)
                   and rows[k + span].labels[: column + 1] == shared):  # fmt: skip
                span += 1
            last = column == table.labels - 1
            others = " ".join(filter(None, row.labels[:-1])) if last else ""
            heads.append(
                f'<th scope="{"rowgroup" if span > 1 else "row"}" '
                f'class="label{" last" if last else ""}" rowspan="{span}" '
                f'data-column="{column}">{_others(others)}{escape(label)}</th>'
            )
        first = ' class="first"' if len(heads) > 1 or table.labels == 1 else ""
        cells = "".join(
            f"<td{_words(table, number)}>{_cell(table, cell)}</td>"
            for number, cell in enumerate(row.cells)
        )
        lines.append(f"<tr{first}>{''.join(heads)}{cells}</tr>")
    return "<tbody>" + "\n".join(lines) + "</tbody>\n"


def _others(text: str, between: str = " ") -> str:
    """The labels to the left, for a narrow screen, where the last column has them all."""
    return f'<span class="others">{escape(text)}{between}</span>' if text else ""


def _cell(table: Table, cell: Cell) -> str:
    ours = f"<strong>{escape(cell.ours)}</strong>" if cell.best else escape(cell.ours)
    beside = []
    if cell.papers:
        gap = f" <b>{escape(cell.gap)}</b>" if cell.gap else ""
        beside.append(f"<small>paper {escape(cell.papers)}{gap}</small>")
    if table.few(cell):
        beside.append(f"<small>{table.few(cell)}</small>")
    return ours + "".join(beside)


def _words(table: Table, column: int) -> str:
    """Columns of words stand on the left, those with any figure on the right."""
    return ' class="words"' if table.is_words(column) else ""


# --- curves ---


def _curves(curves: Curves, labels: tuple[str, ...]) -> str:
    legend = "".join(_legend(labels.index(label), label) for label in curves.labels)
    choice = "".join(
        f'<button type="button" class="button" data-metric="{metric}" '
        f'aria-pressed="{"true" if metric == METRICS[0] else "false"}">{metric}</button>'
        for metric in METRICS
    )
    panels = "".join(
        f'<figure><figcaption>{escape(panel.title)}</figcaption><div class="plot" role="img" '
        f'aria-label="{escape(panel.title)}: {len(panel.series)} curves"></div></figure>'
        for panel in curves.panels
    )
    return f"""{_paragraph(f"{curves.note} {BAND}".strip(), "note")}
<div class="controls">
<div class="choice" role="group" aria-label="What is drawn">{choice}</div>
<div class="legend" role="group" aria-label="Curves: press to hide or show">{legend}
<button type="button" class="button" data-all="true">all</button>
<button type="button" class="button" data-all="false">none</button></div>
</div>
<noscript><p class="note">The curves are drawn by a script; the tables need none.</p></noscript>
<div class="panels">{panels}</div>
{_command(curves.command)}"""


def _legend(number: int, label: str) -> str:
    look = style(number)
    dash = " ".join(map(str, look.dash)) or "none"
    return (
        f'<button type="button" class="key" data-label="{number}" aria-pressed="true">'
        f'<svg width="26" height="8" aria-hidden="true" style="--light:{look.light};'
        f'--dark:{look.dark}"><line x1="0" y1="4" x2="26" y2="4" stroke-width="2.5" '
        f'stroke-dasharray="{dash}"/></svg>{escape(label)}</button>'
    )


def _drawing(page: Report) -> str:
    """Plotly, and what it draws."""
    from plotly.offline import get_plotlyjs

    text = json.dumps(figures(page), separators=(",", ":"), allow_nan=False)
    data = text.replace("<", "\\u003c")
    return (
        f"<script>{get_plotlyjs()}</script>\n"
        f'<script type="application/json" id="figures">{data}</script>'
    )


def figures(page: Report) -> dict[str, Any]:
    """The labels with their styles, and the numbers of every panel, for the page's script."""
    labels = []
    for number, label in enumerate(page.labels):
        look = style(number)
        dash = ",".join(f"{length}px" for length in look.dash) or "solid"
        labels.append({"name": label, "light": look.light, "dark": look.dark, "dash": dash})
    numbers = {label: number for number, label in enumerate(page.labels)}
    curves = [
        [
            [
                {"label": numbers[series.label]}
                | {metric: _line(series.records, metric) for metric in METRICS}
                for series in panel.series
            ]
            for panel in section.panels
        ]
        for section in page.sections
        if isinstance(section, Curves)
    ]
    return {"labels": labels, "curves": curves}


def _line(records: Any, metric: Metric) -> dict[str, Any]:
    found = curve(records, metric)

    def short(values: Iterable[float]) -> list[float | None]:
        return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]

    return {
        "x": found.rounds, "mean": short(found.mean), "sd": short(found.deviation),
        "low": short(found.low), "high": short(found.high), "seeds": found.count,
    }  # fmt: skip
