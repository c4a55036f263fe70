"""SGD: u = G."""

import numpy as np
from numba import carray

from fedadavr.kernels import optimizer_function, pointer
from fedadavr.optimizers.optimizer import OPTIMIZERS, Rule


@optimizer_function
def direct(gradient, m, v, direction, count, hyper):
    """The direction of the step."""
    g = carray(pointer(gradient), count, np.float32)
    u = carray(pointer(direction), count, np.float32)
    for j in range(count):
        u[j] = g[j]


OPTIMIZERS.add("sgd", Rule(direct, lr=1.0))
