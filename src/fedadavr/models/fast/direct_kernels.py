"""A convolution by itself, without windows laid out for a matrix product: its loops, compiled.

An image's channels lie one after the other, padded, each row of the width that the padded input
has. So the output of a tap is a run of the input, times a number: the positions between two rows of
the output are computed, too, and never looked at. Sixteen positions of several channels stay in
registers over all taps; numba would not keep them there, so that part is written for LLVM.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fedadavr.kernels.compiling import jit
from fedadavr.models.fast import registers
from fedadavr.models.fast.registers import LANES, everywhere, load, multiply_add, store

GROUPS = 6, 4
"""Output channels at a time, of which the one is taken that leaves fewer empty."""
TAPS = 4
"""Taps at a time, in the gradient of the weights."""

_FLOAT, _LONG = ir.FloatType(), ir.IntType(64)
_exact = jit(registers)
_inline = jit(registers, inline="always")


def _correlation(group):
    """For so many channels: out <- bias + the sum over taps of a weight times a run of x."""

    @intrinsic
    def correlate(typing_context, x, offsets, taps, weights, bias, out, pitch):
        def generate(context, builder, signature, args):
            x, offsets, taps, weights, bias, out, pitch = args
            kind = ir.VectorType(_FLOAT, LANES)
            sums = [cgutils.alloca_once(builder, kind) for _ in range(group)]
            for g, total in enumerate(sums):
                first = load(builder, builder.add(bias, _LONG(4 * g)), _FLOAT)
                builder.store(everywhere(builder, first, LANES), total)
            with cgutils.for_range(builder, taps) as loop:
                at = builder.add(offsets, builder.mul(loop.index, _LONG(8)))
                row = load(builder, builder.add(x, load(builder, at, _LONG)), kind)
                own = builder.add(weights, builder.mul(loop.index, _LONG(4 * group)))
                for g, total in enumerate(sums):
                    weight = load(builder, builder.add(own, _LONG(4 * g)), _FLOAT)
                    weight = everywhere(builder, weight, LANES)
                    more = multiply_add(builder, weight, row, builder.load(total))
                    builder.store(more, total)
            for g, total in enumerate(sums):
                to = builder.add(out, builder.mul(pitch, _LONG(g)))
                store(builder, builder.load(total), to)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), generate

    return correlate


def _gradient(group):
    """For so many channels and TAPS taps: sums += g times a run of x, position by position."""

    @intrinsic
    def accumulate(typing_context, g, pitch, x, offsets, count, sums):
        def generate(context, builder, signature, args):
            g, pitch, x, offsets, count, sums = args
            wide = "+avx512f" in context.codegen().magic_tuple()[2]
            # Half as many channels and positions, where there are half as many registers.
            lanes, rows = (LANES, group) if wide else (LANES // 2, group // 2)
            kind = ir.VectorType(_FLOAT, lanes)
            steps = builder.mul(count, _LONG(LANES // lanes))
            runs = [builder.add(x, load(builder, builder.add(offsets, _LONG(8 * t)), _LONG))
                    for t in range(TAPS)]  # fmt: skip
            for first in range(0, group, rows):
                places = [builder.add(sums, _LONG(4 * LANES * (TAPS * (first + r) + t)))
                          for r in range(rows) for t in range(TAPS)]  # fmt: skip
                totals = [cgutils.alloca_once(builder, kind) for _ in places]
                for place, total in zip(places, totals, strict=True):
                    builder.store(load(builder, place, kind), total)
                own = [builder.add(g, builder.mul(pitch, _LONG(first + r))) for r in range(rows)]
                with cgutils.for_range(builder, steps) as loop:
                    here = builder.mul(loop.index, _LONG(4 * lanes))
                    given = [load(builder, builder.add(row, here), kind) for row in own]
                    seen = [load(builder, builder.add(run, here), kind) for run in runs]
                    pairs = [(a, b) for a in given for b in seen]
                    for (a, b), total in zip(pairs, totals, strict=True):
                        builder.store(multiply_add(builder, a, b, builder.load(total)), total)
                for place, total in zip(places, totals, strict=True):
                    store(builder, builder.load(total), place)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), generate

    return accumulate


_correlate6, _correlate4 = (_correlation(group) for group in GROUPS)
_accumulate6, _accumulate4 = (_gradient(group) for group in GROUPS)


@_inline
def _address(array):
    return np.int64(array.ctypes.data)


@_exact
def correlate_all(x, offsets, weights, bias, out):
    """All channels and positions of an image; weights are (groups, taps, channels of a group)."""
    groups, taps, group = weights.shape
    pitch = 4 * out.shape[1]
    from_x, where = _address(x), _address(offsets)
    for k in range(groups):
        own, own_bias = _address(weights[k]), _address(bias[k * group :])
        to = _address(out[k * group :])
        for block in range(0, 4 * out.shape[1], 4 * LANES):
            if group == 6:
                _correlate6(from_x + block, where, taps, own, own_bias, to + block, pitch)
            else:
                _correlate4(from_x + block, where, taps, own, own_bias, to + block, pitch)


@_exact
def direct(x, padding, width, offsets, weights, bias, room, made, pooled, where):
    """The convolution, the maximum of 2x2 outputs, and ReLU; `room` keeps the padded images.

    `where` says which of the four was the largest, of equals the first; 4 if ReLU cuts it.
    """
    images, channels, high, wide = x.shape
    _, outputs, rows, columns = pooled.shape
    zero, one = np.float32(0.0), np.uint8(1)
    best, below = np.empty(2 * columns, np.float32), np.empty(2 * columns, np.uint8)
    for n in range(images):
        image = room[n % len(room)]
        for c in range(channels):
            for i in range(high):
                at = (i + padding) * width + padding
                image[c, at : at + wide] = x[n, c, i]
        correlate_all(image, offsets, weights, bias, made)
        for o in range(outputs):
            for i in range(rows):
                upper = made[o, 2 * i * width : 2 * i * width + 2 * columns]
                lower = made[o, (2 * i + 1) * width : (2 * i + 1) * width + 2 * columns]
                for j in range(2 * columns):
                    more = (lower[j] > upper[j]) | (lower[j] != lower[j])
                    best[j] = lower[j] if more else upper[j]
                    below[j] = one if more else np.uint8(0)
                out, place = pooled[n, o, i], where[n, o, i]
                for j in range(columns):
                    a, b, row_a, row_b = (
                        best[2 * j],
                        best[2 * j + 1],
                        below[2 * j],
                        below[2 * j + 1],
                    )
                    more = (b > a) | (b != b) | ((b == a) & (row_b < row_a))
                    v = b if more else a
                    tap = 2 * row_b + one if more else 2 * row_a
                    out[j] = zero if v <= zero else v
                    place[j] = np.uint8(4) if v <= zero else np.uint8(tap)


@_exact
def direct_back(gradient, where, width, lead, offsets, room, g_room, sums, g_bias):
    """The gradients of the weights, as `sums` of sixteen each, and of the bias.

    One image's gradient of the convolution is left in `g_room`; so this is called image by image.
    """
    outputs, rows, columns = gradient.shape
    zero = np.float32(0.0)
    for o in range(outputs):
        total = zero
        for i in range(rows):
            g, place = gradient[o, i], where[o, i]
            for j in range(columns):
                total += zero if place[j] == 4 else g[j]
            for row in range(2):
                at = lead + (2 * i + row) * width
                out = g_room[o, at : at + 2 * columns]
                first, second = np.uint8(2 * row), np.uint8(2 * row + 1)
                for j in range(columns):
                    out[2 * j] = g[j] if place[j] == first else zero
                    out[2 * j + 1] = g[j] if place[j] == second else zero
        g_bias[o] += total
    groups, parts, group = sums.shape[:3]
    count = ((2 * rows - 1) * width + 2 * columns + LANES - 1) // LANES
    pitch, from_x = 4 * g_room.shape[1], _address(room)
    for k in range(groups):
        g = _address(g_room[k * group :]) + 4 * lead
        for part in range(parts):
            own, at = _address(sums[k, part]), _address(offsets[part * TAPS :])
            if group == 6:
                _accumulate6(g, pitch, from_x, at, count, own)
            else:
                _accumulate4(g, pitch, from_x, at, count, own)


@_exact
def direct_back_all(
    gradient, where, padding, width, lead, offsets, room, g_room, sums, g_bias, g_weight,
    back_offsets, back_weights, none, made, adds, g_x,
):  # fmt: skip
    """All gradients of a batch; that of the inputs if `g_x` is not empty."""
    sums[:] = np.float32(0.0)
    g_bias[:] = np.float32(0.0)
    for n in range(len(gradient)):
        direct_back(
            gradient[n], where[n], width, lead, offsets, room[n], g_room, sums, g_bias
        )  # fmt: skip
        if g_x.size:
            correlate_all(g_room, back_offsets, back_weights, none, made)
            _, channels, high, wide = g_x.shape
            for c in range(channels):
                for i in range(high):
                    at = (i + padding) * width + padding
                    source, target = made[c, at : at + wide], g_x[n, c, i]
                    if adds:
                        for j in range(wide):
                            target[j] += source[j]
                    else:
                        for j in range(wide):
                            target[j] = source[j]
    outputs, taps = g_weight.shape
    group = sums.shape[2]
    for o in range(outputs):
        for t in range(taps):
            total = np.float32(0.0)
            for lane in range(LANES):
                total += sums[o // group, t // TAPS, o % group, t % TAPS, lane]
            g_weight[o, t] = total
