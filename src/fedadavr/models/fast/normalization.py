"""Group normalization, with the addition and the ReLU that follow it, in one pass each way."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fedadavr.kernels import call
from fedadavr.models.fast import kernels
from fedadavr.models.fast.program import ROWS, Bound, BoundLayer, Layer, Piece, Value

_NOTHING = np.empty((0, 0, 0), np.float32)


class Normalization(Layer):
    """relu(group_norm(x) + other), where `other` and the ReLU may be missing."""

    def __init__(self, weight: Piece, bias: Piece, groups: int, eps: float, relu: bool) -> None:
        self.pieces = [weight, bias]
        self.groups, self.eps, self.relu = groups, eps, relu

    def step(self, b: Bound) -> BoundLayer:
        """Loops."""
        return _Normalize(b, self)


class _Seen:
    """A value as loops see it; the library may put it elsewhere with every batch."""

    def __init__(self, value: Value) -> None:
        self._value, self._data, self._array = value, value.data, value.seen(value.data)

    def __call__(self) -> Any:
        if self._value.data is not self._data:
            self._data = self._value.data
            self._array = self._value.seen(self._data)
        return self._array


class _Normalize(BoundLayer):
    def __init__(self, b: Bound, layer: Normalization) -> None:
        self._b, x, rows = b, b.inputs[0], b.out.kind.lies == ROWS
        self._values = [_Seen(value) for value in b.inputs]
        self._out = b.out.seen(b.out.data)
        self._weight, self._bias = (p.numpy() for p in b.weights)
        means, scales = np.empty((2, b.n, layer.groups), np.float32)
        self._options = np.float32(layer.eps), layer.relu
        self._moments = means, scales
        self._kernel: Any = kernels.normalize_rows if rows else kernels.normalize_planes
        self._back: Any = kernels.normalize_rows_back if rows else kernels.normalize_planes_back
        if b.training:
            self._aside = [torch.empty_like(x.data) if adds else None for adds in b.adds]
            rooms = [
                v.gradient if room is None else room
                for v, room in zip(b.inputs, self._aside, strict=True)
            ]
            g_x, g_mid = rooms[0], rooms[-1]
            self._gradients = (
                b.out.seen(b.out.gradient), self._weight, *self._moments, layer.relu
            )  # fmt: skip
            self._targets = (
                b.out.seen(g_mid), b.out.seen(g_x), *(g.numpy() for g in b.gradients),
            )  # fmt: skip

    def forward(self) -> None:
        x, *other = (value() for value in self._values)
        call(
            self._kernel, x, other[0] if other else _NOTHING, self._weight, self._bias,
            *self._options, self._out, *self._moments,
        )  # fmt: skip

    def backward(self) -> None:
        g, *rest = self._gradients
        decay = np.float32(self._b.decay.value)
        call(self._back, g, self._values[0](), self._out, *rest, decay, *self._targets)
        for value, room in zip(self._b.inputs, self._aside, strict=True):
            if room is not None:
                value.gradient.add_(room)
