"""LeNet-5, as `models.fast.lenet5` computes its gradient."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fedadavr.models.pooling import pool_relu
from fedadavr.models.registry import model


class _FirstConvolution(torch.autograd.Function):
    """A convolution of data, which needs no gradient: matrix products over windows of the input.

    oneDNN takes three times as long for the weights' gradient where there are few channels.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, padding: int) -> Tensor:
        """weight * x + bias."""
        out, channels, side, _ = weight.shape
        x = F.pad(x, (padding,) * 4).contiguous()
        n, (height, width) = len(x), (s - side + 1 for s in x.shape[2:])
        by_image, by_channel, by_row, _ = x.stride()
        windows = x.as_strided(
            (n, channels, side, side, height, width), (by_image, by_channel, by_row, 1, by_row, 1)
        ).reshape(n, channels * side * side, height * width)
        ctx.save_for_backward(windows)
        ctx.shape = weight.shape
        flat = weight.reshape(1, out, -1).expand(n, -1, -1)
        shift = bias[:, None].expand(n, out, height * width)
        return torch.baddbmm(shift, flat, windows).view(n, out, height, width)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Gradients of the weight and the bias."""
        (windows,) = ctx.saved_tensors
        g = gradients[0].flatten(2)
        weight = torch.bmm(g, windows.transpose(1, 2)).sum(0).view(ctx.shape)
        return None, weight, g.sum((0, 2)), None


def convolve(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """The layer's convolution, by the way that is fastest here: a sixth off a LeNet-5 step."""
    data = torch.is_grad_enabled() and not x.requires_grad
    if data and x.device.type == "cpu" and layer.bias is not None:
        return cast(
            Tensor,
            _FirstConvolution.apply(x, layer.weight, layer.bias, int(layer.padding[0])),  # type: ignore[no-untyped-call]
        )
    return F.conv2d(x, layer.weight, layer.bias, layer.stride, layer.padding)


@model("lenet5")
class LeNet5(nn.Module):
    """LeCun's network with today's ReLU and max-pooling, for 28x28 images: 61,706 parameters."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores of a batch of images."""
        x = pool_relu(convolve(self.conv1, x))
        x = pool_relu(convolve(self.conv2, x))
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))
