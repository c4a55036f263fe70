"""A memory of a few vectors, each of which predicts the updates of many clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedadavr.kernels import Sketch, Vectors
from fedadavr.plugins import Registry
from fedadavr.vector import Vector

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Assignment:
    """Which vector predicts each reply of a round, and how the vectors move."""

    of: Ints
    known: int  # vectors that were there before the round; the others are opened by it
    keep: Floats  # c_z <- keep_z c_z + sum_{i of z} push_i g_i
    push: Floats
    sketches: npt.NDArray[np.float32]

    def shares(self, weights: Floats) -> Floats:
        """The sum of the replies' weights at each vector."""
        return np.bincount(self.of, weights, minlength=len(self.keep)).astype(np.float64)


class VectorMemory(ABC):
    """What a server remembers beside each client's own update.

    A client's record is labeled with the vector that predicted it last, so that the mean of this
    memory over the population is the vectors' mean, weighted by the clients that carry each label;
    to forget a client is to take its weight from its label.
    """

    name: str

    @abstractmethod
    def __len__(self) -> int:
        """How many vectors there are."""

    def sketch(self, replies: int) -> Sketch:
        """Room for sketches of the replies, if `assign` wants them."""
        return Sketch()

    @abstractmethod
    def assign(
        self, w: Vector, replies: Sequence[Any], inverse: Vector, sketch: Sketch
    ) -> Assignment:
        """What it predicts for each reply, and what it will take from it; changes nothing.

        The updates are g_i = inverse_i (w - w_i), or inverse_i (0 - w_i) where inverse_i < 0.
        """

    @abstractmethod
    def terms(self, assignment: Assignment, pull: Floats | None) -> Vectors:
        """Its part in the pass over the coordinates."""

    @abstractmethod
    def learned(self, assignment: Assignment, round: int) -> None:
        """The pass has moved the vectors."""

    @abstractmethod
    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """Its state: plain numbers, strings, lists, and arrays."""

    @abstractmethod
    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raise unless the state fits; changes nothing."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state made by `state_dict`."""


MEMORIES: Registry[Callable[..., VectorMemory]] = Registry("memory", "fedadavr.memories")
"""Memories by the name that an algorithm's `memories` setting has: built from a layout, and the
algorithm's settings by name."""


def difference(w: Vector, reply: Any, inverse: np.float32) -> Vector:
    """g_i of a reply."""
    whole = reply if isinstance(reply, np.ndarray) else np.concatenate(reply)
    return (w - whole) * inverse if inverse > 0 else (0 - whole) * inverse
