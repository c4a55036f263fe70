"""What a strategy calls after each round, `on_round=`: logs, the best model, an early end.

A hook is any function or object that can be called as `Hook` says; these are ready ones. What a
hook needs beside Flower is imported when it is made.
"""

from fedadavr.flower.hooks.early_stopping import EarlyStopping
from fedadavr.flower.hooks.hook import History, Hook, Metrics, scalars
from fedadavr.flower.hooks.keep_best import KeepBest
from fedadavr.flower.hooks.mlflow import MLflow
from fedadavr.flower.hooks.tensorboard import TensorBoard
from fedadavr.flower.hooks.wandb import WandB

__all__ = [
    "EarlyStopping",
    "History",
    "Hook",
    "KeepBest",
    "MLflow",
    "Metrics",
    "TensorBoard",
    "WandB",
    "scalars",
]
