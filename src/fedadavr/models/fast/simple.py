"""The layers that PyTorch computes well, as steps."""

from __future__ import annotations

import torch

from fedadavr.models.fast.program import PLANES, Bound, BoundLayer, Layer, Piece, give, keep

_aten = torch.ops.aten


class Convolution(Layer):
    """A convolution as the library has it."""

    def __init__(
        self, weight: Piece, bias: Piece | None, stride: tuple[int, ...], padding: tuple[int, ...]
    ) -> None:
        self.pieces = [weight] if bias is None else [weight, bias]
        self.stride, self.padding = stride, padding

    def lies(self) -> tuple[str, str]:
        """As PyTorch has it."""
        return PLANES, PLANES

    def step(self, b: Bound) -> BoundLayer:
        """The library's."""
        return _Convolve(b, self)


class _Convolve(BoundLayer):
    def __init__(self, b: Bound, layer: Convolution) -> None:
        self._b, self._layer = b, layer
        self._bias = b.weights[1] if len(b.weights) > 1 else None

    def forward(self) -> None:
        b, layer = self._b, self._layer
        out = torch.conv2d(b.inputs[0].data, b.weights[0], self._bias, layer.stride, layer.padding)
        b.out.data = out.contiguous()  # of one channel, it may come with channels last

    def backward(self) -> None:
        b, layer, one = self._b, self._layer, (1, 1)
        sizes = None if self._bias is None else self._bias.shape
        g, weight, bias = _aten.convolution_backward(
            b.out.gradient, b.inputs[0].data, b.weights[0], sizes, layer.stride, layer.padding,
            one, False, (0, 0), 1, (b.wanted[0], True, self._bias is not None),
        )  # fmt: skip
        keep(b.gradients[0], weight, b.decay)
        if self._bias is not None:
            keep(b.gradients[1], bias, b.decay)
        if b.wanted[0]:
            give(b.inputs[0].gradient, g, b.adds[0])


class Dense(Layer):
    """A linear layer."""

    def __init__(self, weight: Piece, bias: Piece | None) -> None:
        self.pieces = [weight] if bias is None else [weight, bias]

    def step(self, b: Bound) -> BoundLayer:
        """TapProducts."""
        return _Dense(b)


class _Dense(BoundLayer):
    def __init__(self, b: Bound) -> None:
        self._b = b

    def forward(self) -> None:
        b = self._b
        if len(b.weights) > 1:
            torch.addmm(b.weights[1], b.inputs[0].data, b.weights[0].t(), out=b.out.data)
        else:
            torch.mm(b.inputs[0].data, b.weights[0].t(), out=b.out.data)

    def backward(self) -> None:
        b, g = self._b, self._b.out.gradient
        b.gradients[0].addmm_(g.t(), b.inputs[0].data, beta=b.decay.value)
        if len(b.weights) > 1:
            keep(b.gradients[1], g.sum(0), b.decay)
        if b.wanted[0]:
            give(b.inputs[0].gradient, torch.mm(g, b.weights[0]), b.adds[0])


class Mean(Layer):
    """The mean over all places of an image."""

    def step(self, b: Bound) -> BoundLayer:
        """A sum, and a division."""
        return _Mean(b)


class _Mean(BoundLayer):
    def __init__(self, b: Bound) -> None:
        self._b = b
        self._sides = (0, 1) if b.inputs[0].kind.lies != PLANES else (2, 3)
        channels, height, width = b.inputs[0].kind.shape
        self._places, self._flat = height * width, (b.n, channels)

    def forward(self) -> None:
        b = self._b
        torch.mean(b.inputs[0].data, self._sides, out=b.out.data.view(self._flat))

    def backward(self) -> None:
        b = self._b
        g = b.out.gradient.view(self._flat) / self._places
        g = g[:, :, None, None] if self._sides == (2, 3) else g
        if b.wanted[0]:
            give(b.inputs[0].gradient, g.expand_as(b.inputs[0].data), b.adds[0])


class Flatten(Layer):
    """An image's features as one row."""

    def lies(self) -> tuple[str, str]:
        """In the order that PyTorch has."""
        return PLANES, PLANES

    def step(self, b: Bound) -> BoundLayer:
        """A copy."""
        return _Flatten(b)


class _Flatten(BoundLayer):
    def __init__(self, b: Bound) -> None:
        self._b = b

    def forward(self) -> None:
        self._b.out.data.copy_(self._b.inputs[0].data.reshape(self._b.out.data.shape))

    def backward(self) -> None:
        b = self._b
        if b.wanted[0]:
            target = b.inputs[0].gradient
            give(target, b.out.gradient.view(target.shape), b.adds[0])


class ReLU(Layer):
    """ReLU by itself."""

    def step(self, b: Bound) -> BoundLayer:
        """One operation each way."""
        return _ReLU(b)


class _ReLU(BoundLayer):
    def __init__(self, b: Bound) -> None:
        self._b = b

    def forward(self) -> None:
        torch.clamp_min(self._b.inputs[0].data, 0, out=self._b.out.data)

    def backward(self) -> None:
        b = self._b
        if b.wanted[0]:
            g = _aten.threshold_backward(b.out.gradient, b.out.data, 0)
            give(b.inputs[0].gradient, g, b.adds[0])


class Sum(Layer):
    """The sum of two values."""

    def step(self, b: Bound) -> BoundLayer:
        """One operation each way."""
        return _Add(b)


class _Add(BoundLayer):
    def __init__(self, b: Bound) -> None:
        self._b = b

    def forward(self) -> None:
        one, two = self._b.inputs
        torch.add(one.data, two.data, out=self._b.out.data)

    def backward(self) -> None:
        b = self._b
        for value, adds, wanted in zip(b.inputs, b.adds, b.wanted, strict=True):
            if wanted:
                give(value.gradient, b.out.gradient, adds)
