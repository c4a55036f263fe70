"""The loops of the fast paths, compiled.

`planes` kernels see an image's channels one after the other, (images, channels, places), as PyTorch
lays them out; `rows` kernels see (places, images, channels), as matrix products leave them. Each
loop reads and writes few arrays, or LLVM does not vectorize it. Comparisons are such that NaN
passes through, as it does in PyTorch.
"""

from __future__ import annotations

import numpy as np

from fedadavr.kernels.compiling import jit

_exact = jit()
_exact_inline = jit(inline="always")
_jit = jit(fastmath={"reassoc", "contract"})
_loops = jit(fastmath={"contract"})


# --- group normalization, then an addition, then ReLU --------------------------------------------


@_jit
def normalize_planes(x, other, weight, bias, eps, relu, out, means, scales):
    """out <- [relu] of weight * normalized x + bias [+ other], which may be empty."""
    images, channels, places = x.shape
    groups = means.shape[1]
    per, zero, one = channels // groups, np.float32(0.0), np.float32(1.0)
    count = np.float32(per * places)
    for n in range(images):
        for g in range(groups):
            block = x[n, g * per : (g + 1) * per].reshape(-1)
            total = zero
            for k in range(block.size):
                total += block[k]
            mean = total / count
            squares = zero
            for k in range(block.size):
                squares += (block[k] - mean) * (block[k] - mean)
            scale = one / np.sqrt(squares / count + eps)
            means[n, g], scales[n, g] = mean, scale
            for c in range(g * per, (g + 1) * per):
                a = weight[c] * scale
                b = bias[c] - mean * a
                source, target = x[n, c], out[n, c]
                if other.size:
                    around = other[n, c]
                    for k in range(places):
                        target[k] = source[k] * a + b + around[k]
                else:
                    for k in range(places):
                        target[k] = source[k] * a + b
                if relu:
                    for k in range(places):
                        target[k] = zero if target[k] <= zero else target[k]


@_jit
def normalize_planes_back(
    g_out, x, y, weight, means, scales, relu, decay, g_mid, g_x, g_weight, g_bias
):
    """Gradients; g_mid <- that of the sum before ReLU, which may be the room of g_x.

    Those of weight and bias are added to what is there, times `decay`.
    """
    images, channels, places = x.shape
    groups = means.shape[1]
    per, zero = channels // groups, np.float32(0.0)
    count = np.float32(per * places)
    for c in range(channels):
        g_weight[c] = g_weight[c] * decay if decay != 0 else zero
        g_bias[c] = g_bias[c] * decay if decay != 0 else zero
    for n in range(images):
        for g in range(groups):
            mean, scale = means[n, g], scales[n, g]
            first, second = zero, zero
            for c in range(g * per, (g + 1) * per):
                source, mid = x[n, c], g_mid[n, c]
                above, shown = g_out[n, c], y[n, c]
                if relu:
                    for k in range(places):
                        mid[k] = zero if shown[k] <= zero else above[k]
                else:
                    for k in range(places):
                        mid[k] = above[k]
                s, t = zero, zero
                for k in range(places):
                    s += mid[k]
                    t += mid[k] * (source[k] - mean)
                t *= scale
                g_bias[c] += s
                g_weight[c] += t
                first += weight[c] * s
                second += weight[c] * t
            slope = scale * scale * second / count
            shift = scale * first / count - mean * slope
            for c in range(g * per, (g + 1) * per):
                a = weight[c] * scale
                source, mid, target = x[n, c], g_mid[n, c], g_x[n, c]
                for k in range(places):
                    target[k] = a * mid[k] - slope * source[k] - shift


# In rows, the channels of several images are one run of numbers, and so are their sums: as many
# images at a time as make a long loop, and stay in the nearest cache.

RUN = 2048


@_jit
def normalize_rows(x, other, weight, bias, eps, relu, out, means, scales):
    """As `normalize_planes`, of (places, images, channels)."""
    places, images, channels = x.shape
    groups = means.shape[1]
    per, zero, one = channels // groups, np.float32(0.0), np.float32(1.0)
    count, at_once = np.float32(per * places), max(1, RUN // channels)
    source, target = x.reshape(places, -1), out.reshape(places, -1)
    around = other.reshape(places if other.size else 0, -1)
    room = np.empty((3, at_once * channels), np.float32)
    for begin in range(0, images, at_once):
        end = min(images, begin + at_once)
        here, size = slice(begin * channels, end * channels), (end - begin) * channels
        sums, middle, factor = room[0, :size], room[1, :size], room[2, :size]
        sums[:] = zero
        for p in range(places):
            row = source[p, here]
            for k in range(size):
                sums[k] += row[k]
        for n in range(begin, end):
            for g in range(groups):
                lo, total = (n - begin) * channels + g * per, zero
                for c in range(lo, lo + per):
                    total += sums[c]
                means[n, g] = total / count
                for c in range(lo, lo + per):
                    middle[c] = total / count
        sums[:] = zero
        for p in range(places):
            row = source[p, here]
            for k in range(size):
                sums[k] += (row[k] - middle[k]) * (row[k] - middle[k])
        for n in range(begin, end):
            for g in range(groups):
                lo, total = (n - begin) * channels + g * per, zero
                for c in range(lo, lo + per):
                    total += sums[c]
                scale = one / np.sqrt(total / count + eps)
                scales[n, g] = scale
                w, b = weight[g * per : (g + 1) * per], bias[g * per : (g + 1) * per]
                f, m = factor[lo : lo + per], middle[lo : lo + per]
                for c in range(per):
                    f[c] = scale * w[c]
                for c in range(per):
                    m[c] = b[c] - m[c] * f[c]
        for p in range(places):
            row, to = source[p, here], target[p, here]
            if other.size:
                more = around[p, here]
                for k in range(size):
                    to[k] = row[k] * factor[k] + middle[k] + more[k]
            else:
                for k in range(size):
                    to[k] = row[k] * factor[k] + middle[k]
            if relu:
                for k in range(size):
                    to[k] = zero if to[k] <= zero else to[k]


@_jit
def normalize_rows_back(
    g_out, x, y, weight, means, scales, relu, decay, g_mid, g_x, g_weight, g_bias
):
    """As `normalize_planes_back`, of (places, images, channels)."""
    places, images, channels = x.shape
    groups = means.shape[1]
    per, zero = channels // groups, np.float32(0.0)
    count, at_once = np.float32(per * places), max(1, RUN // channels)
    above, shown = g_out.reshape(places, -1), y.reshape(places, -1)
    source, mid = x.reshape(places, -1), g_mid.reshape(places, -1)
    target = g_x.reshape(places, -1)
    room = np.empty((4, at_once * channels), np.float32)
    for c in range(channels):
        g_weight[c] = g_weight[c] * decay if decay != 0 else zero
        g_bias[c] = g_bias[c] * decay if decay != 0 else zero
    for begin in range(0, images, at_once):
        end = min(images, begin + at_once)
        here, size = slice(begin * channels, end * channels), (end - begin) * channels
        s, t, middle, factor = room[0, :size], room[1, :size], room[2, :size], room[3, :size]
        s[:] = zero
        t[:] = zero
        for n in range(begin, end):
            for g in range(groups):
                lo = (n - begin) * channels + g * per
                middle[lo : lo + per] = means[n, g]
        for p in range(places):
            m, row, a = mid[p, here], source[p, here], above[p, here]
            if relu:
                b = shown[p, here]
                for k in range(size):
                    m[k] = zero if b[k] <= zero else a[k]
            else:
                for k in range(size):
                    m[k] = a[k]
            for k in range(size):
                s[k] += m[k]
            for k in range(size):
                t[k] += m[k] * (row[k] - middle[k])
        for n in range(begin, end):
            for g in range(groups):
                lo, scale = (n - begin) * channels + g * per, scales[n, g]
                w, f = weight[g * per : (g + 1) * per], factor[lo : lo + per]
                own_s, own_t = s[lo : lo + per], t[lo : lo + per]
                gw, gb = g_weight[g * per : (g + 1) * per], g_bias[g * per : (g + 1) * per]
                first, second = zero, zero
                for c in range(per):
                    first += w[c] * own_s[c]
                    second += w[c] * own_t[c]
                for c in range(per):
                    gb[c] += own_s[c]
                for c in range(per):
                    gw[c] += own_t[c] * scale
                for c in range(per):
                    f[c] = scale * w[c]
                slope = scale * scale * scale * second / count
                own_s[:] = slope
                own_t[:] = scale * first / count - means[n, g] * slope
        for p in range(places):
            m, row, to = mid[p, here], source[p, here], target[p, here]
            for k in range(size):
                to[k] = factor[k] * m[k] - s[k] * row[k] - t[k]


# --- max-pooling ---------------------------------------------------------------------------------


@_exact
def pool(x, size, stride, padding, out, where):
    """out <- the maximum of each window; where <- its place in the window, of equals the first.

    First down the columns, then along what is left, both in loops without branches.
    """
    planes, height, width = x.shape
    _, high, wide = out.shape
    lowest = np.float32(-np.inf)
    reach = max(padding + width, (wide - 1) * stride + size)
    best, row_of = np.full(reach, lowest), np.full(reach, size, np.int32)
    most, row_at = np.empty(wide, np.float32), np.empty(wide, np.int32)
    column_at = np.empty(wide, np.int32)
    inner, inner_row = best[padding : padding + width], row_of[padding : padding + width]
    for p in range(planes):
        for i in range(high):
            top = i * stride - padding
            first, last = max(0, top), min(height, top + size)
            source = x[p, first]
            for k in range(width):
                inner[k] = source[k]
                inner_row[k] = first - top
            for row in range(first + 1, last):
                source, a = x[p, row], np.int32(row - top)
                for k in range(width):
                    more = (source[k] > inner[k]) | (source[k] != source[k])
                    inner[k] = source[k] if more else inner[k]
                    inner_row[k] = a if more else inner_row[k]
            for j in range(wide):
                most[j] = best[j * stride]
                row_at[j] = row_of[j * stride]
                column_at[j] = 0
            for b in range(1, size):
                if stride == 2:  # as a number, which loops can be unrolled for
                    _along(best[b:], row_of[b:], 2, np.int32(b), most, row_at, column_at)
                else:
                    _along(best[b:], row_of[b:], stride, np.int32(b), most, row_at, column_at)
            for j in range(wide):
                out[p, i, j] = most[j]
                where[p, i, j] = row_at[j] * size + column_at[j]


@_exact_inline
def _along(best, row_of, stride, b, most, row_at, column_at):
    """Take the column b of each window into account."""
    for j in range(most.size):
        v, row = best[j * stride], row_of[j * stride]
        more = (v > most[j]) | (v != v) | ((v == most[j]) & (row < row_at[j]))
        most[j] = v if more else most[j]
        row_at[j] = row if more else row_at[j]
        column_at[j] = b if more else column_at[j]


@_exact
def pool_back(gradient, where, size, stride, padding, adds, out):
    """out <- the gradient, where the maxima were; `adds` it to what is there."""
    planes, high, wide = gradient.shape
    for p in range(planes):
        target = out[p]
        if not adds:
            target[:] = np.float32(0.0)
        for i in range(high):
            for j in range(wide):
                tap = where[p, i, j]
                row = i * stride + tap // size - padding
                target[row, j * stride + tap % size - padding] += gradient[p, i, j]


# --- 3x3 convolutions by Winograd's F(m x m, 3 x 3) ----------------------------------------------
#
# Values are (height, width, block): a block is all images' channels at one place, one run of
# numbers, so that each operation below is one long loop. Blocks are walked in chunks that stay in
# the nearest cache. `tiles` are (n * n, windows, block) with n = m + 2: of each n x n window of the
# padded input, at stride m, its transformed numbers. `first` is where the images that are handled
# now begin in a block of x, y or g: a few at a time, so that products find them in the cache.

CHUNK = 256


@_loops
def _put(factor, a, begun, out):
    """out <- factor * a, or that is added to it, if it has been begun."""
    if begun:
        for k in range(out.size):
            out[k] += factor * a[k]
    else:
        for k in range(out.size):
            out[k] = factor * a[k]


@_loops
def winograd_input(x, first, B, tiles):
    """tiles <- B d B^T of every window d."""
    (height, width, _), block = x.shape, tiles.shape[2]
    n = len(B)
    m = n - 2
    down = np.empty((n, width + 2, CHUNK), np.float32)
    down[:, 0], down[:, width + 1] = np.float32(0.0), np.float32(0.0)
    for start in range(0, block, CHUNK):
        size = min(CHUNK, block - start)
        here, there = slice(start, start + size), slice(first + start, first + start + size)
        for i in range(height // m):
            for c in range(width):
                for u in range(n):
                    begun = False
                    for r in range(n):
                        row = m * i - 1 + r
                        if B[u, r] != 0 and 0 <= row < height:
                            _put(B[u, r], x[row, c, there], begun, down[u, c + 1, :size])
                            begun = True
                    if not begun:
                        down[u, c + 1, :size] = np.float32(0.0)
            for j in range(width // m):
                tile = i * (width // m) + j
                for u in range(n):
                    for v in range(n):
                        begun = False
                        for s in range(n):
                            if B[v, s] != 0:
                                source = down[u, m * j + s, :size]
                                _put(B[v, s], source, begun, tiles[u * n + v, tile, here])
                                begun = True


@_loops
def winograd_input_back(tiles, first, B, adds, x):
    """x <- the sum of B^T t B over all windows; `adds` it to what is there."""
    (height, width, _), block = x.shape, tiles.shape[2]
    n = len(B)
    m = n - 2
    across = np.empty((n, CHUNK), np.float32)
    for start in range(0, block, CHUNK):
        size = min(CHUNK, block - start)
        here, there = slice(start, start + size), slice(first + start, first + start + size)
        if not adds:
            for row in range(height):
                for c in range(width):
                    x[row, c, there] = np.float32(0.0)
        for i in range(height // m):
            for j in range(width // m):
                tile = i * (width // m) + j
                for s in range(n):
                    c = m * j - 1 + s
                    if c < 0 or c >= width:
                        continue
                    for u in range(n):
                        begun = False
                        for v in range(n):
                            if B[v, s] != 0:
                                source = tiles[u * n + v, tile, here]
                                _put(B[v, s], source, begun, across[u, :size])
                                begun = True
                    for r in range(n):
                        row = m * i - 1 + r
                        for u in range(n):
                            if B[u, r] != 0 and 0 <= row < height:
                                _put(B[u, r], across[u, :size], True, x[row, c, there])


@_loops
def winograd_output(tiles, first, A, y):
    """y <- A t A^T of every window."""
    (height, width, _), block = y.shape, tiles.shape[2]
    m, n = A.shape
    down = np.empty((n, CHUNK), np.float32)
    for start in range(0, block, CHUNK):
        size = min(CHUNK, block - start)
        here, there = slice(start, start + size), slice(first + start, first + start + size)
        for i in range(height // m):
            for j in range(width // m):
                tile = i * (width // m) + j
                for a in range(m):
                    for v in range(n):
                        begun = False
                        for u in range(n):
                            if A[a, u] != 0:
                                source = tiles[u * n + v, tile, here]
                                _put(A[a, u], source, begun, down[v, :size])
                                begun = True
                    for b in range(m):
                        begun = False
                        for v in range(n):
                            if A[b, v] != 0:
                                target = y[m * i + a, m * j + b, there]
                                _put(A[b, v], down[v, :size], begun, target)
                                begun = True


@_loops
def winograd_output_back(g, first, A, tiles):
    """tiles <- A^T g A of every window's gradients."""
    (height, width, _), block = g.shape, tiles.shape[2]
    m, n = A.shape
    down = np.empty((m, CHUNK), np.float32)
    for start in range(0, block, CHUNK):
        size = min(CHUNK, block - start)
        here, there = slice(start, start + size), slice(first + start, first + start + size)
        for i in range(height // m):
            for j in range(width // m):
                tile = i * (width // m) + j
                for u in range(n):
                    for b in range(m):
                        begun = False
                        for a in range(m):
                            if A[a, u] != 0:
                                source = g[m * i + a, m * j + b, there]
                                _put(A[a, u], source, begun, down[b, :size])
                                begun = True
                    for v in range(n):
                        begun = False
                        for b in range(m):
                            if A[b, v] != 0:
                                target = tiles[u * n + v, tile, here]
                                _put(A[b, v], down[b, :size], begun, target)
                                begun = True


@_loops
def winograd_kernel(weight, G, tiles):
    """tiles <- G w G^T, for (3, 3, block) and (n * n, block)."""
    block, n = weight.shape[2], len(G)
    down = np.empty((3, CHUNK), np.float32)
    for start in range(0, block, CHUNK):
        size = min(CHUNK, block - start)
        here = slice(start, start + size)
        for u in range(n):
            for b in range(3):
                begun = False
                for a in range(3):
                    if G[u, a] != 0:
                        _put(G[u, a], weight[a, b, here], begun, down[b, :size])
                        begun = True
            for v in range(n):
                begun = False
                for b in range(3):
                    if G[v, b] != 0:
                        _put(G[v, b], down[b, :size], begun, tiles[u * n + v, here])
                        begun = True


@_loops
def winograd_kernel_back(tiles, G, decay, weight):
    """weight <- decay * weight + G^T t G."""
    block, n = weight.shape[2], len(G)
    down = np.empty((n, CHUNK), np.float32)
    for start in range(0, block, CHUNK):
        size = min(CHUNK, block - start)
        here = slice(start, start + size)
        for a in range(3):
            for v in range(n):
                begun = False
                for u in range(n):
                    if G[u, a] != 0:
                        _put(G[u, a], tiles[u * n + v, here], begun, down[v, :size])
                        begun = True
            for b in range(3):
                target = weight[a, b, here]
                begun = decay != 0
                if begun:
                    for k in range(size):
                        target[k] *= decay
                for v in range(n):
                    if G[v, b] != 0:
                        _put(G[v, b], down[v, :size], begun, target)
                        begun = True
