"""A report into a file, as HTML, Markdown, CSV or a picture."""

from __future__ import annotations

import re
from pathlib import Path

from fedadavr.naming import find, unknown
from fedadavr.report import csv_file, html, markdown, png
from fedadavr.report.blocks import Curves, Page
from fedadavr.report.curve import METRICS, Metric

FORMATS = {"html": "report.html", "md": "report.md", "csv": "report.csv", "png": "report.png"}
"""The formats, and where each is written if nothing else is said."""


def place(out: Path | None, format: str | None) -> tuple[Path, str]:
    """The file and the format, the one from the other where it is not given."""
    if format is None:
        format = out.suffix.removeprefix(".").lower() if out is not None else "html"
        if format not in FORMATS:
            raise ValueError(f"--out {out}: {unknown('format', format, FORMATS)}")
    out = out or Path(find("format", format, FORMATS))
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder: name a file in it")
    find("format", format, FORMATS)
    return out, format


def write(page: Page, out: Path, format: str, metric: str = "accuracy") -> None:
    """Write the report; `metric` is what a picture shows. Markdown has its pictures beside it."""
    if format == "md":
        files = pictures(page, out.stem, metric)
        data = markdown.render(page, {title: name for title, (name, _) in files.items()}).encode()
    else:
        files, data = {}, encode(page, format, metric)
    out.parent.mkdir(parents=True, exist_ok=True)
    for name, picture in files.values():
        (out.parent / name).write_bytes(picture)
    out.write_bytes(data)


def pictures(page: Page, stem: str, metric: str = "accuracy") -> dict[str, tuple[str, bytes]]:
    """A file name and a picture for each grid of curves, by its title."""
    known: dict[str, Metric] = {name: name for name in METRICS}
    grids = [section for section in page.sections if isinstance(section, Curves)]
    found = {}
    for grid in grids:
        name = re.sub(r"[^a-z0-9]+", "-", f"{stem}-{grid.title}".lower()).strip("-") + ".png"
        alone = Page("", (grid,))
        found[grid.title] = (name, png.render(alone, find("metric", metric, known)))
    return found


def encode(page: Page, format: str, metric: str = "accuracy") -> bytes:
    """The report as bytes."""
    find("format", format, FORMATS)
    if format == "png":
        known: dict[str, Metric] = {name: name for name in METRICS}
        return png.render(page, find("metric", metric, known))
    renderers = {"html": html.render, "md": markdown.render, "csv": csv_file.render}
    return renderers[format](page).encode()
