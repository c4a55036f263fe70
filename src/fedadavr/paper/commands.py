"""`fedadavr paper list | run`: the paper's tables and figures, on one's own machine."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from fedadavr.experiments.experiment import Experiment, fields_of_experiment, flag
from fedadavr.experiments.grid import typed
from fedadavr.experiments.options import RunOptions
from fedadavr.experiments.records import RECORDS, RunRecord, read_lines
from fedadavr.experiments.sweep import BACKENDS, check_store, sweep
from fedadavr.experiments.sweep_command import finish
from fedadavr.naming import find, unknown
from fedadavr.paper.presets import PRESETS, RATE, SEEDS, TUNING_SEED, Preset

RESULTS = Path("results") / "paper"


def list_presets(seeds: int = 3, workers: int = 2, json: bool = False) -> None:
    """The tables and figures that can be run, what to expect, and how long that takes here.

    Args:
        seeds: With so many seeds.
        workers: With so many processes.
        json: As one line of JSON.
    """
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
    preset = find("preset", name, PRESETS)
    if on not in BACKENDS:
        raise ValueError(unknown("--on", on, BACKENDS))
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError("--seeds needs at least one, and none twice")
    if TUNING_SEED in seeds:
        raise ValueError(
            f"--seeds: rates are chosen on seed {TUNING_SEED}, so it cannot be reported"
        )
    store = preset.store if store is None else store
    if commit_every is None and store == preset.store:
        commit_every = preset.commit_every
    check_store(store, commit_every)
    run_options = RunOptions(workers, checkpoint_every=checkpoint_every, store=store,
                      commit_every=commit_every)  # fmt: skip
    run_options.check()
    wanted = filters(only, preset)
    place = out / name
    console = Console(stderr=True)
    for field in (*preset.searched(), "seed"):
        if field in wanted:
            other = "use --seeds" if field == "seed" else f"{name} chooses it"
            raise ValueError(f"--only cannot say {flag(field)}: {other}")
    if not client_lrs or len(set(client_lrs)) < len(client_lrs):
        raise ValueError("--client-lrs needs at least one, and none twice")
    if client_lrs != (RATE,) and not preset.free():
        raise ValueError(f"--client-lrs: every row of {name} chooses its client rate or fixes it")
    _check_filters(preset, wanted)
    preset.experiments([], seeds, client_lrs)  # what is wrong with them is said before any work
    shared = {field: values for field, values in wanted.items() if field != "evaluate_every"}
    choices = [e for e in preset.choices() if _is_wanted(e, shared)]
    console.print(
        f"{name}: {preset.shows}\n{preset.told} All of it takes about "
        f"{_duration(preset.minutes(len(seeds), workers, len(client_lrs)))} here.",
        soft_wrap=True, highlight=False,
    )  # fmt: skip
    records: list[RunRecord] = []
    if choices:
        chosen = sweep(choices, run_options, place, console, on=on, known=_others(out, name))
        if chosen.failures:
            finish(chosen, [], place, json)
    found = preset.experiments(recorded(out), seeds, client_lrs)
    cells = list(dict.fromkeys(e for e in found if _is_wanted(e, wanted)))
    if not cells:
        raise ValueError(f"--only {' '.join(only)}: {name} has no such cell")
    progress = sweep(cells, run_options, place, console, on=on, known=_others(out, name),
                     on_record=records.append)  # fmt: skip
    finish(progress, records, place, json)


def filters(words: Sequence[str], preset: Preset) -> dict[str, list[object]]:
    """Fields or settings and the values they may have, from words like partition=lq-1,lq-2."""
    algorithms = {cell.algorithm for cell in _cells(preset)}
    wanted: dict[str, list[object]] = {}
    for word in words:
        key, equals, values = word.partition("=")
        if not equals:
            raise ValueError(f"--only {word}: type a field and its values, as partition=lq-1")
        where, name = f"--only {word}", key.replace("-", "_")
        if name in wanted:
            raise ValueError(f"{where}: {key} is named twice; give its values once, with commas")
        given = [value for value in values.split(",") if value != "none"]
        _, read = typed(key, given, where, algorithms)
        wanted[name] = [*read, *([None] * (values.split(",") != given))]
    return wanted


def _cells(preset: Preset) -> list[Experiment]:
    """Every cell of a preset, with what its rows say."""
    return [
        preset.base(partition).updated(**candidate)
        for partition in preset.partitions
        for row in preset.rows(partition)
        for candidate in row.candidates
    ]


def _check_filters(preset: Preset, wanted: dict[str, list[object]]) -> None:
    """Refuse a value that no cell of the preset has: it would be passed over in silence."""
    cells = [*_cells(preset), *(cell.resolved() for cell in _cells(preset))]
    for name, values in wanted.items():
        known = {cell.get(name) for cell in cells}
        for value in values:
            if value not in known:
                listed = sorted("none" if v is None else str(v) for v in known)
                said = "none" if value is None else str(value)
                what = name.replace("_", "-")
                raise ValueError(f"--only: {preset.name}: {unknown(what, said, listed)}")


def _is_wanted(experiment: Experiment, wanted: dict[str, list[object]]) -> bool:
    """Whether a run has the values that are wanted; none is also the default of its algorithm."""

    def fits(name: str, values: list[object]) -> bool:
        value = experiment.get(name)
        if None in values and name not in fields_of_experiment() and value is not None:
            usual = Experiment(algorithm=experiment.algorithm).resolved().settings
            return value in values or value == usual[name]
        return value in values

    return all(fits(name, values) for name, values in wanted.items())


def recorded(out: Path) -> list[RunRecord]:
    """All runs that are recorded, of all presets."""
    return [record for path in sorted(out.glob(f"*/{RECORDS}")) for record in read_lines(path)]


def _others(out: Path, name: str) -> list[Path]:
    """The records of other presets: a run that they share is done once."""
    return [path for path in sorted(out.glob(f"*/{RECORDS}")) if path.parent.name != name]
