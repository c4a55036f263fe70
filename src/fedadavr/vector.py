"""A model as one flat float32 vector, and the layout that says which slice is which tensor."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedadavr.kernels import BLOCK, Blocks

Vector = npt.NDArray[np.float32]


class Layout:
    """Names and shapes of a model's tensors, in the order in which they lie in the flat vector.

    >>> layout = Layout({"conv.weight": (6, 1, 5, 5), "conv.bias": (6,)})
    >>> layout.size
    156
    >>> {name: x.shape for name, x in layout.split(layout.zeros()).items()}
    {'conv.weight': (6, 1, 5, 5), 'conv.bias': (6,)}
    """

    def __init__(self, shapes: Mapping[str, Sequence[int]]) -> None:
        if not shapes:
            raise ValueError("a layout needs at least one tensor, got none")
        self.shapes: dict[str, tuple[int, ...]] = {}
        for name, shape in shapes.items():
            if not isinstance(name, str):
                raise TypeError(f"a tensor's name must be a string, got {name!r}")
            sides = tuple(int(side) for side in shape)
            if any(side < 1 for side in sides):
                raise ValueError(
                    f"tensor {name!r} has shape {sides}: every side must be at least 1"
                )
            self.shapes[name] = sides

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Layout:
        """The layout of a dictionary of arrays (anything with a `shape`)."""
        return cls({name: np.shape(array) for name, array in arrays.items()})

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where each tensor starts; one more entry than tensors, the last is the size."""
        sizes = [math.prod(shape) for shape in self.shapes.values()]
        return np.cumsum([0, *sizes], dtype=np.int64)

    @cached_property
    def size(self) -> int:
        """The number of coordinates, d."""
        return int(self.offsets[-1])

    @cached_property
    def blocks(self) -> Blocks:
        """The pieces in which kernels walk over the vector."""
        start: list[int] = []
        stop: list[int] = []
        tensor: list[int] = []
        within: list[int] = []
        first: list[int] = []
        for t, (lo, hi) in enumerate(zip(self.offsets[:-1], self.offsets[1:], strict=True)):
            first.append(len(start))
            for s in range(int(lo), int(hi), BLOCK):
                start.append(s)
                stop.append(min(s + BLOCK, int(hi)))
                tensor.append(t)
                within.append(s - int(lo))
        columns = (start, stop, tensor, within, first)
        return Blocks(*(np.array(column, dtype=np.int64) for column in columns))

    @cached_property
    def digest(self) -> str:
        """A stable hash of names and shapes: two layouts are the same when their digests are."""
        text = json.dumps([[name, list(shape)] for name, shape in self.shapes.items()])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def zeros(self) -> Vector:
        """A vector of zeros of this layout."""
        return np.zeros(self.size, dtype=np.float32)

    def split(self, vector: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        """The tensors of a flat vector, as views into it."""
        if vector.shape != (self.size,):
            raise ValueError(
                f"this layout has {self.size} coordinates, got an array {vector.shape}"
            )
        pairs = zip(self.offsets[:-1], self.offsets[1:], strict=True)
        return {
            name: vector[lo:hi].reshape(shape)
            for (name, shape), (lo, hi) in zip(self.shapes.items(), pairs, strict=True)
        }

    def flatten(self, arrays: Mapping[str, Any]) -> Vector:
        """One flat float32 vector of a dictionary of arrays with these names and shapes."""
        if list(arrays) != list(self.shapes):
            missing = [name for name in self.shapes if name not in arrays]
            extra = [name for name in arrays if name not in self.shapes]
            raise ValueError(
                f"the arrays do not fit the layout: missing {missing}, not in it {extra}"
                if missing or extra
                else "the arrays do not come in the order of the layout"
            )
        vector = np.empty(self.size, dtype=np.float32)
        for name, view in self.split(vector).items():
            if np.shape(arrays[name]) != view.shape:
                raise ValueError(
                    f"tensor {name!r} has shape {np.shape(arrays[name])}, the layout {view.shape}"
                )
            view[...] = arrays[name]
        return vector

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Layout({len(self.shapes)} tensors, {self.size:,} coordinates, {self.digest})"
