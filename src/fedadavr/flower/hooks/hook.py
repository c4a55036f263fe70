"""What a hook is, and what the ready ones share."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from flwr.app import ArrayRecord

Value = int | float | list[int] | list[float]
Metrics = dict[str, Value]
History = dict[int, Metrics]


class Hook(Protocol):
    """What is called after a round; `begin(history)` and `end()` are called where it has them.

    `begin` is called once before the first round, with the metrics of the rounds that the store
    holds, and `end` once at the end of `start`, also if that raises.
    """

    def __call__(self, round: int, arrays: ArrayRecord, metrics: Metrics, /) -> bool | None:
        """A round was trained, evaluated and committed; True ends the run after it.

        Parameters
        ----------
        round : int
            The round, as the store counts; 0 is the initial model, where it is evaluated.
        arrays : ArrayRecord
            The model after the round.
        metrics : dict[str, int | float | list[int] | list[float]]
            "train/NAME" and "evaluate/NAME" of the clients, "server/NAME" of `evaluate_fn`.
        """
        ...


def scalars(metrics: Mapping[str, Value]) -> dict[str, float]:
    """Metrics as single numbers; those of a list are NAME/0, NAME/1, and so on."""
    numbers: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, list):
            numbers |= {f"{name}/{k}": float(one) for k, one in enumerate(value)}
        else:
            numbers[name] = float(value)
    return numbers


def need(module: str, hook: str, package: str) -> Any:
    """A module that a hook cannot do without; one clear sentence where it is missing."""
    top = module.partition(".")[0]
    try:
        importlib.import_module(top)
    except ModuleNotFoundError as error:
        if error.name != top:
            raise
        raise ModuleNotFoundError(
            f"{hook} needs {top}, which is not installed: pip install {package}", name=top
        ) from None
    return importlib.import_module(module)


class Outcome:
    """Whether an exception is on its way that was not there when this was made."""

    def __init__(self) -> None:
        self._before = sys.exc_info()[1]

    @property
    def failed(self) -> bool:
        """To be asked in a `finally`."""
        now = sys.exc_info()[1]
        return now is not None and now is not self._before
