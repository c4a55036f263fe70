"""The codecs are the paper's Quant and Dequant, to the bit."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedadavr import Layout, kernels
from fedadavr.codecs import CODECS
from fedadavr.codecs.rot import LEVELS, SIGNS
from tests import reference

SHAPES: dict[str, tuple[int, ...]] = {"odd": (7,), "even": (4, 4), "one": (), "big": (4099,)}
LAYOUT = Layout(SHAPES)


@pytest.mark.parametrize("name", CODECS)
@settings(max_examples=60, deadline=None)
@given(
    x=hnp.arrays(
        np.float32,
        LAYOUT.size,
        elements=st.floats(-1e6, 1e6, width=32),
        fill=st.floats(-1, 1, width=32),
    )
)
def test_roundtrip_is_the_papers(name: str, x: Any) -> None:
    """Bit for bit, ties to even, saturating."""
    codec = CODECS[name]
    read = codec.decode(LAYOUT, codec.encode(LAYOUT, x))
    np.testing.assert_array_equal(read, reference.roundtrip(name, SHAPES, x))


@pytest.mark.parametrize(("name", "size"), [("fp32", 4), ("fp16", 2), ("int8", 1)])
def test_sizes_are_exact(name: str, size: int) -> None:
    """4d, 2d and d bytes, and one float a tensor for the integer codecs."""
    scales = 4 * len(SHAPES) if name == "int8" else 0
    assert CODECS[name].nbytes(LAYOUT) == size * LAYOUT.size + scales


def test_int4_packs_two_values_a_byte() -> None:
    """The high nibble first, shifted by 8; odd tensors are padded with the nibble 8."""
    codec = CODECS["int4"]
    sizes = [int(np.prod(shape)) for shape in SHAPES.values()]
    assert codec.nbytes(LAYOUT) == sum((n + 1) // 2 for n in sizes) + 4 * len(SHAPES)
    layout = Layout({"x": (3,), "y": (1,)})
    data = codec.encode(layout, np.array([7.0, -7.0, 2.0, -3.0], np.float32))
    assert data[:8].view(np.float32).tolist() == pytest.approx([1.0, 3 / 7])
    assert data[8:].tolist() == [15 << 4 | 1, 10 << 4 | 8, 1 << 4 | 8]


@pytest.mark.parametrize(("name", "group"), [("int8-block", 66), ("int4-block", 34), ("nf4", 34)])
def test_a_scale_for_every_64_values(name: str, group: int) -> None:
    """Whole groups of 64: two bytes of scale and the values; a block's scales come first."""
    codec = CODECS[name]
    assert codec.nbytes(Layout({"x": (1,), "y": (64,), "z": (65,)})) == 4 * group
    layout = Layout({"x": (65,)})
    x = np.zeros(65, np.float32)
    x[3], x[64] = -7.0, 127.0
    data = codec.encode(layout, x)
    upper = reference.bfloat16_up(np.array([7.0, 127.0]) / np.float32(reference.GROUPED[name]))
    assert (data[:4].view(np.uint16) == upper.view(np.uint32) >> 16).all()
    if name == "int8-block":
        assert data[4:].view(np.int8)[[3, 64, 65]].tolist() == [-127, round(127 / upper[1]), 0]
    else:
        zero, low, high = (8, 1, 15) if name == "int4-block" else (7, 0, 15)
        assert data[4:6].tolist() == [zero << 4 | zero, zero << 4 | low]
        assert data[36:].tolist() == [high << 4 | zero, *[zero << 4 | zero] * 31]


@pytest.mark.parametrize(("name", "times"), [("int8-block", 5), ("int4-block", 5), ("nf4", 5)])
def test_one_large_value_costs_only_its_64(name: str, times: float) -> None:
    """With heavy tails, a scale for every 64 values errs far less than one for all."""
    layout = Layout({"x": (64_000,)})
    x = np.random.default_rng(1).standard_t(2, layout.size).astype(np.float32)
    plain = CODECS["int8" if name == "int8-block" else "int4"]
    error, before = (
        float(np.square(c.decode(layout, c.encode(layout, x)) - x).sum())
        for c in (CODECS[name], plain)
    )
    assert error * times < before


@pytest.mark.parametrize("bits", [4, 3, 2, 1])
def test_rotated_levels_are_those_of_lloyd_and_max(bits: int) -> None:
    """Each level is the mean of a normal distribution between the bounds half-way to the others."""
    levels = np.array(LEVELS[bits])
    bounds = np.array([0.0, *(levels[1:] + levels[:-1]) / 2, 12.0])
    for level, low, high in zip(levels, bounds, bounds[1:], strict=False):
        x = np.linspace(low, high, 200_001)
        density = np.exp(-x * x / 2)
        assert level == pytest.approx((x * density).sum() / density.sum(), abs=1e-4)


@pytest.mark.parametrize(
    ("name", "error"), [("rot4", 0.0095), ("rot3", 0.0345), ("rot2", 0.1175), ("rot1", 0.3634)]
)
@pytest.mark.parametrize("tails", ["normal", "heavy", "sparse", "one"])
def test_rotated_codecs_err_as_on_a_gaussian(name: str, error: float, tails: str) -> None:
    """Whatever the values are, the relative squared error is what theory says of a Gaussian."""
    layout = Layout({"x": (64_000,)})
    rng = np.random.default_rng(2)
    x: Any = rng.normal(size=layout.size) if tails != "heavy" else rng.standard_t(2, layout.size)
    if tails == "sparse":
        x[rng.random(layout.size) < 0.9] = 0
    if tails == "one":
        x[:] = 0
        x[31_000] = 1
    x = x.astype(np.float32)
    read = CODECS[name].decode(layout, CODECS[name].encode(layout, x)).astype(np.float64)
    off = np.square(read - x).sum() / np.square(x.astype(np.float64)).sum()
    assert off < (1.05 * error if tails != "one" else 1e-4)  # one value: its column is of one size
    assert abs((read * (x - read)).sum()) < 0.01 * (x * x).sum()  # least squares
    if tails == "heavy" and name == "rot4":
        plain = CODECS["int4"].decode(layout, CODECS["int4"].encode(layout, x))
        assert np.square(plain - x).sum() > 20 * np.square(read - x).sum()


@pytest.mark.parametrize("bits", [4, 3, 2, 1])
def test_rotated_bytes(bits: int) -> None:
    """Eight scales of two bytes per block of 2048; whole rows of eight, a byte for each bit."""
    codec = CODECS[f"rot{bits}"]
    assert codec.nbytes(Layout({"x": (1,), "y": (2048,), "z": (2049,)})) == 4 * 16 + (
        bits * (64 + 2048 + 2048 + 64) // 8
    )
    data = codec.encode(Layout({"x": (64,)}), np.array([1.0, *[0.0] * 63], np.float32))
    column = reference.hadamard(np.eye(8, dtype=np.float32)) * (-1) ** int(SIGNS[0] & 1)
    assert (data[2:16] == 0).all()  # only the first column is not zero
    signs = data[16::bits] & 1
    assert signs.tolist() == [int(x < 0) for x in column[:, 0]]


def test_bytes_are_the_same_on_a_plainer_processor() -> None:
    """A memory may be resumed where x86's look-up in a register is missing: the same bytes."""
    program = (
        "import hashlib, numpy as np; from fedadavr import Layout; "
        "from fedadavr.codecs import CODECS\n"
        "layout, told = Layout({'x': (5000,)}), hashlib.sha256()\n"
        "x = np.random.default_rng(3).standard_t(3, 5000).astype(np.float32)\n"
        "for name in ('rot4', 'rot3', 'nf4'):\n"
        "    data = CODECS[name].encode(layout, x); told.update(data)\n"
        "    told.update(CODECS[name].decode(layout, data))\n"
        "print(told.hexdigest())"
    )
    plainer = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    told = {
        subprocess.run(
            [sys.executable, "-c", program], env=os.environ | extra, check=True,
            capture_output=True, text=True,
        ).stdout
        for extra in ({}, plainer)
    }  # fmt: skip
    assert len(told) == 1
    assert len(told.pop()) == 65


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("size", [1e-44, 1e-40, 1e38])
def test_any_magnitude_is_stored(name: str, size: float) -> None:
    """From the smallest float32 to the largest that is stored, nothing becomes NaN or infinite."""
    layout = Layout({"x": (70,), "y": (3,)})
    x = np.float32(size) * np.linspace(-1, 1, layout.size, dtype=np.float32)
    read = CODECS[name].decode(layout, CODECS[name].encode(layout, x))
    assert np.isfinite(read).all()
    if CODECS[name].largest > size:
        assert np.abs(read).max() <= 2 * np.abs(x).max()


@pytest.mark.parametrize("name", CODECS)
def test_zeros_stay_zero(name: str) -> None:
    """A tensor of zeros has scale 1 and reads as zeros."""
    data = CODECS[name].encode(LAYOUT, LAYOUT.zeros())
    assert not CODECS[name].decode(LAYOUT, data).any()
    if CODECS[name].levels:
        assert (data[: 4 * len(SHAPES)].view(np.float32) == 1.0).all()


def test_fp16_saturates_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A value outside its range is stored as the largest, never as infinity, and it is said."""
    layout = Layout({"x": (3,)})
    with caplog.at_level(logging.WARNING):
        data = CODECS["fp16"].encode(layout, np.array([1e9, -1e9, 65519.0], np.float32))
    assert CODECS["fp16"].decode(layout, data).tolist() == [65504.0, -65504.0, 65504.0]
    assert "outside fp16's range" in caplog.text


def test_what_is_not_finite_is_not_encoded() -> None:
    """NaN has no place in a memory."""
    with pytest.raises(ValueError, match="NaN or infinity cannot be encoded"):
        CODECS["int8"].encode(Layout({"x": (2,)}), np.array([1, np.nan], np.float32))


@pytest.mark.parametrize("name", CODECS)
def test_bits_do_not_depend_on_threads(name: str) -> None:
    """Promise 5, for the codecs: any number of threads writes the same bytes."""
    layout = Layout({"x": (700_001,)})
    x = np.random.default_rng(0).normal(size=layout.size).astype(np.float32)
    threads = kernels.threads()
    try:
        coded = []
        for number in (1, 2, 8):
            kernels.set_threads(number)
            coded.append(CODECS[name].encode(layout, x))
    finally:
        kernels.set_threads(threads)
    assert all((data == coded[0]).all() for data in coded)
