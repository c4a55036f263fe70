"""3x3 convolutions of small images by Winograd's F(m x m, 3 x 3), with m 2 or 4.

Each m x m square of the output is made from an n x n window of the input, n = m + 2, by n^2
multiplications instead of 9 m^2: 36 instead of 144 with m = 4. All windows together are n^2 matrix
products. The matrices are Lavin and Gray's, but for m = 4 with the points 0, +-1/sqrt(2), +-sqrt(2)
and infinity, which lose half as much to rounding as 0, +-1, +-2: 7e-7 in a layer, where the plain
sum loses 2e-7. The backward pass is the transpose of the forward one. A few images are handled at a
time, so that a transform's result is in the cache when it is used.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from fedadavr.kernels import call
from fedadavr.models.fast import kernels
from fedadavr.models.fast.convolution import plain
from fedadavr.models.fast.products import Product
from fedadavr.models.fast.program import ROWS, Bound, BoundLayer, Layer, Piece

LARGEST, CHANNELS = 64, 32
"""Up to so many positions, and from so many channels, it is faster than the library."""
CACHE = 1_600_000
"""Bytes of transformed inputs and outputs at a time."""

_p, _q = np.sqrt(0.5), np.sqrt(2.0)
MATRICES = {
    2: (
        [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
        [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]],
        [[1, 1, 1, 0], [0, 1, -1, -1]],
    ),
    4: (
        [[1, 0, -2.5, 0, 1, 0], [0, -2 * _p, -2, _p, 1, 0], [0, 2 * _p, -2, -_p, 1, 0],
         [0, -_q / 2, -0.5, _q, 1, 0], [0, _q / 2, -0.5, -_q, 1, 0], [0, 1, 0, -2.5, 0, 1]],
        [[1, 0, 0], [-2 / 3, -2 / 3 * _p, -1 / 3], [-2 / 3, 2 / 3 * _p, -1 / 3],
         [1 / 6, _q / 6, 1 / 3], [1 / 6, -_q / 6, 1 / 3], [0, 0, 1]],
        [[1, 1, 1, 1, 1, 0], [0, _p, -_p, _q, -_q, 0], [0, 0.5, 0.5, 2, 2, 0],
         [0, _p / 2, -_p / 2, 2 * _q, -2 * _q, 1]],
    ),
}  # fmt: skip
"""Of the input, of the kernel and of the output, by m."""


def fits(layer: nn.Module, height: int, width: int) -> bool:
    """Whether this convolution of an input of that size is computed here."""
    return (
        plain(layer)
        and isinstance(layer, nn.Conv2d)
        and (layer.kernel_size, layer.stride, layer.padding) == ((3, 3), (1, 1), (1, 1))
        and min(layer.in_channels, layer.out_channels) >= CHANNELS
        and height % 2 == width % 2 == 0
        and 4 < height * width <= LARGEST
    )


def _side(height: int, width: int) -> int:
    """m: 4 if that leaves several windows in an image, so that products have enough rows."""
    return 4 if height % 4 == width % 4 == 0 and height * width >= 64 else 2


class Winograd(Layer):
    """The convolution, with a weight of (3, 3, inputs, outputs)."""

    def __init__(self, weight: Piece) -> None:
        self.pieces = [weight]

    def lies(self) -> tuple[str, str]:
        """In rows."""
        return ROWS, ROWS

    def step(self, b: Bound) -> BoundLayer:
        """Transforms and products."""
        return _Transformed(b)


class _Transformed(BoundLayer):
    def __init__(self, b: Bound) -> None:
        self._b, (weight,) = b, b.weights
        height, width, n, inputs = b.inputs[0].data.shape
        outputs, m = weight.shape[3], _side(height, width)
        windows, square = height * width // m**2, (m + 2) ** 2
        self._B, self._G, self._A = (np.array(matrix, np.float32) for matrix in MATRICES[m])
        self._w = torch.empty(square, inputs, outputs)
        self._weight, self._w_seen = weight.view(3, 3, -1).numpy(), self._w.view(square, -1).numpy()
        block = (height, width, -1)
        self._seen = b.inputs[0].data.view(block).numpy(), b.out.data.view(block).numpy()
        at_once = max(1, min(n, CACHE // (4 * square * windows * (inputs + outputs))))
        at_once = -(-n // -(-n // at_once))  # in equal parts
        rooms = [
            b.room(name, square * windows * at_once * c)
            for name, c in (("winograd outputs", outputs), ("winograd inputs", inputs))
        ]
        self._parts = []
        if b.training:
            across, self._g_w = self._w.transpose(1, 2), torch.empty_like(self._w)
        for first in range(0, n, at_once):
            rows = windows * min(at_once, n - first)
            x = torch.empty(square, rows, inputs)
            y, g = (
                room[: square * rows * c].view(square, rows, c)
                for room, c in zip(rooms, (outputs, inputs), strict=True)
            )
            arrays = tuple(t.view(square, windows, -1).numpy() for t in (x, y, g))
            made = [Product(x, self._w, y)]
            if b.training:
                made += [Product(x.transpose(1, 2), y, self._g_w), Product(y, across, g)]
            self._parts.append(((first * inputs, first * outputs), made, arrays))
        if b.training:
            self._g_seen = b.inputs[0].gradient.view(block).numpy()
            self._g_out_seen = b.out.gradient.view(block).numpy()
            self._g_w_seen = self._g_w.view(square, -1).numpy()
            self._g_weight = b.gradients[0].view(3, 3, -1).numpy()

    def forward(self) -> None:
        call(kernels.winograd_kernel, self._weight, self._G, self._w_seen)
        for (from_x, from_y), (product, *_), (x_seen, y_seen, _) in self._parts:
            call(kernels.winograd_input, self._seen[0], from_x, self._B, x_seen)
            product()
            call(kernels.winograd_output, y_seen, from_y, self._A, self._seen[1])

    def backward(self) -> None:
        wanted, adds = self._b.wanted[0], self._b.adds[0]
        for k, ((from_x, from_y), (_, weights, inputs), (_, y_seen, g_seen)) in enumerate(
            self._parts
        ):
            call(kernels.winograd_output_back, self._g_out_seen, from_y, self._A, y_seen)
            weights(1.0 if k else 0.0)
            if wanted:
                inputs()
                call(kernels.winograd_input_back, g_seen, from_x, self._B, adds, self._g_seen)
        decay = np.float32(self._b.decay.value)
        call(kernels.winograd_kernel_back, self._g_w_seen, self._G, decay, self._g_weight)
