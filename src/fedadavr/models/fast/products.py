"""Matrix products where the library leaves half of the processor unused.

PyTorch's products (MKL's) use half of the width that a Zen 5 has, so there they have a kernel here:
five rows by sixty-four columns stay in registers over the sum, and the right factor is laid out for
that once for all products with it. Elsewhere the library's are as fast as the machine.
"""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import torch
from numba import njit
from torch import Tensor

from fedadavr.kernels import call
from fedadavr.models.fast.registers import COLUMNS, ROWS, block1, block2, block4, block5

DEPTH = 128
"""So many rows of the right factor at a time stay in the nearest cache."""

_exact = njit(nogil=True, cache=True, error_model="numpy")


def _narrow() -> bool:
    """Whether the library's products use half of this processor's width."""
    features: dict[str, bool] = llvm.get_host_cpu_features()
    name = str(llvm.get_host_cpu_name())
    return name.startswith("znver") and features.get("avx512f", False)


OWN = _narrow()


@_exact
def pack(b, out):
    """out, of (columns' panels, rows, columns of a panel) <- b, zeros beyond it."""
    rows, columns = b.shape
    for p in range(len(out)):
        first = p * COLUMNS
        wide = min(COLUMNS, columns - first)
        for i in range(rows):
            for j in range(wide):
                out[p, i, j] = b[i, first + j]
            for j in range(wide, COLUMNS):
                out[p, i, j] = np.float32(0.0)


@_exact
def multiply(a, by_row, by_column, rows, packed, out, beta, aside):
    """out <- beta out + a b; `a` is an address, with the bytes from row to row and along a row.

    Where `beta` is zero, what was in `out` does not count, NaN included.
    """
    panels, depth, _ = packed.shape
    columns, room, one = out.shape[1], aside.ctypes.data, np.float32(1.0)
    for p in range(panels):
        wide = min(COLUMNS, columns - p * COLUMNS)
        for k in range(0, depth, DEPTH):
            count, factor = min(DEPTH, depth - k), one if k else beta
            b, from_a = packed[p, k:].ctypes.data, a + k * by_column
            i = 0
            while i < rows:
                left = rows - i
                high = ROWS if left >= ROWS else 4 if left >= 4 else 2 if left >= 2 else 1
                at = from_a + i * by_row
                if wide == COLUMNS:
                    c, pitch, own = out[i:, p * COLUMNS :].ctypes.data, 4 * columns, factor
                else:
                    c, pitch, own = room, 4 * COLUMNS, np.float32(0.0)
                if high == ROWS:
                    block5(at, by_row, by_column, b, count, c, pitch, own)
                elif high == 4:
                    block4(at, by_row, by_column, b, count, c, pitch, own)
                elif high == 2:
                    block2(at, by_row, by_column, b, count, c, pitch, own)
                else:
                    block1(at, by_row, by_column, b, count, c, pitch, own)
                if wide < COLUMNS:
                    for r in range(high):
                        target = out[i + r, p * COLUMNS :]
                        for j in range(wide):
                            before = factor * target[j] if factor != 0 else np.float32(0.0)
                            target[j] = before + aside[r, j]
                i += high


class Right:
    """A right factor of products: the kernel's if `own`, the library's otherwise."""

    def __init__(self, rows: int, columns: int, own: bool | None = None) -> None:
        self._own = OWN if own is None else own
        if self._own:
            panels = -(-columns // COLUMNS)
            self._packed = torch.empty(panels, rows, COLUMNS).numpy()
            self._aside = torch.empty(ROWS, COLUMNS).numpy()
        else:
            self._matrix = torch.empty(rows, columns)

    def take(self, b: Tensor) -> None:
        """This is the factor from now on."""
        if self._own:
            call(pack, b.numpy(), self._packed)
        else:
            self._matrix.copy_(b)

    def multiply(self, a: Tensor, out: Tensor, beta: float = 0.0) -> None:
        """out <- beta out + a b; the rows of `out` have no gaps."""
        if self._own:
            by_row, by_column = a.stride()
            call(
                multiply, a.data_ptr(), 4 * by_row, 4 * by_column, len(a), self._packed,
                out.numpy(), np.float32(beta), self._aside,
            )  # fmt: skip
        elif beta:
            out.addmm_(a, self._matrix, beta=beta)
        else:
            torch.mm(a, self._matrix, out=out)
