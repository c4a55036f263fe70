"""int8-block: as int8, but with a scale for every 64 values.

A tensor is padded with zeros to whole groups of 64. A block of up to 2048 is its scales, then its
integers. A scale is its group's largest magnitude over 127 as a bfloat16 (the upper half of a
float32), rounded up so that no value is beyond it.
"""

import numpy as np
from numba import carray

from fedadavr.codecs.codec import CODECS, Codec
from fedadavr.kernels import NOISE, BlockFunction, codec_function, pointer

GROUP = 64
BYTES = GROUP + 2  # of a group


@codec_function
def decode(data, first, count, scale, values, scratch):
    """The values that the bytes read as."""
    groups = (count + GROUP - 1) // GROUP
    begin = data + first // GROUP * BYTES
    halves = carray(pointer(begin), groups, np.uint16)
    stored = carray(pointer(begin + 2 * groups), groups * GROUP, np.int8)
    y = carray(pointer(values), groups * GROUP, np.float32)
    bits = carray(pointer(scratch), groups * GROUP, np.uint32)
    step = carray(pointer(scratch), groups * GROUP, np.float32)
    for g in range(groups):
        for j in range(GROUP):
            bits[GROUP * g + j] = np.uint32(halves[g]) << np.uint32(16)
    for j in range(groups * GROUP):
        y[j] = np.float32(stored[j]) * step[j]


def encoder(noisy: bool) -> BlockFunction:
    """To the nearest integer, or up or down at random."""

    @codec_function
    def encode(data, first, count, scale, values, scratch):
        """The bytes of the values, which become what they read as."""
        groups = (count + GROUP - 1) // GROUP
        noise = carray(pointer(scratch + NOISE), groups * GROUP, np.float32)
        begin = data + first // GROUP * BYTES
        halves = carray(pointer(begin), groups, np.uint16)
        stored = carray(pointer(begin + 2 * groups), groups * GROUP, np.int8)
        s = carray(pointer(values), groups * GROUP, np.float32)
        raw = carray(pointer(values), groups * GROUP, np.int32)
        bits = carray(pointer(scratch), groups * GROUP, np.int32)
        step = carray(pointer(scratch), groups * GROUP, np.float32)
        top = np.float32(127.0)
        s[count:] = 0.0
        for g in range(groups):
            peak = np.int32(0)  # by its bits: the larger of two magnitudes has the larger
            for j in range(GROUP):
                peak = max(peak, raw[GROUP * g + j] & np.int32(0x7FFFFFFF))
            bits[g] = peak
        for g in range(groups):
            step[g] = step[g] / top
        for g in range(groups):
            halves[g] = np.uint16((bits[g] + np.int32(0xFFFF)) >> np.int32(16))
        for g in range(groups):
            for j in range(GROUP):
                bits[GROUP * g + j] = np.int32(halves[g]) << np.int32(16)
        for j in range(groups * GROUP):
            by = step[j] if step[j] > np.float32(0.0) else np.float32(1.0)
            x = min(max(np.rint(s[j] / by + noise[j] if noisy else s[j] / by), -top), top)
            stored[j] = np.int8(np.int32(x))
            s[j] = x * step[j]

    return encode


CODECS.add(
    "int8-block",
    Codec(
        "int8-block", 8, encoder(False), decode, pad=GROUP, group=GROUP, head=2,
        stochastic=encoder(True),
    ),
)  # fmt: skip
