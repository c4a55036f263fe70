"""Colors and dashes that can be told apart, also by the color-blind, on light and on dark."""

from __future__ import annotations

from dataclasses import dataclass

# After Okabe and Ito; the two that vanish on their ground are darker or lighter.
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#b8568f", "#2b2b2b", "#e09900", "#3fa7e0")
DARK = ("#4c9be8", "#ff8144", "#2cc79a", "#e79bc8", "#e6e6e6", "#f5c04a", "#9adcff")
DASHES = (
    (), (7, 3), (2, 2), (7, 2, 2, 2), (12, 4), (12, 2, 2, 2, 2, 2),
)  # fmt: skip
"""In pixels, drawn and left out by turns."""


@dataclass(frozen=True)
class Style:
    """How a label's line is drawn."""

    light: str
    dark: str
    dash: tuple[int, ...]


def style(number: int) -> Style:
    """The style of the label of that number; 42 differ."""
    color, dash = number % len(LIGHT), number // len(LIGHT) % len(DASHES)
    return Style(LIGHT[color], DARK[color], DASHES[dash])
