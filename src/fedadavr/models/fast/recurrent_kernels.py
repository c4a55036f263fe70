"""A GRU's loops, compiled: one time step each way, and all of them with the products between."""

from __future__ import annotations

import numpy as np

from fedadavr.kernels.compiling import jit
from fedadavr.models.fast import products, registers
from fedadavr.models.fast.products import multiply, pack

_loops = jit(products, registers, fastmath={"contract"})
_inline = jit(fastmath={"contract"}, inline="always")


@_inline
def _tanh(x):
    """A rational function that differs from tanh by 3e-7 at most."""
    most = np.float32(7.90531110763549805)
    x = most if x > most else x
    x = -most if x < -most else x
    s = x * x
    p = np.float32(-2.76076847742355e-16) * s + np.float32(2.00018790482477e-13)
    p = p * s + np.float32(-8.60467152213735e-11)
    p = p * s + np.float32(5.12229709037114e-08)
    p = p * s + np.float32(1.48572235717979e-05)
    p = p * s + np.float32(6.37261928875436e-04)
    p = p * s + np.float32(4.89352455891786e-03)
    q = np.float32(1.19825839466702e-06) * s + np.float32(1.18534705686654e-04)
    q = q * s + np.float32(2.26843463243900e-03)
    q = q * s + np.float32(4.89352518554385e-03)
    return x * p / q


@_loops
def gru_step(letters, table, bias, before, gates, new, after):
    """One time step; gates come with W h and leave with r, z and W_n h + bias."""
    batch, width = before.shape
    half = np.float32(0.5)
    for i in range(batch):
        given, gate = table[letters[i]], gates[i]
        first, last = given[: 2 * width], gate[: 2 * width]
        for j in range(2 * width):
            last[j] = half + half * _tanh(half * (first[j] + last[j]))
        r, z, q = gate[:width], gate[width : 2 * width], gate[2 * width :]
        third, n = given[2 * width :], new[i]
        for j in range(width):
            q[j] += bias[j]
        for j in range(width):
            n[j] = _tanh(third[j] + r[j] * q[j])
        h, out = before[i], after[i]
        for j in range(width):
            out[j] = n[j] + z[j] * (h[j] - n[j])


@_loops
def gru_step_back(letters, gradient, before, gates, new, g_table, g_bias):
    """One time step; gates come with r, z, q and leave with the gradients of what W h was in.

    The gradient comes with that of the state, and leaves with what goes straight to the one before.
    """
    batch, width = before.shape
    one = np.float32(1.0)
    room = np.empty(width, np.float32)
    for i in range(batch):
        g, h, n, gate = gradient[i], before[i], new[i], gates[i]
        r, z, q = gate[:width], gate[width : 2 * width], gate[2 * width :]
        g_given = g_table[letters[i]]
        third, first, both = g_given[2 * width :], g_given[: 2 * width], gate[: 2 * width]
        for j in range(width):
            room[j] = g[j] * (one - z[j]) * (one - n[j] * n[j])
        for j in range(width):
            direct = g[j] * z[j]
            z[j] = direct * (h[j] - n[j]) * (one - z[j])
            g[j] = direct
        for j in range(width):
            third[j] += room[j]
        for j in range(width):
            a = room[j] * r[j]
            r[j] = a * (one - r[j]) * q[j]
            q[j] = a
        for j in range(width):
            g_bias[j] += q[j]
        for j in range(2 * width):
            first[j] += both[j]


@_loops
def gru(letters, table, bias, states, gates, new, across, aside):
    """All time steps, by products of our own; `across` is W_h, transposed and packed.

    Where there is room for fewer time steps than are taken, the last ones stay.
    """
    _, batch, width = states.shape
    for t in range(len(letters)):
        before, after = states[t % len(states)], states[(t + 1) % len(states)]
        gate = gates[t % len(gates)]
        multiply(
            before.ctypes.data, 4 * width, 4, batch, across, gate.ctypes.data, 3 * width,
            np.float32(0.0), aside,
        )  # fmt: skip
        gru_step(letters[t], table, bias, before, gate, new[t % len(new)], after)


@_loops
def gru_back(
    letters, gradient, states, gates, new, state, at_once, seen, beta, g_state, g_table, g_bias,
    aside,
):  # fmt: skip
    """All time steps backward; `state` is W_h, packed, and its gradient is added to beta times it.

    `seen` is room for the states of `at_once` time steps, packed.
    """
    _, batch, width = states.shape
    for t in range(len(letters) - 1, -1, -1):
        gate = gates[t]
        gru_step_back(letters[t], gradient, states[t], gate, new[t], g_table, g_bias)
        if t:
            multiply(
                gate.ctypes.data, 12 * width, 4, batch, state, gradient.ctypes.data, width,
                np.float32(1.0), aside,
            )  # fmt: skip
        if t % at_once == 0:
            rows = (min(t + at_once, len(letters)) - t) * batch
            own = seen[:, :rows]
            pack(states[t].ctypes.data, 4 * width, 4, width, own)
            multiply(
                gate.ctypes.data, 4, 12 * width, 3 * width, own, g_state.ctypes.data, width, beta,
                aside,
            )  # fmt: skip
            beta = np.float32(1.0)
