"""`{settings} NAME`: the settings of an algorithm as a table, from its own fields.

NAME is an algorithm's, or `every`, `memory` or `optimizer` for those that many share; these are in
the table of an algorithm only where its default is another.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fedadavr.algorithms import Adaptive, Algorithm, Remembering
from fedadavr.algorithms.registry import PROVIDED, algorithm_names, user_settings
from fedadavr.settings import Setting, described, settings_of

SHARED = {"every": Algorithm, "memory": Remembering, "optimizer": Adaptive}


def of_class(cls: type[Any]) -> dict[str, Setting]:
    """What its user can choose."""
    return {name: s for name, s in settings_of(cls).items() if name not in PROVIDED}


def chosen(name: str) -> list[Setting]:
    """The settings that the table of that name lists."""
    if name in SHARED:
        own = of_class(SHARED[name])
        base = of_class(Algorithm) if name != "every" else {}
        return [setting for key, setting in own.items() if key not in base]
    shared = {key: s for cls in SHARED.values() for key, s in of_class(cls).items()}
    return [s for key, s in user_settings(name).items()
            if key not in shared or shared[key].default != s.default]  # fmt: skip


class SettingsTable(SphinxDirective):
    """Name, type, default and help of each."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table, or one sentence if there is nothing to choose."""
        name = self.arguments[0]
        if name not in [*SHARED, *algorithm_names()]:
            raise self.error(f"there is no algorithm {name!r}")
        found = chosen(name)
        if not found:
            text = "It has no settings beside those above."
            return [nodes.paragraph(text, text)]
        table = nodes.table(classes=["settings"])
        group = nodes.tgroup(cols=4)
        table += group
        group += [nodes.colspec(colwidth=width) for width in (18, 22, 15, 45)]
        head, body = nodes.thead(), nodes.tbody()
        group += [head, body]
        head += _row(*(nodes.Text(word) for word in ("setting", "type", "default", "")))
        for s in found:
            body += _row(_code(s.name), nodes.Text(described(s.type)),
                         _code(_typed(s.default)), *_with_code(s.help))  # fmt: skip
        return [table]


def _typed(value: Any) -> str:
    return value if isinstance(value, str) and value else repr(value)


def _code(text: str) -> nodes.literal:
    return nodes.literal(text, text)


def _with_code(text: str) -> list[nodes.Node]:
    """Words and, between backticks, code."""
    parts = text.split("`")
    return [_code(part) if place % 2 else nodes.Text(part) for place, part in enumerate(parts)]


def _row(first: nodes.Node, second: nodes.Node, third: nodes.Node, *last: nodes.Node) -> nodes.row:
    row = nodes.row()
    for cell in ([first], [second], [third], last):
        row += nodes.entry("", nodes.paragraph("", "", *cell))
    return row


def setup(app: Sphinx) -> dict[str, bool]:
    """The directive."""
    app.add_directive("settings", SettingsTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
