"""A histogram that fades, for the running scales of what replies are like."""

from __future__ import annotations

import math

from fedadavr.kernels.compiling import jit


@jit()
def tally(values, fade, bins, told):
    """A histogram of logarithms, two bins per octave, fades and takes the values above zero.

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
