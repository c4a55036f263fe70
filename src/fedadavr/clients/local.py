"""Local training on a model whose parameters are views into one flat vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fedadavr.data import Examples
from fedadavr.vector import Layout

Differentiate = Callable[[Tensor, Tensor], Tensor]  # a batch's loss; the gradient on the side


@dataclass(frozen=True)
class Recipe:
    """How clients train: plain SGD, and what the algorithm asks for."""

    lr: float
    momentum: float
    epochs: int
    batch_size: int
    proximal_mu: float = 0.0

    def steps(self, examples: int) -> int:
        """How many steps a client with that many examples takes."""
        return self.epochs * -(-examples // self.batch_size)


def layout_of(module: nn.Module) -> Layout:
    """The layout of a module's parameters."""
    return Layout({name: tuple(p.shape) or () for name, p in module.named_parameters()})


class FlatModel:
    """A module that lives in one flat vector, and so does its gradient.

    The optimizer is then three operations on two vectors instead of three on every tensor, and
    what goes to the server is a copy. A class with a method `written_out` brings its own
    gradient for the CPU; all others get autograd's.
    """

    def __init__(self, module: nn.Module, device: str = "cpu") -> None:
        buffers = [name for name, _ in module.named_buffers()]
        if buffers:
            raise ValueError(
                f"the model keeps state that is not trained ({buffers[0]}), which skewed clients "
                "would spoil: use group normalization instead of batch normalization"
            )
        self.module = module.to(device)
        self.device = device
        parameters = list(module.parameters())
        size = sum(p.numel() for p in parameters)
        self.w = torch.empty(size, device=device)
        self.gradient = torch.zeros(size, device=device)
        at = 0
        for p in parameters:
            here = slice(at, at + p.numel())
            self.w[here] = p.detach().reshape(-1)
            p.data = self.w[here].view(p.shape)
            p.grad = self.gradient[here].view(p.shape)
            at += p.numel()
        self._differentiate: Differentiate = self._by_autograd
        own = vars(type(module)).get("written_out")  # a subclass may compute something else
        if own is not None and device == "cpu" and all(p.requires_grad for p in parameters):
            self._differentiate = own(module)

    def _by_autograd(self, x: Tensor, y: Tensor) -> Tensor:
        """A batch's loss; its gradient is in `gradient`."""
        self.gradient.zero_()
        loss = F.cross_entropy(self.module(x), y)
        loss.backward()
        return loss.detach()

    def train(
        self,
        start: Tensor,
        examples: Examples,
        part: Tensor,
        recipe: Recipe,
        rng: np.random.Generator,
        correction: Tensor | None = None,
    ) -> tuple[float, int]:
        """Train from `start` on a client's examples; `w` is the result. Mean loss, and steps."""
        w, gradient, lr = self.w, self.gradient, recipe.lr
        w.copy_(start)
        start = w.clone() if recipe.proximal_mu else start
        velocity = torch.zeros_like(w) if recipe.momentum else None
        inputs = examples.inputs(part).to(self.device)
        targets = examples.targets(part).to(self.device)
        losses, seen = torch.zeros((), device=self.device), 0
        self.module.train()
        for _ in range(recipe.epochs):
            order = torch.from_numpy(rng.permutation(len(part)))
            for batch in order.split(recipe.batch_size):
                losses += self._differentiate(inputs[batch], targets[batch]) * len(batch)
                seen += len(batch)
                if recipe.proximal_mu:
                    gradient.add_(w - start, alpha=recipe.proximal_mu)
                if correction is not None:
                    gradient.add_(correction)
                if velocity is None:
                    w.sub_(gradient, alpha=lr)
                else:
                    velocity.mul_(recipe.momentum).add_(gradient)
                    w.sub_(velocity, alpha=lr)
        return float(losses) / seen, recipe.steps(len(part))

    def evaluate(self, w: Tensor, examples: Examples, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Each example's loss, and whether the model is right on it."""
        if self.w.data_ptr() != w.data_ptr():
            self.w.copy_(w)
        self.module.eval()
        with torch.inference_mode():
            scores = self.module(examples.inputs(indices).to(self.device))
            targets = examples.targets(indices).to(self.device)
            losses = F.cross_entropy(scores, targets, reduction="none")
            return losses.cpu(), (scores.argmax(1) == targets).cpu()
