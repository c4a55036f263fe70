"""The fused loops. Every other room calls these, none repeats them.

A round makes two passes over the coordinates, block by block:

- `measure` reads each client's weights: are they finite, how long is the update, and how large
  is each tensor of what will be stored (its codec's scale).
- `advance` does the rest for all clients together: decodes what was stored, forms the
  correction, encodes what is stored now, moves the total and steps the optimizer.

With g_i = inverse_i * (w - w_i), where inverse_i is 1 / client_lr, or less for a client that is
clipped, and clients grouped into the records that they write (one client a record, except where
clients share one):

    r        = base * total + sum_i gain_i g_i - sum_k recall_k old_k
    stored_k = encode(sum_{i in k} share_i g_i + keep old_k + lean * total)
    total   += after_k decode(stored_k) - before_k old_k

Every algorithm of this package is a choice of these coefficients. Where the server also remembers
kinds of clients, as a few vectors c_k (`centers`), each client being of one kind k(i),

    r  += sum_k pull_k c_k
    c_k = keep_k c_k + sum_{i of kind k} push_i g_i

and `cross` gets the weighted, centered products of g_i, old_i and c_k(i) over the cohort. `measure`
then sketches each g_i: 4096 sums of its coordinates with signs, from which cosines can be told.

Three things are done for the compiler's sake. Arrays of clients come as addresses, since a kernel
cannot take a list whose length changes from round to round without being compiled again. Loops
read and write few arrays each, because LLVM gives up vectorizing where it must rule out too many
overlaps; the blocks stay in cache, so a further loop is cheap. And no loop reorders floating-point
operations except the sums of squares, so the bits are the same on any number of threads.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

log = logging.getLogger(__name__)

# Coordinates handled at once. Even, so that a byte of int4 never straddles two blocks. It stands in
# this file because numba compiles it in, and its cache looks for changes in this file only.
BLOCK = 2048
GROUP = 32  # blocks that one thread takes at a time, and that share a sketch
SKETCH = 4096  # numbers in a sketch; at least BLOCK

NONE, FP32, FP16, INT8, INT4 = range(5)
SGD, ADAGRAD, ADAM, ADABELIEF, YOGI = range(5)
FP16_MAX = np.float32(65504.0)
LARGEST = np.float32(1e38)  # that is stored of anything; float32 ends at 3.4e38
LARGEST_SQUARED = np.float32(1e18)  # of a gradient that moments are made of: v holds its square


@intrinsic
def _pointer(typing_context, address):
    """An integer address as a pointer, so that `carray` can make an array of it."""

    def generate(context, builder, signature, args):
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(address), generate


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


@intrinsic
def _bits(typing_context, value):
    """The bits of a float32."""

    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), generate


@intrinsic
def _fetch_line(typing_context, address):
    """Ask for the cache line at an address, without waiting for it."""

    def generate(context, builder, signature, args):
        pointer, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        where = builder.inttoptr(args[0], pointer)
        builder.call(prefetch, [where, i32(0), i32(2), i32(1)])  # a read, to stay in L2, of data
        return context.get_dummy_value()

    return types.none(address), generate


_jit = njit(nogil=True, cache=True, error_model="numpy")
_jit_sum = njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract"})


# --- one block -----------------------------------------------------------------------------------


@_jit
def _decode(codec, address, k, n, scale, y, pair):
    """y <- coordinates k .. k+n of the tensor stored at the address; `pair` is room for int4."""
    if codec == FP32:
        f = carray(_pointer(address + 4 * k), n, np.float32)
        for j in range(n):
            y[j] = f[j]
    elif codec == FP16:
        h = carray(_pointer(address + 2 * k), n, np.uint16)
        for j in range(n):
            y[j] = _from_half(h[j])
    elif codec == INT8:
        q = carray(_pointer(address + k), n, np.int8)
        for j in range(n):
            y[j] = np.float32(q[j]) * scale
    else:
        p = carray(_pointer(address + k // 2), (n + 1) // 2, np.uint8)
        for j in range((n + 1) // 2):  # two at once, since a stride would not vectorize
            pair[j] = np.uint16(p[j] >> 4) | (np.uint16(p[j] & 15) << np.uint16(8))
        u = pair.view(np.int8)
        for j in range(n):
            y[j] = np.float32(np.int32(u[j]) - 8) * scale


@_jit
def _encode(codec, address, k, n, scale, s, pair):
    """Store s as coordinates k .. k+n of the tensor at the address; s becomes what it reads as."""
    if codec == FP32:
        f = carray(_pointer(address + 4 * k), n, np.float32)
        for j in range(n):
            f[j] = s[j]
    elif codec == FP16:
        h = carray(_pointer(address + 2 * k), n, np.uint16)
        for j in range(n):
            bits = _to_half(min(max(s[j], -FP16_MAX), FP16_MAX))
            h[j] = bits
            s[j] = _from_half(bits)
    elif codec == INT8:
        q = carray(_pointer(address + k), n, np.int8)
        top = np.float32(127.0)
        for j in range(n):
            x = min(max(np.rint(s[j] / scale), -top), top)
            q[j] = np.int8(np.int32(x))
            s[j] = x * scale
    else:
        p = carray(_pointer(address + k // 2), (n + 1) // 2, np.uint8)
        u = pair.view(np.uint8)
        top = np.float32(7.0)
        for j in range(n):
            x = min(max(np.rint(s[j] / scale), -top), top)
            u[j] = np.uint8(np.int32(x) + 8)
            s[j] = x * scale
        if n % 2:
            u[n] = 8
        for j in range((n + 1) // 2):
            p[j] = np.uint8((pair[j] << np.uint16(4)) | (pair[j] >> np.uint16(8)))


@_jit
def _move_total(total, after, new, before, old, n):
    """Apart from `_encode`: float64 in its loop would halve the width of all of it."""
    for j in range(n):
        total[j] += after * np.float64(new[j]) - before * np.float64(old[j])


@_jit_sum
def _sum_squares(x, n):
    total = 0.0
    for j in range(n):
        total += np.float64(x[j]) * np.float64(x[j])
    return total


@_jit_sum
def _gauge(w, w_i, inverse, n):
    """The sum of squares of g_i, and its largest magnitude.

    The latter by its bits, since the larger of two non-negative floats has the larger bits, and
    an integer maximum is one instruction for eight of them.
    """
    total, top = 0.0, np.int32(0)
    for j in range(n):
        g = (w[j] - w_i[j]) * inverse
        total += np.float64(g) * np.float64(g)
        top = max(top, _bits(g) & np.int32(0x7FFFFFFF))
    return total, top


@_jit
def _sketch(x, w_i, inverse, sign, turn, into, n):
    """into[(j + turn) mod SKETCH] += sign_j g_j."""
    rest = min(n, SKETCH - turn)
    here, there = into[turn:], into
    for j in range(rest):
        here[j] += sign[j] * ((x[j] - w_i[j]) * inverse)
    for j in range(rest, n):
        there[j - rest] += sign[j] * ((x[j] - w_i[j]) * inverse)


@_jit_sum
def _dot(x, y, n):
    total = np.float32(0.0)
    for j in range(n):
        total += x[j] * y[j]
    return np.float64(total)


@_jit_sum
def _products(p, g, y, c, mean_g, mean_y, mean_c, cross, n):
    """cross += p * (gg, gy, gc, yy, yc, cc), and the means of all three, in one walk."""
    q = np.float32(p)
    gg = gy = gc = yy = yc = cc = np.float32(0.0)
    for j in range(n):
        a, b, d = g[j], y[j], c[j]
        gg += a * a
        gy += a * b
        gc += a * d
        yy += b * b
        yc += b * d
        cc += d * d
        mean_g[j] += q * a
        mean_y[j] += q * b
        mean_c[j] += q * d
    for place, product in enumerate((gg, gy, gc, yy, yc, cc)):
        cross[place] += p * np.float64(product)


@_jit
def _scale(coefficient, x, s, n):
    """s <- coefficient * x."""
    c = np.float32(coefficient)
    for j in range(n):
        s[j] = c * x[j]


@_jit
def _move(keep, push, g, c, n):
    """c <- keep * c + push * g."""
    a, b = np.float32(keep), np.float32(push)
    for j in range(n):
        c[j] = a * c[j] + b * g[j]


@_jit
def _peak(x, n):
    """The largest magnitude, by its bits."""
    top = np.int32(0)
    for j in range(n):
        top = max(top, _bits(x[j]) & np.int32(0x7FFFFFFF))
    return top


@_jit
def _fetch(address, part, parts, size):
    """Ask for one part of the bytes that will be needed next, while something else is computed."""
    lo, hi = size * part // parts, size * (part + 1) // parts
    for line in range(lo, hi, 64):
        _fetch_line(address + line)


@_jit
def _start_record(keep, lean, old, total, s, n):
    """s <- keep * old + lean * total."""
    for j in range(n):
        s[j] = np.float32(keep * old[j] + lean * total[j])


@_jit
def _add(coefficient, g, s, n):
    c = np.float32(coefficient)
    for j in range(n):
        s[j] += c * g[j]


@_jit
def _difference(w, w_i, inverse, g, n):
    for j in range(n):
        g[j] = (w[j] - w_i[j]) * inverse


@_jit
def _news(w, w_i, inverse, gain, recall, y, r, g, n):
    """g <- inverse * (w - w_i); r += gain * g - recall * y."""
    a, b = np.float32(gain), np.float32(recall)
    for j in range(n):
        x = (w[j] - w_i[j]) * inverse
        g[j] = x
        r[j] += a * x - b * y[j]


@_jit
def _direction(numerator, v, first, second, eps, u, n):
    """u <- (numerator * first) / (sqrt(v * second) + eps)."""
    f, s, e = np.float32(first), np.float32(second), np.float32(eps)
    for j in range(n):
        u[j] = (numerator[j] * f) / (np.sqrt(v[j] * s) + e)


@_jit
def _saturate(most, x, n):
    """x <- x, or the nearest number whose magnitude is not above `most`; NaN becomes zero."""
    zero = np.float32(0.0)
    for j in range(n):
        end = most if x[j] > zero else -most if x[j] < zero else zero
        x[j] = x[j] if abs(x[j]) <= most else end


@_jit
def _step(kind, hyper, w, G, m, v, u, n):
    """One optimizer step on a block: its state moves, and u becomes the direction of the step.

    `hyper` holds weight_decay, beta1, beta2, eps, and the factors on both moments. Rounds that
    would overflow are refused before they come here; if one does come, what it leaves is finite.
    """
    if hyper[0] != 0.0:
        _add(hyper[0], w, G, n)
    _saturate(LARGEST if kind == SGD else LARGEST_SQUARED, G, n)
    b1, c1 = np.float32(hyper[1]), np.float32(1.0 - hyper[1])
    b2, c2 = np.float32(hyper[2]), np.float32(1.0 - hyper[2])
    if kind == SGD:
        for j in range(n):
            u[j] = G[j]
        return
    if kind == ADAGRAD:
        for j in range(n):
            v[j] = min(v[j] + G[j] * G[j], LARGEST)
        _direction(G, v, 1.0, 1.0, hyper[3], u, n)
        return
    if kind == ADAM:
        for j in range(n):
            m[j] = b1 * m[j] + c1 * G[j]
            v[j] = b2 * v[j] + c2 * (G[j] * G[j])
    elif kind == ADABELIEF:
        for j in range(n):
            x = b1 * m[j] + c1 * G[j]
            m[j] = x
            v[j] = b2 * v[j] + c2 * ((G[j] - x) * (G[j] - x))
    else:
        for j in range(n):
            square = G[j] * G[j]
            m[j] = b1 * m[j] + c1 * G[j]
            v[j] -= c2 * square * np.sign(v[j] - square)
    _direction(m, v, hyper[4], hyper[5], hyper[3], u, n)


@_jit
def _descend(w, u, rate, out, n):
    """out <- w - rate * u; a coordinate stays where it would leave the finite numbers."""
    c = np.float32(rate)
    for j in range(n):
        x = w[j] - c * u[j]
        out[j] = x if abs(x) <= LARGEST else w[j]


@_jit
def _land(b, rate, hold, w, u, out, norms, n):
    """Move the model along u, or hold it back and note the squares of w and u."""
    if hold:
        norms[0, b] = _sum_squares(w, n)
        norms[1, b] = _sum_squares(u, n)
    else:
        _descend(w, u, rate, out, n)


# --- passes over all blocks ----------------------------------------------------------------------


@_jit
def measure(
    lo, hi, start, stop, tensor, origin, w, weights, inverse, first, share, keep, lean,
    codec, old, old_scale, offset, total, square, peak, sign, turn, sketch,
):  # fmt: skip
    """The first pass: squares of each client's g_i, and each record's largest magnitude.

    With `sketch` given (not empty) also each client's sketch, a part for every group of blocks.

    `weights[i, t]` and `old[k]` are addresses; `first[k]` is the first client of record k. What
    is not finite in a client's weights makes its sum of squares not finite.
    """
    g = np.empty(BLOCK, np.float32)
    s = np.empty(BLOCK, np.float32)
    y = np.empty(BLOCK, np.float32)
    pair = np.empty(BLOCK // 2, np.uint16)
    for b in range(lo, hi):
        a, n, t = start[b], stop[b] - start[b], tensor[b]
        k = a - origin[t]
        x = w[a : a + n]
        for record in range(len(first) - 1):
            own = keep != 0.0 or lean != 0.0
            alone = not own and first[record + 1] - first[record] == 1
            if own:
                _decode(codec, old[record] + offset[t], k, n, old_scale[record, t], y, pair)
                _start_record(keep, lean, y, total[a : a + n], s, n)
            elif not alone:
                s[:n] = 0.0
            for i in range(first[record], first[record + 1]):
                w_i = carray(_pointer(weights[i, t] + 4 * k), n, np.float32)
                square[i, b], peak[record, b] = _gauge(x, w_i, inverse[i], n)
                if len(sketch):
                    here = sign[turn[b, 1] : turn[b, 1] + n]
                    _sketch(x, w_i, inverse[i], here, turn[b, 0], sketch[b // GROUP, i], n)
                if not alone:
                    _difference(x, w_i, inverse[i], g, n)
                    _add(share[i], g, s, n)
            if not alone:
                peak[record, b] = _peak(s, n)


@_jit
def advance(
    lo, hi, start, stop, tensor, origin, w, weights, inverse, first, share, keep, lean,
    codec, old, old_scale, offset, total, gain, recall, base, before, after,
    new, new_scale, kind, hyper, rate, scale, m, v, out, norms, hold,
    center, center_keep, pull, of, push, part, cross,
):  # fmt: skip
    """The second pass: correction, new memory, total and optimizer, all in one walk.

    With `hold` the model is not moved yet: `norms` gets the squares of w and of the direction,
    and `finish` moves it (LAMB). `scale` is client_lr: the optimizer sees G = scale * r.
    `center[k]` are addresses, `of[i]` is the center of client i; `part[i]`, if given, is its weight
    in `cross`, which gets gg, gy, gc, yy, yc and cc.
    """
    centers, learns = len(center), len(part) > 0
    fed = np.zeros(centers, np.int64)  # by how many clients; by one, a center moves at once
    for z in of:
        fed[z] += 1
    moved = np.empty((centers, BLOCK), np.float32)
    mean_g = np.empty(BLOCK if learns else 0, np.float32)
    mean_y = np.empty(BLOCK if learns else 0, np.float32)
    mean_c = np.empty(BLOCK if learns else 0, np.float32)
    g = np.empty(BLOCK, np.float32)
    s = np.empty(BLOCK, np.float32)
    y = np.empty(BLOCK, np.float32)
    r = np.empty(BLOCK, np.float32)
    x = np.empty(BLOCK, np.float32)
    start_total = np.zeros(BLOCK, np.float64)
    remembers = codec != NONE
    pair = np.empty(BLOCK // 2, np.uint16)
    for b in range(lo, hi):
        a, n, t = start[b], stop[b] - start[b], tensor[b]
        k = a - origin[t]
        x[:n] = w[a : a + n]
        if remembers:
            now = total[a : a + n]
            for j in range(n):
                r[j] = np.float32(base * now[j])
            if lean != 0.0:
                start_total[:n] = now
        else:
            r[:n] = 0.0
        if learns:
            mean_g[:n] = 0.0
            mean_y[:n] = 0.0
            mean_c[:n] = 0.0
        for z in range(centers):
            c = carray(_pointer(center[z] + 4 * a), n, np.float32)
            if pull[z] != 0.0:
                _add(pull[z], c, r, n)
            if center_keep[z] != 1.0 and fed[z] != 1:
                _scale(center_keep[z], c, moved[z], n)
        for record in range(len(first) - 1):
            alone = first[record + 1] - first[record] == 1 and keep == 0.0 and lean == 0.0
            # The memory bus would idle while a block is computed: let it bring the next client's.
            last = first[record + 1]
            if last < len(weights):
                ahead, size = weights[last, t] + 4 * k, 4 * n
            elif b + 1 < hi:
                size = 4 * (stop[b + 1] - start[b + 1])
                ahead = weights[0, tensor[b + 1]] + 4 * (start[b + 1] - origin[tensor[b + 1]])
            else:
                ahead, size = 0, 0
            if remembers:
                _fetch(ahead, 0, 4, size)
                _decode(codec, old[record] + offset[t], k, n, old_scale[record, t], y, pair)
                _fetch(ahead, 1, 4, size)
                if not alone:
                    _add(-recall[record], y, r, n)
                    _start_record(keep, lean, y, start_total, s, n)
            for i in range(first[record], first[record + 1]):
                w_i = carray(_pointer(weights[i, t] + 4 * k), n, np.float32)
                if remembers and alone:
                    _news(x, w_i, inverse[i], gain[i], recall[record], y, r, g, n)
                else:
                    _difference(x, w_i, inverse[i], g, n)
                    _add(gain[i], g, r, n)
                    if remembers:
                        _add(share[i], g, s, n)
                if learns and remembers and centers:
                    c = carray(_pointer(center[of[i]] + 4 * a), n, np.float32)
                    _products(part[i], g, y, c, mean_g, mean_y, mean_c, cross[:, b], n)
                elif learns:
                    p = part[i]
                    _add(p, g, mean_g, n)
                    cross[0, b] += p * _dot(g, g, n)
                    if remembers:
                        _add(p, y, mean_y, n)
                        cross[1, b] += p * _dot(g, y, n)
                        cross[3, b] += p * _dot(y, y, n)
                    if centers:
                        c = carray(_pointer(center[of[i]] + 4 * a), n, np.float32)
                        _add(p, c, mean_c, n)
                        cross[2, b] += p * _dot(g, c, n)
                        cross[5, b] += p * _dot(c, c, n)
                if centers:
                    z = of[i]
                    if fed[z] != 1:
                        _add(push[i], g, moved[z], n)
                    elif center_keep[z] != 1.0:
                        c = carray(_pointer(center[z] + 4 * a), n, np.float32)
                        _move(center_keep[z], push[i], g, c, n)
            if remembers:
                stored = g if alone else s
                _fetch(ahead, 2, 4, size)
                _encode(codec, new[record] + offset[t], k, n, new_scale[record, t], stored, pair)
                _fetch(ahead, 3, 4, size)
                _move_total(now, after[record], stored, before[record], y, n)
        if learns:
            cross[0, b] -= _dot(mean_g, mean_g, n)
            if remembers:
                cross[1, b] -= _dot(mean_g, mean_y, n)
                cross[3, b] -= _dot(mean_y, mean_y, n)
            if centers:
                cross[2, b] -= _dot(mean_g, mean_c, n)
                cross[5, b] -= _dot(mean_c, mean_c, n)
                if remembers:
                    cross[4, b] -= _dot(mean_y, mean_c, n)
        for z in range(centers):
            if center_keep[z] != 1.0 and fed[z] != 1:
                c = carray(_pointer(center[z] + 4 * a), n, np.float32)
                c[:] = moved[z, :n]
        if scale != 1.0:
            factor = np.float32(scale)
            for j in range(n):
                r[j] *= factor
        _step(kind, hyper, x, r, m[a : a + n], v[a : a + n], g, n)
        _land(b, rate, hold, x, g, out[a : a + n], norms, n)


@_jit
def optimize(lo, hi, start, stop, tensor, w, G, kind, hyper, rate, m, v, out, norms, hold):
    """An optimizer step on a given gradient; `norms` and `hold` as in `advance`."""
    x = np.empty(BLOCK, np.float32)
    r = np.empty(BLOCK, np.float32)
    u = np.empty(BLOCK, np.float32)
    for b in range(lo, hi):
        a, z, n = start[b], stop[b], stop[b] - start[b]
        x[:n] = w[a:z]
        r[:n] = G[a:z]
        _step(kind, hyper, x, r, m[a:z], v[a:z], u, n)
        _land(b, rate, hold, x, u, out[a:z], norms, n)


@_jit
def finish(lo, hi, start, stop, tensor, hyper, rate, w, m, v, out):
    """Move the model along the direction that the moments give, at each tensor's own rate."""
    x = np.empty(BLOCK, np.float32)
    u = np.empty(BLOCK, np.float32)
    for b in range(lo, hi):
        a, z, n = start[b], stop[b], stop[b] - start[b]
        x[:n] = w[a:z]
        _direction(m[a:z], v[a:z], hyper[4], hyper[5], hyper[3], u, n)
        _descend(x, u, rate[tensor[b]], out[a:z], n)


@_jit
def encode(lo, hi, start, stop, tensor, origin, codec, address, offset, scales, x, peak):
    """Store a vector; with `peak` given (not empty) only find each block's largest magnitude."""
    s = np.empty(BLOCK, np.float32)
    pair = np.empty(BLOCK // 2, np.uint16)
    for b in range(lo, hi):
        a, n, t = start[b], stop[b] - start[b], tensor[b]
        s[:n] = x[a : a + n]
        if len(peak):
            peak[b] = _peak(s, n)
        else:
            _encode(codec, address + offset[t], a - origin[t], n, scales[t], s, pair)


@_jit
def accumulate(lo, hi, start, stop, tensor, origin, codec, address, offset, scales, factor, total):
    """total += factor * what a record reads as."""
    y = np.empty(BLOCK, np.float32)
    pair = np.empty(BLOCK // 2, np.uint16)
    for b in range(lo, hi):
        a, n, t = start[b], stop[b] - start[b], tensor[b]
        _decode(codec, address + offset[t], a - origin[t], n, scales[t], y, pair)
        now = total[a : a + n]
        for j in range(n):
            now[j] += factor * np.float64(y[j])


@_jit
def tally(values, fade, bins, told):
    """A histogram of logarithms, two bins an octave, fades and takes the values above zero.

    `told` gets the sum of its weights, and the end of the bin in which its lower median lies. By
    exponents, not logarithms: exact, so that no bit depends on who computes it.
    """
    root, middle = math.sqrt(0.5), len(bins) // 2
    some = False
    for x in values:
        some = some or x > 0.0
    total = 0.0
    for j in range(len(bins)):
        if some:
            faded = bins[j] * fade
            bins[j] = faded if faded > 1e-6 else 0.0
    for x in values:
        if x > 0.0:
            part, power = math.frexp(x)
            bins[min(max(2 * power + (part > root) + middle, 0), len(bins) - 1)] += 1.0
    for j in range(len(bins)):
        total += bins[j]
    below, place = 0.0, 0
    half = total / 2 * (1 - 1e-12)  # a half is a half, however the weights were rounded
    while place < len(bins) - 1 and below + bins[place] < half:
        below += bins[place]
        place += 1
    told[0] = total
    octave, upper = (place - middle) // 2, (place - middle) % 2
    told[1] = 0.0 if total == 0.0 else math.ldexp(1.0 if upper else root, octave)


# --- running a pass ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blocks:
    """The coordinates cut into pieces that stay in cache and never cross a tensor's border.

    Every reduction is made block by block, so its bits do not depend on who computes which block.
    """

    start: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]
    tensor: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]  # each tensor's first block

    def __len__(self) -> int:
        return len(self.start)


_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_ready: set[Callable[..., None]] = set()
_SERIAL_BELOW = 128  # blocks; a thread takes longer to start than this many take


def set_threads(number: int) -> None:
    """How many threads the kernels may use; the results do not depend on it."""
    global _threads
    if number < 1:
        raise ValueError(f"the kernels need at least one thread, got {number}")
    _threads = number


def address(array: npt.NDArray[Any]) -> int:
    """Where an array's first element lies."""
    return array.__array_interface__["data"][0]  # half the time of array.ctypes.data


def threads() -> int:
    """How many threads the kernels may use."""
    return _threads


def run(kernel: Callable[..., None], blocks: Blocks, *args: Any) -> None:
    """Run a pass over all blocks, on as many threads as it is worth."""
    count = len(blocks)
    common = (blocks.start, blocks.stop, blocks.tensor, *args)
    if _threads == 1 or count < _SERIAL_BELOW or kernel not in _ready:
        call(kernel, 0, count, *common)
        return
    starts = itertools.count(0, GROUP)

    failed: list[BaseException] = []

    def work() -> None:
        try:
            while (lo := next(starts)) < count:
                kernel(lo, min(lo + GROUP, count), *common)
        except BaseException as error:  # of a helper, too, where nobody else would see it
            failed.append(error)

    helpers = [threading.Thread(target=work) for _ in range(_threads - 1)]
    try:
        for helper in helpers:
            helper.start()
        work()
    finally:
        _join(helpers)
    if failed:
        raise failed[0]


def _join(helpers: list[threading.Thread]) -> None:
    """Wait for all of them, whatever is raised meanwhile: nobody may go on while they write."""
    raised: BaseException | None = None
    for helper in helpers:
        while helper.is_alive():
            try:
                helper.join()
            except BaseException as error:
                raised = error
    if raised is not None:
        raise raised


def call(kernel: Callable[..., None], *args: Any) -> None:
    """Call a kernel; the first time numba compiles it, or loads it from its cache."""
    if kernel in _ready:
        kernel(*args)
        return
    message = "compiling the kernel %r, once on this machine (some seconds; cached afterwards)"
    notice = threading.Timer(1.0, log.warning, (message, kernel.__name__))
    notice.daemon = True
    notice.start()
    kernel(*args)
    notice.cancel()
    _ready.add(kernel)
