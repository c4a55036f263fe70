"""Codecs and optimizers as functions on one block, compiled apart from the passes that call them.

A pass gets the address of the machine code and calls it once for each block. So codecs and
optimizers are not compiled in every pair, a new one leaves the passes' cache as it is, and numba's
cache of a function looks at the one file that the function stands in: edit it and it is compiled
again. (A pass that took jitted functions as arguments would never hit the cache.) So a block
function calls nothing that is jitted in another file, except `pointer` and what `rows.py` writes,
whose files the cache looks at, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from fedadavr.kernels import intrinsics, rows
from fedadavr.kernels.compiling import callback
from fedadavr.kernels.running import with_notice

CODEC = "void(int64, int64, int64, float32, int64, int64)"
OPTIMIZER = "void(int64, int64, int64, int64, int64, int64)"


class BlockFunction:
    """A function on one block; compiled, or loaded from numba's cache, when it is first used."""

    def __init__(self, function: Callable[..., None], signature: str) -> None:
        self._function, self._signature = function, signature

    @cached_property
    def _compiled(self) -> Any:
        name = f"{self._function.__module__.rsplit('.', 1)[-1]}.{self._function.__name__}"
        return with_notice(
            name, callback, self._function, self._signature, intrinsics, rows
        )  # fmt: skip

    def __deepcopy__(self, _: Any) -> BlockFunction:
        return self  # it has no state

    @property
    def address(self) -> int:
        """Where its machine code lies."""
        return int(self._compiled.address)

    @property
    def cache_hits(self) -> int:
        """How often it came from the cache instead of being compiled."""
        return int(self._compiled.cache_hits)


def codec_function(function: Callable[..., None]) -> BlockFunction:
    """Decorator of a codec's `encode(data, first, count, scale, values, scratch)` and `decode`.

    All but `scale` are integers. `data` is the address of a tensor's bytes, `values` of `count`
    float32: the coordinates of that tensor from `first` on (a multiple of 2048). There is room for
    2048 of them in any case, so that a codec may round `count` up. `decode` writes the values;
    `encode` reads them and leaves what they read as. `scratch` is the address of 32768 bytes to
    use. One that is a codec's `stochastic` finds a number from -1/2 to 1/2 for each value there,
    as float32, `NOISE` bytes on.
    """
    return BlockFunction(function, CODEC)


def optimizer_function(function: Callable[..., None]) -> BlockFunction:
    """Decorator of an optimizer's `move(gradient, m, v, direction, count, hyper)` and `direct`.

    All are integers: addresses of `count` float32 each, and of the float64 numbers of `Hyper`.
    `move` reads the gradient and moves the moments m and v; `direct` writes the direction.
    """
    return BlockFunction(function, OPTIMIZER)
