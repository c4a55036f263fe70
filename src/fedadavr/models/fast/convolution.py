"""Convolutions with few output positions, as matrix products over the taps that meet data.

A 3x3 kernel on an input of 1x1 meets data with its center only; on 2x2, at each position, with four
of its nine taps. A library computes all of them, on padding. Here each tap is one product of the
inputs that it meets with its matrix, and taps that meet nothing are not even kept: they are missing
in the weight of this layer, and in the model's vector they stay as they are, their gradient zero.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fedadavr.models.fast.products import Product
from fedadavr.models.fast.program import ROWS, Bound, BoundLayer, Layer, Piece

POSITIONS = 16
"""Up to so many output positions, products are as fast as the library, or faster."""


class Tap(NamedTuple):
    """A tap of the kernel, the input positions that it meets and the outputs that it adds to."""

    row: int
    column: int
    inputs: tuple[slice, slice]
    outputs: tuple[slice, slice]


class Taps(NamedTuple):
    """How a convolution of an input of one size is computed."""

    rows: slice
    """The rows of the kernel that meet data."""
    columns: slice
    """Its columns that do."""
    taps: list[Tap]
    """Those, one by one; the one with the most outputs first."""
    out: tuple[int, int]


def plain(layer: nn.Module) -> bool:
    """Whether it is a convolution without anything special, and without a bias."""
    return (
        type(layer) is nn.Conv2d
        and layer.groups == 1
        and layer.padding_mode == "zeros"
        and layer.dilation == (1, 1)
        and not isinstance(layer.padding, str)
        and layer.bias is None
    )


def taps_of(layer: nn.Module, height: int, width: int) -> Taps | None:
    """The products for an input of that size; None if they are not for this layer."""
    if not plain(layer) or not isinstance(layer, nn.Conv2d) or isinstance(layer.padding, str):
        return None
    sides = zip(layer.kernel_size, layer.stride, layer.padding, (height, width), strict=True)
    (high, rows), (wide, columns) = (_spans(*side) for side in sides)
    if not 1 <= high * wide <= POSITIONS or not rows or not columns:
        return None
    if any(max(kept) - min(kept) >= len(kept) for kept in (rows, columns)):
        return None  # between them there is a tap without data, whose gradient nobody would write
    taps = [
        Tap(a - min(rows), b - min(columns), (rows[a][0], columns[b][0]),
            (rows[a][1], columns[b][1]))
        for a in rows for b in columns
    ]  # fmt: skip
    taps.sort(key=lambda tap: -_length(tap.outputs[0]) * _length(tap.outputs[1]))
    kept = slice(min(rows), max(rows) + 1), slice(min(columns), max(columns) + 1)
    return Taps(*kept, taps, (high, wide))


def _spans(
    size: int, stride: int, padding: int, length: int
) -> tuple[int, dict[int, tuple[slice, slice]]]:
    """Along one side: the number of outputs; of each tap that meets data, inputs and outputs."""
    outputs = (length + 2 * padding - size) // stride + 1
    spans = {}
    for tap in range(size):
        met = [i for i in range(outputs) if 0 <= i * stride + tap - padding < length]
        if met:
            first, last = met[0] * stride + tap - padding, met[-1] * stride + tap - padding
            spans[tap] = slice(first, last + 1, stride), slice(met[0], met[-1] + 1)
    return outputs, spans


def _length(span: slice) -> int:
    return int(span.stop - span.start)


class TapProducts(Layer):
    """The convolution, with a weight of (rows, columns, inputs, outputs) of the taps it keeps."""

    def __init__(self, weight: Piece, taps: Taps) -> None:
        self.pieces, self.taps = [weight], taps

    def lies(self) -> tuple[str, str]:
        """In rows."""
        return ROWS, ROWS

    def step(self, b: Bound) -> BoundLayer:
        """TapProducts."""
        return _Products(b, self.taps)


Copies = list[tuple[Tensor, Tensor]]
"""Rooms, and the parts that are copied there before the products."""


class _Products(BoundLayer):
    """Every product has its views from the start: making them takes time, too."""

    def __init__(self, b: Bound, taps: Taps) -> None:
        self._copies: Copies = []
        self._g_copies: Copies = []
        x, (weight,) = b.inputs[0].data, b.weights
        self._forward = _SumOfProducts(b.out.data)
        if b.training:
            self._backward = (
                _SumOfProducts(b.inputs[0].gradient, b.adds[0]) if b.wanted[0] else None
            )
        self._weights: list[Product] = []
        self._decay = b.decay
        for tap in taps.taps:
            left = _matrix(x[tap.inputs], self._copies)
            matrix = weight[tap.row, tap.column]
            self._forward.add(left, matrix, tap.outputs)
            if not b.training:
                continue
            right = _matrix(b.out.gradient[tap.outputs], self._g_copies)
            if self._backward is not None:
                self._backward.add(right, matrix.t(), tap.inputs)
            own = b.gradients[0][tap.row, tap.column]
            self._weights.append(Product(left.t(), right, own))

    def forward(self) -> None:
        for room, part in self._copies:
            room.copy_(part)
        self._forward()

    def backward(self) -> None:
        for room, part in self._g_copies:
            room.copy_(part)
        beta = self._decay.value
        for product in self._weights:
            product(beta)
        if self._backward is not None:
            self._backward()


class _SumOfProducts:
    """A sum of products, each over some of the positions of `out`."""

    def __init__(self, out: Tensor, adds: bool = False) -> None:
        self._out, self._adds = out, adds
        self._first: Product | None = None
        self._direct: list[Product] = []
        self._aside: list[tuple[Product, Tensor, Tensor]] = []

    def add(self, left: Tensor, right: Tensor, where: tuple[slice, slice]) -> None:
        """Add a product over these positions."""
        target = self._out[where]
        begun = self._adds or self._first is not None or self._direct or self._aside
        room = target if target.is_contiguous() else torch.empty(target.shape)
        product = Product(left, right, room.view(-1, target.shape[3]))
        if not begun and target.numel() == self._out.numel():
            self._first = product
        elif room is target:
            self._direct.append(product)
        else:
            self._aside.append((product, room, target))

    def __call__(self) -> None:
        """Compute it."""
        if self._first is not None:
            self._first()
        elif not self._adds:
            self._out.zero_()
        for product in self._direct:
            product(1.0)
        for product, room, target in self._aside:
            product()
            target.add_(room)


def _matrix(part: Tensor, copies: Copies) -> Tensor:
    """Positions as the rows of a matrix; by a copy before each use, if they do not lie so."""
    if part.is_contiguous():
        return part.view(-1, part.shape[3])
    room = torch.empty(part.shape)
    copies.append((room, part))
    return room.view(-1, part.shape[3])
