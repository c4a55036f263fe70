"""LeNet-5's gradient written out.

A step on twenty images is so short that autograd's bookkeeping and fresh tensors are a quarter of
it. The gradient here calls the same operations in the same order on buffers that stay, so that its
bits are autograd's.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from fedadavr.models.fast.path import Plain
from fedadavr.models.lenet5 import LeNet5
from fedadavr.models.pooling import pool_planes, unpool_planes

_aten = torch.ops.aten


class LeNet5Path(Plain):
    """The mean cross-entropy of a batch, and its gradient into the parameters' own."""

    def __init__(self, module: LeNet5, w: Tensor, gradient: Tensor) -> None:
        super().__init__(module, w, gradient)
        self._w = [p.detach() for p in module.parameters()]
        self._g = [cast(Tensor, p.grad) for p in module.parameters()]
        self._batches: dict[int, _Batch] = {}
        self._room = _Room(0)
        self._one = torch.ones(())

    @torch.no_grad()
    def differentiate(self, x: Tensor, y: Tensor, decay: float = 0.0, rate: float = 0.0) -> Tensor:
        """By hand."""
        _, _, w2, b2, w3, b3, w4, b4, w5, b5 = self._w
        d1, e1, d2, e2, d3, e3, d4, e4, d5, e5 = self._g
        at = self._batch(len(x))

        at.inside.copy_(x)
        at.windows.copy_(at.strided)
        torch.baddbmm(at.shift, at.kernels, at.flat_windows, out=at.convolved1)
        at.pool1()
        convolved2 = torch.conv2d(at.pooled1, w2, b2)
        at.pool2(convolved2)
        hidden1 = torch.addmm(b3, at.pooled2, w3.t()).relu_()
        hidden2 = torch.addmm(b4, hidden1, w4.t()).relu_()
        scores = torch.log_softmax(torch.addmm(b5, hidden2, w5.t()), 1)
        loss, weight = _aten.nll_loss_forward(scores, y, None, 1, -100)

        g = _aten.nll_loss_backward(self._one, scores, y, None, 1, -100, weight)
        g = _aten._log_softmax_backward_data(g, scores, 1, scores.dtype)
        torch.mm(g.t(), hidden2, out=d5)
        torch.sum(g, 0, out=e5)
        g = _aten.threshold_backward(torch.mm(g, w5), hidden2, 0)
        torch.mm(g.t(), hidden1, out=d4)
        torch.sum(g, 0, out=e4)
        g = _aten.threshold_backward(torch.mm(g, w4), hidden1, 0)
        torch.mm(g.t(), at.pooled2, out=d3)
        torch.sum(g, 0, out=e3)
        at.unpool2(torch.mm(g, w3))
        none, one = (0, 0), (1, 1)
        g, weights, biases = _aten.convolution_backward(
            at.gradient2, at.pooled1, w2, (16,), one, none, one, False, none, 1, (True,) * 3
        )
        d2.copy_(weights)
        e2.copy_(biases)
        at.unpool1(g)
        torch.bmm(at.gradient1, at.windows_across, out=at.per_image)
        torch.sum(at.per_image, 0, out=d1.view(6, 25))
        torch.sum(at.gradient1, (0, 2), out=e1)
        return loss

    def _batch(self, n: int) -> _Batch:
        if n > self._room.n:
            self._room, self._batches = _Room(n), {}
        if n not in self._batches:
            self._batches[n] = _Batch(self._room, n, self._w[0], self._w[1])
        return self._batches[n]


class _Room:
    """What a step on up to n images writes; a smaller batch takes its beginning."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.padded = torch.zeros(n, 32, 32)
        self.windows = torch.empty(n, 5, 5, 28, 28)
        self.convolved1, self.gradient1 = torch.empty(n, 6, 28, 28), torch.empty(n, 6, 28, 28)
        self.gradient2 = torch.empty(n, 16, 10, 10)
        self.pooled1, self.pooled2 = torch.empty(n, 6, 14, 14), torch.empty(n, 16, 5, 5)
        self.left1, self.left2 = (
            torch.empty(n, c, s, s // 2, dtype=torch.uint8) for c, s in ((6, 28), (16, 10))
        )
        self.upper1, self.upper2 = (
            torch.empty(n, c, s // 2, s // 2, dtype=torch.uint8) for c, s in ((6, 28), (16, 10))
        )
        self.per_image = torch.empty(n, 6, 25)


class _Batch:
    """The room's beginning, in the shapes that the operations want."""

    def __init__(self, room: _Room, n: int, weight: Tensor, bias: Tensor) -> None:
        padded = room.padded[:n]
        self.inside = padded[:, None, 2:30, 2:30]
        self.strided = padded.as_strided((n, 5, 5, 28, 28), (1024, 32, 1, 32, 1))
        self.windows = room.windows[:n]
        self.flat_windows = self.windows.view(n, 25, 784)
        self.windows_across = self.flat_windows.transpose(1, 2)
        self.kernels = weight.view(1, 6, 25).expand(n, 6, 25)
        self.shift = bias[:, None].expand(n, 6, 784)
        convolved1, self.gradient2 = room.convolved1[:n], room.gradient2[:n]
        self.convolved1 = convolved1.view(n, 6, 784)
        gradient1 = room.gradient1[:n]
        self.gradient1 = gradient1.view(n, 6, 784)
        self.pooled1, pooled2 = room.pooled1[:n], room.pooled2[:n]
        self.pooled2 = pooled2.view(n, 400)
        self.per_image = room.per_image[:n]
        where1, where2 = (room.left1[:n], room.upper1[:n]), (room.left2[:n], room.upper2[:n])
        self.pool1: Any = partial(pool_planes, convolved1, self.pooled1, *where1)
        self.pool2: Any = lambda x: pool_planes(x, pooled2, *where2)
        self.unpool1: Any = lambda g: unpool_planes(g, *where1, gradient1)
        self.unpool2: Any = lambda g: unpool_planes(g.view(n, 16, 5, 5), *where2, self.gradient2)
