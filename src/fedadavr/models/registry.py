"""Models by name; those of this package are imported when they are built."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from fedadavr.naming import unknown

if TYPE_CHECKING:
    from torch import nn

    Builder = Callable[[int], nn.Module]

_MODULES = {
    "cnn": "cnn", "simple-cnn": "cnn", "gru": "gru", "lenet5": "lenet5", "resnet18": "resnet",
    "resnet18-cifar": "resnet",
}  # fmt: skip
"""Where the models of this package are, by name, so that they are listed without PyTorch."""
_PLACE = "fedadavr.models.{}"
_MODELS: dict[str, Builder] = {}


def model(name: str) -> Callable[[Builder], Builder]:
    """Decorator: a function from the number of classes to a module becomes known by a name."""

    def add(builder: Builder) -> Builder:
        ours = _PLACE.format(_MODULES[name]) if name in _MODULES else builder.__module__
        if name in _MODELS or builder.__module__ != ours:
            raise ValueError(f"there is a model {name!r} already")
        _MODELS[name] = builder
        return builder

    return add


def models() -> list[str]:
    """The names of all models."""
    return list(dict.fromkeys([*_MODULES, *_MODELS]))


def build(name: str, classes: int, seed: int) -> nn.Module:
    """The model of that name, with the initial weights that the seed gives."""
    import torch

    if name in _MODULES:
        importlib.import_module(_PLACE.format(_MODULES[name]))
    if name not in _MODELS:
        raise ValueError(unknown("model", name, models()))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _MODELS[name](classes)
