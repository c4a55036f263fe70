"""What the documents show runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

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


def blocks(document: str) -> list[str]:
    """The Python that a document shows."""
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


@pytest.mark.parametrize(
    "code",
    [*blocks("README.md"), *blocks("docs/deploying.md")],
    ids=lambda code: code.partition("\n")[2].splitlines()[0],
)
def test_the_programs_of_readme_and_of_deploying_run(
    code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As they are shown, but for fewer rounds and a folder of our own; `grid` is Flower's."""
    code = re.sub(r'"lmdb:[^"]*"', repr(f"lmdb:{tmp_path / 'state'}"), code)
    code = re.sub(r"num_rounds=\d+", "num_rounds=2", code)
    known: dict[str, Any] = {}
    if "grid" in code:
        from tests.flower_grid import federation, first_model

        known = {"grid": federation(), "arrays": first_model(40)}
    exec(code, known)
    if "engine" in known:
        assert len(capsys.readouterr().out.splitlines()) == 10


def test_readme_shows_the_loop_a_server_and_a_strategy() -> None:
    """All three are there to be run."""
    for word in ("engine.rounds(", "server.step(", "strategy.start("):
        assert sum(word in code for code in blocks("README.md")) == 1


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
