"""A record's bytes, smaller: zstd, which gives back exactly what it got."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

Compress = Literal["zstd", "none"]

LEVEL = 1  # the higher ones take several times as long for a few percent


def check(compress: str) -> None:
    """Raise unless records can be compressed in this way."""
    if compress not in get_args(Compress):
        raise ValueError(f"compress must be 'zstd' or 'none', got {compress!r}")
    if compress == "zstd":
        _zstandard()


def pack(data: Any) -> bytes:
    """The bytes, compressed."""
    return bytes(_zstandard().ZstdCompressor(level=LEVEL).compress(data))


def unpack(data: Any) -> Any | None:
    """The bytes that were compressed; None if they were not."""
    zstandard = _zstandard()
    try:
        return np.frombuffer(zstandard.ZstdDecompressor().decompress(data), np.uint8)
    except (zstandard.ZstdError, MemoryError):
        return None


def _zstandard() -> Any:
    try:
        import zstandard
    except ModuleNotFoundError:
        raise ValueError(
            "compressed records need zstandard: pip install 'fedadavr[compression]'"
        ) from None
    return zstandard
