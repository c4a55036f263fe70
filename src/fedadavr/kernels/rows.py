"""Rows of eight float32, written for LLVM: numba would not keep them in registers.

For codecs' block functions, whose intrinsics are made of these.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils

COLUMNS = 8
ROW = 4 * COLUMNS  # bytes of a row

BYTE, INT, LONG, FLOAT = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
FLOATS, INTS = ir.VectorType(FLOAT, COLUMNS), ir.VectorType(INT, COLUMNS)
BYTES, MASK = ir.VectorType(BYTE, COLUMNS), ir.VectorType(ir.IntType(1), COLUMNS)


def at(builder, address, offset, kind):
    """A pointer to what lies so many bytes after an address."""
    offset = offset if isinstance(offset, ir.Value) else LONG(offset)
    return builder.inttoptr(builder.add(address, offset), kind.as_pointer())


def load(builder, address, offset=0):
    """The row there."""
    return builder.load(at(builder, address, offset, FLOATS), align=4)


def store(builder, row, address, offset=0):
    """Write a row there."""
    builder.store(row, at(builder, address, offset, FLOATS), align=4)


def load_mask(builder, address, offset=0):
    """A byte as a mask: the first column is the lowest bit."""
    return builder.bitcast(builder.load(at(builder, address, offset, BYTE)), MASK)


def constant(value):
    """The same number in every column: a float, or an integer."""
    if isinstance(value, int):
        return ir.Constant(INTS, [value] * COLUMNS)
    return ir.Constant(FLOATS, [float(np.float32(value))] * COLUMNS)


def each(values):
    """An integer for each column."""
    return ir.Constant(INTS, values)


def everywhere(builder, value):
    """The same value in every column."""
    kind = ir.VectorType(value.type, COLUMNS)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, INT(0))
    return builder.shuffle_vector(one, one, constant(0))


def negated_where(builder, mask, row):
    """The row, with the other sign where the mask is set."""
    bits = builder.bitcast(row, INTS)
    other = builder.xor(bits, constant(-(2**31)))
    return builder.bitcast(builder.select(mask, other, bits), FLOATS)


def chosen(context, builder, masks, numbers):
    """That of 2^k numbers which k masks say, the highest bit first."""
    if not masks:
        return constant(float(numbers[0]))
    if 2 < len(numbers) <= COLUMNS and _permutes(context):
        return _looked_up(builder, indexed(builder, masks), numbers)
    *high, last = masks
    even, odd = (chosen(context, builder, high, numbers[k::2]) for k in range(2))
    return builder.select(last, odd, even)


def indexed(builder, masks):
    """The number from 0 to 7 whose bits up to three masks are, the highest first.

    One mask more only adds to it, so that LLVM need not begin again.
    """
    index = constant(0)
    for bit, mask in zip((4, 2, 1), masks, strict=False):
        index = builder.select(mask, builder.or_(index, constant(bit)), index)
    return index


def listed(context, builder, index, numbers):
    """That of sixteen numbers which the four lowest bits of each column's integer say."""

    def bit(place):
        return builder.trunc(builder.lshr(index, constant(place)), MASK)

    if not _permutes(context):
        return chosen(context, builder, [bit(place) for place in (3, 2, 1, 0)], numbers)
    low, high = (_looked_up(builder, index, part) for part in (numbers[:8], numbers[8:]))
    return builder.select(bit(3), high, low)


def _permutes(context):
    """Whether the processor can look eight numbers up at once."""
    return "+avx2" in context.codegen().magic_tuple()[2]


def _looked_up(builder, index, numbers):
    """One instruction of x86, which looks at the three lowest bits."""
    times = COLUMNS // len(numbers)
    table = [float(np.float32(number)) for number in numbers for _ in range(times)]
    kind = ir.FunctionType(FLOATS, [FLOATS, INTS])
    permute = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.permps")
    return builder.call(permute, [ir.Constant(FLOATS, table), index])
