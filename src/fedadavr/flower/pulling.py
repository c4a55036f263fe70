"""A grid that collects a large round's replies a few at a time, into a file instead of into RAM."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedadavr.flower.ids import one_line
from fedadavr.flower.log import log
from fedadavr.flower.scratch import ScratchFile, Sweeper, move

LARGE = 1 << 26  # bytes of replies; a round that has no more is left to Flower
FEW = 8  # replies that may have four times as many, since a file would cost more than it saves
GROUP = 1 << 24  # bytes of replies that are pulled at once
INTERVAL = 3.0  # seconds between two looks for replies, as Flower's grid has it
OWN = frozenset({"_grid", "_folder", "_sweeper", "_said"})


def pulling(grid: Grid, store: str | None, encrypted: bool) -> Grid:
    """The grid for a loop of ours; the user's own where it must be used as it is.

    That is: a grid that sends and receives in its own way, of which nobody knows whether it is
    pushing and pulling; and with an encrypted store, since the file is not encrypted.
    """
    method: Any = getattr(grid, "send_and_receive", None)
    flowers = str(getattr(method, "__module__", "")).startswith("flwr.")
    if encrypted or not flowers or getattr(method, "__self__", None) is not grid:
        return grid
    return PullingGrid(grid, scratch_folder(store))


def scratch_folder(store: str | None) -> Path:
    """Where there should be room: beside the store, if it is on a disk of this machine."""
    kind, _, folder = (store or "").partition(":")
    return Path(folder) if kind == "lmdb" else Path(tempfile.gettempdir())


def finish(grid: Grid) -> None:
    """The loop has ended."""
    if type(grid) is PullingGrid:
        grid.finish()


class PullingGrid(Grid):
    """Another grid, but for the replies of large rounds of training.

    Flower's loop gets a list of messages as ever, whose arrays lie in a scratch file. If the disk
    is full the rest of the round stays in RAM, and a line in the log says so. All else, attributes
    included, is the other grid's.

    Parameters
    ----------
    grid : the other grid, one of Flower's own
    folder : where the scratch file is made
    """

    def __init__(self, grid: Grid, folder: Path) -> None:
        self._grid, self._folder = grid, folder
        self._sweeper: Sweeper | None = None
        self._said: set[int] = set()  # what was said in the log once

    # --- large rounds ---

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages and wait for their replies, until the time is over."""
        self.finish()
        messages = list(messages)
        size = _size(messages)
        if len(messages) * size <= (LARGE if len(messages) > FEW else 4 * LARGE):
            return self._grid.send_and_receive(messages, timeout=timeout)
        file = self._new_file()
        if file is None:
            return self._grid.send_and_receive(messages, timeout=timeout)
        replies: list[Message] = []
        for few in self._pulled(messages, max(1, GROUP // size), timeout):
            for reply in few:
                file = self._keep(reply, file)
            replies += few
        if file is not None:
            self._sweeper = Sweeper(file)
        return replies

    def _pulled(
        self, messages: list[Message], at_once: int, timeout: float | None
    ) -> Iterator[list[Message]]:
        """The replies as they come, a few at a time; as long as Flower's grids wait for them."""
        waiting = dict.fromkeys(key for key in self._grid.push_messages(messages) if key)
        deadline = None if timeout is None else time.monotonic() + timeout
        while waiting and (deadline is None or time.monotonic() < deadline):
            ids = list(waiting)
            for start in range(0, len(ids), at_once):
                few = list(self._grid.pull_messages(ids[start : start + at_once]))
                for reply in few:
                    waiting.pop(reply.metadata.reply_to_message_id, None)
                yield few
            if waiting:
                pause = float(getattr(self._grid, "pull_interval", INTERVAL))
                left = pause if deadline is None else deadline - time.monotonic()
                time.sleep(max(0.0, min(pause, left)))

    def _new_file(self) -> ScratchFile | None:
        try:
            file = ScratchFile(self._folder)
        except OSError as error:
            self._say_full(error)
            return None
        if INFO not in self._said:
            self._said.add(INFO)
            log(INFO, "replies go into a scratch file in %s, not into RAM", self._folder)
        return file

    def _keep(self, reply: Message, file: ScratchFile | None) -> ScratchFile | None:
        """Move a reply's arrays into the file; None if it can take no more."""
        if file is None:
            return None
        try:
            move(reply, file)
        except OSError as error:
            self._say_full(error)
            return None
        except Exception as error:  # an odd reply stays as it came: it is judged when it is read
            log(WARNING, "a reply stays in RAM: %s", one_line(error, 300))
        return file

    def _say_full(self, error: OSError) -> None:
        if WARNING not in self._said:
            self._said.add(WARNING)
            log(WARNING, "replies stay in RAM: %s cannot take them (%s); make room there, or set "
                "TMPDIR to another disk (a store lmdb:FOLDER has them in its folder)",
                self._folder, error.strerror or error)  # fmt: skip

    def finish(self) -> None:
        """The replies were read."""
        if self._sweeper is not None:
            self._sweeper.end()
            self._sweeper = None

    # --- all else ---

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        # isinstance says of this what it says of the other grid
        return type(self._grid)

    def __getattr__(self, name: str) -> Any:
        if name in OWN:
            raise AttributeError(name)
        return getattr(self._grid, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self._grid, name, value)

    def set_run(self, run: Any) -> None:
        """As the other grid."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """As the other grid."""
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """As the other grid."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """As the other grid."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        """As the other grid."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """As the other grid."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As the other grid."""
        return self._grid.pull_messages(message_ids)


def _size(messages: list[Message]) -> int:
    """How large a reply will be, as far as one knows: as the model that is sent; 0: not training.

    SCAFFOLD's correction is sent beside the model, and is not replied.
    """
    for message in messages:
        if message.metadata.message_type.partition(".")[0] != MessageType.TRAIN:
            return 0
    if not messages or not messages[0].has_content():
        return 0
    records = messages[0].content.array_records.values()
    return max((record.count_bytes() for record in records), default=0)
