"""fp32: each value as it is."""

import numpy as np
from numba import carray

from fedadavr.codecs.codec import CODECS, Codec
from fedadavr.kernels import codec_function, pointer


@codec_function
def decode(data, first, count, scale, values, scratch):
    """The values that the bytes read as."""
    stored = carray(pointer(data + 4 * first), count, np.float32)
    y = carray(pointer(values), count, np.float32)
    for j in range(count):
        y[j] = stored[j]


@codec_function
def encode(data, first, count, scale, values, scratch):
    """The bytes of the values, which become what they read as."""
    stored = carray(pointer(data + 4 * first), count, np.float32)
    s = carray(pointer(values), count, np.float32)
    for j in range(count):
        stored[j] = s[j]


CODECS.add("fp32", Codec("fp32", 32, encode, decode))
