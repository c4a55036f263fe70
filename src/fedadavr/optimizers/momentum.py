"""Momentum (heavy ball), as PyTorch's SGD has it: m = beta1 m + G; u = m."""

import numpy as np
from numba import carray

from fedadavr.kernels import optimizer_function, pointer
from fedadavr.optimizers.optimizer import OPTIMIZERS, Rule

LARGEST = np.float32(1e38)  # gradients end there, and m sums them: it stays finite


@optimizer_function
def move(gradient, m, v, direction, count, hyper):
    """The moment moves by a gradient."""
    g = carray(pointer(gradient), count, np.float32)
    first = carray(pointer(m), count, np.float32)
    b1 = np.float32(carray(pointer(hyper), 6, np.float64)[1])
    for j in range(count):
        first[j] = max(min(b1 * first[j] + g[j], LARGEST), -LARGEST)


@optimizer_function
def direct(gradient, m, v, direction, count, hyper):
    """The direction of the step."""
    first = carray(pointer(m), count, np.float32)
    u = carray(pointer(direction), count, np.float32)
    for j in range(count):
        u[j] = first[j]


OPTIMIZERS.add("momentum", Rule(direct, move, moments="m", lr=1.0, bias="none"))
