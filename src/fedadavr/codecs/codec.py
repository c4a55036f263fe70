"""What a codec is: its facts, and two functions on one block. Vectors to bytes and back.

An encoded vector is one array of bytes. int8 and int4 begin with one float32 scale per tensor (the
largest magnitude divided by the largest integer; 1 for a tensor of zeros); then come the tensors,
one after the other, each padded to whole bytes. A codec whose scales belong to groups of values
keeps them among a tensor's bytes, where only its block functions know them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.plugins import Registry
from fedadavr.vector import Layout, Vector

log = logging.getLogger(__name__)

Bytes = npt.NDArray[np.uint8]


class Support(NamedTuple):
    """Which coordinates a record has: those that were born by its round."""

    born: npt.NDArray[np.int32]
    """The round in which each was first not zero in anybody's update; empty: all are stored."""
    round: int


EVERYTHING = Support(np.zeros(0, np.int32), 0)


@dataclass(frozen=True)
class Codec:
    """How stored updates become bytes.

    >>> layout = Layout({"x": (3,)})
    >>> data = CODECS["int8"].encode(layout, np.array([0.5, -1.27, 0.0], np.float32))
    >>> data.nbytes, CODECS["int8"].decode(layout, data).round(2).tolist()
    (7, [0.5, -1.2699999809265137, 0.0])
    """

    name: str
    bits: int
    """Of one value."""
    encode_block: kernels.BlockFunction | None
    decode_block: kernels.BlockFunction | None
    levels: int = 0
    """The largest integer; 0 for the floating-point codecs."""
    largest: float = np.inf
    """What is larger is stored as this."""
    pad: int = 1
    """A tensor is padded to a multiple of so many values, which divides 2048."""
    group: int = 1
    """So many values share a scale among the tensor's bytes; it divides 2048."""
    head: int = 0
    """How many bytes such a scale has."""
    sees_peaks: bool = False
    """`encode` gets its tensor's largest magnitude for a scale; it is not stored."""
    stochastic: kernels.BlockFunction | None = None
    """Its `encode_block`, but rounding up or down at random; None: it has none."""
    omits_zeros: bool = False
    """A memory keeps coordinates out of it that were zero in every update so far."""

    def offsets(self, layout: Layout) -> npt.NDArray[np.int64]:
        """Where each tensor's bytes start; one more entry than tensors, the last is the size."""
        values = _whole(np.diff(layout.offsets), self.pad) * self.pad
        sizes = (values * self.bits + 7) // 8 + _whole(values, self.group) * self.head
        head = self.scale_count(layout) * 4
        return np.cumsum(np.concatenate([[head], sizes])).astype(np.int64)

    def nbytes(self, layout: Layout) -> int:
        """The size of one encoded vector."""
        return int(self.offsets(layout)[-1])

    def bits_per_value(self, layout: Layout) -> float:
        """All of an encoded vector's bits over its values: scales and padding count, too."""
        return 8 * self.nbytes(layout) / layout.size

    def scale_count(self, layout: Layout) -> int:
        """How many scales an encoded vector begins with."""
        return len(layout.shapes) if self.levels else 0

    def scales(self, peaks: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The scales that go with the tensors' largest magnitudes."""
        if self.sees_peaks:
            return peaks
        if not self.levels:
            return np.ones_like(peaks)
        scales = peaks / np.float32(self.levels)
        scales[scales == 0] = 1.0
        return scales

    def warn_if_saturated(self, peaks: npt.NDArray[np.float32], whose: str) -> None:
        """Say so where it cannot hold the largest magnitudes and stores its largest instead."""
        if (peaks > self.largest).any():
            log.warning(
                "%s: magnitude %.3g is outside %s's range and is stored as %g; "
                "codec int8 or fp32 would keep it",
                whose, peaks.max(), self.name, self.largest,
            )  # fmt: skip

    def encode(self, layout: Layout, vector: Vector, support: Support = EVERYTHING) -> Bytes:
        """The bytes of a vector; outside of the support it must be zero."""
        if self.encode_block is None:
            raise ValueError(f"the codec {self.name} keeps no updates")
        if np.shape(vector) != (layout.size,):
            raise ValueError(
                f"this layout has {layout.size} coordinates, got shape {np.shape(vector)}"
            )
        blocks, head = layout.blocks, 4 * self.scale_count(layout)
        peak = np.zeros(blocks.number, np.int32)
        vector = np.ascontiguousarray(vector, np.float32)
        kernels.run(kernels.peaks, blocks, vector, peak)
        peaks = np.maximum.reduceat(peak, blocks.first).view(np.float32)
        if not np.isfinite(peaks).all():
            raise ValueError("a vector that holds NaN or infinity cannot be encoded")
        if peaks.max(initial=0.0) > kernels.LARGEST:
            raise ValueError(
                f"a vector with {peaks.max():.3g} in it cannot be encoded: at most 1e38"
            )
        self.warn_if_saturated(peaks, "encoding")
        scales = self.scales(peaks)
        data = np.zeros(self.nbytes(layout), np.uint8)
        data[:head] = scales.view(np.uint8)[:head]
        kernels.run(
            kernels.encode, blocks, self.encode_block.address, kernels.address(data),
            self.offsets(layout), scales, support.born, support.round, vector,
        )  # fmt: skip
        return data

    def decode(self, layout: Layout, data: Bytes, support: Support = EVERYTHING) -> Vector:
        """The vector that the bytes read as."""
        vector = np.zeros(layout.size, np.float64)
        self.accumulate(layout, data, 1.0, vector, support)
        return vector.astype(np.float32)

    def accumulate(
        self,
        layout: Layout,
        data: Bytes,
        factor: float,
        total: npt.NDArray[np.float64],
        support: Support = EVERYTHING,
    ) -> None:
        """total += factor * decode(data), without a temporary."""
        if self.decode_block is None:
            return
        if data.shape != (self.nbytes(layout),):
            raise ValueError(
                f"{self.name} needs {self.nbytes(layout)} bytes for this layout, got {data.shape}"
            )
        kernels.run(
            kernels.accumulate, layout.blocks, self.decode_block.address, kernels.address(data),
            self.offsets(layout), self.read_scales(layout, data), support.born, support.round,
            factor, total,
        )  # fmt: skip

    def read_scales(self, layout: Layout, data: Bytes) -> npt.NDArray[np.float32]:
        """The scales at the front of an encoded vector; ones for the floating-point codecs."""
        if not self.levels:
            return np.ones(len(layout.shapes), np.float32)
        return data[: 4 * len(layout.shapes)].copy().view(np.float32)


def _whole(values: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """How many pieces of a size there are, the last one perhaps not full."""
    return (values + (size - 1)) // size


CODECS: Registry[Codec] = Registry("codec", "fedadavr.codecs")

NOTHING = Codec("none", 0, None, None)
"""Keeps no update at all: only the client's weight, its last round, and its label."""


def codec(name: str) -> Codec:
    """The codec of that name."""
    return CODECS.find(name)
