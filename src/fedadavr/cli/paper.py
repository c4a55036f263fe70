"""`fedadavr paper list | run | status | report`: the paper's tables, on one's own machine."""

from __future__ import annotations

import json as json_format
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from fedadavr.paper.protocol import RATE, RESULTS, SEEDS


def list_presets(seeds: int = 3, workers: int = 2, json: bool = False) -> None:
    """The tables and figures that can be run, what to expect, and how long that takes here.

    Args:
        seeds: With so many seeds.
        workers: With so many processes.
        json: As one line of JSON.
    """
    from rich.console import Console
    from rich.table import Table

    from fedadavr.paper.presets import PRESETS

    if seeds < 1 or workers < 1:
        raise ValueError("--seeds and --workers must be at least 1")
    if json:
        print(json_format.dumps([
            {"name": p.name, "shows": p.shows, "expect": p.expect,
             "minutes": p.minutes(seeds, workers)} for p in PRESETS.values()
        ]))  # fmt: skip
        return
    table = Table(title=f"the paper; seeds: {seeds}, processes: {workers}", title_justify="left")
    for column in ("name", "what it shows", "what one should get", "takes"):
        justify: Literal["left", "right"] = "right" if column == "takes" else "left"
        table.add_column(column, justify=justify, no_wrap=column in ("name", "takes"))
    for preset in PRESETS.values():
        table.add_row(
            preset.name, preset.shows, preset.expect, _duration(preset.minutes(seeds, workers))
        )
    Console().print(table)
    print(
        "The paper has client rates 0.001, 0.01, 0.1: 0.01 is run unless --client-lrs says more; "
        "where rates are searched, all three.\nMemory, complexity and the paper's own rounds and "
        "times need no run: fedadavr paper report shows them.\nTimes are reckoned from rounds on "
        "two cores, those of CIFAR-10 and Shakespeare from ten of them."
    )


def _duration(minutes: float) -> str:
    if minutes < 90:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 72 * 60 else f"{minutes / 1440:.0f} days"


def run_preset(
    name: Annotated[str, tyro.conf.Positional],
    /,
    seeds: tuple[int, ...] = SEEDS,
    only: tuple[str, ...] = (),
    client_lrs: tuple[float, ...] = (RATE,),
    workers: int = 2,
    out: Path = RESULTS,
    on: str = "processes",
    checkpoint_every: int = 50,
    store: str | None = None,
    commit_every: int | None = None,
    json: bool = False,
) -> None:
    """Run a table or figure of the paper; what is recorded already is not run again.

    Args:
        name: Which: `fedadavr paper list` tells.
        seeds: One run each of every cell; rates are chosen on seed 41.
        only: Only cells with these settings: partition=lq-1,lq-2 algorithm=fedadavr tau=none.
        client_lrs: For rows that neither search nor fix it; the paper has 0.001 0.01 0.1.
        workers: Processes, one run at a time each.
        out: Where records go, in a folder of the preset's name.
        on: processes, or ray for a cluster.
        checkpoint_every: A run that is cut short goes on from the last such round.
        store: lmdb gives each run a store of its own, ram none (default: as the preset needs).
        commit_every: With a store, a run that is cut short goes on from the last such round.
        json: End with one line of JSON on stdout.
    """
    from rich.console import Console

    from fedadavr.cli.sweep_progress import LiveProgress, finish
    from fedadavr.experiments.options import RunOptions
    from fedadavr.experiments.records import RunRecord
    from fedadavr.experiments.sweep import BACKENDS, check_store, sweep
    from fedadavr.naming import find, unknown
    from fedadavr.paper.presets import PRESETS
    from fedadavr.paper.selection import (
        check_asked,
        filters,
        is_wanted,
        recorded,
        records_of_others,
    )

    preset = find("preset", name, PRESETS)
    if on not in BACKENDS:
        raise ValueError(unknown("--on", on, BACKENDS))
    store = preset.store if store is None else store
    if commit_every is None and store == preset.store:
        commit_every = preset.commit_every
    check_store(store, commit_every)
    run_options = RunOptions(
        workers, checkpoint_every=checkpoint_every, store=store, commit_every=commit_every
    )
    run_options.check()
    wanted = filters(only, preset)
    check_asked(preset, wanted, seeds, client_lrs)
    place = out / name
    console = Console(stderr=True)
    shared = {field: values for field, values in wanted.items() if field != "evaluate_every"}
    choices = [e for e in preset.choices() if is_wanted(e, shared)]
    console.print(
        f"{name}: {preset.shows}\n{preset.told} All of it takes about "
        f"{_duration(preset.minutes(len(seeds), workers, len(client_lrs)))} here.",
        soft_wrap=True, highlight=False,
    )  # fmt: skip
    records: list[RunRecord] = []
    if choices:
        with LiveProgress(console) as live:
            chosen = sweep(choices, run_options, place, live.update, on=on,
                           known=records_of_others(out, name))  # fmt: skip
        if chosen.failures:
            finish(chosen, [], place, json)
    found = preset.experiments(recorded(out), seeds, client_lrs)
    cells = list(dict.fromkeys(e for e in found if is_wanted(e, wanted)))
    if not cells:
        raise ValueError(f"--only {' '.join(only)}: {name} has no such cell")
    with LiveProgress(console) as live:
        progress = sweep(cells, run_options, place, live.update, on=on,
                         known=records_of_others(out, name), on_record=records.append)  # fmt: skip
    finish(progress, records, place, json)


def status(results: Path = RESULTS, keep: bool = False, json: bool = False) -> None:
    """How far the runs of each table or figure are, also those that are not finished.

    Args:
        results: The folder that `fedadavr paper run` writes to.
        keep: Write the curves of runs that are not finished to unfinished.jsonl, beside the
            records: small, without their stores. The report reads it.
        json: As one line of JSON.
    """
    from rich.console import Console
    from rich.table import Table

    from fedadavr.paper.presets import PRESETS
    from fedadavr.paper.results import Results
    from fedadavr.paper.selection import recorded
    from fedadavr.paper.under_way import all_under_way
    from fedadavr.paper.under_way import keep as keep_curves

    if not results.is_dir():
        raise ValueError(f"there is no folder {results}: make one with fedadavr paper run")
    waiting = all_under_way(results)
    found = Results(recorded(results), tuple(PRESETS), waiting)
    standings = {name: found.standing(name) for name in PRESETS}
    begun = {name: standing for name, standing in standings.items() if standing.planned}
    if keep:
        done = {record.id for record in found.records}
        for name in PRESETS:
            if (results / name).is_dir():
                keep_curves(results / name, done)
    if json:
        print(json_format.dumps({name: standing._asdict() for name, standing in begun.items()}))
        return
    table = Table(title=str(results), title_justify="left")
    for column in ("name", "finished", "of", "not finished", "up to round"):
        table.add_column(column, justify="left" if column == "name" else "right")
    for name, standing in begun.items():
        table.add_row(name, *("" if figure is None else f"{figure}" for figure in standing))
    Console().print(table)


def report(
    results: Path = RESULTS,
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None,
    format: str | None = None,
    only: tuple[str, ...] = (),
    preface: Path | None = None,
) -> None:
    """Write the paper's tables and figures, ours beside the paper's, from the records there are.

    Args:
        results: The folder that `fedadavr paper run` writes to.
        out: The file (default: report.html, or report.FORMAT).
        format: html, md, csv (the tables) or png (the curves); default: as the file is named.
        only: Only these presets.
        preface: A text below the claims: a heading, and paragraphs with empty lines between them.

    Runs that are not finished are shown up to the round that all of their preset have reached.
    """
    from fedadavr.naming import find
    from fedadavr.paper.presets import PRESETS
    from fedadavr.paper.report import paper_page, preface_of
    from fedadavr.paper.results import Results
    from fedadavr.paper.selection import recorded
    from fedadavr.paper.under_way import all_under_way
    from fedadavr.report.output import place, write

    for name in only:
        find("preset", name, PRESETS)
    file, chosen = place(out, format)
    waiting = all_under_way(results)  # first: a run that is finished meanwhile has a record
    records = recorded(results)
    if not records and not waiting:
        raise ValueError(f"there are no records in {results}: make some with fedadavr paper run")
    found = Results(records, only or tuple(PRESETS), waiting)
    for name in only:
        if not found.begun(name) and not found.tables(name):
            raise ValueError(
                f"--only {name}: nothing of it is in {results}; run it: fedadavr paper run {name}"
            )
    page = paper_page(found, results, preface_of(preface) if preface is not None else None)
    words = ["fedadavr", "paper", "report", *(["--results", str(results)] * (results != RESULTS))]
    words += ["--out", str(file), *(["--format", format] if format else [])]
    words += ["--only", *only] if only else []
    words += ["--preface", str(preface)] if preface else []
    page = replace(page, about=f"{page.about} Made by: {shlex.join(words)}")
    write(page, file, chosen)
    print(f"{file}: {file.stat().st_size / 1e6:.2f} MB, {len(found.reported())} runs reported")
