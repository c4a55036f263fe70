"""int4: each value over its tensor's scale, rounded half to even, from -7 to 7.

Two values per byte, the high nibble first, each shifted by 8; a tensor of odd length is padded with
the nibble 8, which reads as zero.
"""

import numpy as np
from numba import carray

from fedadavr.codecs.codec import CODECS, Codec
from fedadavr.kernels import NOISE, BlockFunction, codec_function, pointer


@codec_function
def decode(data, first, count, scale, values, scratch):
    """The values that the bytes read as."""
    half = (count + 1) // 2
    stored = carray(pointer(data + first // 2), half, np.uint8)
    pair = carray(pointer(scratch), half, np.uint16)
    y = carray(pointer(values), count, np.float32)
    for j in range(half):  # two at once, since a stride would not vectorize
        pair[j] = np.uint16(stored[j] >> 4) | (np.uint16(stored[j] & 15) << np.uint16(8))
    u = carray(pointer(scratch), count, np.int8)
    for j in range(count):
        y[j] = np.float32(np.int32(u[j]) - 8) * scale


def encoder(noisy: bool) -> BlockFunction:
    """To the nearest integer, or up or down at random."""

    @codec_function
    def encode(data, first, count, scale, values, scratch):
        """The bytes of the values, which become what they read as."""
        noise = carray(pointer(scratch + NOISE), count, np.float32)
        half = (count + 1) // 2
        stored = carray(pointer(data + first // 2), half, np.uint8)
        pair = carray(pointer(scratch), half, np.uint16)
        u = carray(pointer(scratch), 2 * half, np.uint8)
        s = carray(pointer(values), count, np.float32)
        top = np.float32(7.0)
        for j in range(count):
            x = min(max(np.rint(s[j] / scale + noise[j] if noisy else s[j] / scale), -top), top)
            u[j] = np.uint8(np.int32(x) + 8)
            s[j] = x * scale
        if count % 2:
            u[count] = 8
        for j in range(half):
            stored[j] = np.uint8((pair[j] << np.uint16(4)) | (pair[j] >> np.uint16(8)))

    return encode


CODECS.add("int4", Codec("int4", 4, encoder(False), decode, levels=7, stochastic=encoder(True)))
