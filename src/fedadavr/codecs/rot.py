"""rot4, rot3, rot2 and rot1: rotated, then four to one bits per value, by levels for a Gaussian.

A rotation makes any values look Gaussian, and for those the best levels are known (Lloyd and Max).
It would spread what is not zero over what always is; so a memory omits those coordinates.
A tensor is padded with zeros to a multiple of 64. A block of up to 2048 values is taken as rows of
eight, so that there are eight columns, and each column is rotated by itself: signs that never
change, then a fast Hadamard transform over the largest power of two of its rows; where that is not
all of them, another over as many of the last ones. Each column has a scale, with which the levels
are nearest to it (least squares). An unbiased scale, as EDEN has it (Vargaftik et al. 2022), would
be further from every single update; and an algorithm whose correction is g_i - y_i stays unbiased
whatever y_i is, and varies least where y_i is near.

A block is its eight scales as bfloat16 (the upper half of a float32), then for each row as many
bytes as a value has bits: the signs, then the bits of the level, the highest first; the first value
of a row is the lowest bit.

All in rows of eight, written for LLVM (`kernels/rows.py`).
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from fedadavr.codecs.codec import CODECS, Codec
from fedadavr.kernels import codec_function, pointer
from fedadavr.kernels.rows import (
    BYTE,
    COLUMNS,
    INTS,
    LONG,
    ROW,
    at,
    chosen,
    constant,
    everywhere,
    load,
    load_mask,
    negated_where,
    store,
)

LEVELS = {
    1: (0.7978846,),
    2: (0.4527800, 1.5104176),
    3: (0.2450942, 0.7560053, 1.3439093, 2.1519457),
    4: (0.1283950, 0.3880483, 0.6567591, 0.9423405, 1.2562309, 1.6180464, 2.0690172, 2.7326357),
}
"""By bits: the magnitudes with the least mean square error for a standard normal distribution."""

HEAD = 2 * COLUMNS  # bytes of a block's scales
BLOCK = 2048
SIGNS = np.frombuffer(hashlib.shake_128(b"fedadavr rot").digest(BLOCK // 8), np.uint8)
"""A bit for each value of a block, as they lie: 1 turns it."""

_whole = types.int64


# --- several rows at once ------------------------------------------------------------------------


def _sum(builder, rows):
    """The sum of rows, as a tree: a chain of additions would have to wait for each."""
    while len(rows) > 1:
        rows = [builder.fadd(a, b) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    return rows[0]


def _mixed(builder, x):
    """The Hadamard transform of a power of two of rows, times its root."""
    x, half = list(x), 1
    while half < len(x):
        for k in range(len(x)):
            if not k & half:
                a, b = x[k], x[k + half]
                x[k], x[k + half] = builder.fadd(a, b), builder.fsub(a, b)
        half *= 2
    return x


def _put_all(builder, rows, address, mix):
    """Rows, or their transform: the first of all that are to be made, in registers."""
    for k, row in enumerate(_mixed(builder, rows) if mix.literal_value else rows):
        store(builder, row, address, ROW * k)


def _add_up(builder, terms, address):
    """Add rows to that at the address, eight at a time: so many are summed in any case."""
    total = load(builder, address)
    for k in range(0, len(terms), 8):
        total = builder.fadd(total, _sum(builder, terms[k : k + 8]))
    store(builder, total, address)


def _number(mix):
    """How many rows are worked on at once: sixteen that are mixed, or eight, mixed or not."""
    return max(8, mix.literal_value)


@intrinsic(prefer_literal=True)
def _butterflies(typing_context, address, stride, count):
    """A Hadamard transform of `count` rows that lie `stride` bytes apart, in their place."""
    rows = count.literal_value

    def generate(context, builder, signature, args):
        places = [builder.mul(args[1], LONG(k)) for k in range(rows)]
        x = [load(builder, args[0], place) for place in places]
        for row, place in zip(_mixed(builder, x), places, strict=True):
            store(builder, row, args[0], place)
        return context.get_dummy_value()

    return types.void(_whole, _whole, count), generate


@intrinsic(prefer_literal=True)
def _last_butterflies(typing_context, address, stride, count, signs, scales):
    """`_butterflies`; then the rows times their columns' scales, and with other signs."""
    rows = count.literal_value

    def generate(context, builder, signature, args):
        address, stride, _, signs, scales = args
        scale, apart = load(builder, scales), builder.udiv(stride, LONG(ROW))
        x = [load(builder, address, builder.mul(stride, LONG(k))) for k in range(rows)]
        for k, row in enumerate(_mixed(builder, x)):
            mask = load_mask(builder, signs, builder.mul(apart, LONG(k)))
            row = negated_where(builder, mask, builder.fmul(row, scale))
            store(builder, row, address, builder.mul(stride, LONG(k)))
        return context.get_dummy_value()

    return types.void(_whole, _whole, count, _whole, _whole), generate


@intrinsic(prefer_literal=True)
def _turn_and_square(typing_context, values, signs, factor, squares, mix):
    """Rows, times a factor and with other signs; `squares` += their squares."""

    def generate(context, builder, signature, args):
        values, signs, factor, squares, _ = args
        factor, terms, rows = everywhere(builder, factor), [], []
        for k in range(_number(mix)):
            x = builder.fmul(load(builder, values, ROW * k), factor)
            rows.append(negated_where(builder, load_mask(builder, signs, k), x))
            terms.append(builder.fmul(x, x))
        _put_all(builder, rows, values, mix)
        _add_up(builder, terms, squares)
        return context.get_dummy_value()

    return types.void(_whole, _whole, types.float32, _whole, mix), generate


@intrinsic
def _turn_and_scale(typing_context, values, signs, scales):
    """Eight rows, times their columns' scales and with other signs."""

    def generate(context, builder, signature, args):
        values, signs, scales = args
        scale = load(builder, scales)
        for k in range(8):
            x = builder.fmul(load(builder, values, ROW * k), scale)
            store(builder, negated_where(builder, load_mask(builder, signs, k), x), values, ROW * k)
        return context.get_dummy_value()

    return types.void(_whole, _whole, _whole), generate


@intrinsic(prefer_literal=True)
def _quantize(typing_context, values, codes, inverse, sums, bits, mix):
    """The codes of rows, which become their levels; `sums` += x * level, level^2."""
    width = bits.literal_value
    levels = LEVELS[width]
    bounds = [(a + b) / 2 for a, b in pairwise(levels)]

    def generate(context, builder, signature, args):
        values, codes, inverse, sums, *_ = args
        inverse, products, squares, rows = load(builder, inverse), [], [], []
        for k in range(_number(mix)):
            x = load(builder, values, ROW * k)
            negative = builder.icmp_signed("<", builder.bitcast(x, INTS), constant(0))
            size = negated_where(builder, negative, x)
            over = builder.fmul(size, inverse)
            masks: list[Any] = []
            for bit in range(width - 2, -1, -1):  # the bound between those not ruled out yet
                bound = chosen(context, builder, masks, bounds[(1 << bit) - 1 :: 2 << bit])
                masks.append(builder.fcmp_ordered(">", over, bound))
            level = chosen(context, builder, masks, levels)
            for place, mask in enumerate([negative, *masks]):
                byte = builder.bitcast(mask, BYTE)
                builder.store(byte, at(builder, codes, width * k + place, BYTE))
            rows.append(negated_where(builder, negative, level))
            products.append(builder.fmul(size, level))
            squares.append(builder.fmul(level, level))
        _put_all(builder, rows, values, mix)
        _add_up(builder, products, sums)
        _add_up(builder, squares, builder.add(sums, LONG(ROW)))
        return context.get_dummy_value()

    return types.void(_whole, _whole, _whole, _whole, bits, mix), generate


@intrinsic(prefer_literal=True)
def _levels(typing_context, codes, values, bits, mix):
    """The levels of rows from their codes."""
    width = bits.literal_value

    def generate(context, builder, signature, args):
        codes, values, *_ = args
        rows = []
        for k in range(_number(mix)):
            negative, *masks = (load_mask(builder, codes, width * k + b) for b in range(width))
            level = chosen(context, builder, masks, LEVELS[width])
            rows.append(negated_where(builder, negative, level))
        _put_all(builder, rows, values, mix)
        return context.get_dummy_value()

    return types.void(_whole, _whole, bits, mix), generate


# --- one block -----------------------------------------------------------------------------------

_jit = njit(error_model="numpy")


@_jit
def _power(rows):
    """The largest power of two that is not above."""
    power = 8
    while 2 * power <= rows:
        power *= 2
    return power


@_jit
def _transform(values, rows, h):
    """The Hadamard transform of a power of two of rows, times its root; of each `h` it is made."""
    while 16 * h <= rows:
        for g in range(0, rows, 16 * h):
            for j in range(g, g + h):
                _butterflies(values + ROW * j, ROW * h, 16)
        h *= 16
    if 8 * h == rows:
        for j in range(h):
            _butterflies(values + ROW * j, ROW * h, 8)
    elif 4 * h == rows:
        for j in range(h):
            _butterflies(values + ROW * j, ROW * h, 4)
    elif 2 * h == rows:
        for j in range(h):
            _butterflies(values + ROW * j, ROW * h, 2)


@_jit
def _shrink(values, rows, factor):
    x = carray(pointer(values), rows * COLUMNS, np.float32)
    for j in range(rows * COLUMNS):
        x[j] *= factor


@_jit
def _first(rows):
    """How many rows are mixed while they are in registers anyway; a whole block: a root of it."""
    return 16 if rows >= 16 else 8


@_jit
def _rotate(values, rows, back):
    """Rotate the columns, or back; gives the factor that is still missing.

    Where one transform is all, it has been made of each eight or sixteen rows (`_first`).
    """
    power = _power(rows)
    factor = np.float32(1.0) / np.sqrt(np.float32(power))
    if power == rows:
        _transform(values, rows, _first(rows))
        return factor
    behind = values + ROW * (rows - power)
    for half in range(2):
        here = behind if (half == 1) != back else values
        _transform(here, power, 1)
        _shrink(here, power, factor)
    return np.float32(1.0)


@_jit
def _restore(data, rows, values, scratch, signs):
    """From the levels to the values: rotated back, and times the scales."""
    full = rows * COLUMNS == BLOCK
    factor = np.float32(1.0) / np.sqrt(np.float32(rows)) if full else _rotate(values, rows, True)
    halves = carray(pointer(data), COLUMNS, np.uint16)
    bits = carray(pointer(scratch), COLUMNS, np.uint32)
    scales = carray(pointer(scratch), COLUMNS, np.float32)
    for c in range(COLUMNS):
        bits[c] = np.uint32(halves[c]) << np.uint32(16)
    for c in range(COLUMNS):
        scales[c] = scales[c] * factor
    if full:  # 256 rows, of which each sixteen are mixed: one more time makes it whole
        for j in range(16):
            _last_butterflies(values + ROW * j, ROW * 16, 16, signs + j, scratch)
    else:
        for k in range(0, rows, 8):
            _turn_and_scale(values + ROW * k, signs + k, scratch)


@_jit
def _factor(peak, scratch):
    """A power of two that brings the largest magnitude near one, and its inverse."""
    bits = carray(pointer(scratch), 2, np.int32)
    numbers = carray(pointer(scratch), 2, np.float32)
    numbers[0] = peak
    exponent = min(max(bits[0] >> np.int32(23), np.int32(1)), np.int32(253))
    bits[0], bits[1] = (np.int32(254) - exponent) << np.int32(23), exponent << np.int32(23)
    return numbers[0], numbers[1]


def rotated(bits: int) -> Codec:
    """The codec with so many bits per value."""
    stride = HEAD + BLOCK * bits // 8  # bytes of a block

    @codec_function
    def decode(data, first, count, scale, values, scratch):
        """The values that the bytes read as."""
        rows = (count + 63) // 64 * 8
        begin = data + first // BLOCK * stride
        if _power(rows) != rows:
            for k in range(0, rows, 8):
                _levels(begin + HEAD + bits * k, values + ROW * k, bits, 0)
        elif rows == 8:
            _levels(begin + HEAD, values, bits, 8)
        else:
            for k in range(0, rows, 16):
                _levels(begin + HEAD + bits * k, values + ROW * k, bits, 16)
        _restore(begin, rows, values, scratch, SIGNS.ctypes.data)

    @codec_function
    def encode(data, first, count, peak, values, scratch):
        """The bytes of the values, which become what they read as."""
        rows = (count + 63) // 64 * 8
        begin = data + first // BLOCK * stride
        halves = carray(pointer(begin), COLUMNS, np.uint16)
        x = carray(pointer(values), COLUMNS * rows, np.float32)
        sums = carray(pointer(scratch), 4 * COLUMNS, np.float32)
        raw = carray(pointer(scratch), 4 * COLUMNS, np.int32)
        signs, zero = SIGNS.ctypes.data, np.float32(0.0)
        x[count:] = zero
        factor, inverse = _factor(peak, scratch)
        sums[:] = zero
        whole = _power(rows) == rows
        if not whole:
            for k in range(0, rows, 8):
                _turn_and_square(values + ROW * k, signs + k, factor, scratch, 0)
        elif rows == 8:
            _turn_and_square(values, signs, factor, scratch, 8)
        else:
            for k in range(0, rows, 16):
                _turn_and_square(values + ROW * k, signs + k, factor, scratch, 16)
        missing = _rotate(values, rows, False)
        for c in range(COLUMNS):
            size = np.sqrt(sums[c] / np.float32(rows))
            sums[c] = missing / size if size > zero else zero
        codes = begin + HEAD
        if not whole:
            for k in range(0, rows, 8):
                _quantize(values + ROW * k, codes + bits * k, scratch, scratch + ROW, bits, 0)
        elif rows == 8:
            _quantize(values, codes, scratch, scratch + ROW, bits, 8)
        else:
            for k in range(0, rows, 16):
                _quantize(values + ROW * k, codes + bits * k, scratch, scratch + ROW, bits, 16)
        for c in range(COLUMNS):
            share = sums[COLUMNS + c] / sums[2 * COLUMNS + c]
            sums[3 * COLUMNS + c] = share * missing * inverse
        for c in range(COLUMNS):
            number = raw[3 * COLUMNS + c]
            even = (number >> np.int32(16)) & np.int32(1)
            halves[c] = np.uint16((number + np.int32(0x7FFF) + even) >> np.int32(16))
        _restore(begin, rows, values, scratch, signs)

    return Codec(
        f"rot{bits}", bits, encode, decode, pad=64, group=BLOCK, head=HEAD, sees_peaks=True,
        omits_zeros=True,
    )  # fmt: skip


for width in sorted(LEVELS, reverse=True):
    CODECS.add(f"rot{width}", rotated(width))
