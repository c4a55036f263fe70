"""The models of the experiments, in plain PyTorch."""

from typing import TYPE_CHECKING

from fedadavr.lazy import lazily
from fedadavr.models.registry import build, model, models

if TYPE_CHECKING:
    from fedadavr.models.cnn import CNN, SimpleCNN
    from fedadavr.models.gru import GRU
    from fedadavr.models.lenet5 import LeNet5
    from fedadavr.models.resnet import ResNet18

__all__ = ["CNN", "GRU", "LeNet5", "ResNet18", "SimpleCNN", "build", "model", "models"]

__getattr__ = lazily(__name__, {
    "fedadavr.models.cnn": ["CNN", "SimpleCNN"],
    "fedadavr.models.gru": ["GRU"],
    "fedadavr.models.lenet5": ["LeNet5"],
    "fedadavr.models.resnet": ["ResNet18"],
})  # fmt: skip
