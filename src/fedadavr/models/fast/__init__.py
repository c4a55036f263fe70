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
from torch.nn.modules.module import _has_any_global_hook

from fedadavr.models.fast.lenet5 import LeNet5Path
from fedadavr.models.fast.path import Path, Plain
from fedadavr.models.fast.rewriting import rewrite
from fedadavr.models.lenet5 import LeNet5

log = logging.getLogger(__name__)

__all__ = ["Path", "Plain", "fast_path", "is_plain"]


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
    before, modes = w.clone(), [(layer, layer.training) for layer in module.modules()]
    # Layers that draw are run here, too: nothing of it may be left, or a client would train
    # otherwise in the process that looks for a path.
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        try:
            return _path(module, w, gradient, x)
        except Exception as error:  # a model of the user's own may do anything
            log.warning("there is no fast path of %s: %s", type(module).__name__, error)
            return None
        finally:
            w.copy_(before)
            gradient.zero_()
            for layer, training in modes:
                layer.training = training


def is_plain(module: nn.Module) -> bool:
    """Whether it is float32 on the CPU, trained whole, and nobody looks on or interferes.

    It is asked before each use, since hooks come and go.
    """
    if torch.is_autocast_enabled("cpu") or torch.get_default_dtype() != torch.float32:
        return False
    if _has_any_global_hook():
        return False
    return not any(map(_odd, module.parameters())) and not any(map(_watched, module.modules()))


def _odd(p: nn.Parameter) -> bool:
    trained = p.device.type == "cpu" and p.dtype == torch.float32 and p.requires_grad
    return not trained or bool(p._backward_hooks or p._post_accumulate_grad_hooks)


def _watched(layer: nn.Module) -> bool:
    """Whether somebody looks at the layer, or changes what it does."""
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks,
             layer._backward_pre_hooks)  # fmt: skip
    return any(hooks) or "forward" in vars(layer)


def _path(module: nn.Module, w: Tensor, gradient: Tensor, x: Tensor) -> Path | None:
    path: Path | None
    if type(module) is LeNet5 and tuple(x.shape[1:]) == (1, 28, 28):
        path = LeNet5Path(module, w, gradient)
    else:
        path = rewrite(module, x)
    if path is None or _agrees(path, module, w, gradient, x):
        return path
    log.warning("the fast path of %s differs from it: not used", type(module).__name__)
    return None


def _agrees(path: Path, module: nn.Module, w: Tensor, gradient: Tensor, x: Tensor) -> bool:
    """Whether a path's scores and gradient are the module's, on drawn weights and inputs.

    They are the same draws in every process: who took which client first decides nothing.
    """
    torch.manual_seed(0)
    x = torch.randn(x.shape) if x.is_floating_point() else x.clone()
    for p in module.parameters():
        size = p[0].numel() if p.dim() > 1 else 1
        p.data.copy_(torch.randn(p.shape) / size**0.5)
    module.train()
    found = []
    for one in (Plain(module, w, gradient), path):
        one.read(w)
        scores = one.scores(x).clone()
        one.differentiate(x, torch.arange(len(x)) % scores.shape[1])
        if one.gradient is not gradient:
            gradient.zero_()
            one.w.copy_(one.gradient)
            one.write(gradient)
        found.append((scores, gradient.clone()))
    return all(
        a.shape == b.shape and bool((a - b).norm() <= 1e-3 * a.norm() + 1e-6)
        for a, b in zip(*found, strict=True)
    )
