"""Arrays of a large round in a file instead of in RAM, for as long as somebody reads them."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, Message, RecordDict

ALIGNED = 64  # bytes; NumPy aligns its data within an array's bytes, and the file the bytes
PADDING = bytes(ALIGNED)
AT_ONCE = 1000  # pieces in one call; systems allow 1024
MAPPED = 1 << 26  # bytes of files in this process, beyond which a sweeper lets go of pages
SWEEP = 0.005  # seconds between two looks of a sweeper


class ScratchFile:
    """A file without a name: it is gone with its last reader, however the process ends.

    It is written, which tells when the disk is full, and read through a map of it. Its pages are
    the system's to drop; a process that has read them has them in its RSS until `let_go`.
    """

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        self._map: mmap.mmap | None = None
        self.size = 0

    def write(self, parts: Sequence[bytes]) -> list[int]:
        """Put bytes at the file's end; where each begins. `OSError` if there is no room."""
        places, pieces, at = [], [], self.size
        for data in parts:
            gap = -at % ALIGNED
            places.append(at + gap)
            pieces += [PADDING[:gap], data]
            at += gap + len(data)
        left, start = [memoryview(piece) for piece in pieces if piece], self.size
        while left:
            written = os.pwritev(self._file.fileno(), left[:AT_ONCE], start)
            start += written
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if written:
                left[0] = left[0][written:]
        self.size = at  # all of it is there, or nothing that counts
        return places

    def read(self, start: int, length: int) -> memoryview:
        """Bytes of the file, in place."""
        if not length:
            return memoryview(b"")
        if self._map is None or len(self._map) < start + length:  # it has grown since
            self._map = mmap.mmap(self._file.fileno(), self.size, access=mmap.ACCESS_READ)
        return memoryview(self._map)[start : start + length]

    def let_go(self) -> None:
        """Take the pages out of this process; whoever reads them gets them again."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


class ScratchArray(Array):
    """An array whose bytes lie in a scratch file. For everybody else it is an `Array`.

    `data` are the bytes, read anew each time; `buffer` is where they lie. What is sent, copied or
    pickled is a plain `Array`.
    """

    def __init__(self, array: Array, file: ScratchFile, start: int) -> None:
        super().__init__(array.dtype, array.shape, array.stype, b"")
        self.__dict__["_place"] = file, start, len(array.data)

    @property
    def buffer(self) -> memoryview:
        """The bytes, in place."""
        if self.__dict__["_place"] is None:
            return memoryview(self.__dict__["_data"])
        file, start, length = self.__dict__["_place"]
        found: memoryview = file.read(start, length)
        return found

    @property
    def data(self) -> bytes:
        """The bytes."""
        return bytes(self.buffer)

    @data.setter
    def data(self, value: bytes) -> None:
        self.__dict__["_data"], self.__dict__["_place"] = value, None

    def plain(self) -> Array:
        """The same in RAM."""
        return Array(self.dtype, self.shape, self.stype, self.data)

    def deflate(self) -> bytes:
        """As it is sent."""
        return self.plain().deflate()

    def __reduce__(self) -> Any:
        return Array, (self.dtype, self.shape, self.stype, self.data)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ScratchArray):
            other = other.plain()
        return self.plain() == other

    __hash__ = None  # type: ignore[assignment]


def bytes_of(array: Array) -> bytes | memoryview:
    """An array's bytes, where they lie."""
    return array.buffer if isinstance(array, ScratchArray) else array.data


def move(message: Message, file: ScratchFile) -> None:
    """Put a reply's arrays into a file; all else of it stays as it is.

    Raises `OSError` if there is no room; the reply is then as it was.
    """
    if not message.has_content():
        return
    records = message.content.array_records.values()
    places = iter(file.write([array.data for record in records for array in record.values()]))
    content = RecordDict()
    for name, record in message.content.items():
        if isinstance(record, ArrayRecord):
            moved = ArrayRecord()
            for key, array in record.items():
                moved[key] = ScratchArray(array, file, next(places))
            record = moved
        content[name] = record
    message.content = content


class Sweeper:
    """Lets go of a file's pages while others read them, whenever there are many."""

    def __init__(self, file: ScratchFile) -> None:
        self._file, self._ended = file, threading.Event()
        self._most = _mapped() + MAPPED
        self._thread = threading.Thread(target=self._sweep, name="fedadavr-sweeper", daemon=True)
        self._thread.start()

    def _sweep(self) -> None:
        while not self._ended.wait(SWEEP):
            if _mapped() >= self._most:
                self._file.let_go()

    def end(self) -> None:
        """Stop; the pages are let go of once more."""
        self._ended.set()
        self._thread.join()
        self._file.let_go()


def _mapped() -> int:
    """The bytes of files that this process has in its RSS; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[2]) * mmap.PAGESIZE
    except OSError:
        return 0
