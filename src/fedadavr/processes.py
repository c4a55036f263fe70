"""Processes of our own: spawned, each with a line to it, and gone when their parent is."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing import connection
from typing import Any


class ProcessDied(ValueError):
    """A process has ended by itself; `number` says which."""

    def __init__(self, number: int, exitcode: int | None) -> None:
        self.number = number
        super().__init__(
            f"worker process {number} ended by itself (exit code {exitcode}): if that is -9, "
            "memory ran out; use fewer --workers"
        )


class Processes:
    """Runs `target(line, *args)` in several processes.

    Spawned and not forked, since threads do not survive a fork. A line is a pipe of each process's
    own: when this process dies, even by kill -9, the others read the end of it and end too.
    """

    def __init__(self, number: int, target: Callable[..., None], *args: Any) -> None:
        self._task = (target, args)
        self.lines: list[Any] = [None] * number
        self._processes: list[Any] = [None] * number
        for k in range(number):
            self.start(k)

    def start(self, number: int) -> None:
        """Start one of them, or start it again after it has died."""
        context = multiprocessing.get_context("spawn")
        target, args = self._task
        here, there = context.Pipe()
        process = context.Process(target=_live, args=(target, there, *args), daemon=True)
        process.start()
        there.close()
        self.lines[number], self._processes[number] = here, process

    def send(self, number: int, message: Any) -> None:
        """Say something to one of them."""
        try:
            self.lines[number].send(message)
        except OSError:
            raise self._died(number) from None

    def receive(self) -> tuple[int, Any]:
        """Wait for whatever is said next, and by whom."""
        open_lines = [line for line in self.lines if not line.closed]
        line: Any = connection.wait(open_lines)[0]
        number = self.lines.index(line)
        try:
            return number, line.recv()
        except (EOFError, OSError):
            raise self._died(number) from None

    def _died(self, number: int) -> ProcessDied:
        self.lines[number].close()
        self._processes[number].join()
        return ProcessDied(number, self._processes[number].exitcode)

    def close(self) -> None:
        """End them all."""
        for line in self.lines:
            line.close()
        for process in self._processes:
            process.kill()  # they do not hear SIGTERM, and have nothing to put in order
        for process in self._processes:
            process.join()


def _live(target: Callable[..., None], line: Any, *args: Any) -> None:
    """A process's life: until its work is done, or its parent has gone."""
    for number in (signal.SIGINT, signal.SIGTERM):  # which a whole group may get
        signal.signal(number, signal.SIG_IGN)  # they are the parent's to handle
    try:
        target(line, *args)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
