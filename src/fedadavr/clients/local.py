"""Local training on a model whose parameters are views into one flat vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fedadavr.data import Examples
from fedadavr.models.fast import Path, Plain, fast_path, is_plain
from fedadavr.vector import Layout

PATHS = 8
"""Inputs of so many shapes keep what was found for them."""


@dataclass(frozen=True)
class LocalSGD:
    """How clients train: plain SGD, and what the algorithm asks for."""

    lr: float
    momentum: float
    epochs: int
    batch_size: int
    proximal_mu: float = 0.0
    gradient_scale: float = 1.0

    def steps(self, examples: int) -> int:
        """How many steps a client with that many examples takes."""
        return self.epochs * -(-examples // self.batch_size)


def layout_of(module: nn.Module) -> Layout:
    """The layout of a module's parameters."""
    return Layout({name: tuple(p.shape) or () for name, p in module.named_parameters()})


class FlatModel:
    """A module that lives in one flat vector, and so does its gradient.

    The optimizer is then three operations on two vectors instead of three on every tensor, and
    what goes to the server is a copy. With `fast`, models that have a fast path on the CPU take it
    (`fedadavr.models.fast`); all others are autograd's.
    """

    def __init__(self, module: nn.Module, device: str = "cpu", fast: bool = True) -> None:
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
        self._plain = Plain(module, self.w, self.gradient)
        self._fast = fast and device == "cpu"
        self._paths: dict[tuple[object, ...], Path] = {}

    def path(self, x: Tensor) -> Path:
        """How inputs of this shape are computed."""
        if not self._fast or not is_plain(self.module):
            return self._plain
        kind = (*x.shape[1:], x.dtype)
        if kind not in self._paths:
            if len(self._paths) >= PATHS:
                self._paths.clear()
            found = fast_path(self.module, self.w, self.gradient, x[:2])
            self._paths[kind] = found or self._plain
        return self._paths[kind]

    def train(
        self,
        start: Tensor,
        examples: Examples,
        part: Tensor,
        local_sgd: LocalSGD,
        rng: np.random.Generator,
        correction: Tensor | None = None,
    ) -> tuple[float, int]:
        """Train from `start` on a client's examples; `w` is the result. Mean loss, and steps."""
        self.w.copy_(start)
        inputs = examples.inputs(part).to(self.device)
        targets = examples.targets(part).to(self.device)
        classes = targets.dim() == 1 and not targets.is_floating_point()
        path, shift = self.path(inputs) if classes else self._plain, correction
        if correction is not None:
            shift = path.part(correction)
            if shift is None:  # it moves coordinates that the path leaves alone
                path, shift = self._plain, correction
        path.read(self.w)
        w, gradient, lr = path.w, path.gradient, local_sgd.lr
        first = w.clone() if local_sgd.proximal_mu else w
        decay, rate, scale = local_sgd.momentum, lr, local_sgd.gradient_scale
        if not path.descends or local_sgd.proximal_mu or shift is not None or scale != 1:
            decay = rate = 0.0
        gradient.zero_()
        velocity = torch.zeros_like(w) if local_sgd.momentum and not decay else None
        losses, seen = torch.zeros((), device=self.device), 0
        self.module.train()
        for _ in range(local_sgd.epochs):
            order = torch.from_numpy(rng.permutation(len(part)))
            for batch in order.split(local_sgd.batch_size):
                loss = path.differentiate(inputs[batch], targets[batch], decay, rate)
                losses += loss * len(batch)
                seen += len(batch)
                if rate:
                    continue
                if scale != 1:
                    gradient.mul_(scale)
                if local_sgd.proximal_mu:
                    gradient.add_(w - first, alpha=local_sgd.proximal_mu)
                if shift is not None:
                    gradient.add_(shift)
                if velocity is None:
                    w.sub_(gradient, alpha=lr)
                else:
                    velocity.mul_(local_sgd.momentum).add_(gradient)
                    w.sub_(velocity, alpha=lr)
        path.write(self.w)
        return float(losses) / seen, local_sgd.steps(len(part))

    def evaluate(self, w: Tensor, examples: Examples, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Each example's loss, and whether the model is right on it."""
        if self.w.data_ptr() != w.data_ptr():
            self.w.copy_(w)
        self.module.eval()
        inputs = examples.inputs(indices).to(self.device)
        targets = examples.targets(indices).to(self.device)
        path = self.path(inputs)
        path.read(self.w)
        scores = path.scores(inputs)
        with torch.inference_mode():
            losses = F.cross_entropy(scores, targets, reduction="none")
            return losses.cpu(), (scores.argmax(1) == targets).cpu()
