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
from fedadavr import Layout, Update, algorithm, algorithm_names
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


SHOWN = ["README.md", "docs/start.md", "docs/research.md", "docs/deploying.md"]


def blocks(document: str) -> list[str]:
    """The Python that a document shows."""
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


@pytest.mark.parametrize(
    "code",
    [code for document in SHOWN for code in blocks(document)],
    ids=lambda code: code.partition("\n")[2].splitlines()[0],
)
def test_the_programs_of_readme_and_of_the_guides_run(
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


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ("README.md", "strategy.start("),
        ("docs/start.md", "strategy.start("),
        ("docs/start.md", "server.step("),
        ("docs/research.md", "engine.rounds("),
    ],
)
def test_the_strategy_a_server_and_the_loop_are_shown(document: str, word: str) -> None:
    """Each where one looks for it, to be run."""
    assert sum(word in code for code in blocks(document)) == 1


def test_readme_has_the_two_commands_and_its_picture() -> None:
    """A fresh clone is set up by either; the picture is there on light and on dark."""
    text = (ROOT / "README.md").read_text()
    targets = (ROOT / "Makefile").read_text()
    for name in ("demo", "test", "picture", "docs"):
        assert f"make {name}" in text
        assert f"\n{name}: setup" in targets
    for name in re.findall(r"docs/pictures/[\w-]+\.svg", text):
        assert (ROOT / name).read_text().startswith("<?xml")


def test_the_version_is_the_same_everywhere() -> None:
    """In the package, in the citation, and at the top of the changelog."""
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    changed = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert cited is not None
    assert changed is not None
    assert cited[1] == changed[1] == fedadavr.__version__


DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "results" / "README.md"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    """In the repository; the site's own links are checked where it is built."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, anchor = link.partition("#")
        if "://" in link:
            continue
        to = path.parent / file if file else path
        assert to.exists(), link
        if anchor and to.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", to.read_text(), re.MULTILINE)
            known = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
            assert anchor in known, link


def test_every_algorithm_has_its_settings_in_the_guide() -> None:
    """A new one is missed until docs/algorithms.md has its table, and its equation above it."""
    text = (ROOT / "docs" / "algorithms.md").read_text()
    listed = re.findall(r"^```{settings} (\S+)$", text, re.MULTILINE)
    ours = [n for n in algorithm_names() if ALGORITHMS.find(n).__module__.startswith("fedadavr.")]
    assert sorted(listed) == sorted([*ours, "every", "memory", "optimizer"])


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
