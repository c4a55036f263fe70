"""Adagrad (Duchi et al. 2011): v = v + G^2; u = G / (sqrt(v) + eps).

FedAdagrad is the same, as Flower has it: eps is what it calls tau.
"""

import numpy as np
from numba import carray

from fedadavr.kernels import optimizer_function, pointer
from fedadavr.optimizers.optimizer import OPTIMIZERS, Rule

LARGEST = np.float32(1e38)  # v only grows: it stays finite


@optimizer_function
def move(gradient, m, v, direction, count, hyper):
    """The moments move by a gradient."""
    g = carray(pointer(gradient), count, np.float32)
    second = carray(pointer(v), count, np.float32)
    for j in range(count):
        second[j] = min(second[j] + g[j] * g[j], LARGEST)


@optimizer_function
def direct(gradient, m, v, direction, count, hyper):
    """The direction of the step."""
    g = carray(pointer(gradient), count, np.float32)
    second = carray(pointer(v), count, np.float32)
    u = carray(pointer(direction), count, np.float32)
    eps = np.float32(carray(pointer(hyper), 6, np.float64)[3])
    for j in range(count):
        u[j] = g[j] / (np.sqrt(second[j]) + eps)


OPTIMIZERS.add("adagrad", Rule(direct, move, moments="v"))
OPTIMIZERS.add("fedadagrad", Rule(direct, move, moments="v", lr=0.1, eps=1e-3))
