"""The model of the best round, in a file."""

from __future__ import annotations

from logging import INFO
from pathlib import Path

from flwr.app import ArrayRecord

from fedadavr.flower.arrays import view
from fedadavr.flower.hooks.best import Best
from fedadavr.flower.hooks.hook import History, Metrics
from fedadavr.flower.log import log
from fedadavr.model_files import check_suffix, write_model


class KeepBest:
    """Keeps the model of the best round; at any moment the file is whole.

    A resumed run goes on with the best of the store's rounds; if the file is missing, anew.

    Parameters
    ----------
    path : str or Path
        The file, .npz or .safetensors; its folder is made.
    metric : str
        What is looked at, as in "evaluate/accuracy". A first round without it is an error.
    mode : str
        "max" or "min": which is better.
    """

    def __init__(self, path: str | Path, metric: str, mode: str = "max") -> None:
        self.path = Path(path).absolute()
        check_suffix(self.path)
        self.best = Best(metric, mode)

    def begin(self, history: History) -> None:
        """Take the best of the rounds so far, if its file is there."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.best.begin(history, anew=not self.path.is_file())

    def __call__(self, round: int, arrays: ArrayRecord, metrics: Metrics) -> None:
        """Write the model if it is the best so far."""
        if self.best.take(round, metrics):
            write_model(self.path, {name: view(array) for name, array in arrays.items()})
            log(INFO, "round %d is the best so far, %s %g: kept in %s",
                round, self.best.metric, self.best.value, self.path)  # fmt: skip
