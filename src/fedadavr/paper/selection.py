"""A preset's cells that are asked for, and the records that are there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedadavr.experiments.experiment import Experiment, fields_of_experiment, flag
from fedadavr.experiments.grid import typed
from fedadavr.experiments.records import RECORDS, RunRecord, read_lines
from fedadavr.naming import unknown
from fedadavr.paper.presets import Preset
from fedadavr.paper.protocol import RATE, TUNING_SEED


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


def check_asked(
    preset: Preset,
    wanted: dict[str, list[object]],
    seeds: Sequence[int],
    client_lrs: Sequence[float],
) -> None:
    """Refuse seeds, client rates and filters that a preset cannot have, before any work."""
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError("--seeds needs at least one, and none twice")
    if TUNING_SEED in seeds:
        raise ValueError(
            f"--seeds: rates are chosen on seed {TUNING_SEED}, so it cannot be reported"
        )
    for field in (*preset.searched(), "seed"):
        if field in wanted:
            other = "use --seeds" if field == "seed" else f"{preset.name} chooses it"
            raise ValueError(f"--only cannot say {flag(field)}: {other}")
    if not client_lrs or len(set(client_lrs)) < len(client_lrs):
        raise ValueError("--client-lrs needs at least one, and none twice")
    if tuple(client_lrs) != (RATE,) and not preset.free():
        raise ValueError(
            f"--client-lrs: every row of {preset.name} chooses its client rate or fixes it"
        )
    _check_filters(preset, wanted)
    preset.experiments([], tuple(seeds), tuple(client_lrs))


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


def is_wanted(experiment: Experiment, wanted: dict[str, list[object]]) -> bool:
    """Whether a cell has one of the values that are asked for, in every field or setting.

    none is also the default of its algorithm.
    """

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


def records_of_others(out: Path, name: str) -> list[Path]:
    """The records of other presets: a run that they share is done once."""
    return [path for path in sorted(out.glob(f"*/{RECORDS}")) if path.parent.name != name]
