"""The models of the experiments, in plain PyTorch."""

from fedadavr.models.cnn import CNN, SimpleCNN
from fedadavr.models.gru import GRU
from fedadavr.models.lenet5 import LeNet5
from fedadavr.models.registry import build, model, models
from fedadavr.models.resnet import ResNet18

__all__ = ["CNN", "GRU", "LeNet5", "ResNet18", "SimpleCNN", "build", "model", "models"]
