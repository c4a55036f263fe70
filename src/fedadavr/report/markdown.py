"""A report as Markdown, for READMEs: tables, and curves as pictures in files beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from fedadavr.report.elements import (
    BAND,
    Cell,
    Claim,
    Claims,
    Curves,
    Dots,
    Picture,
    Report,
    Section,
    Table,
)

MARKS = {"holds": "🟢", "holds in part": "🟡", "does not hold": "🔴"}
"""Shown in color; what has no verdict is white."""


def render(page: Report, pictures: Mapping[str, Sequence[str]] | None = None) -> str:
    """The whole report; `pictures` are the files of curves and dots, by their titles.

    The first is shown. The second of curves is folded, of dots it is for narrow screens.
    """
    parts = [f"# {_plain(page.title)}", _plain(page.about)]
    parts += [_section(section, pictures or {}) for section in page.sections]
    return "\n\n".join(filter(None, parts)) + "\n"


def _section(section: Section, pictures: Mapping[str, Sequence[str]]) -> str:
    parts = [f"## {_plain(section.title)}"]
    if isinstance(section, Table):
        parts += [_plain(section.note), table(section), _command(section.command)]
    elif isinstance(section, Curves):
        names = _plain(", ".join(panel.title for panel in section.panels))
        files = [f"![{names}]({file})" for file in pictures.get(section.title, ())]
        parts += [_plain(f"{section.note} {BAND}".strip())]
        parts += files[:1] or [f"Curves for {names}: see `html` or `png`."]
        parts += [_folded("The loss", file) for file in files[1:]]
        parts += [_command(section.command)]
    elif isinstance(section, Dots):
        parts += [_picture(section, pictures.get(section.title, ())), _plain(section.note)]
        parts += [_folded("The figures", table(section.table))]
    elif isinstance(section, Picture):
        files = [f"![{_plain(section.title)}]({file})" for file in pictures.get(section.title, ())]
        parts += [_plain(section.note), *files, _command(section.command)]
    elif isinstance(section, Claims):
        parts += ["\n".join(_claim(claim) for claim in section.claims)]
        parts += [_folded("When a claim holds", _plain(section.note))] if section.note else []
    else:
        parts += [_plain(paragraph) for paragraph in section.paragraphs]
    return "\n\n".join(filter(None, parts))


def _picture(dots: Dots, files: Sequence[str]) -> str:
    if not files:
        return "The picture: see `html`."
    said = escape(f"{dots.title}: the figures are in the table below")
    narrow = "".join(f'<source media="(max-width: 600px)" srcset="{file}">' for file in files[1:])
    return f'<picture>{narrow}<img alt="{said}" src="{files[0]}"></picture>'


def _claim(claim: Claim) -> str:
    """A line that can be unfolded."""
    line = f"{MARKS.get(claim.holds, '⚪')} <b>{escape(claim.verdict)}</b> · {escape(claim.text)}"
    told = claim.figures or ("There are no figures yet.",)
    return _folded(line, "\n".join(f"- {_plain(text)}" for text in told))


def table(table: Table) -> str:
    """One table, with the group as the first column if there are groups."""
    grouped = any(row.group for row in table.rows)
    header = [*(["group"] if grouped else []), *table.header]
    left = len(header) - len(table.columns)
    lines = [_line(_plain(text) for text in header),
             _line(":--" if k < left or table.is_words(k - left) else "--:"
                   for k in range(len(header)))]  # fmt: skip
    for row in table.rows:
        labels = [*([row.group] if grouped else []), *row.labels]
        lines.append(_line([*map(_plain, labels), *(_cell(table, cell) for cell in row.cells)]))
    return "\n".join(lines)


def _cell(table: Table, cell: Cell) -> str:
    few = f", {table.few(cell)}" if table.few(cell) else ""
    ours = _plain(cell.ours)
    bold = f"**{ours}**" if cell.best else ours
    return bold + _plain(cell.line().removeprefix(cell.ours)) + few


def _line(cells: object) -> str:
    return f"| {' | '.join(cells)} |"  # type: ignore[arg-type]


def _plain(text: str) -> str:
    """Text that Markdown takes as it is."""
    escaped = re.sub(r"([\\`*_\[\]|])", r"\\\1", text)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")


def _command(command: str) -> str:
    if not command:
        return ""
    block = f"```sh\n{command}\n```"
    if "\n" not in command:
        return block
    return _folded("The commands", block)


def _folded(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"
