"""A grid: fields with several values each, and every combination of them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from fedadavr.experiments.experiment import Experiment, flag, setting_of


def grid(
    base: Experiment, axes: tuple[str, ...], algorithms: tuple[str, ...] = ()
) -> list[Experiment]:
    """Every combination of the values, checked before any work; seeds change slowest."""
    fields = [axis(text) for text in axes]
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
            experiments.append(replace(chosen, **point).resolved())
    return experiments


def axis(text: str) -> tuple[str, list[Any]]:
    """One axis of a grid: the field, and its values."""
    key, equals, values = text.partition("=")
    if not equals or not values:
        raise ValueError(f"--grid {text}: type a field and its values, as server-lr=0.001,0.01")
    pairs = [setting_of(key, value, f"--grid {text}") for value in values.split(",")]
    found = [value for _, value in pairs]
    name = pairs[0][0]
    if len(set(found)) < len(found):
        raise ValueError(f"--grid {text} names a value twice")
    if name == "load":
        raise ValueError(f"--grid {text}: {flag(name)} is the same for all runs")
    return name, found
