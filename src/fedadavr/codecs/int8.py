"""int8: each value over its tensor's scale, rounded half to even, from -127 to 127."""

import numpy as np
from numba import carray

from fedadavr.codecs.codec import CODECS, Codec
from fedadavr.kernels import NOISE, BlockFunction, codec_function, pointer


@codec_function
def decode(data, first, count, scale, values, scratch):
    """The values that the bytes read as."""
    stored = carray(pointer(data + first), count, np.int8)
    y = carray(pointer(values), count, np.float32)
    for j in range(count):
        y[j] = np.float32(stored[j]) * scale


def encoder(noisy: bool) -> BlockFunction:
    """To the nearest integer, or up or down at random."""

    @codec_function
    def encode(data, first, count, scale, values, scratch):
        """The bytes of the values, which become what they read as."""
        noise = carray(pointer(scratch + NOISE), count, np.float32)
        stored = carray(pointer(data + first), count, np.int8)
        s = carray(pointer(values), count, np.float32)
        top = np.float32(127.0)
        for j in range(count):
            x = min(max(np.rint(s[j] / scale + noise[j] if noisy else s[j] / scale), -top), top)
            stored[j] = np.int8(np.int32(x))
            s[j] = x * scale

    return encode


CODECS.add("int8", Codec("int8", 8, encoder(False), decode, levels=127, stochastic=encoder(True)))
