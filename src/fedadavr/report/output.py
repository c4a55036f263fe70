"""A report into a file, as HTML, Markdown, CSV or a picture."""

from __future__ import annotations

import re
from pathlib import Path

from fedadavr.naming import find, unknown
from fedadavr.report import csv_file, dots, html, markdown, png
from fedadavr.report.curve import METRICS, Metric
from fedadavr.report.elements import Curves, Dots, Picture, Report

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


def write(page: Report, out: Path, format: str, metric: str = "accuracy") -> None:
    """Write the report; `metric` is what a picture shows. Markdown has its pictures beside it."""
    if format == "md":
        files = pictures(page, out.stem)
        named = {title: [name for name, _ in drawn] for title, drawn in files.items()}
        data = markdown.render(page, named).encode()
    else:
        files, data = {}, encode(page, format, metric)
    out.parent.mkdir(parents=True, exist_ok=True)
    for name, picture in (file for drawn in files.values() for file in drawn):
        (out.parent / name).write_bytes(picture)
    out.write_bytes(data)


def pictures(page: Report, stem: str) -> dict[str, list[tuple[str, bytes]]]:
    """File names and pictures, by the titles of their sections.

    Curves have accuracy, then loss; dots have a wide one, then a narrow one.
    """
    found: dict[str, list[tuple[str, bytes]]] = {}
    for section in page.sections:
        if not isinstance(section, Curves | Dots | Picture):
            continue
        name = re.sub(r"[^a-z0-9]+", "-", f"{stem}-{section.title}".lower()).strip("-")
        if isinstance(section, Picture):
            found[section.title] = [(f"{name[:80]}-{len(found)}.png", section.png)]
            continue
        if isinstance(section, Dots):
            found[section.title] = [
                (f"{name}.png", dots.png(section)),
                (f"{name}-narrow.png", dots.png(section, columns=1)),
            ]
            continue
        alone = Report("", (section,))
        found[section.title] = [
            (f"{name}.png" if metric == METRICS[0] else f"{name}-{metric}.png",
             png.render(alone, metric)) for metric in METRICS
        ]  # fmt: skip
    return found


def encode(page: Report, format: str, metric: str = "accuracy") -> bytes:
    """The report as bytes."""
    find("format", format, FORMATS)
    if format == "png":
        known: dict[str, Metric] = {name: name for name in METRICS}
        return png.render(page, find("metric", metric, known))
    renderers = {"html": html.render, "md": markdown.render, "csv": csv_file.render}
    return renderers[format](page).encode()
