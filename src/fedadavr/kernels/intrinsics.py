"""What numba does not have: pointers from addresses, calls through them, bits, prefetching."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_INT, _FLOAT = ir.IntType(64), ir.FloatType()


@intrinsic
def pointer(typing_context, address):
    """An integer address as a pointer, so that `carray` can make an array of it."""

    def generate(context, builder, signature, args):
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), generate


def _call(builder, context, kinds, args):
    """Call the function at the address args[0]."""
    function = ir.FunctionType(ir.VoidType(), kinds)
    builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])
    return context.get_dummy_value()


@intrinsic
def call_codec(typing_context, function, data, first, count, scale, values, scratch):
    """Call a codec's block function, see `codec_function`."""
    whole = types.int64
    signature = types.void(whole, whole, whole, whole, types.float32, whole, whole)

    def generate(context, builder, signature, args):
        return _call(builder, context, [_INT, _INT, _INT, _FLOAT, _INT, _INT], args)

    return signature, generate


@intrinsic
def call_optimizer(typing_context, function, gradient, m, v, direction, count, hyper):
    """Call an optimizer's block function, see `optimizer_function`."""
    signature = types.void(*[types.int64] * 7)

    def generate(context, builder, signature, args):
        return _call(builder, context, [_INT] * 6, args)

    return signature, generate


@intrinsic
def bits(typing_context, value):
    """The bits of a float32."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), generate


@intrinsic
def fetch_line(typing_context, address):
    """Ask for the cache line at an address, without waiting for it."""

    def generate(context, builder, signature, args):
        pointer, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        where = builder.inttoptr(args[0], pointer)
        builder.call(prefetch, [where, i32(0), i32(2), i32(1)])  # a read, to stay in L2, of data
        return context.get_dummy_value()

    return types.none(address), generate
