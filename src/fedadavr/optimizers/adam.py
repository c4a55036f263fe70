"""Adam (Kingma and Ba 2015): m and v decay; u = m^ / (sqrt(v^) + eps), bias corrected.

LAMB (You et al. 2020) steps along the same direction, each tensor by its own trust ratio. FedAdam
is Adam as Flower has it: both corrections in the rate, with the exponent round + 1 where Kingma and
Ba have round; eps is what it calls tau.
"""

import numpy as np
from numba import carray

from fedadavr.kernels import optimizer_function, pointer
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
        first[j] = b1 * first[j] + c1 * g[j]
        second[j] = b2 * second[j] + c2 * (g[j] * g[j])


@optimizer_function
def direct(gradient, m, v, direction, count, hyper):
    """The direction of the step."""
    first = carray(pointer(m), count, np.float32)
    second = carray(pointer(v), count, np.float32)
    u = carray(pointer(direction), count, np.float32)
    number = carray(pointer(hyper), 6, np.float64)
    eps, f, s = np.float32(number[3]), np.float32(number[4]), np.float32(number[5])
    for j in range(count):
        u[j] = (first[j] * f) / (np.sqrt(second[j] * s) + eps)


OPTIMIZERS.add("adam", Rule(direct, move, moments="mv"))
OPTIMIZERS.add("lamb", Rule(direct, move, moments="mv", trust=True))
OPTIMIZERS.add(
    "fedadam", Rule(direct, move, moments="mv", lr=0.1, beta2=0.99, eps=1e-3, bias="rate")
)
