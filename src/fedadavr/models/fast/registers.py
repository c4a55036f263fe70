"""Code that numba would not keep in registers, written for LLVM."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
"""Numbers in a register."""
VECTORS = 4
"""Registers beside each other in a block of a product."""
COLUMNS = LANES * VECTORS
"""Columns of a block."""
ROWS = 5
"""Its rows: with a sixth, LLVM no longer keeps all in registers, and it takes twice as long."""

_FLOAT, _LONG = ir.FloatType(), ir.IntType(64)
_WIDE = ir.VectorType(_FLOAT, LANES)


def load(builder, address, kind):
    """What is at an address."""
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=4)


def store(builder, value, address):
    """Put a value there."""
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=4)


def everywhere(builder, value, lanes):
    """The same number in all lanes."""
    kind = ir.VectorType(_FLOAT, lanes)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
    first = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(one, one, first)


def multiply_add(builder, a, b, c):
    """a b + c, in one instruction where there is one."""
    kind = ir.FunctionType(a.type, [a.type] * 3)
    name = f"llvm.fmuladd.v{a.type.count}f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [a, b, c])


def _block(rows):
    """out <- beta out + a b, for so many rows of `a`, and `COLUMNS` columns of `b`."""

    @intrinsic
    def multiply(typing_context, a, by_row, by_column, b, depth, out, pitch, beta):
        def generate(context, builder, signature, args):
            a, by_row, by_column, b, depth, out, pitch, beta = args
            zero = ir.Constant(_WIDE, [0.0] * LANES)
            sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(VECTORS)]
                    for _ in range(rows)]  # fmt: skip
            lines = [builder.add(a, builder.mul(by_row, _LONG(r))) for r in range(rows)]
            with cgutils.for_range(builder, depth) as loop:
                own = builder.add(b, builder.mul(loop.index, _LONG(4 * COLUMNS)))
                right = [load(builder, builder.add(own, _LONG(4 * LANES * v)), _WIDE)
                         for v in range(VECTORS)]  # fmt: skip
                along = builder.mul(loop.index, by_column)
                # So that nothing of the next turn is loaded before this one has ended.
                builder.asm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", [], True)
                for line, totals in zip(lines, sums, strict=True):
                    left = load(builder, builder.add(line, along), _FLOAT)
                    left = everywhere(builder, left, LANES)
                    for vector, total in zip(right, totals, strict=True):
                        builder.store(
                            multiply_add(builder, left, vector, builder.load(total)), total
                        )
            none = builder.fcmp_ordered("==", beta, ir.Constant(_FLOAT, 0.0))
            factor = everywhere(builder, beta, LANES)
            for r, totals in enumerate(sums):
                line = builder.add(out, builder.mul(pitch, _LONG(r)))
                for v, total in enumerate(totals):
                    to, value = builder.add(line, _LONG(4 * LANES * v)), builder.load(total)
                    more = multiply_add(builder, factor, load(builder, to, _WIDE), value)
                    store(builder, builder.select(none, value, more), to)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7, types.float32), generate

    return multiply


block5, block4, block2, block1 = (_block(rows) for rows in (ROWS, 4, 2, 1))


def _memory(name, fields):
    """LLVM's own loop over memory."""

    def call(builder, *args):
        kind = ir.FunctionType(ir.VoidType(), [*fields, ir.IntType(1)])
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(function, [*args, ir.Constant(ir.IntType(1), 0)])

    return call


_BYTE, _POINTER = ir.IntType(8), ir.IntType(8).as_pointer()
_memcpy = _memory("llvm.memcpy.p0.p0.i64", [_POINTER, _POINTER, _LONG])
_memset = _memory("llvm.memset.p0.i64", [_POINTER, _BYTE, _LONG])


@intrinsic
def copy(typing_context, to, source, size):
    """Copy so many bytes."""

    def generate(context, builder, signature, args):
        to, source, size = args
        pointers = (builder.inttoptr(at, _POINTER) for at in (to, source))
        _memcpy(builder, *pointers, size)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


@intrinsic
def clear(typing_context, to, size):
    """So many bytes <- 0."""

    def generate(context, builder, signature, args):
        _memset(builder, builder.inttoptr(args[0], _POINTER), ir.Constant(_BYTE, 0), args[1])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 2), generate


@intrinsic
def move(typing_context, source, to):
    """One number."""

    def generate(context, builder, signature, args):
        store(builder, load(builder, args[0], _FLOAT), args[1])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 2), generate


@intrinsic
def add(typing_context, at, beta, number):
    """The number there <- beta times it, and another; where beta is 0, NaN is not seen."""

    def generate(context, builder, signature, args):
        at, beta, number = args
        none = builder.fcmp_ordered("==", beta, ir.Constant(_FLOAT, 0.0))
        more = builder.fadd(builder.fmul(beta, load(builder, at, _FLOAT)), number)
        store(builder, builder.select(none, number, more), at)
        return context.get_dummy_value()

    return types.void(types.int64, types.float32, types.float32), generate


@intrinsic
def transpose(typing_context, source, pitch, to):
    """Sixteen rows of sixteen numbers, so many bytes apart, to rows of `COLUMNS`."""

    def generate(context, builder, signature, args):
        source, pitch, to = args
        rows = [load(builder, builder.add(source, builder.mul(pitch, _LONG(r))), _WIDE)
                for r in range(LANES)]  # fmt: skip
        for half in (1, 2, 4, 8):  # two rows exchange what is above the diagonal of each square
            masks = [
                [i if not i & half else i - half + LANES for i in range(LANES)],
                [i + half if not i & half else i + LANES for i in range(LANES)],
            ]
            low, high = (ir.Constant(ir.VectorType(ir.IntType(32), LANES), m) for m in masks)
            for r in range(LANES):
                if not r & half:
                    a, b = rows[r], rows[r + half]
                    rows[r] = builder.shuffle_vector(a, b, low)
                    rows[r + half] = builder.shuffle_vector(a, b, high)
        for r, row in enumerate(rows):
            store(builder, row, builder.add(to, _LONG(4 * COLUMNS * r)))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate
