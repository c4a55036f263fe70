"""Yogi (Zaheer et al. 2018): Adam whose v moves by (1 - beta2) G^2, towards G^2.

FedYogi is Yogi as Flower has it: without bias correction; eps is what it calls tau.
"""

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
    c2 = np.float32(1.0 - number[2])
    for j in range(count):
        square = g[j] * g[j]
        first[j] = b1 * first[j] + c1 * g[j]
        second[j] -= c2 * square * np.sign(second[j] - square)


OPTIMIZERS.add("yogi", Rule(direct, move, moments="mv"))
OPTIMIZERS.add("fedyogi", Rule(direct, move, moments="mv", beta2=0.99, eps=1e-3, bias="none"))
