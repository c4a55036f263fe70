"""fp16: each value rounded to half precision, and to the largest of it where it is beyond."""

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from fedadavr.codecs.codec import CODECS, Codec
from fedadavr.kernels import codec_function, pointer

LARGEST = np.float32(65504.0)


@intrinsic
def _to_half(typing_context, value):
    """The bits of a float32 rounded to float16 (numba has no float16 of its own on CPUs)."""

    def generate(context, builder, signature, args):
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), generate


@intrinsic
def _from_half(typing_context, bits):
    """The float32 of a float16's bits."""

    def generate(context, builder, signature, args):
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


@codec_function
def decode(data, first, count, scale, values, scratch):
    """The values that the bytes read as."""
    stored = carray(pointer(data + 2 * first), count, np.uint16)
    y = carray(pointer(values), count, np.float32)
    for j in range(count):
        y[j] = _from_half(stored[j])


@codec_function
def encode(data, first, count, scale, values, scratch):
    """The bytes of the values, which become what they read as."""
    stored = carray(pointer(data + 2 * first), count, np.uint16)
    s = carray(pointer(values), count, np.float32)
    for j in range(count):
        bits = _to_half(min(max(s[j], -LARGEST), LARGEST))
        stored[j] = bits
        s[j] = _from_half(bits)


CODECS.add("fp16", Codec("fp16", 16, encode, decode, largest=float(LARGEST)))
