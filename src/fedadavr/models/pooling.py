"""2x2 max-pooling followed by ReLU, in one loop forward and one backward.

On a CPU, PyTorch's pooling takes longer forward than LeNet-5's second convolution. The
values and gradients are those of `relu(max_pool2d(x, 2))`: of equal values, the first is it.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from fedadavr.kernels import call
from fedadavr.kernels.compiling import jit

_jit = jit()


# First along rows, over the whole plane, then down columns: the long loop vectorizes, and the short
# one has half the work left.


@_jit
def _forward(x, width, out, left, upper):
    """out <- relu(max) of each 2x2 square; left, upper <- where it was, upper 2 if ReLU cuts it."""
    half, zero = width // 2, np.float32(0.0)
    across = np.empty(x.shape[1] // 2, np.float32)
    for p in range(x.shape[0]):
        for k in range(x.shape[1] // 2):
            a, b = x[p, 2 * k], x[p, 2 * k + 1]
            across[k] = a if a >= b else b
            left[p, k] = np.uint8(1) if a >= b else np.uint8(0)
        for i in range(out.shape[1] // half):
            for j in range(half):
                a, b = across[2 * i * half + j], across[(2 * i + 1) * half + j]
                best = a if a >= b else b
                place = np.uint8(1) if a >= b else np.uint8(0)
                out[p, i * half + j] = best if best > zero else zero
                upper[p, i * half + j] = place if best > zero else np.uint8(2)


@_jit
def _backward(gradient, width, left, upper, out):
    """The gradient goes to where the maximum was, unless ReLU cut it."""
    half, zero = width // 2, np.float32(0.0)
    down = np.empty(out.shape[1] // 2, np.float32)
    for p in range(out.shape[0]):
        for i in range(gradient.shape[1] // half):
            for j in range(half):
                g, place = gradient[p, i * half + j], upper[p, i * half + j]
                down[2 * i * half + j] = g if place == 1 else zero
                down[(2 * i + 1) * half + j] = g if place == 0 else zero
        for k in range(out.shape[1] // 2):
            out[p, 2 * k] = down[k] if left[p, k] == 1 else zero
            out[p, 2 * k + 1] = zero if left[p, k] == 1 else down[k]


def _planes(x: Tensor) -> Any:
    """The tensor as NumPy sees it, one row for each image's channel."""
    return x.detach().view(x.shape[0] * x.shape[1], -1).numpy()


def pool_planes(x: Tensor, out: Tensor, left: Tensor, upper: Tensor) -> None:
    """out <- relu(max_pool2d(x, 2)), and where the maxima were."""
    call(_forward, _planes(x), x.shape[3], _planes(out), _planes(left), _planes(upper))


def unpool_planes(gradient: Tensor, left: Tensor, upper: Tensor, out: Tensor) -> None:
    """out <- the gradient, where the maxima were."""
    planes = _planes(gradient), out.shape[3], _planes(left), _planes(upper), _planes(out)
    call(_backward, *planes)


class _PoolReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        n, c, height, width = x.shape
        out = x.new_empty(n, c, height // 2, width // 2)
        left = torch.empty(n, c, height, width // 2, dtype=torch.uint8)
        upper = torch.empty(out.shape, dtype=torch.uint8)
        pool_planes(x, out, left, upper)
        ctx.save_for_backward(left, upper)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        left, upper = ctx.saved_tensors
        n, c, height, half = left.shape
        out = gradients[0].new_empty(n, c, height, 2 * half)
        unpool_planes(gradients[0].contiguous(), left, upper, out)
        return out


def pool_relu(x: Tensor) -> Tensor:
    """relu(max_pool2d(x, 2)), for images with even sides."""
    if x.device.type != "cpu" or x.dtype != torch.float32:
        return F.relu(F.max_pool2d(x, 2))
    if torch.is_grad_enabled():
        return cast(Tensor, _PoolReLU.apply(x))
    rows = torch.maximum(x[:, :, 0::2], x[:, :, 1::2])
    return torch.maximum(rows[..., 0::2], rows[..., 1::2]).relu_()
