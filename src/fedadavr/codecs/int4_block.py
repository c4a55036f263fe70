"""int4-block: as int4, but with a scale for every 64 values.

A tensor is padded with zeros to whole groups of 64. A block of up to 2048 is its scales, then its
nibbles as in int4. A scale is its group's largest magnitude over 7 as a bfloat16 (the upper half of
a float32), rounded up so that no value is beyond it.
"""

import numpy as np
from numba import carray

from fedadavr.codecs.codec import CODECS, Codec
from fedadavr.kernels import NOISE, BlockFunction, codec_function, pointer

GROUP = 64
BYTES = GROUP // 2 + 2  # of a group
BEHIND = 8192  # bytes of the scratch that the scales of a block take, one for each value


@codec_function
def decode(data, first, count, scale, values, scratch):
    """The values that the bytes read as."""
    groups = (count + GROUP - 1) // GROUP
    begin = data + first // GROUP * BYTES
    halves = carray(pointer(begin), groups, np.uint16)
    stored = carray(pointer(begin + 2 * groups), groups * GROUP // 2, np.uint8)
    pair = carray(pointer(scratch + BEHIND), groups * GROUP // 2, np.uint16)
    u = carray(pointer(scratch + BEHIND), groups * GROUP, np.int8)
    y = carray(pointer(values), groups * GROUP, np.float32)
    bits = carray(pointer(scratch), groups * GROUP, np.uint32)
    step = carray(pointer(scratch), groups * GROUP, np.float32)
    for j in range(groups * GROUP // 2):  # two at once, since a stride would not vectorize
        pair[j] = np.uint16(stored[j] >> 4) | (np.uint16(stored[j] & 15) << np.uint16(8))
    for g in range(groups):
        for j in range(GROUP):
            bits[GROUP * g + j] = np.uint32(halves[g]) << np.uint32(16)
    for j in range(groups * GROUP):
        y[j] = np.float32(np.int32(u[j]) - 8) * step[j]


def encoder(noisy: bool) -> BlockFunction:
    """To the nearest integer, or up or down at random."""

    @codec_function
    def encode(data, first, count, scale, values, scratch):
        """The bytes of the values, which become what they read as."""
        groups = (count + GROUP - 1) // GROUP
        noise = carray(pointer(scratch + NOISE), groups * GROUP, np.float32)
        begin = data + first // GROUP * BYTES
        halves = carray(pointer(begin), groups, np.uint16)
        stored = carray(pointer(begin + 2 * groups), groups * GROUP // 2, np.uint8)
        pair = carray(pointer(scratch + BEHIND), groups * GROUP // 2, np.uint16)
        u = carray(pointer(scratch + BEHIND), groups * GROUP, np.uint8)
        s = carray(pointer(values), groups * GROUP, np.float32)
        raw = carray(pointer(values), groups * GROUP, np.int32)
        bits = carray(pointer(scratch), groups * GROUP, np.int32)
        step = carray(pointer(scratch), groups * GROUP, np.float32)
        top = np.float32(7.0)
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
            u[j] = np.uint8(np.int32(x) + 8)
            s[j] = x * step[j]
        for j in range(groups * GROUP // 2):
            stored[j] = np.uint8((pair[j] << np.uint16(4)) | (pair[j] >> np.uint16(8)))

    return encode


CODECS.add(
    "int4-block",
    Codec(
        "int4-block", 4, encoder(False), decode, pad=GROUP, group=GROUP, head=2,
        stochastic=encoder(True),
    ),
)  # fmt: skip
