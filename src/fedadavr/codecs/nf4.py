"""nf4: the nearest of sixteen levels that lie as a normal distribution does, times a scale per 64.

The levels are NormalFloat's (Dettmers et al. 2023, QLoRA): from -1 to 1, one of them zero. A tensor
is padded with zeros to whole groups of 64. A block of up to 2048 is its scales, then its nibbles,
the high one first. A scale is its group's largest magnitude as a bfloat16 (the upper half of a
float32), rounded up so that no value is beyond it.
"""

import numpy as np
from numba import carray

from fedadavr.codecs.codec import CODECS, Codec
from fedadavr.kernels import codec_function, pointer

GROUP = 64
BYTES = GROUP // 2 + 2  # of a group
BEHIND = 8192  # bytes of the scratch that the scales of a block take, one for each value
LEVELS = np.array(
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
        -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ], np.float32,
)  # fmt: skip
# What is above the k-th bound has a nibble above k; written out, so that they become constants.
B = ((LEVELS[1:] + LEVELS[:-1]) / np.float32(2)).astype(np.float32)
B0, B1, B2, B3, B4, B5, B6, B7, B8, B9, B10, B11, B12, B13, B14 = B
PAIRS = np.stack([np.repeat(LEVELS, 16), np.tile(LEVELS, 16)], 1).view(np.uint64).ravel()
"""The two values of each byte, as one number of eight bytes."""


@codec_function
def decode(data, first, count, scale, values, scratch):
    """The values that the bytes read as."""
    groups = (count + GROUP - 1) // GROUP
    begin = data + first // GROUP * BYTES
    halves = carray(pointer(begin), groups, np.uint16)
    stored = carray(pointer(begin + 2 * groups), groups * GROUP // 2, np.uint8)
    y = carray(pointer(values), groups * GROUP, np.float32)
    two = carray(pointer(values), groups * GROUP // 2, np.uint64)
    bits = carray(pointer(scratch), groups * GROUP, np.uint32)
    step = carray(pointer(scratch), groups * GROUP, np.float32)
    for j in range(groups * GROUP // 2):
        two[j] = PAIRS[stored[j]]
    for g in range(groups):
        for j in range(GROUP):
            bits[GROUP * g + j] = np.uint32(halves[g]) << np.uint32(16)
    for j in range(groups * GROUP):
        y[j] = y[j] * step[j]


@codec_function
def encode(data, first, count, scale, values, scratch):
    """The bytes of the values, which become what they read as."""
    groups = (count + GROUP - 1) // GROUP
    begin = data + first // GROUP * BYTES
    halves = carray(pointer(begin), groups, np.uint16)
    stored = carray(pointer(begin + 2 * groups), groups * GROUP // 2, np.uint8)
    pair = carray(pointer(scratch + BEHIND), groups * GROUP // 2, np.uint16)
    u = carray(pointer(scratch + BEHIND), groups * GROUP, np.uint8)
    s = carray(pointer(values), groups * GROUP, np.float32)
    raw = carray(pointer(values), groups * GROUP, np.int32)
    two = carray(pointer(values), groups * GROUP // 2, np.uint64)
    bits = carray(pointer(scratch), groups * GROUP, np.int32)
    step = carray(pointer(scratch), groups * GROUP, np.float32)
    s[count:] = 0.0
    for g in range(groups):
        peak = np.int32(0)  # by its bits: the larger of two magnitudes has the larger
        for j in range(GROUP):
            peak = max(peak, raw[GROUP * g + j] & np.int32(0x7FFFFFFF))
        halves[g] = np.uint16((peak + np.int32(0xFFFF)) >> np.int32(16))
    for g in range(groups):
        for j in range(GROUP):
            bits[GROUP * g + j] = np.int32(halves[g]) << np.int32(16)
    for j in range(groups * GROUP):
        by = step[j] if step[j] > np.float32(0.0) else np.float32(1.0)
        x = s[j] / by
        u[j] = np.uint8(
            np.uint8(x > B0) + np.uint8(x > B1) + np.uint8(x > B2) + np.uint8(x > B3)
            + np.uint8(x > B4) + np.uint8(x > B5) + np.uint8(x > B6) + np.uint8(x > B7)
            + np.uint8(x > B8) + np.uint8(x > B9) + np.uint8(x > B10) + np.uint8(x > B11)
            + np.uint8(x > B12) + np.uint8(x > B13) + np.uint8(x > B14)
        )  # fmt: skip
    for j in range(groups * GROUP // 2):
        stored[j] = np.uint8((pair[j] << np.uint16(4)) | (pair[j] >> np.uint16(8)))
    for j in range(groups * GROUP // 2):
        two[j] = PAIRS[stored[j]]
    for j in range(groups * GROUP):
        s[j] = s[j] * step[j]


CODECS.add("nf4", Codec("nf4", 4, encode, decode, pad=GROUP, group=GROUP, head=2))
