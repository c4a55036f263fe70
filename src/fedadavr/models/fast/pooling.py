"""Max-pooling over any square windows: down the columns, then along what is left."""

from __future__ import annotations

import torch
from torch import nn

from fedadavr.kernels import call
from fedadavr.models.fast import kernels
from fedadavr.models.fast.program import PLANES, Bound, BoundLayer, Layer


class MaxPooling(Layer):
    """nn.MaxPool2d with one size, stride and padding for both sides."""

    def __init__(self, size: int, stride: int, padding: int) -> None:
        self.window = size, stride, padding

    @staticmethod
    def of(layer: nn.MaxPool2d) -> MaxPooling | None:
        """The same layer; None if it is of a kind that is not computed here."""
        size, stride, padding = (_both(x) for x in (layer.kernel_size, layer.stride, layer.padding))
        plain = _both(layer.dilation) == 1 and not (layer.ceil_mode or layer.return_indices)
        if not plain or size is None or stride is None or padding is None or size > 15:
            return None
        return MaxPooling(size, stride, padding)

    def lies(self) -> tuple[str, str]:
        """As PyTorch has it."""
        return PLANES, PLANES

    def step(self, b: Bound) -> BoundLayer:
        """Loops."""
        return _Pool(b, self.window)


def _both(side: int | tuple[int, ...]) -> int | None:
    """The one number for both sides; None if there are two."""
    if isinstance(side, int):
        return side
    return side[0] if len(set(side)) == 1 else None


class _Pool(BoundLayer):
    def __init__(self, b: Bound, window: tuple[int, int, int]) -> None:
        self._b, self._window = b, window
        self._where = torch.empty(b.out.data.shape, dtype=torch.uint8).flatten(0, 1).numpy()
        self._out = b.out.data.flatten(0, 1).numpy()

    def forward(self) -> None:
        x = self._b.inputs[0].data.contiguous().flatten(0, 1).numpy()
        call(kernels.pool, x, *self._window, self._out, self._where)

    def backward(self) -> None:
        b = self._b
        if b.wanted[0]:
            g, target = (t.flatten(0, 1).numpy() for t in (b.out.gradient, b.inputs[0].gradient))
            call(kernels.pool_back, g, self._where, *self._window, b.adds[0], target)
