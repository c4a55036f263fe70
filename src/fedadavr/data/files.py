"""The files in which data sets come, read with their sizes checked."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


def unzip(path: Path) -> bytes:
    """The contents of a gzip file; a damaged one is named."""
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged or cut short ({error}): get it again") from None


def read_idx(path: Path) -> Bytes:
    """An IDX file of bytes, as MNIST and Fashion-MNIST come, gzipped."""
    raw = unzip(path)
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of bytes: it starts with {raw[:4].hex()}")
    sides = raw[3]
    head = 4 + 4 * sides
    if len(raw) < head:
        raise ValueError(f"{path} is cut short: its header needs {head} bytes, it has {len(raw)}")
    shape = np.frombuffer(raw, ">u4", sides, 4).astype(int)
    need = head + int(np.prod(shape))
    if len(raw) != need:
        raise ValueError(f"{path} has {len(raw)} bytes, its header says {need}: get it again")
    return np.frombuffer(raw, np.uint8, offset=head).reshape(shape)


def read_cifar(path: Path, records: int = 10_000) -> tuple[Bytes, Bytes]:
    """A file of CIFAR-10's binary version: a label byte, then 3,072 of pixels, each image."""
    raw = np.fromfile(path, np.uint8)
    if raw.size != records * 3073:
        raise ValueError(f"{path} has {raw.size} bytes, not {records * 3073}: get it again")
    rows = raw.reshape(records, 3073)
    if rows[:, 0].max() > 9:
        raise ValueError(
            f"{path} has a label {rows[:, 0].max()}: it is not CIFAR-10's binary version"
        )
    return rows[:, 1:].reshape(records, 3, 32, 32), rows[:, 0]
