"""Fast paths: the same function of the same parameters, computed faster on a CPU.

`fast_path(module, ...)` looks at a model and at the shape of its inputs and gives a `Path` for
them, or None: then autograd runs the module as it is. A path computes the same outputs and
gradients to rounding, whatever the batch; tests pin every one to the plain module. Which are there:

- `rewriting`: any model whose graph is made of known layers only becomes a list of steps on buffers
  that stay (`program`). A convolution with few output positions becomes products over the taps that
  meet data (`convolution`), a 3x3 one of small images Winograd's (`winograd`); group normalization,
  the addition and the ReLU after it become one loop (`normalization`); so does max-pooling
  (`pooling`); a convolution with few channels, its pooling and ReLU become one step (`direct`); a
  GRU over the embedding of a small alphabet becomes a table and two loops (`recurrent`); the other
  layers are PyTorch's (`simple`). Where the library's matrix products use half of the processor,
  they have a kernel here (`products`).
- `lenet5`: the gradient of LeNet-5 by hand, with autograd's bits.

Frozen parameters, other devices than the CPU, other types than float32, layers that are shared,
hooked or not known, and subclasses of the layers: all these are left to autograd. `fast = false`
in a run's settings turns all paths off. To add one, write its file here, with a class derived from
`Path`, and name it in `fast_path`. `docs/fast-paths.md` says more.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor, nn

from fedadavr.models.fast.lenet5 import LeNet5Path
from fedadavr.models.fast.path import Path, Plain
from fedadavr.models.fast.rewriting import rewrite
from fedadavr.models.lenet5 import LeNet5

log = logging.getLogger(__name__)

__all__ = ["Path", "Plain", "fast_path"]


def fast_path(module: nn.Module, w: Tensor, gradient: Tensor, x: Tensor) -> Path | None:
    """The fast path of a module for inputs like those in x; None if there is none.

    Parameters
    ----------
    module : nn.Module
        A model whose parameters are views into `w`, and their gradients views into `gradient`.
    w, gradient : Tensor
        Flat vectors of all parameters, in their order.
    x : Tensor
        Some inputs.
    """
    if any(p.device.type != "cpu" or p.dtype != torch.float32 or not p.requires_grad
           for p in module.parameters()) or x.device.type != "cpu":  # fmt: skip
        return None
    if any(_watched(layer) for layer in module.modules()):
        return None
    if type(module) is LeNet5 and tuple(x.shape[1:]) == (1, 28, 28):
        return LeNet5Path(module, w, gradient)
    path = rewrite(module, x)
    return path if path is not None and _agrees(path, module, w, x) else None


def _watched(layer: nn.Module) -> bool:
    """Whether somebody looks at the layer, or changes what it does."""
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks,
             layer._backward_pre_hooks)  # fmt: skip
    return any(hooks) or "forward" in vars(layer)


def _agrees(path: Path, module: nn.Module, w: Tensor, x: Tensor) -> bool:
    """Whether a path's outputs are the module's, on these inputs and the weights there are."""
    path.read(w)
    with torch.no_grad():
        plain, fast = module(x), path.scores(x)
    if plain.shape == fast.shape and torch.allclose(plain, fast, rtol=1e-3, atol=1e-4):
        return True
    log.warning("the fast path of %s differs from it: not used", type(module).__name__)
    return False
