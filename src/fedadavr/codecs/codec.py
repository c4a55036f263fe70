"""fp32, fp16, int8 and int4: vectors to bytes and back, as the paper's Quant and Dequant.

An encoded vector is one array of bytes. The integer codecs begin with one float32 scale a tensor
(the largest magnitude divided by 127 or 7; 1 for a tensor of zeros); then come the tensors, one
after the other. int4 packs two values a byte, the high nibble first, each shifted by 8; a tensor
of odd length is padded with the nibble 8, which reads as zero.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.naming import find
from fedadavr.vector import Layout, Vector

log = logging.getLogger(__name__)

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Codec:
    """How stored updates become bytes.

    >>> layout = Layout({"x": (3,)})
    >>> data = CODECS["int8"].encode(layout, np.array([0.5, -1.27, 0.0], np.float32))
    >>> data.nbytes, CODECS["int8"].decode(layout, data).round(2).tolist()
    (7, [0.5, -1.2699999809265137, 0.0])
    """

    name: str
    code: int
    bits: int
    levels: int = 0  # the largest integer; 0 for the floating-point codecs

    def offsets(self, layout: Layout) -> npt.NDArray[np.int64]:
        """Where each tensor's bytes start; one more entry than tensors, the last is the size."""
        sizes = (np.diff(layout.offsets) * self.bits + 7) // 8
        head = self.scale_count(layout) * 4
        return np.cumsum(np.concatenate([[head], sizes])).astype(np.int64)

    def nbytes(self, layout: Layout) -> int:
        """The size of one encoded vector."""
        return int(self.offsets(layout)[-1])

    def scale_count(self, layout: Layout) -> int:
        """How many scales an encoded vector begins with."""
        return len(layout.shapes) if self.levels else 0

    def scales(self, peaks: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The scales that go with the tensors' largest magnitudes."""
        if not self.levels:
            return np.ones_like(peaks)
        scales = peaks / np.float32(self.levels)
        scales[scales == 0] = 1.0
        return scales

    def warn_if_saturated(self, peaks: npt.NDArray[np.float32], whose: str) -> None:
        """Say so where fp16 cannot hold the largest magnitudes and stores its largest instead."""
        if self.code == kernels.FP16 and (peaks > kernels.FP16_MAX).any():
            log.warning(
                "%s: magnitude %.3g is outside fp16's range and is stored as 65504; "
                "codec int8 or fp32 would keep it",
                whose,
                peaks.max(),
            )

    def encode(self, layout: Layout, vector: Vector) -> Bytes:
        """The bytes of a vector."""
        if not self.bits:
            raise ValueError("the codec none keeps no updates")
        if np.shape(vector) != (layout.size,):
            raise ValueError(
                f"this layout has {layout.size} coordinates, got shape {np.shape(vector)}"
            )
        blocks = layout.blocks
        peak = np.zeros(len(blocks), np.int32)
        data = np.zeros(self.nbytes(layout), np.uint8)
        vector = np.ascontiguousarray(vector, np.float32)
        args = (layout.offsets, self.code, kernels.address(data), self.offsets(layout))
        kernels.run(kernels.encode, blocks, *args, np.ones(0, np.float32), vector, peak)
        peaks = np.maximum.reduceat(peak, blocks.first).view(np.float32)
        if not np.isfinite(peaks).all():
            raise ValueError("a vector that holds NaN or infinity cannot be encoded")
        self.warn_if_saturated(peaks, "encoding")
        scales = self.scales(peaks)
        data[: 4 * self.scale_count(layout)] = scales.view(np.uint8)[: 4 * self.scale_count(layout)]
        kernels.run(kernels.encode, blocks, *args, scales, vector, np.zeros(0, np.int32))
        return data

    def decode(self, layout: Layout, data: Bytes) -> Vector:
        """The vector that the bytes read as."""
        vector = np.zeros(layout.size, np.float64)
        self.accumulate(layout, data, 1.0, vector)
        return vector.astype(np.float32)

    def accumulate(
        self, layout: Layout, data: Bytes, factor: float, total: npt.NDArray[np.float64]
    ) -> None:
        """total += factor * decode(data), without a temporary."""
        if not self.bits:
            return
        if data.shape != (self.nbytes(layout),):
            raise ValueError(
                f"{self.name} needs {self.nbytes(layout)} bytes for this layout, got {data.shape}"
            )
        kernels.run(
            kernels.accumulate, layout.blocks, layout.offsets, self.code, kernels.address(data),
            self.offsets(layout), self.read_scales(layout, data), factor, total,
        )  # fmt: skip

    def read_scales(self, layout: Layout, data: Bytes) -> npt.NDArray[np.float32]:
        """The scales at the front of an encoded vector; ones for the floating-point codecs."""
        if not self.levels:
            return np.ones(len(layout.shapes), np.float32)
        return data[: 4 * len(layout.shapes)].copy().view(np.float32)


CODECS: dict[str, Codec] = {
    "fp32": Codec("fp32", kernels.FP32, 32),
    "fp16": Codec("fp16", kernels.FP16, 16),
    "int8": Codec("int8", kernels.INT8, 8, 127),
    "int4": Codec("int4", kernels.INT4, 4, 7),
}


NOTHING = Codec("none", kernels.NONE, 0)
"""Keeps no update at all: only the client's weight, its last round, and its kind."""


def codec(name: str) -> Codec:
    """The codec of that name."""
    return find("codec", name, CODECS)
