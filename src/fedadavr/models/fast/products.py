"""Matrix products where the library leaves half of the processor unused.

PyTorch's products (MKL's) use half of the width that a Zen 5 has, so there they have a kernel here:
a few rows by sixty-four columns stay in registers over the sum, and the right factor is laid out
for that, panel by panel. Elsewhere the library's are as fast as the machine.
"""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import torch
from numba import config
from torch import Tensor

from fedadavr.kernels import call
from fedadavr.kernels.compiling import jit
from fedadavr.models.fast import registers
from fedadavr.models.fast.registers import COLUMNS, ROWS, block1, block2, block4, block5

DEPTH = 128
"""So many rows of a panel at a time stay in the nearest cache."""
_PITCH = 4 * COLUMNS

_exact = jit(registers)


def _narrow() -> bool:
    """Whether the library's products use half of this processor's width, and ours may use all."""
    if config.DISABLE_JIT or config.CPU_NAME or config.CPU_FEATURES is not None:
        return False
    try:
        features: dict[str, bool] = llvm.get_host_cpu_features()
    except RuntimeError:  # there are processors that LLVM cannot tell them of
        return False
    return str(llvm.get_host_cpu_name()).startswith("znver") and features.get("avx512f", False)


OWN = _narrow()

# Below, a matrix is an address, with the bytes from row to row and from column to column.


@_exact
def _pack(b, by_row, by_column, rows, wide, panel):
    """panel, rows of `COLUMNS`, <- the first columns of b, zeros beyond them."""
    if wide < COLUMNS:
        registers.clear(panel, rows * _PITCH)
    if by_column == 4:
        for i in range(rows):
            registers.copy(panel + i * _PITCH, b + i * by_row, 4 * wide)
        return
    high, broad = (rows // 16 * 16, wide // 16 * 16) if by_row == 4 else (0, 0)
    for i in range(0, high, 16):
        for j in range(0, broad, 16):
            registers.transpose(
                b + i * by_row + j * by_column, by_column, panel + i * _PITCH + 4 * j
            )
    for i in range(rows):
        for j in range(broad if i < high else 0, wide):
            registers.move(b + i * by_row + j * by_column, panel + i * _PITCH + 4 * j)


@_exact
def _multiply(a, by_row, by_column, rows, panel, depth, out, pitch, wide, beta, aside):
    """The first columns of out <- beta out + a times a panel; where beta is 0, NaN is not seen."""
    zero, one = np.float32(0.0), np.float32(1.0)
    for k in range(0, depth, DEPTH):
        count, factor = min(DEPTH, depth - k), one if k else beta
        b, from_a = panel + k * _PITCH, a + k * by_column
        i = 0
        while i < rows:
            left, at = rows - i, from_a + i * by_row
            high = ROWS if left >= ROWS else 4 if left >= 4 else 2 if left >= 2 else 1
            c, by, own = out + i * pitch, pitch, factor
            if wide < COLUMNS:
                c, by, own = aside.ctypes.data, _PITCH, zero
            if high == ROWS:
                block5(at, by_row, by_column, b, count, c, by, own)
            elif high == 4:
                block4(at, by_row, by_column, b, count, c, by, own)
            elif high == 2:
                block2(at, by_row, by_column, b, count, c, by, own)
            else:
                block1(at, by_row, by_column, b, count, c, by, own)
            if wide < COLUMNS:
                for r in range(high):
                    for j in range(wide):
                        registers.add(out + (i + r) * pitch + 4 * j, factor, aside[r, j])
            i += high


@_exact
def pack(b, by_row, by_column, columns, packed):
    """packed, of (panels, rows, columns of a panel), <- b."""
    for p in range(len(packed)):
        first = p * COLUMNS
        wide = min(COLUMNS, columns - first)
        _pack(
            b + first * by_column, by_row, by_column, packed.shape[1], wide, packed[p].ctypes.data
        )


@_exact
def multiply(a, by_row, by_column, rows, packed, out, columns, beta, aside):
    """out <- beta out + a b; the rows of out have no gaps."""
    for p in range(len(packed)):
        first = p * COLUMNS
        wide, depth = min(COLUMNS, columns - first), packed.shape[1]
        _multiply(
            a, by_row, by_column, rows, packed[p].ctypes.data, depth, out + 4 * first, 4 * columns,
            wide, beta, aside,
        )  # fmt: skip


@_exact
def products(
    a, by_a, by_row, by_column, b, by_b, b_by_row, b_by_column, out, by_out, many, rows, depth,
    columns, beta, panel, aside,
):  # fmt: skip
    """out <- beta out + a b for so many matrices; the rows of out have no gaps."""
    here = panel.ctypes.data
    for s in range(many):
        for first in range(0, columns, COLUMNS):
            wide = min(COLUMNS, columns - first)
            _pack(b + s * by_b + first * b_by_column, b_by_row, b_by_column, depth, wide, here)
            _multiply(
                a + s * by_a, by_row, by_column, rows, here, depth, out + s * by_out + 4 * first,
                4 * columns, wide, beta, aside,
            )  # fmt: skip


def aside() -> np.ndarray:
    """Room for what `multiply` computes beyond the last column."""
    return torch.empty(ROWS, COLUMNS).numpy()


class Packed:
    """Room for a right factor, laid out for `multiply` once for several products."""

    def __init__(self, rows: int, columns: int) -> None:
        self._columns = columns
        self.panels = torch.empty(-(-columns // COLUMNS), rows, COLUMNS).numpy()

    def take(self, b: Tensor) -> None:
        """This is the factor from now on."""
        by_row, by_column = b.stride()
        call(pack, b.data_ptr(), 4 * by_row, 4 * by_column, self._columns, self.panels)


class Product:
    """The product of two matrices, or of many pairs, that stay where they are."""

    def __init__(self, a: Tensor, b: Tensor, out: Tensor, own: bool = OWN) -> None:
        assert out.is_contiguous()
        self._own, self._tensors = own, (a, b, out)
        if own:
            (many, rows, depth), columns = a.shape if a.ndim == 3 else (1, *a.shape), b.shape[-1]
            steps = [[4 * k for k in (0, *t.stride())[-3:]] for t in (a, b, out)]
            self._panel, self._aside = torch.empty(depth, COLUMNS).numpy(), aside()
            self._arguments = (
                a.data_ptr(), *steps[0], b.data_ptr(), *steps[1], out.data_ptr(), steps[2][0], many,
                rows, depth, columns,
            )  # fmt: skip

    def __call__(self, beta: float = 0.0) -> None:
        """out <- beta out + a b."""
        if self._own:
            call(products, *self._arguments, np.float32(beta), self._panel, self._aside)
            return
        a, b, out = self._tensors
        if not beta:
            torch.matmul(a, b, out=out)
        elif a.ndim == 3:
            out.baddbmm_(a, b, beta=beta)
        else:
            out.addmm_(a, b, beta=beta)
