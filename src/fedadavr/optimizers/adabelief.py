"""AdaBelief (Zhuang et al. 2020): Adam whose v is the variance of G around m."""

import numpy as np
from numba import carray

from fedadavr.kernels import optimizer_function, pointer
from fedadavr.optimizers.adam import direct
from fedadavr.optimizers.optimizer import OPTIMIZERS, Rule


@optimizer_function
def move(gradient, m, v, direction, count, hyper):
    """The moments move by a gradient."""
    g = carray(pointer(gradient), count, np.float32)
    first = carray(pointer(m), count, np.float32)
    second = carray(pointer(v), count, np.float32)
    number = carray(pointer(hyper), 6, np.float64)
    b1, c1 = np.float32(number[1]), np.float32(1.0 - number[1])
    b2, c2 = np.float32(number[2]), np.float32(1.0 - number[2])
    for j in range(count):
        x = b1 * first[j] + c1 * g[j]
        first[j] = x
        second[j] = b2 * second[j] + c2 * ((g[j] - x) * (g[j] - x))


OPTIMIZERS.add("adabelief", Rule(direct, move, moments="mv"))
