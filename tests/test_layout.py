"""A layout: what it promises, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout


def test_flatten_and_split_are_inverse() -> None:
    """Names, shapes and order survive, and `split` gives views."""
    arrays = {"w": np.arange(6.0).reshape(2, 3), "b": np.array(7.0), "c": np.ones(2)}
    layout = Layout.of(arrays)
    vector = layout.flatten(arrays)
    assert vector.dtype == np.float32
    for name, view in layout.split(vector).items():
        np.testing.assert_array_equal(view, arrays[name])
        assert view.base is not None
    assert layout == Layout({"w": (2, 3), "b": (), "c": (2,)})
    assert layout != Layout({"w": (3, 2), "b": (), "c": (2,)})
    assert layout != Layout({"b": (), "w": (2, 3), "c": (2,)})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, "at least one tensor"),
        ({"x": (2, 0)}, r"tensor 'x' has shape \(2, 0\): every side must be at least 1"),
        ({1: (2,)}, "name must be a string, got 1"),
    ],
)
def test_bad_shapes_are_refused(shapes: Any, message: str) -> None:
    """One sentence that names the tensor."""
    with pytest.raises((ValueError, TypeError), match=message):
        Layout(shapes)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": np.zeros(2)}, r"missing \['b'\], not in it \[\]"),
        ({"a": np.zeros(2), "b": np.zeros(3), "c": 1}, r"missing \[\], not in it \['c'\]"),
        ({"b": np.zeros(3), "a": np.zeros(2)}, "do not come in the order of the layout"),
        ({"a": np.zeros(2), "b": np.zeros(4)}, r"'b' has shape \(4,\), the layout \(3,\)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays: Any, message: str) -> None:
    """Missing, superfluous, out of order, of another shape."""
    with pytest.raises(ValueError, match=message):
        Layout({"a": (2,), "b": (3,)}).flatten(arrays)


def test_blocks_tile_every_tensor() -> None:
    """No coordinate is left out or taken twice, and no block crosses a tensor's border."""
    layout = Layout({"a": (5000,), "b": (1,), "c": (2048,), "d": (4097,)})
    blocks = layout.blocks
    covered = np.concatenate(
        [np.arange(a, b) for a, b in zip(blocks.start, blocks.stop, strict=True)]
    )
    np.testing.assert_array_equal(covered, np.arange(layout.size))
    for start, stop, tensor in zip(blocks.start, blocks.stop, blocks.tensor, strict=True):
        assert layout.offsets[tensor] <= start < stop <= layout.offsets[tensor + 1]


def test_the_core_needs_neither_torch_nor_flower() -> None:
    """A server without PyTorch can import all it needs; Flower is not needed either."""
    program = (
        "import sys\n"
        "for name in ('torch', 'flwr', 'rich', 'tyro', 'safetensors'): sys.modules[name] = None\n"
        "import fedadavr.algorithms, fedadavr.memory, fedadavr.optimizers\n"
        "print(len(fedadavr.algorithms.algorithm_names()))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert int(result.stdout) >= 14
