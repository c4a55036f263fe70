"""The loop of `start`: rounds counted as the store counts them, each evaluated, then told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from logging import INFO, WARNING
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result

from fedadavr.flower.history import EVALUATED, MEASURED, TRAINED, Flat, History
from fedadavr.flower.log import log

if TYPE_CHECKING:
    from fedadavr.flower.strategy import Strategy

Hook = Callable[[int, ArrayRecord, Flat], Any]
EvaluateFunction = Callable[[int, ArrayRecord], MetricRecord | None]


def hooks_of(given: Any) -> list[Hook]:
    """What was given as `on_round`, as a list."""
    hooks = [given] if callable(given) else given or []
    if not isinstance(hooks, Sequence) or not all(map(callable, hooks)):
        raise TypeError(f"on_round must be a function or a list of them, got {given!r}")
    return list(hooks)


class Loop:
    """Rounds of a strategy, up to the last; `done` of them were made before.

    The strategy's own methods note what training and the clients' evaluation gave.
    """

    def __init__(
        self,
        strategy: Strategy,
        grid: Grid,
        timeout: float | None,
        train_config: ConfigRecord | None,
        evaluate_config: ConfigRecord | None,
        evaluate_fn: EvaluateFunction | None,
        history: History,
        hooks: Sequence[Hook],
    ) -> None:
        self._strategy, self._grid, self._timeout = strategy, grid, timeout
        self._train_config = ConfigRecord() if train_config is None else train_config
        self._evaluate_config = ConfigRecord() if evaluate_config is None else evaluate_config
        self._evaluate_fn, self._history, self._hooks = evaluate_fn, history, hooks

    def run(self, arrays: ArrayRecord, done: int, last: int) -> Result:
        """Go on after the rounds that are done."""
        began = time.monotonic()
        with ExitStack() as ends:
            for hook in self._hooks:
                if hasattr(hook, "begin"):
                    hook.begin(self._history.all_flat())
                if hasattr(hook, "end"):
                    ends.callback(hook.end)
            arrays = self._rounds(arrays, done, last)
        result = Result(arrays=self._served(arrays))
        self._history.fill(result)
        log(INFO, "finished in %.2f s", time.monotonic() - began)
        for line in str(result).splitlines():
            log(INFO, "\t%s", line)
        return result

    def _rounds(self, arrays: ArrayRecord, done: int, last: int) -> ArrayRecord:
        """All rounds that are left, unless a hook ends them; the model after the last."""
        if not done and self._evaluate_fn is not None:
            self._history.note(0, MEASURED, self._measure(0, arrays))
            if self._finish(0, arrays):
                return arrays
        if done and done in self._history.unfinished:
            log(INFO, "round %d was made and not evaluated: it is now", done)
            if self._evaluate(done, arrays):
                return arrays
        for round in range(done + 1, last + 1):
            log(INFO, "")
            log(INFO, "[ROUND %s/%s]", round, last)
            strategy = self._strategy
            replies = self._grid.send_and_receive(
                messages=strategy.configure_train(round, arrays, self._train_config, self._grid),
                timeout=self._timeout,
            )
            now, metrics = strategy.aggregate_train(round, replies)
            del replies  # before the evaluation needs room
            arrays = arrays if now is None else now
            self._say(round, TRAINED, metrics)
            strategy._made(round, now)
            if self._evaluate(round, arrays):
                break
        return arrays

    def _evaluate(self, round: int, arrays: ArrayRecord) -> bool:
        """Have a round's model evaluated, by clients and here; whether it was the last."""
        strategy, arrays = self._strategy, self._served(arrays)
        replies = self._grid.send_and_receive(
            messages=strategy.configure_evaluate(round, arrays, self._evaluate_config, self._grid),
            timeout=self._timeout,
        )
        self._say(round, EVALUATED, strategy.aggregate_evaluate(round, replies))
        if self._evaluate_fn is not None:
            self._say(round, MEASURED, self._measure(round, arrays))
        return self._finish(round, arrays)

    def _served(self, arrays: ArrayRecord) -> ArrayRecord:
        """What is evaluated, told and returned in place of the model that clients train on."""
        server = self._strategy.server
        average = None if server is None else server.average
        return arrays if average is None else self._strategy.served_arrays or arrays

    def _measure(self, round: int, arrays: ArrayRecord) -> Any:
        assert self._evaluate_fn is not None
        return self._evaluate_fn(round, arrays)

    def _say(self, round: int, part: str, metrics: Any) -> None:
        """A subclass may have made other metrics of ours: what the loop gets is what counts."""
        self._history.note(round, part, metrics)
        if metrics is not None:
            log(INFO, "\t└──> %s: %s", part, metrics)

    def _finish(self, round: int, arrays: ArrayRecord) -> bool:
        metrics = self._history.flat(round)
        stop = [hook for hook in self._hooks if _is_true(hook(round, arrays, dict(metrics)))]
        self._history.finish(round)  # not before: what a signal has kept from a hook is told again
        if stop:
            name = getattr(stop[0], "__name__", type(stop[0]).__name__)
            log(WARNING, "round %d was the last: %s has ended the run", round, name)
        return bool(stop)


def _is_true(said: Any) -> bool:
    """Whether a hook has said True: what a lambda gives, the length of a line, say, is no word."""
    return isinstance(said, bool | np.bool_) and bool(said)
