"""What the documents show runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

import fedadavr
from fedadavr import Layout, Update, algorithm
from fedadavr.algorithms.registry import ALGORITHMS

ROOT = Path(__file__).parent.parent
CORE = ["vector", "optimizers", "memory", "algorithms", "naming", "settings", "plugins"]


def test_the_example_of_contributing_is_an_algorithm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file shown registers, builds, and at trust 1 is FedVARP."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert code
    (tmp_path / "contributed.py").write_text(code.group(1))
    monkeypatch.syspath_prepend(tmp_path)
    with ALGORITHMS.unchanged():
        importlib.import_module("contributed")
        layout = Layout({"x": (5,)})
        mine = algorithm("mine", layout, trust=1.0, population=4)
        theirs = algorithm("fedvarp", layout, population=4)
        w = layout.zeros()
        for t in range(3):
            updates = [Update(str(c), w - np.float32(c + t), 1) for c in range(t, t + 2)]
            expected = theirs.step(w, updates)
            w = mine.step(w, updates)
            np.testing.assert_array_equal(w, expected)


@pytest.mark.parametrize(
    "name",
    [
        module.name
        for module in pkgutil.walk_packages(fedadavr.__path__, "fedadavr.")
        if module.name.split(".")[1] in CORE
    ],
)
def test_the_examples_in_docstrings_run(name: str) -> None:
    """Each docstring's example gives what it says."""
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, extraglobs={"np": np})
    assert failed == 0
