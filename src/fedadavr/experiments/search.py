"""A search instead of a grid: Optuna proposes settings, and learns from what came of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.grid import algorithms_of, axis, typed
from fedadavr.experiments.options import RunOptions
from fedadavr.experiments.records import RunRecord, run_id
from fedadavr.experiments.sweep import OnChange, Progress, sweep


def search(
    base: Experiment,
    axes: tuple[str, ...],
    trials: int,
    run_options: RunOptions,
    out: Path,
    on_change: OnChange,
    on: str,
    on_record: Callable[[RunRecord], None],
) -> Progress:
    """Try so many points; a point's worth is its accuracy, the mean over the seeds.

    A run that diverged is worth nothing. With one worker the points are the same every time, so a
    search that was stopped finds its finished runs again; with several, they depend on which run
    ends first.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space: dict[str, Any] = {}
    for text in axes:
        name, values = _values(text, algorithms_of(base, axes))
        if name in space:
            raise ValueError(f"--grid {text}: names a field twice")
        space[name] = values
    seeds = space.pop("seed", [base.seed])
    if not space:
        raise ValueError("--search needs a --grid with something to search besides the seed")
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=base.seed)
    )
    waiting: dict[str, list[tuple[Any, list[float]]]] = {}  # by run: trials, their seeds' figures

    def propose() -> Iterator[Experiment]:
        for _ in range(trials):
            trial = study.ask(space)
            figures: list[float] = []
            point = [base.updated(seed=seed, **trial.params).resolved() for seed in seeds]
            for experiment in point:  # which may have been proposed before
                waiting.setdefault(run_id(experiment), []).append((trial, figures))
            yield from point

    def learn(record: RunRecord) -> None:
        on_record(record)
        for trial, figures in waiting.pop(record.id):
            figures.append(record.final_accuracy or 0.0)
            if len(figures) == len(seeds):
                study.tell(trial, statistics.mean(figures))

    corner = {name: _some(kind)[0] for name, kind in space.items()}
    for name, kind in space.items():  # what is wrong is said before any work
        for value in _some(kind):
            base.updated(seed=seeds[0], **(corner | {name: value})).resolved()
    return sweep(
        propose(), run_options, out, on_change, total=trials * len(seeds), on=on, on_record=learn
    )


def _values(text: str, algorithms: list[str]) -> tuple[str, Any]:
    """A field or setting, and its values: a list for seeds, else what Optuna draws from."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    key, _, values = text.partition("=")
    if ".." not in values:
        name, choices = axis(text, algorithms)
        return name, choices if name == "seed" else CategoricalDistribution(choices)
    where = f"--grid {text}"
    name, (low, high) = typed(key, values.split("..", 1), where, algorithms)
    if not isinstance(low, int | float) or not 0 < low < high < float("inf"):
        raise ValueError(f"{where}: a range goes from a positive number to a larger one")
    if name == "seed":
        raise ValueError(f"{where}: seeds are named one by one, as seed=42,43")
    if isinstance(low, int):
        return name, IntDistribution(low, int(high), log=True)
    return name, FloatDistribution(low, high, log=True)


def _some(kind: Any) -> tuple[Any, ...]:
    """All choices, or both ends of a range."""
    return tuple(kind.choices) if hasattr(kind, "choices") else (kind.low, kind.high)
