"""Examples as they are kept, which all processes share, and as a model sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Indices = npt.NDArray[np.int64]


class Examples(Protocol):
    """Inputs and labels; a model's batch is made when it is asked for."""

    @property
    def labels(self) -> Tensor:
        """All labels, by which partitions go."""
        ...

    def __len__(self) -> int: ...

    def inputs(self, indices: Tensor) -> Tensor:
        """The inputs of these examples, as the model takes them."""
        ...

    def targets(self, indices: Tensor) -> Tensor:
        """The labels of these examples."""
        ...


@dataclass(frozen=True)
class Windows:
    """Windows of a text: `length` letters, and the next one as the label."""

    text: Tensor  # all clients' letters, one after the other, as bytes
    starts: Tensor  # where each window starts
    length: int = 80

    @property
    def labels(self) -> Tensor:
        """The letter after each window."""
        return self.text[self.starts + self.length].long()

    def __len__(self) -> int:
        return len(self.starts)

    def inputs(self, indices: Tensor) -> Tensor:
        """The letters' numbers."""
        return self.text[self.starts[indices][:, None] + torch.arange(self.length)].long()

    def targets(self, indices: Tensor) -> Tensor:
        """The letter after each of these windows."""
        return self.text[self.starts[indices] + self.length].long()


@dataclass(frozen=True)
class Arrays:
    """Inputs as the model takes them, one row per example."""

    x: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def inputs(self, indices: Tensor) -> Tensor:
        """The rows."""
        return self.x.index_select(0, indices)

    def targets(self, indices: Tensor) -> Tensor:
        """The labels."""
        return self.labels[indices]


def images(
    pixels: Tensor, labels: Tensor, mean: tuple[float, ...], std: tuple[float, ...]
) -> Arrays:
    """Images of bytes, (number, channels, height, width), as (pixel / 255 - mean) / std.

    Normalized once and kept: four times the memory, but all processes share it, and a batch is
    then a copy of rows.
    """
    scale = 1 / (255 * torch.tensor(std)).view(1, -1, 1, 1)
    shift = (-torch.tensor(mean) / torch.tensor(std)).view(1, -1, 1, 1)
    return Arrays(pixels.to(torch.float32).mul_(scale).add_(shift), labels)
