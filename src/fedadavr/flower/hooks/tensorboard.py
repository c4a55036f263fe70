"""A run's metrics for TensorBoard."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord

from fedadavr.flower.hooks.hook import History, Metrics, need, scalars


class TensorBoard:
    """Writes each round's metrics as TensorBoard's scalars; needs `tensorboard`, not PyTorch.

    A resumed run goes on in the same folder; the points of rounds that are made again, and of those
    after them, are replaced.

    Parameters
    ----------
    folder : str or Path
        Where the event files are written; made if missing.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self._events, self._summaries, self._records = (
            need(f"tensorboard.{module}", "TensorBoard", "tensorboard")
            for module in ("compat.proto.event_pb2", "compat.proto.summary_pb2",
                           "summary.writer.record_writer")
        )  # fmt: skip
        self._file: Any = None
        self._first = True

    def begin(self, history: History) -> None:
        """Open a new event file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # Files are read in the order of their names: those of one second, too, come in theirs.
        seconds, rest = divmod(time.time_ns(), 10**9)
        name = f"events.out.tfevents.{seconds:010d}.{rest:09d}.{os.getpid()}"
        self._file = self._records.RecordWriter((self.folder / name).open("wb"))
        self._add(file_version="brain.Event:2")
        self._first = True

    def __call__(self, round: int, arrays: ArrayRecord, metrics: Metrics) -> None:
        """Write a round's metrics, to be seen at once."""
        if self._file is None:
            self.begin({})
        if self._first:  # readers drop what they have of this step and later ones
            start = self._events.SessionLog(status=self._events.SessionLog.START)
            self._add(step=round if round > 1 else 0, session_log=start)
            self._first = False
        values = [
            self._summaries.Summary.Value(tag=name, simple_value=value)
            for name, value in scalars(metrics).items()
        ]
        self._add(step=round, summary=self._summaries.Summary(value=values))

    def end(self) -> None:
        """Close the event file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _add(self, **what: Any) -> None:
        event = self._events.Event(wall_time=time.time(), **what)
        self._file.write(event.SerializeToString())
        self._file.flush()
