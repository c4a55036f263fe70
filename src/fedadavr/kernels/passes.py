"""The fused loops over all coordinates, block by block.

A round makes two passes:

- `measure` reads each reply: is it finite, how long is the update, and how large is each tensor of
  what will be stored (its codec's scale).
- `advance` does the rest for all replies together: decodes what was stored, forms the correction,
  encodes what is stored now, moves the total and the other memories and steps the optimizer.

With g_i = inverse_i * (w - w_i), where inverse_i is 1 / client_lr, or less for a reply that is
clipped, and replies grouped into the records that they write (one reply per record, except where
clients share one):

    r        = base * total + sum_i gain_i g_i - sum_k recall_k old_k
    stored_k = encode(sum_{i in k} share_i g_i + keep old_k + lean * total)
    total    = fade * total + sum_k after_k decode(stored_k) - before_k old_k

Every algorithm of this package is a choice of these coefficients. Where the server also remembers a
few vectors c_z, one of which, z(i), predicts each reply,

    r  += sum_z pull_z c_z
    c_z = keep_z c_z + sum_{i of z} push_i g_i

and `cross` gets the weighted, centered products of g_i, old_i and c_z(i) over the cohort. `measure`
then sketches each g_i: 4096 sums of its coordinates with signs, from which cosines can be told.

Where a codec omits zeros, `born` tells in which round each coordinate was first not zero in any
reply, and a record has only those born by its own round: a block's are moved together before they
are encoded, and apart after they are decoded.

The arguments are described in `terms.py`. A codec and an optimizer come as addresses of their block
functions. Two things are done for the compiler's sake. Loops read and write few arrays each,
because LLVM gives up vectorizing where it must rule out too many overlaps; the blocks stay in
cache, so a further loop is cheap. And no loop reorders floating-point operations except the sums of
squares, so the bits are the same on any number of threads.

All passes and their loops stand in this one file, since numba's cache looks for changes in the file
of the function that it compiles, and nowhere else.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from fedadavr.kernels import intrinsics
from fedadavr.kernels.compiling import jit
from fedadavr.kernels.intrinsics import bits, call_codec, call_optimizer, fetch_line, pointer

# Coordinates handled at once. Even, so that a byte of int4 never straddles two blocks. It stands in
# this file because numba compiles it in.
BLOCK = 2048
GROUP = 32  # blocks that share a sketch
SKETCH = 4096  # numbers in a sketch; at least BLOCK
SCRATCH = 8 * BLOCK  # numbers of two bytes that a codec may use for a block
NOISE = 8 * BLOCK  # bytes of them that lie before a block's noise

NEVER = 2**31 - 1  # the round in which a coordinate was first not zero that always was

LARGEST = np.float32(1e38)  # that is stored of anything; float32 ends at 3.4e38
LARGEST_SQUARED = np.float32(1e18)  # of a gradient that moments are made of: v holds its square

_jit = jit(intrinsics)
_jit_sum = jit(intrinsics, fastmath={"reassoc", "contract"})


# --- one block -----------------------------------------------------------------------------------


@_jit
def _move_total(total, after, new, before, old, n):
    """Apart from the codec: float64 in its loop would halve the width of all of it."""
    for j in range(n):
        total[j] += after * np.float64(new[j]) - before * np.float64(old[j])


@_jit_sum
def _sum_squares(x, n):
    total = 0.0
    for j in range(n):
        total += np.float64(x[j]) * np.float64(x[j])
    return total


@_jit_sum
def _sum_products(x, y, n):
    total = 0.0
    for j in range(n):
        total += np.float64(x[j]) * np.float64(y[j])
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
        top = max(top, bits(g) & np.int32(0x7FFFFFFF))
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
        top = max(top, bits(x[j]) & np.int32(0x7FFFFFFF))
    return top


@_jit
def _fetch(address, part, parts, size):
    """Ask for one part of the bytes that will be needed next, while something else is computed."""
    lo, hi = size * part // parts, size * (part + 1) // parts
    for line in range(lo, hi, 64):
        fetch_line(address + line)


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
def _saturate(most, x, n):
    """x <- x, or the nearest number whose magnitude is not above `most`; NaN becomes zero."""
    zero = np.float32(0.0)
    for j in range(n):
        end = most if x[j] > zero else -most if x[j] < zero else zero
        x[j] = x[j] if abs(x[j]) <= most else end


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


@_jit
def _shrink(step, w, G, n):
    """Weight decay, and the bound on a gradient's magnitude.

    Rounds that would overflow are refused before they come here; if one does come, what it leaves
    is finite.
    """
    if step.hyper[0] != 0.0:
        _add(step.hyper[0], w, G, n)
    _saturate(np.float32(step.largest), G, n)


@_jit
def _move_and_direct(step, gradient, m, v, direction, hyper, n):
    """The optimizer's block functions, on addresses (to take one costs an atomic count)."""
    if step.move != 0:
        call_optimizer(step.move, gradient, m, v, direction, n, hyper)
    call_optimizer(step.direct, gradient, m, v, direction, n, hyper)


@_jit
def _agree(b, step, G, m, w, u, q, G_at, m_at, v_at, q_at, hyper_at, norms, n):
    """What a rate is learned from: |w|^2, |u|^2, <G, m>, <m, m> and <G, G>.

    m is the first moment before the round. The products are those of the metric in which the
    optimizer steps: `direct` along x is x / (sqrt(v) + eps), to a factor that cancels in cosines.
    """
    if not step.hold:
        norms[0, b] = _sum_squares(w, n)
        norms[1, b] = _sum_squares(u, n)
    call_optimizer(step.direct, m_at, m_at, v_at, q_at, n, hyper_at)
    norms[2, b] = _sum_products(G, q, n)
    norms[3, b] = _sum_products(m, q, n)
    call_optimizer(step.direct, G_at, G_at, v_at, q_at, n, hyper_at)
    norms[4, b] = _sum_products(G, q, n)


@_jit
def _keep_moment(step, G, m, n):
    """The first moment, of an optimizer that has none."""
    b1, c1 = np.float32(step.hyper[1]), np.float32(1.0 - step.hyper[1])
    for j in range(n):
        m[j] = b1 * m[j] + c1 * G[j]


@_jit
def _center(mean_g, mean_y, mean_c, remembers, count, cross, n):
    """Take the products of the means away."""
    cross[0] -= _dot(mean_g, mean_g, n)
    if remembers:
        cross[1] -= _dot(mean_g, mean_y, n)
        cross[3] -= _dot(mean_y, mean_y, n)
    if count:
        cross[2] -= _dot(mean_g, mean_c, n)
        cross[5] -= _dot(mean_c, mean_c, n)
        if remembers:
            cross[4] -= _dot(mean_y, mean_c, n)


@_jit
def _correlate(p, g, y, c_at, remembers, count, mean_g, mean_y, mean_c, cross, n):
    """One reply's part in the products of g, y and the vector at the address."""
    if remembers and count:
        c = carray(pointer(c_at), n, np.float32)
        _products(p, g, y, c, mean_g, mean_y, mean_c, cross, n)
        return
    _add(p, g, mean_g, n)
    cross[0] += p * _dot(g, g, n)
    if remembers:
        _add(p, y, mean_y, n)
        cross[1] += p * _dot(g, y, n)
        cross[3] += p * _dot(y, y, n)
    if count:
        c = carray(pointer(c_at), n, np.float32)
        _add(p, c, mean_c, n)
        cross[2] += p * _dot(g, c, n)
        cross[5] += p * _dot(c, c, n)


@_jit
def _pull_vectors(vectors, fed, a, r, moved, n):
    """r += sum_z pull_z c_z; and where the vectors begin that more than one reply moves."""
    for z in range(len(vectors.address)):
        c = carray(pointer(vectors.address[z] + 4 * a), n, np.float32)
        if vectors.pull[z] != 0.0:
            _add(vectors.pull[z], c, r, n)
        if vectors.keep[z] != 1.0 and fed[z] != 1:
            _scale(vectors.keep[z], c, moved[z], n)


@_jit
def _push_vector(vectors, fed, i, a, g, moved, n):
    """What reply i adds to its vector; one that only it moves is moved at once."""
    z = vectors.of[i]
    if fed[z] != 1:
        _add(vectors.push[i], g, moved[z], n)
    elif vectors.keep[z] != 1.0:
        c = carray(pointer(vectors.address[z] + 4 * a), n, np.float32)
        _move(vectors.keep[z], vectors.push[i], g, c, n)


@_jit
def _place_vectors(vectors, fed, a, moved, n):
    """The vectors that several replies have moved, or none."""
    for z in range(len(vectors.address)):
        if vectors.keep[z] != 1.0 and fed[z] != 1:
            c = carray(pointer(vectors.address[z] + 4 * a), n, np.float32)
            c[:] = moved[z, :n]


@_jit
def _next_bytes(blocks, weights, b, hi, last, t, k, n):
    """Where the bytes lie that are needed after a record's: the next reply's, or block's."""
    if last < len(weights):
        return weights[last, t] + 4 * k, 4 * n
    if b + 1 < hi:
        size = 4 * (blocks.stop[b + 1] - blocks.start[b + 1])
        return weights[0, blocks.tensor[b + 1]] + 4 * blocks.within[b + 1], size
    return 0, 0


@_jit
def _grow(w, w_i, born, now, n):
    """Coordinates in which a reply is the first that is not zero are born now."""
    for j in range(n):
        born[j] = now if w[j] != w_i[j] and born[j] > now else born[j]


@_jit
def _latest(born):
    """When the last of these coordinates was born."""
    latest = np.int32(0)
    for j in range(len(born)):
        latest = max(latest, born[j])
    return latest


@_jit
def _pack(born, when, s, packed):
    """The coordinates that were born by then, one after the other; how many."""
    m = 0
    for j in range(len(born)):
        packed[m] = s[j]  # is written over by the next if it was not
        m += born[j] <= when
    return m


@_jit
def _spread(born, when, packed, s):
    """The opposite: all others are zero."""
    m = 0
    for j in range(len(born)):
        alive = born[j] <= when
        s[j] = packed[m] if alive else np.float32(0.0)
        m += alive


@_jit
def _fill_noise(key, b, noise, n):
    """Numbers evenly from -1/2 to 1/2, without the ends, by the key, the block and the place alone.

    A hash of the place with one half of the key in it, and again with the other.
    """
    low, high = np.uint32(key), np.uint32(key >> 32)
    start = np.uint32(b * BLOCK)
    for j in range(min(BLOCK, (n + 63) // 64 * 64)):  # a codec may round n up
        h = np.uint32(start + np.uint32(j)) ^ low
        for half in range(2):
            h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D))
            h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B))
            h = h ^ (h >> np.uint32(16))
            h = np.uint32(h + high) if half == 0 else h
        unit = np.float32(np.int32(h >> np.uint32(8))) * np.float32(2.0**-24)
        noise[j] = unit - np.float32(0.5 - 2.0**-25)


@_jit
def _read(function, data, k, n, scale, y, y_at, scratch_at, born, latest, when, packed):
    """A codec's decode; of what was never other than zero there is nothing stored."""
    if latest <= when:
        call_codec(function, data, k, n, scale, y_at, scratch_at)
        return
    m = 0
    for j in range(n):
        m += born[j] <= when
    if m > 0:
        call_codec(function, data, k, m, scale, packed.ctypes.data, scratch_at)
    _spread(born, when, packed, y)


@_jit
def _write(function, data, k, n, scale, s, s_at, scratch_at, born, latest, when, packed):
    """A codec's encode; what was never other than zero is not stored."""
    if latest <= when:
        call_codec(function, data, k, n, scale, s_at, scratch_at)
        return
    m = _pack(born, when, s, packed)
    if m > 0:
        call_codec(function, data, k, m, scale, packed.ctypes.data, scratch_at)
    _spread(born, when, packed, s)


# --- passes over all blocks ----------------------------------------------------------------------


@_jit
def measure(lo, hi, blocks, replies, records, sketch, square, peak):
    """The first pass: squares of each reply's g_i, and each record's largest magnitude.

    With a `sketch` also each reply's, a part for every group of blocks. What is not finite in a
    reply makes its sum of squares not finite.
    """
    g = np.empty(BLOCK, np.float32)
    s = np.empty(BLOCK, np.float32)
    y = np.empty(BLOCK, np.float32)
    zero = np.zeros(BLOCK, np.float32)
    scratch = np.empty(SCRATCH, np.uint16)
    packed = np.empty(BLOCK, np.float32)
    y_at, scratch_at = y.ctypes.data, scratch.ctypes.data
    first, inverse = replies.first, replies.inverse
    own = records.keep != 0.0 or records.lean != 0.0
    for b in range(lo, hi):
        a, n, t = blocks.start[b], blocks.stop[b] - blocks.start[b], blocks.tensor[b]
        k = blocks.within[b]
        x = replies.w[a : a + n]
        for record in range(len(first) - 1):
            alone = not own and _alone(first, records.share, record)
            if own:
                data, scale = records.old[record] + records.offset[t], records.scale[record, t]
                born = records.born[a : a + n]
                latest = records.whole[b] if len(born) else np.int32(0)
                latest = _latest(born) if latest == NEVER else latest
                when = records.when[record]
                _read(
                    records.decode, data, k, n, scale, y, y_at, scratch_at, born, latest, when,
                    packed,
                )  # fmt: skip
                _start_record(records.keep, records.lean, y, records.total[a : a + n], s, n)
            elif not alone:
                s[:n] = 0.0
            for i in range(first[record], first[record + 1]):
                w_i = carray(pointer(replies.weights[i, t] + 4 * k), n, np.float32)
                from_ = x if inverse[i] > 0.0 else zero[:n]
                square[i, b], peak[record, b] = _gauge(from_, w_i, inverse[i], n)
                if len(sketch.into):
                    sign = sketch.sign[sketch.turn[b, 1] : sketch.turn[b, 1] + n]
                    into = sketch.into[b // GROUP, i]
                    _sketch(from_, w_i, inverse[i], sign, sketch.turn[b, 0], into, n)
                if not alone:
                    _difference(from_, w_i, inverse[i], g, n)
                    _add(records.share[i], g, s, n)
            if not alone:
                peak[record, b] = _peak(s, n)
    scratch[0] = 0  # so that numba, which sees only its address in use, does not free it earlier


@_jit
def _alone(first, share, record):
    """Whether a record is one reply as it is."""
    at = first[record]
    return first[record + 1] - at == 1 and (len(share) == 0 or share[at] == 1.0)


@_jit
def advance(
    lo, hi, blocks, replies, records, new, combination, vectors, products, step, out, norms
):  # fmt: skip
    """The second pass: correction, new memory, total and optimizer, all in one walk.

    With `step.hold` the model is not moved yet: `norms` gets the squares of w and of the direction,
    and `finish` moves it (LAMB). With `step.learns` it gets them at any rate, and three products.
    """
    first, inverse, weights = replies.first, replies.inverse, replies.weights
    keep, lean, total = records.keep, records.lean, records.total
    gain, recall = combination.gain, combination.recall
    remembers, count = records.decode != 0, len(vectors.address)
    part, cross = products.weight, products.cross
    learns = len(part) > 0
    fed = np.zeros(count, np.int64)  # by how many replies; by one, a vector moves at once
    for z in vectors.of:
        fed[z] += 1
    moved = np.empty((count, BLOCK), np.float32)
    mean_g = np.empty(BLOCK if learns else 0, np.float32)
    mean_y = np.empty(BLOCK if learns else 0, np.float32)
    mean_c = np.empty(BLOCK if learns else 0, np.float32)
    less = np.empty(BLOCK if learns and len(records.aged) else 0, np.float32)
    g = np.empty(BLOCK, np.float32)
    s = np.empty(BLOCK, np.float32)
    y = np.empty(BLOCK, np.float32)
    r = np.empty(BLOCK, np.float32)
    x = np.empty(BLOCK, np.float32)
    zero = np.zeros(BLOCK, np.float32)
    start_total = np.zeros(BLOCK, np.float64)
    old = np.empty(BLOCK if step.learns else 0, np.float32)
    old_at = old.ctypes.data
    scratch = np.empty(SCRATCH, np.uint16)
    g_at, s_at, y_at, r_at = g.ctypes.data, s.ctypes.data, y.ctypes.data, r.ctypes.data
    m_at, v_at, hyper_at = step.m.ctypes.data, step.v.ctypes.data, step.hyper.ctypes.data
    scratch_at = scratch.ctypes.data
    noise = scratch.view(np.float32)[NOISE // 4 : NOISE // 4 + BLOCK]
    packed = np.empty(BLOCK, np.float32)
    for b in range(lo, hi):
        a, n, t = blocks.start[b], blocks.stop[b] - blocks.start[b], blocks.tensor[b]
        k = blocks.within[b]
        x[:n] = replies.w[a : a + n]
        born = records.born[a : a + n]
        latest = records.whole[b] if len(born) else np.int32(0)
        if latest == NEVER:
            for i in range(len(weights)):
                w_i = carray(pointer(weights[i, t] + 4 * k), n, np.float32)
                _grow(x if inverse[i] > 0.0 else zero, w_i, born, np.int32(new.now), n)
            latest = _latest(born)
            records.whole[b] = latest
        if remembers:
            now = total[a : a + n]
            for j in range(n):
                r[j] = np.float32(combination.base * now[j])
            if lean != 0.0:
                start_total[:n] = now
            if records.fade != 1.0:
                for j in range(n):
                    now[j] *= records.fade
        else:
            r[:n] = 0.0
        if learns:
            mean_g[:n] = 0.0
            mean_y[:n] = 0.0
            mean_c[:n] = 0.0
        _pull_vectors(vectors, fed, a, r, moved, n)
        for record in range(len(first) - 1):
            alone = keep == 0.0 and lean == 0.0 and _alone(first, records.share, record)
            # The memory bus would idle while a block is computed: let it bring the next reply's.
            ahead, size = _next_bytes(blocks, weights, b, hi, first[record + 1], t, k, n)
            if remembers:
                _fetch(ahead, 0, 4, size)
                data, scale = records.old[record] + records.offset[t], records.scale[record, t]
                _read(
                    records.decode, data, k, n, scale, y, y_at, scratch_at, born, latest,
                    records.when[record], packed,
                )  # fmt: skip
                _fetch(ahead, 1, 4, size)
                if not alone:
                    _add(-recall[record], y, r, n)
                    _start_record(keep, lean, y, start_total, s, n)
            for i in range(first[record], first[record + 1]):
                w_i = carray(pointer(weights[i, t] + 4 * k), n, np.float32)
                from_ = x if inverse[i] > 0.0 else zero
                if remembers and alone:
                    _news(from_, w_i, inverse[i], gain[i], recall[record], y, r, g, n)
                else:
                    _difference(from_, w_i, inverse[i], g, n)
                    _add(gain[i], g, r, n)
                    if remembers:
                        _add(records.share[i], g, s, n)
                if learns:
                    told = y
                    if len(less):
                        _scale(records.aged[record], y, less, n)
                        told = less
                    c_at = vectors.address[vectors.of[i]] + 4 * a if count else 0
                    _correlate(
                        part[i],
                        g,
                        told,
                        c_at,
                        remembers,
                        count,
                        mean_g,
                        mean_y,
                        mean_c,
                        cross[:, b],
                        n,
                    )
                if count:
                    _push_vector(vectors, fed, i, a, g, moved, n)
            if remembers:
                stored = g if alone else s
                _fetch(ahead, 2, 4, size)
                data, scale = new.new[record] + records.offset[t], new.scale[record, t]
                if len(new.key):
                    _fill_noise(new.key[record], b, noise, n)
                _write(
                    records.encode, data, k, n, scale, stored, g_at if alone else s_at,
                    scratch_at, born, latest, new.now, packed,
                )  # fmt: skip
                _fetch(ahead, 3, 4, size)
                _move_total(now, new.after[record], stored, new.before[record], y, n)
        if learns:
            _center(mean_g, mean_y, mean_c, remembers, count, cross[:, b], n)
        _place_vectors(vectors, fed, a, moved, n)
        if step.client_lr != 1.0:
            factor = np.float32(step.client_lr)
            for j in range(n):
                r[j] *= factor
        _shrink(step, x, r, n)
        here = 4 * a
        if step.learns:
            old[:n] = step.m[a : a + n]
        _move_and_direct(step, r_at, m_at + here, v_at + here, g_at, hyper_at, n)
        _land(b, step.rate, step.hold, x, g, out[a : a + n], norms, n)
        if step.learns:
            v_here = v_at + here
            _agree(b, step, r, old, x, g, s, r_at, old_at, v_here, s_at, hyper_at, norms, n)
            if step.keeps:
                _keep_moment(step, r, step.m[a : a + n], n)
    scratch[0] = 0  # as in `measure`


@_jit
def optimize(lo, hi, blocks, step, w, G, out, norms):
    """An optimizer step on a given gradient; `norms` as in `advance`."""
    x = np.empty(BLOCK, np.float32)
    r = np.empty(BLOCK, np.float32)
    u = np.empty(BLOCK, np.float32)
    old = np.empty(BLOCK if step.learns else 0, np.float32)
    q = np.empty(BLOCK if step.learns else 0, np.float32)
    r_at, u_at, hyper_at = r.ctypes.data, u.ctypes.data, step.hyper.ctypes.data
    old_at, q_at = old.ctypes.data, q.ctypes.data
    for b in range(lo, hi):
        a, z, n = blocks.start[b], blocks.stop[b], blocks.stop[b] - blocks.start[b]
        x[:n] = w[a:z]
        r[:n] = G[a:z]
        _shrink(step, x, r, n)
        if step.learns:
            old[:n] = step.m[a:z]
        m_at, v_at = step.m.ctypes.data + 4 * a, step.v.ctypes.data + 4 * a
        _move_and_direct(step, r_at, m_at, v_at, u_at, hyper_at, n)
        _land(b, step.rate, step.hold, x, u, out[a:z], norms, n)
        if step.learns:
            _agree(b, step, r, old, x, u, q, r_at, old_at, v_at, q_at, hyper_at, norms, n)
            if step.keeps:
                _keep_moment(step, r, step.m[a:z], n)


@_jit
def finish(lo, hi, blocks, step, rates, w, out):
    """Move the model along the direction that the moments give, at each tensor's own rate."""
    x = np.empty(BLOCK, np.float32)
    u = np.empty(BLOCK, np.float32)
    for b in range(lo, hi):
        a, z, n = blocks.start[b], blocks.stop[b], blocks.stop[b] - blocks.start[b]
        x[:n] = w[a:z]
        m, v, hyper = step.m[a:z], step.v[a:z], step.hyper
        call_optimizer(
            step.direct, 0, m.ctypes.data, v.ctypes.data, u.ctypes.data, n, hyper.ctypes.data
        )
        _descend(x, u, rates[blocks.tensor[b]], out[a:z], n)


@_jit
def blend(lo, hi, blocks, share, x, w, out):
    """out <- x + share * (w - x); `out` may be x."""
    part = np.float32(share)
    for b in range(lo, hi):
        a, z = blocks.start[b], blocks.stop[b]
        left, right, to = x[a:z], w[a:z], out[a:z]
        for j in range(z - a):
            to[j] = left[j] + part * (right[j] - left[j])


@_jit
def peaks(lo, hi, blocks, x, peak):
    """The largest magnitude in each block of a vector, by its bits."""
    for b in range(lo, hi):
        peak[b] = _peak(x[blocks.start[b] : blocks.stop[b]], blocks.stop[b] - blocks.start[b])


@_jit
def encode(lo, hi, blocks, function, data, offset, scales, born, when, x):
    """Store a vector."""
    s = np.empty(BLOCK, np.float32)
    packed = np.empty(BLOCK, np.float32)
    scratch = np.empty(SCRATCH, np.uint16)
    for b in range(lo, hi):
        a, n, t = blocks.start[b], blocks.stop[b] - blocks.start[b], blocks.tensor[b]
        s[:n] = x[a : a + n]
        here = data + offset[t]
        mine = born[a : a + n]
        _write(
            function, here, blocks.within[b], n, scales[t], s, s.ctypes.data, scratch.ctypes.data,
            mine, _latest(mine), when, packed,
        )  # fmt: skip


@_jit
def accumulate(lo, hi, blocks, function, data, offset, scales, born, when, factor, total):
    """total += factor * what a record reads as."""
    y = np.empty(BLOCK, np.float32)
    packed = np.empty(BLOCK, np.float32)
    scratch = np.empty(SCRATCH, np.uint16)
    for b in range(lo, hi):
        a, n, t = blocks.start[b], blocks.stop[b] - blocks.start[b], blocks.tensor[b]
        here = data + offset[t]
        mine = born[a : a + n]
        _read(
            function, here, blocks.within[b], n, scales[t], y, y.ctypes.data, scratch.ctypes.data,
            mine, _latest(mine), when, packed,
        )  # fmt: skip
        now = total[a : a + n]
        for j in range(n):
            now[j] += factor * np.float64(y[j])
