"""Signals that wait, and signals that ask: no round is ever cut in two.

A handler written in Python raises wherever the main thread happens to be, which may be the middle
of a server's step. `Hold` lets such signals wait until the step has ended. A signal without a
handler ends the process at once, as kill -9 does, which stores survive: it is left alone.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

HELD = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
    if hasattr(signal, name)
)


class Hold:
    """While it is in force, signals wait; they are handled when it ends.

    In another thread than the main one it does nothing: no signal's handler runs there.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._came: list[int] = []
        self._open = True  # whether a signal goes through to its own handler

    def __enter__(self) -> Hold:
        if threading.current_thread() is threading.main_thread():
            try:
                for number in HELD:
                    handler = signal.getsignal(number)
                    if callable(handler):
                        self._before[number] = handler
                        signal.signal(number, self._note)
            except BaseException:  # a signal that was not held yet
                self._restore()
                raise
            self._open = False
        return self

    def __exit__(self, *_: object) -> None:
        self._open = True
        self._restore()
        while self._came:
            signal.raise_signal(self._came.pop(0))

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._open:  # this one is being put up or taken down: it is as if it were not there
            self._before[number](number, frame)
        else:
            self._came.append(number)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Stop:
    """While it is in force, the first Ctrl-C or SIGTERM only asks; a second one interrupts."""

    ASKING = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for number in self.ASKING:
                handler = signal.getsignal(number)
                if handler not in (signal.SIG_IGN, None):
                    self._before[number] = handler
                    signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


class Terminated(KeyboardInterrupt):
    """SIGTERM, which a command takes as Ctrl-C: it cleans up, and what was finished is kept."""


class TermAsInterrupt:
    """While it is in force, SIGTERM raises as Ctrl-C does, where it would end the process."""

    def __enter__(self) -> TermAsInterrupt:
        self._ours = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        )
        if self._ours:
            signal.signal(signal.SIGTERM, self._raise)
        return self

    def __exit__(self, *_: object) -> None:
        if self._ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        raise Terminated
