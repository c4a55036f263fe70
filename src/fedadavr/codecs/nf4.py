"""nf4: the nearest of sixteen levels that lie as a normal distribution does, times a scale per 64.

The levels are NormalFloat's (Dettmers et al. 2023, QLoRA): from -1 to 1, one of them zero. A tensor
is padded with zeros to whole groups of 64. A block of up to 2048 is its scales, then its nibbles,
the high one first. A scale is its group's largest magnitude as a bfloat16 (the upper half of a
float32), rounded up so that no value is beyond it.
"""

from typing import Any

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from fedadavr.codecs.codec import CODECS, Codec
from fedadavr.kernels import codec_function, pointer
from fedadavr.kernels.rows import (
    BYTES,
    COLUMNS,
    INT,
    ROW,
    at,
    chosen,
    constant,
    each,
    everywhere,
    indexed,
    listed,
    load,
    store,
)

GROUP = 64
SIZE = GROUP // 2 + 2  # bytes of a group
BEHIND = 8192  # bytes of the scratch that the scales of a block take
LEVELS = np.array(
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
        -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ], np.float32,
)  # fmt: skip
BOUNDS = ((LEVELS[1:] + LEVELS[:-1]) / np.float32(2)).astype(np.float32)

_whole, _real = types.int64, types.float32


@intrinsic
def _levels(typing_context, nibbles, step, values):
    """A group's values: the levels of its nibbles, times its scale."""

    def generate(context, builder, signature, args):
        nibbles, step, values = args
        step = everywhere(builder, step)
        for k in range(0, GROUP, COLUMNS):
            four = builder.load(at(builder, nibbles, k // 2, INT), align=1)
            index = builder.lshr(everywhere(builder, four), each([4, 0, 12, 8, 20, 16, 28, 24]))
            level = listed(context, builder, index, LEVELS)
            store(builder, builder.fmul(level, step), values, 4 * k)
        return context.get_dummy_value()

    return types.void(_whole, _real, _whole), generate


@intrinsic
def _nearest(typing_context, values, step, codes):
    """A group's values become the nearest levels, times its scale; each code is a byte."""

    def generate(context, builder, signature, args):
        values, step, codes = args
        step = everywhere(builder, step)
        for k in range(GROUP // COLUMNS):
            x = builder.fdiv(load(builder, values, ROW * k), step)
            masks: list[Any] = []
            for bit in (8, 4, 2, 1):  # the bound between those not ruled out yet
                bound = chosen(context, builder, masks, BOUNDS[bit - 1 :: 2 * bit])
                masks.append(builder.fcmp_ordered(">", x, bound))
            level = chosen(context, builder, masks, LEVELS)
            store(builder, builder.fmul(level, step), values, ROW * k)
            code = builder.shl(indexed(builder, masks[:3]), constant(1))
            code = builder.select(masks[3], builder.or_(code, constant(1)), code)
            to = at(builder, codes, COLUMNS * k, BYTES)
            builder.store(builder.trunc(code, BYTES), to, align=1)
        return context.get_dummy_value()

    return types.void(_whole, _real, _whole), generate


@codec_function
def decode(data, first, count, scale, values, scratch):
    """The values that the bytes read as."""
    groups = (count + GROUP - 1) // GROUP
    begin = data + first // GROUP * SIZE
    halves = carray(pointer(begin), groups, np.uint16)
    bits = carray(pointer(scratch), groups, np.uint32)
    step = carray(pointer(scratch), groups, np.float32)
    for g in range(groups):
        bits[g] = np.uint32(halves[g]) << np.uint32(16)
    for g in range(groups):
        _levels(begin + 2 * groups + GROUP // 2 * g, step[g], values + 4 * GROUP * g)


@codec_function
def encode(data, first, count, scale, values, scratch):
    """The bytes of the values, which become what they read as."""
    groups = (count + GROUP - 1) // GROUP
    begin = data + first // GROUP * SIZE
    halves = carray(pointer(begin), groups, np.uint16)
    stored = carray(pointer(begin + 2 * groups), groups * GROUP // 2, np.uint8)
    pair = carray(pointer(scratch + BEHIND), groups * GROUP // 2, np.uint16)
    s = carray(pointer(values), groups * GROUP, np.float32)
    raw = carray(pointer(values), groups * GROUP, np.int32)
    bits = carray(pointer(scratch), groups, np.int32)
    step = carray(pointer(scratch), groups, np.float32)
    s[count:] = 0.0
    for g in range(groups):
        peak = np.int32(0)  # by its bits: the larger of two magnitudes has the larger
        for j in range(GROUP):
            peak = max(peak, raw[GROUP * g + j] & np.int32(0x7FFFFFFF))
        halves[g] = np.uint16((peak + np.int32(0xFFFF)) >> np.int32(16))
        bits[g] = np.int32(halves[g]) << np.int32(16)
    for g in range(groups):
        if bits[g] == 0:
            step[g] = 1.0  # all are zero, and their level is
        _nearest(values + 4 * GROUP * g, step[g], scratch + BEHIND + GROUP * g)
    for j in range(groups * GROUP // 2):
        stored[j] = np.uint8((pair[j] << np.uint16(4)) | (pair[j] >> np.uint16(8)))


CODECS.add("nf4", Codec("nf4", 4, encode, decode, pad=GROUP, group=GROUP, head=2))
