"""Models by name; each is imported when it is built, so that listing them needs no PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from fedadavr.plugins import Registry

if TYPE_CHECKING:
    from torch import nn

Builder = Callable[[int], "nn.Module"]
B = TypeVar("B", bound=Callable[..., Any])

MODELS: Registry[Builder] = Registry("model", "fedadavr.models", "fedadavr.models", "model")


def model(name: str) -> Callable[[B], B]:
    """Decorator: a function from the number of classes to a module becomes known by a name."""

    def add(builder: B) -> B:
        MODELS.add(name, builder)
        return builder

    return add


def models() -> list[str]:
    """The names of all models."""
    return MODELS.names()


def build(name: str, classes: int, seed: int) -> nn.Module:
    """The model of that name, with the initial weights that the seed gives."""
    import torch

    builder = MODELS.find(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return builder(classes)
