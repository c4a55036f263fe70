"""Equations as MathML, which browsers draw themselves: no script, no fonts, no network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

log = logging.getLogger(__name__)


def inline(writer: Any, node: nodes.math) -> None:
    """An equation in a line."""
    _write(writer, node, '<span class="math">', "</span>", block=False)


def display(writer: Any, node: nodes.math_block) -> None:
    """An equation of its own; on narrow pages it scrolls."""
    _write(writer, node, '<div class="math" tabindex="0">', "</div>\n", block=True)


def _write(writer: Any, node: nodes.Element, begin: str, end: str, *, block: bool) -> None:
    try:
        writer.body.append(begin + tex2mathml(node.astext().strip(), as_block=block) + end)
    except MathError as error:
        log.warning("%r is no equation that can be drawn: %s", node.astext(), error, location=node)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """`html_math_renderer = "mathml"`."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
