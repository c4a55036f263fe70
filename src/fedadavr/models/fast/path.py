"""What a fast path is, and the plain one."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class Path(ABC):
    """A way to compute a model's scores and the gradient of a batch's loss.

    It has a flat vector of its own, in the order that suits it and without the coordinates that it
    never touches. Local training reads the model into it, steps there, and writes it back.
    """

    w: Tensor
    """The weights in the path's own order."""
    gradient: Tensor
    """The last batch's gradient, in the same order."""

    descends = False
    """Whether it takes a `decay` and a `rate`."""

    @abstractmethod
    def differentiate(self, x: Tensor, y: Tensor, decay: float = 0.0, rate: float = 0.0) -> Tensor:
        """The mean cross-entropy of a batch.

        `gradient` is then that batch's, and of what was there `decay` is left: so with momentum it
        is the velocity, and saves two passes over it. With a `rate` w is moved by it, too, each
        layer's part while it is in the cache.
        """

    @abstractmethod
    def scores(self, x: Tensor) -> Tensor:
        """The model's outputs, without gradients."""

    def read(self, model: Tensor) -> None:
        """w <- the model's vector."""
        if model.data_ptr() != self.w.data_ptr():
            self.w.copy_(model)

    def write(self, model: Tensor) -> None:
        """The model's vector <- w; coordinates that are not the path's stay as they are."""
        if model.data_ptr() != self.w.data_ptr():
            model.copy_(self.w)

    def part(self, vector: Tensor) -> Tensor | None:
        """A vector of the model's in the path's order; None if it is not zero elsewhere."""
        return vector

    def __deepcopy__(self, _: object) -> Path:
        """Its steps are bound to addresses: a copy would write into the original."""
        raise TypeError("a path stays with its model: make another FlatModel of a module's copy")


class Plain(Path):
    """The module as it is, and autograd."""

    def __init__(self, module: nn.Module, w: Tensor, gradient: Tensor) -> None:
        self.module, self.w, self.gradient = module, w, gradient

    def differentiate(self, x: Tensor, y: Tensor, decay: float = 0.0, rate: float = 0.0) -> Tensor:
        """By autograd."""
        self.gradient.zero_()
        loss = F.cross_entropy(self.module(x), y)
        loss.backward()
        return loss.detach()

    def scores(self, x: Tensor) -> Tensor:
        """By the module."""
        with torch.inference_mode():
            return self.module(x)
