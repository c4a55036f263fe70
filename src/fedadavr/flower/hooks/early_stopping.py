"""An end of the run when a metric does not get better any more."""

from __future__ import annotations

from logging import INFO

from flwr.app import ArrayRecord

from fedadavr.flower.hooks.best import Best
from fedadavr.flower.hooks.hook import History, Metrics
from fedadavr.flower.log import log


class EarlyStopping:
    """Ends the run after some rounds without improvement; a resumed run goes on counting.

    Parameters
    ----------
    metric : str
        What is looked at, as in "evaluate/loss". A first round without it is an error; later ones
        without it do not count.
    patience : int
        How many rounds without improvement, NaN among them, end the run.
    mode : str
        "max" or "min": which is better.
    min_delta : float
        How much better than the best a value must be to be an improvement.
    """

    def __init__(
        self, metric: str, patience: int, mode: str = "max", min_delta: float = 0.0
    ) -> None:
        if type(patience) is not int or patience < 1:
            raise ValueError(f"patience must be a whole number from 1 up, got {patience!r}")
        self.patience, self.best = patience, Best(metric, mode, min_delta)

    def begin(self, history: History) -> None:
        """Count through the rounds so far."""
        self.best.begin(history)

    def __call__(self, round: int, arrays: ArrayRecord, metrics: Metrics) -> bool:
        """Whether the patience is at its end."""
        best = self.best
        if best.take(round, metrics) is None or best.waited < self.patience:
            return False
        log(INFO, "stopping after round %d: %s has not improved for %d rounds (%g in round %d)",
            round, best.metric, best.waited, best.value, best.round)  # fmt: skip
        return True
