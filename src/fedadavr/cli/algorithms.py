"""`fedadavr algorithms`: what there is to run, and what it can be told."""

from __future__ import annotations

import json as json_format

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedadavr.algorithms.registry import algorithm_class, algorithm_names, user_settings
from fedadavr.cli.arguments import shown_default
from fedadavr.plugins import load_file


def main(load: str | None = None, json: bool = False) -> None:
    """List the algorithms: what each does, and its settings with their defaults.

    Args:
        load: A Python file to import first, with your own.
        json: As one line of JSON, with each setting's help.
    """
    if load is not None:
        load_file(load)
    if json:
        print(json_format.dumps([_told(name) for name in algorithm_names()]))
        return
    table = Table(show_lines=True)
    table.add_column("algorithm", no_wrap=True)
    table.add_column("what it does, and its settings", overflow="fold")
    for name in algorithm_names():
        try:
            settings = user_settings(name).values()
        except ValueError as error:  # an installed package that is broken
            table.add_row(name, f"[red]{escape(str(error))}[/red]")
            continue
        told = ", ".join(f"{s.name.replace('_', '-')} {shown_default(s.default)}" for s in settings)
        table.add_row(name, f"{_first_line(name)}\n[dim]{told}[/dim]")
    console = Console()
    console.print(table, highlight=False)
    console.print("fedadavr run --algorithm NAME --help explains the settings of one.")


def _first_line(name: str) -> str:
    return (algorithm_class(name).__doc__ or "").strip().split("\n")[0]


def _told(name: str) -> dict[str, object]:
    try:
        known = user_settings(name).values()
    except ValueError as error:
        return {"name": name, "about": str(error), "settings": {}}
    settings = {s.name: {"default": shown_default(s.default), "help": s.help} for s in known}
    return {"name": name, "about": _first_line(name), "settings": settings}
