"""Running a pass over all blocks, on as many threads as it is worth."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

log = logging.getLogger(__name__)

T = TypeVar("T")

_GROUP = 32  # blocks that one thread takes at a time, or a few times as many; they share a sketch
_SERIAL_BELOW = 128  # blocks; a thread takes longer to start than this many take
_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_ready: set[Callable[..., None]] = set()


class Blocks(NamedTuple):
    """The coordinates cut into pieces that stay in cache and never cross a tensor's border.

    Every reduction is made block by block, so its bits do not depend on who computes which block.
    """

    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]
    tensor: npt.NDArray[np.int64]
    within: npt.NDArray[np.int64]  # where it begins within its tensor
    first: npt.NDArray[np.int64]  # each tensor's first block

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.start)


def set_threads(number: int) -> None:
    """How many threads the kernels may use; the results do not depend on it."""
    global _threads
    if number < 1:
        raise ValueError(f"the kernels need at least one thread, got {number}")
    _threads = number


def address(array: npt.NDArray[Any]) -> int:
    """Where an array's first element lies."""
    return array.__array_interface__["data"][0]  # half the time of array.ctypes.data


def threads() -> int:
    """How many threads the kernels may use."""
    return _threads


def run(kernel: Callable[..., None], blocks: Blocks, *args: Any) -> None:
    """Run a pass over all blocks, on as many threads as it is worth."""
    count = blocks.number
    if _threads == 1 or count < _SERIAL_BELOW or kernel not in _ready:
        call(kernel, 0, count, blocks, *args)
        return
    # Few calls, since each costs some microseconds, but enough for all threads to end together.
    at_once = _GROUP * max(1, min(8, count // (4 * _GROUP * _threads)))
    starts = itertools.count(0, at_once)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while (lo := next(starts)) < count:
                kernel(lo, min(lo + at_once, count), blocks, *args)
        except BaseException as error:  # of a helper, too, where nobody else would see it
            failed.append(error)

    helpers = [threading.Thread(target=work) for _ in range(_threads - 1)]
    try:
        for helper in helpers:
            helper.start()
        work()
    finally:
        _join(helpers)
    if failed:
        raise failed[0]


def _join(helpers: list[threading.Thread]) -> None:
    """Wait for all of them, whatever is raised meanwhile: nobody may go on while they write."""
    raised: BaseException | None = None
    for helper in helpers:
        while helper.is_alive():
            try:
                helper.join()
            except BaseException as error:
                raised = error
    if raised is not None:
        raise raised


def call(kernel: Callable[..., None], *args: Any) -> None:
    """Call a kernel; the first time numba compiles it, or loads it from its cache."""
    if kernel in _ready:
        kernel(*args)
        return
    with_notice(kernel.__name__, kernel, *args)
    _ready.add(kernel)


def with_notice(name: str, function: Callable[..., T], *args: Any) -> T:
    """Call a function that may compile something first, and say so if that takes long."""
    message = "compiling the kernel %r, once on this machine (some seconds; cached afterwards)"
    notice = threading.Timer(1.0, log.warning, (message, name))
    notice.daemon = True
    notice.start()
    try:
        return function(*args)
    finally:
        notice.cancel()
