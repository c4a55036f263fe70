"""ResNet-18 with group normalization: no running statistics, which skewed clients would spoil."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fedadavr.models.registry import model

GROUPS = 2
"""Groups in every normalization, as Hsieh et al. (2020) have for CIFAR-10."""


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a way around them."""

    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(GROUPS, out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(GROUPS, out)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or into != out:
            self.around = nn.Sequential(
                nn.Conv2d(into, out, 1, stride, bias=False), nn.GroupNorm(GROUPS, out)
            )

    def forward(self, x: Tensor) -> Tensor:
        """The block's features."""
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.around(x))


class ResNet18(nn.Module):
    """He et al.'s network. Stem "imagenet": 7x7 at stride 2 and pooling; "cifar": one 3x3."""

    def __init__(self, classes: int = 10, stem: str = "imagenet") -> None:
        super().__init__()
        self.stem: nn.Module
        if stem == "imagenet":
            self.stem = nn.Sequential(
                nn.Conv2d(3, 64, 7, 2, 3, bias=False),
                nn.GroupNorm(GROUPS, 64),
                nn.ReLU(),
                nn.MaxPool2d(3, 2, 1),
            )
        elif stem == "cifar":
            self.stem = nn.Sequential(
                nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.GroupNorm(GROUPS, 64), nn.ReLU()
            )
        else:
            raise ValueError(f"stem must be 'imagenet' or 'cifar', got {stem!r}")
        blocks = []
        for into, out, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
            blocks += [ResidualBlock(into, out, stride), ResidualBlock(out, out, 1)]
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores of a batch of images."""
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


@model("resnet18")
def _imagenet(classes: int) -> nn.Module:
    return ResNet18(classes, "imagenet")


@model("resnet18-cifar")
def _cifar(classes: int) -> nn.Module:
    return ResNet18(classes, "cifar")
