"""A grid: fields and settings with several values each, and every combination of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from fedadavr.algorithms.registry import user_settings
from fedadavr.experiments.experiment import Experiment, fields_of_experiment
from fedadavr.naming import unknown
from fedadavr.settings import RawText, flag


def grid(
    base: Experiment, axes: tuple[str, ...], algorithms: tuple[str, ...] = ()
) -> list[Experiment]:
    """Every combination of the values, checked before any work; seeds change slowest."""
    whose = algorithms_of(base, axes, algorithms)
    fields = [axis(text, whose) for text in axes]
    names = [name for name, _ in fields]
    if len(set(names)) < len(names):
        raise ValueError(f"--grid names a field twice: {' '.join(axes)}")
    if "algorithm" in names and algorithms:
        raise ValueError("give the algorithms in --grid or in --algorithms, not in both")
    for own in algorithms:
        for name in names:
            if f"{name.replace('_', '-')}=" in own or f"{name}=" in own:
                raise ValueError(f"{own} has its own {flag(name)}, which --grid would change")
    fields.sort(key=lambda pair: pair[0] != "seed")
    points = itertools.product(*(values for _, values in fields))
    settings = [dict(zip([name for name, _ in fields], point, strict=True)) for point in points]
    experiments = []
    for point in settings:
        for spec in algorithms or (None,):
            chosen = base if spec is None else base.with_algorithm(spec)
            experiments.append(chosen.updated(**point).resolved())
    return experiments


def algorithms_of(
    base: Experiment, axes: Iterable[str], algorithms: Iterable[str] = ()
) -> list[str]:
    """The names of the algorithms that a grid is about."""
    typed = [text.partition("=")[2].split(",") for text in axes if text.startswith("algorithm=")]
    return [spec.partition(":")[0] for spec in [*algorithms, *itertools.chain(*typed)]] or [
        base.algorithm
    ]


def axis(text: str, algorithms: Iterable[str]) -> tuple[str, list[Any]]:
    """One axis of a grid: the field or setting, and its values."""
    key, equals, values = text.partition("=")
    if not equals or not values:
        raise ValueError(f"--grid {text}: type a field and its values, as server-lr=0.001,0.01")
    name, found = typed(key, split(values), f"--grid {text}", algorithms)
    if len(set(found)) < len(found):
        raise ValueError(f"--grid {text} names a value twice")
    if name == "load":
        raise ValueError(f"--grid {text}: {flag(name)} is the same for all runs")
    return name, found


def split(values: str) -> list[str]:
    """The values between commas; a value may have settings of its own.

    >>> split("uniform,markov:on=0.2,off=0.1,0.5")
    ['uniform', 'markov:on=0.2,off=0.1', '0.5']
    """
    found: list[str] = []
    for part in values.split(","):
        if found and ":" in found[-1] and "=" in part.partition(":")[0]:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def typed(
    key: str, values: Iterable[str], where: str, algorithms: Iterable[str]
) -> tuple[str, list[Any]]:
    """A field or a setting of one of the algorithms, and its values, from what was typed.

    Where algorithms have settings of the same name and different types, each will read the values.
    """
    name = key.strip().replace("-", "_")
    owns = [user_settings(algorithm) for algorithm in dict.fromkeys(algorithms)]
    kinds = {setting.type: setting for own in [fields_of_experiment(), *owns]
             if (setting := own.get(name)) is not None}  # fmt: skip
    if not kinds or name == "settings":
        known = dict.fromkeys(itertools.chain(fields_of_experiment(), *owns))
        names = [known.replace("_", "-") for known in known if known != "settings"]
        raise ValueError(f"{where}: {unknown('setting', key, names)}")
    texts = [RawText(value) for value in values]
    if len(kinds) > 1:
        return name, texts
    (setting,) = kinds.values()
    return name, [setting.read(text, where) for text in texts]
