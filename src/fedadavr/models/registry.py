"""Models by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from fedadavr.naming import find

Builder = Callable[[int], nn.Module]
_MODELS: dict[str, Builder] = {}


def model(name: str) -> Callable[[Builder], Builder]:
    """Decorator: a function from the number of classes to a module becomes known by a name."""

    def add(builder: Builder) -> Builder:
        if name in _MODELS:
            raise ValueError(f"there is a model {name!r} already")
        _MODELS[name] = builder
        return builder

    return add


def models() -> list[str]:
    """The names of all models."""
    return list(_MODELS)


def build(name: str, classes: int, seed: int) -> nn.Module:
    """The model of that name, with the initial weights that the seed gives."""
    builder = find("model", name, _MODELS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return builder(classes)
