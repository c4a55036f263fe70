"""A convolution with few channels, and the pooling and ReLU after it, as one step.

For such a layer (LeNet's, and those of most first examples) a library spends more on laying windows
out, and on padding channels to its block size, than on the sums. Here an image goes through all of
it while it is in the nearest cache.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from fedadavr.kernels import call
from fedadavr.models.fast import direct_kernels
from fedadavr.models.fast.direct_kernels import GROUPS, TAPS
from fedadavr.models.fast.program import PLANES, Bound, BoundLayer, Layer, Piece, keep
from fedadavr.models.fast.registers import LANES

CHANNELS = 32
"""With more of them on either side, the library is as fast."""


def fits(layer: nn.Conv2d, height: int, width: int) -> bool:
    """Whether this convolution of an input of that size is computed here."""
    if isinstance(layer.padding, str) or layer.padding_mode != "zeros":
        return False
    usual = (layer.groups, layer.dilation, layer.stride) == (1, (1, 1), (1, 1))
    even = layer.padding[0] == layer.padding[1]
    outputs = [
        side + 2 * pad - size + 1
        for side, pad, size in zip((height, width), layer.padding, layer.kernel_size, strict=True)
    ]
    few = max(layer.in_channels, layer.out_channels) <= CHANNELS
    return usual and even and few and min(outputs) >= 2


class PooledConvolution(Layer):
    """A convolution, then the maximum of each 2x2 square and ReLU, in either order."""

    def __init__(self, weight: Piece, bias: Piece | None, padding: int) -> None:
        self.pieces = [weight] if bias is None else [weight, bias]
        self.padding = padding

    def lies(self) -> tuple[str, str]:
        """As PyTorch has it."""
        return PLANES, PLANES

    def step(self, b: Bound) -> BoundLayer:
        """Loops."""
        return _Direct(b, self.padding)


def _group(channels: int) -> tuple[int, int]:
    """How many channels at a time, and in how many groups."""
    return min(((g, -(-channels // g)) for g in GROUPS), key=lambda pair: pair[0] * pair[1])


def _whole(number: int, unit: int) -> int:
    return -(-number // unit) * unit


class _Direct(BoundLayer):
    def __init__(self, b: Bound, padding: int) -> None:
        self._b, self._padding = b, padding
        weight = b.weights[0]
        outputs, channels, high, wide = weight.shape
        _, _, height, width = b.inputs[0].data.shape
        height, self._width = height + 2 * padding, width + 2 * padding
        self._taps = channels * high * wide
        corner = (high - 1) * self._width + wide - 1
        places = _whole((height - high) * self._width + self._width - wide + 1, LANES)
        plane = _whole(max(height * self._width, corner + places), LANES)
        c, i, j = np.meshgrid(*(np.arange(k) for k in (channels, high, wide)), indexing="ij")
        self._offsets = np.zeros(_whole(self._taps, TAPS), np.int64)
        self._offsets[: self._taps] = 4 * (c * plane + i * self._width + j).ravel()
        self._room = np.zeros((b.n if b.training else 1, channels, plane), np.float32)
        self._group, groups = _group(outputs)
        self._weights = np.zeros((groups, self._taps, self._group), np.float32)
        self._bias = np.zeros(groups * self._group, np.float32)
        self._made = np.empty((groups * self._group, places), np.float32)
        self._where = np.empty(b.out.data.shape, np.uint8)
        if b.training:
            self._prepare_back(corner, groups, height * self._width)

    def _prepare_back(self, corner: int, groups: int, places: int) -> None:
        b = self._b
        outputs, channels, high, wide = b.weights[0].shape
        self._lead, places = corner, _whole(places, LANES)
        plane = corner + places
        self._g_room = np.zeros((groups * self._group, plane), np.float32)
        parts = len(self._offsets) // TAPS
        self._sums = np.empty((groups, parts, self._group, TAPS, LANES), np.float32)
        self._g_bias = np.empty(outputs, np.float32)
        self._g_weight = torch.empty(outputs, self._taps)
        o, i, j = np.meshgrid(*(np.arange(k) for k in (outputs, high, wide)), indexing="ij")
        self._back = 4 * (o * plane + corner - i * self._width - j).ravel()
        self._back_group, groups = _group(channels)
        self._back_weights = np.zeros((groups, len(self._back), self._back_group), np.float32)
        self._none = np.zeros(groups * self._back_group, np.float32)
        self._back_made = np.empty((groups * self._back_group, places), np.float32)
        self._nothing = np.empty((0, 0, 0, 0), np.float32)

    def forward(self) -> None:
        b = self._b
        weight = b.weights[0].numpy()
        flat = weight.reshape(len(weight), -1)
        for k, own in enumerate(self._weights):
            part = flat[k * self._group : (k + 1) * self._group]
            own[:, : len(part)] = part.T
        if len(b.weights) > 1:
            self._bias[: len(weight)] = b.weights[1].numpy()
        x = b.inputs[0].data.contiguous().numpy()
        call(
            direct_kernels.direct, x, self._padding, self._width, self._offsets[: self._taps],
            self._weights, self._bias, self._room, self._made, b.out.data.numpy(), self._where,
        )  # fmt: skip

    def backward(self) -> None:
        b, g_x = self._b, self._nothing
        if b.wanted[0]:
            g_x = b.inputs[0].gradient.numpy()
            flat = b.weights[0].numpy().transpose(1, 0, 2, 3).reshape(g_x.shape[1], -1)
            for k, own in enumerate(self._back_weights):
                part = flat[k * self._back_group : (k + 1) * self._back_group]
                own[:, : len(part)] = part.T
        call(
            direct_kernels.direct_back_all, b.out.gradient.numpy(), self._where, self._padding,
            self._width, self._lead, self._offsets, self._room, self._g_room, self._sums,
            self._g_bias, self._g_weight.numpy(), self._back, self._back_weights, self._none,
            self._back_made, b.adds[0], g_x,
        )  # fmt: skip
        keep(b.gradients[0], self._g_weight.view(b.weights[0].shape), b.decay)
        if len(b.weights) > 1:
            keep(b.gradients[1], torch.from_numpy(self._g_bias), b.decay)
