"""LeNet-5, as `models.fast.lenet5` computes its gradient."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fedadavr.models.cnn import convolve
from fedadavr.models.pooling import pool_relu
from fedadavr.models.registry import model


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
