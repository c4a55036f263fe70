"""Rounds of which others decide a part: a loop that is not ours, a subclass's choice of nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid

if TYPE_CHECKING:
    from fedadavr.flower.strategy import Strategy

Configure = Callable[[Any, int, ArrayRecord, ConfigRecord, Grid], Iterable[Message]]


def begins_round(configure: Configure) -> Configure:
    """A `configure_train` that gets the round's model, and whose messages are remembered.

    A subclass's is made one, too: it may choose the nodes and write the messages without ever
    calling ours, and neither the store's model nor who was asked may be lost by that.
    """
    if getattr(configure, "begins_round", False):
        return configure

    @functools.wraps(configure)
    def configure_train(
        self: Strategy, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        if self._configuring:  # called by a subclass's
            return configure(self, server_round, arrays, config, grid)
        self._configuring, self.asked = True, []
        try:
            model = self._begin_round(server_round, arrays, grid)
            self.asked = list(configure(self, server_round, model, config, grid))
        finally:
            self._configuring = False
        return self.asked

    configure_train.begins_round = True  # type: ignore[attr-defined]
    return configure_train
