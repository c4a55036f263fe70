"""What clients send back, and whether it can be taken, as far as one sees without reading it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedadavr.memory.population import check_weight
from fedadavr.naming import shown
from fedadavr.vector import Layout, Vector


@dataclass(frozen=True, slots=True)
class Update:
    """What a client sends back: the weights it ends with, its number of examples and of steps.

    The weights are one flat vector, or a list of the tensors, each flat, which are read in place.
    With `difference` they are w - w_i instead, how far the client went from the model that it got.
    A server that does not wait may get several replies of a client between two steps, numbered by
    `visit`: all count, and the last is remembered. `age` counts the steps since the model was sent.
    """

    client: str
    weights: Vector | Sequence[Vector]
    examples: float  # a whole number, or any weight above zero
    steps: int | None = None
    owner: int = 0  # the node it came from, if its ids can be relied on; 0: not known
    difference: bool = False
    age: int = 0
    visit: int = 0


class Rejected(ValueError):
    """Updates that the server does not take. Nothing was changed; `reasons` says why, by client.

    Leave these clients out and the rest of the round can be stepped as it is (`step_good` does).
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        listed = "; ".join(f"client {shown(client)}: {why}" for client, why in reasons.items())
        super().__init__(f"{listed}; nothing was changed")


def key_of(client: Any, ids: Sequence[str]) -> str:
    """What stands for a client among reasons: its id; if that is no string, nobody else's."""
    if isinstance(client, str):
        return client
    key = shown(client)
    while key in ids:
        key += " (not a string)"
    return key


def bad_vector(x: Any, size: int) -> str | None:
    """Why this is not a model of that size; None if it is."""
    if not isinstance(x, np.ndarray):
        return f"the weights must be a NumPy array, got {type(x).__name__}"
    if x.dtype != np.float32:
        return f"the weights must be float32, got {x.dtype}"
    if x.shape != (size,):
        return f"the weights must be a flat vector of {size} numbers, got shape {x.shape}"
    return None


def _bad_tensors(tensors: Sequence[Any], layout: Layout) -> str | None:
    """Why these are not a model's tensors; None if they are."""
    if len(tensors) != len(layout.shapes):
        return f"the weights must be {len(layout.shapes)} tensors, got {len(tensors)}"
    for name, tensor, size in zip(layout.shapes, tensors, np.diff(layout.offsets), strict=True):
        why = bad_vector(tensor, int(size))
        if why:
            return f"tensor {name!r}: {why}"
    return None


def check_reply(update: Update, layout: Layout, needs_steps: str | None) -> None:
    """Raise unless the reply is well formed; `needs_steps` is the algorithm that asks for steps."""
    check_weight(update.examples)
    check_owner(update.owner)
    for name, value in (("age", update.age), ("visit", update.visit)):
        if type(value) is not int or not 0 <= value < 2**31:
            raise ValueError(f"its {name} must be a whole number from 0 up, got {shown(value)}")
    if update.steps is not None or needs_steps:
        _check_steps(update.steps, needs_steps)
    weights = update.weights
    if isinstance(weights, (list, tuple)) and all(isinstance(t, np.ndarray) for t in weights):
        why = _bad_tensors(weights, layout)
    else:
        why = bad_vector(weights, layout.size)
    if why:
        raise ValueError(why)


def check_owner(owner: Any) -> None:
    """Raise unless it is a node's id."""
    if isinstance(owner, bool) or not isinstance(owner, (int, np.integer)):
        raise TypeError(f"a node's id must be a whole number, got {shown(owner)}")
    if not 0 <= owner < 2**64:
        raise ValueError(f"a node's id must fit 64 bits, got {shown(int(owner))}")


def _check_steps(steps: Any, name: str | None) -> None:
    if steps is None:
        raise ValueError(f"{name} needs the number of local steps, and there is none")
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1:
        raise ValueError(
            f"the number of local steps must be a whole number above 0, got {shown(steps)}"
        )
    if steps >= 2**63:
        raise ValueError(f"the number of local steps must be less than 2^63, got {shown(steps)}")
