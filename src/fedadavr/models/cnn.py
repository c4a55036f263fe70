"""LeNet-5, and the small convolutional network of the FedAvg paper."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fedadavr.models.registry import model


def convolve(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """The layer's convolution; on its way to a gradient in channels_last, where that is faster.

    The weights decide: `permute` gives them these strides also where they have one channel, which
    `contiguous(memory_format=...)` would not. A LeNet-5 step takes a quarter less time so.
    """
    weight = layer.weight
    if torch.is_grad_enabled():
        weight = weight.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    return F.conv2d(x, weight, layer.bias, layer.stride, layer.padding)


def pool(x: Tensor) -> Tensor:
    """2x2 max-pooling. Without gradients by two maxima of slices, 15 times faster on a CPU."""
    if torch.is_grad_enabled():
        return F.max_pool2d(x, 2)
    rows = torch.maximum(x[:, :, 0::2], x[:, :, 1::2])
    return torch.maximum(rows[..., 0::2], rows[..., 1::2])


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
        x = F.relu(pool(convolve(self.conv1, x)))  # pooled first: the same, on a quarter
        x = F.relu(pool(convolve(self.conv2, x)))
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


@model("cnn")
class CNN(nn.Module):
    """Two 5x5 convolutions and two dense layers, for 32x32 color images on a CPU."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc1 = nn.Linear(64 * 8 * 8, 512)
        self.fc2 = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores of a batch of images."""
        x = F.relu(pool(convolve(self.conv1, x)))
        x = F.relu(pool(convolve(self.conv2, x)))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))
