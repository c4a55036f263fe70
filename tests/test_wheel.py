"""The package as it is published: what the files hold, and that the wheel works on its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).parent.parent
CORE = {"fedadavr", "numpy", "numba", "llvmlite", "lmdb"}

ONE_ROUND = """
import sys
import numpy as np
import fedadavr
from fedadavr import Layout, Update, algorithm
from fedadavr.stores import open_store

def server(store):
    return algorithm("fedadavr", layout, server_lr=0.1, codec="int8", population=3, store=store)

layout = Layout({"weight": (3, 4), "bias": (4,)})
first = server(open_store("lmdb:state"))
w = first.step(layout.zeros(), [Update("a", layout.zeros() - np.float32(1), examples=10)])
first.commit(w)
first.store.close()
again = server(open_store("lmdb:state"))
resumed, _ = again.restore()
np.testing.assert_array_equal(resumed, w)
assert again.round == 1 and len(again.memory) == 1 and np.isfinite(w).all() and w.any()
site = next(path for path in sys.path if path.endswith("site-packages"))
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
print(*sorted({name.partition(".")[0] for name, file in files.items() if file.startswith(site)}))
"""


def run(*words: str | Path, at: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, words)), cwd=at, capture_output=True, text=True, check=False
    )


def done(*words: str | Path, at: Path) -> str:
    """What a command that must succeed prints."""
    result = run(*words, at=at)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def install(folder: Path, *what: str | Path) -> Path:
    """A new environment with only that in it; its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    done(sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install",
         "--quiet", "--constraint", ROOT / "constraints.txt", *what, at=folder)  # fmt: skip
    return python


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist, and the wheel as it is built from the sdist alone."""
    work = tmp_path_factory.mktemp("build")
    python = install(work / "builder", "hatchling")
    done(python, "-m", "hatchling", "build", "-t", "sdist", "-d", work, at=ROOT)
    (sdist,) = work.glob("*.tar.gz")
    shutil.unpack_archive(sdist, work / "unpacked")
    (source,) = (work / "unpacked").iterdir()
    done(python, "-m", "hatchling", "build", "-t", "wheel", "-d", work, at=source)
    (wheel,) = work.glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


@pytest.fixture(scope="module")
def bare(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel, and what it needs."""
    return install(tmp_path_factory.mktemp("bare"), built["wheel"])


def test_the_wheel_holds_every_file_of_the_package(built: dict[str, Path]) -> None:
    """Types, tables, styles and scripts beside the modules; no caches, no tests."""
    held = set(zipfile.ZipFile(built["wheel"]).namelist())
    tracked = done("git", "ls-files", "src/fedadavr", at=ROOT).split()
    assert {name.removeprefix("src/") for name in tracked} <= held
    assert {Path(name).suffix for name in held if ".dist-info" not in name} <= {
        ".py", ".pyi", ".typed", ".toml", ".css", ".js", ""
    }  # fmt: skip
    assert {name.partition("/")[0].partition("-")[0] for name in held} == {"fedadavr"}


def test_the_sdist_holds_no_results_and_no_caches(built: dict[str, Path]) -> None:
    """What one builds and reads, in less than two megabytes."""
    with tarfile.open(built["sdist"]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    parts = {part for name in held for part in Path(name).parts}
    assert not parts & {"results", "runs", "tests", "_build", "__pycache__", ".git", ".venv"}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "docs/algorithms.md",
            "examples/flower-app/pyproject.toml", "src/fedadavr/py.typed"} <= held  # fmt: skip
    assert built["sdist"].stat().st_size < 2e6


def test_a_round_with_a_store_needs_numpy_numba_and_lmdb_only(bare: Path, tmp_path: Path) -> None:
    """A step, a commit and a resume, in an environment with nothing else in it."""
    listed = done(sys.executable, "-m", "pip", "--python", bare, "list", "--format", "freeze",
                  at=tmp_path)  # fmt: skip
    assert {line.partition("==")[0] for line in listed.split()} == CORE
    imported = set(done(bare, "-I", "-c", ONE_ROUND, at=tmp_path).split())
    assert imported == CORE


def test_commands_without_their_extra_say_one_sentence(bare: Path, tmp_path: Path) -> None:
    """The overview is there; what needs more names the extra that brings it."""
    program = bare.parent / "fedadavr"
    helped = run(program, "--help", at=tmp_path)
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "fedadavr memory inspect" in helped.stdout
    for words in (["run"], ["memory", "inspect", "nowhere"], ["compare", "--help"]):
        result = run(program, *words, at=tmp_path)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.count("\n") == 1
        assert "pip install 'fedadavr[cli]'" in result.stderr
