"""A run's metrics for TensorBoard."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord

from fedadavr.flower.hooks.hook import History, Metrics, need, scalars


class TensorBoard:
    """Writes each round's metrics as TensorBoard's scalars; needs `tensorboard`, not PyTorch.

    A resumed run goes on in the same folder: what is there of its rounds and later ones is taken
    back, and a new run takes all back.

    Parameters
    ----------
    folder : str or Path
        Where the event files are written; made if missing.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self._events, self._summaries, self._files = (
            need(f"tensorboard.{module}", "TensorBoard", "tensorboard")
            for module in ("compat.proto.event_pb2", "compat.proto.summary_pb2",
                           "summary.writer.event_file_writer")
        )  # fmt: skip
        self._writer: Any = None
        self._first = True

    def begin(self, history: History) -> None:
        """Open a new event file."""
        self._writer = self._files.EventFileWriter(str(self.folder))
        self._first = True

    def __call__(self, round: int, arrays: ArrayRecord, metrics: Metrics) -> None:
        """Write a round's metrics, and have them seen."""
        if self._writer is None:
            self.begin({})
        if self._first:  # readers drop what they have of this step and later ones
            start = self._events.SessionLog(status=self._events.SessionLog.START)
            self._add(round if round > 1 else 0, session_log=start)
            self._first = False
        values = [
            self._summaries.Summary.Value(tag=name, simple_value=value)
            for name, value in scalars(metrics).items()
        ]
        self._add(round, summary=self._summaries.Summary(value=values))
        self._writer.flush()

    def end(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _add(self, round: int, **what: Any) -> None:
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=round, **what))
