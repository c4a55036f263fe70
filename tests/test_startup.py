"""What a command imports, what it says when a package is missing, and where it runs."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedadavr
from fedadavr.cli import COMMANDS, EXTRAS

SOURCES = Path(fedadavr.__file__).parent
HEAVY = ("torch", "numba", "flwr", "plotly", "matplotlib", "redis")
RECORDS = Path(__file__).parent.parent / "results" / "paper"
EXPERIMENTS = ("run", "compare", "sweep", "algorithms")


def python(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What it says; but for the note that a kernel is compiled, the first time on a machine."""
    result = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    result.stderr = re.sub(r"^compiling the kernel .*\n", "", result.stderr, flags=re.MULTILINE)
    return result


def without(packages: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    """A command where these packages are not installed."""
    program = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {packages!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "from fedadavr.cli import main; main()"
    )
    return python(program, *words)


def test_nothing_below_the_command_line_imports_rich_or_tyro() -> None:
    """They live in `cli/` and nowhere below."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        if path.is_relative_to(SOURCES / "cli"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] in ("rich", "tyro") for name in names):
                found.append(str(path.relative_to(SOURCES)))
    assert found == []


def heavy_after(typed: list[list[str]], heavy: tuple[str, ...]) -> dict[str, list[str]]:
    """The commands, typed one after the other in one process, that import something heavy."""
    result = python(
        "import contextlib, io, json, sys\n"
        "from fedadavr.cli import main\n"
        f"for words in {typed!r}:\n"
        "    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "        main(words)\n"
        f"    found = [name for name in {heavy!r} if name in sys.modules]\n"
        "    if found: print(json.dumps([' '.join(words), found])); break\n"
    )
    assert "Traceback" not in result.stderr
    return dict(map(json.loads, result.stdout.splitlines()))


def test_help_and_slips_import_nothing_heavy() -> None:
    """Neither PyTorch nor numba nor Flower is there when help or an error is printed."""
    typed = [[], ["--help"], ["--version"], ["memory"], ["memory", "--help"], ["paper", "-h"],
             ["rnu"], ["memory", "inspct"], ["data", "list", "--jsn"]]  # fmt: skip
    typed += [[*name.split(), "--help"] for name in COMMANDS if name not in EXPERIMENTS]
    assert heavy_after(typed, HEAVY) == {}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_help_on_experiments_imports_no_pytorch(name: str) -> None:
    """Their settings are told without it."""
    assert heavy_after([[name, "--help"]], ("torch", "flwr", "plotly")) == {}


@pytest.mark.parametrize("words", [["memory"], ["memory", "--help"], ["memory", "-h"]])
def test_a_group_lists_its_commands(words: list[str]) -> None:
    """With a line each, and no others."""
    result = python("from fedadavr.cli import main; main()", *words)
    listed = [line.split()[1:3] for line in result.stdout.splitlines() if "  fedadavr " in line]
    group = [name.split() for name in COMMANDS if name.startswith("memory ")]
    assert [words for words in listed if words != ["--version"]] == group
    assert result.returncode == 0


def test_version() -> None:
    """As the package has it."""
    result = python("from fedadavr.cli import main; main()", "--version")
    assert result.stdout == f"fedadavr {fedadavr.__version__}\n"


def test_the_extras_are_those_of_the_project() -> None:
    """Every package that an extra brings is known to bring it."""
    import tomllib

    project = tomllib.loads((SOURCES.parent.parent / "pyproject.toml").read_text())["project"]
    for package, extra in EXTRAS.items():
        brought = project["optional-dependencies"][extra]
        assert any(need.startswith((f"{package}>", f"{package}[")) for need in brought), package


@pytest.mark.parametrize(
    ("package", "words", "extra"),
    [
        ("tyro", ["quadratic"], "cli"),
        ("rich", ["data", "list"], "cli"),
        ("torch", ["bench", "training"], "experiments"),
        ("matplotlib", ["report", "{records}", "--out", "{out}/a.png"], "experiments"),
        ("plotly", ["report", "{records}", "--out", "{out}/a.html"], "experiments"),
        ("flwr", ["bench", "flower"], "flower"),
        ("redis", ["memory", "inspect", "redis://localhost:1"], "redis"),
        ("cryptography", ["memory", "inspect", "{out}", "--encrypt-with", "{key}"], "encryption"),
    ],
)
def test_the_extra_that_is_missing_is_named(
    package: str, words: list[str], extra: str, tmp_path: Path
) -> None:
    """One sentence on stderr, exit code 2."""
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    fills = {"records": str(a_record(tmp_path)), "out": str(tmp_path), "key": str(key)}
    result = without((package,), *(word.format(**fills) for word in words))
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert f"needs {package}: pip install 'fedadavr[{extra}]'" in result.stderr


def a_record(folder: Path) -> Path:
    """One run's record, in a file."""
    first = next(RECORDS.glob("*/records.jsonl")).read_text().splitlines()[0]
    path = folder / "records.jsonl"
    path.write_text(first + "\n")
    return path


@pytest.mark.parametrize("form", ["html", "md", "csv", "png"])
def test_a_report_needs_no_pytorch(form: str, tmp_path: Path) -> None:
    """It reads records; nothing is trained."""
    out = tmp_path / f"report.{form}"
    result = without(("torch", "flwr"), "report", str(a_record(tmp_path)), "--out", str(out))
    assert result.stderr == ""
    assert out.stat().st_size > 0


def test_a_report_of_run_folders_needs_no_pytorch(tmp_path: Path) -> None:
    """Neither does one of a run's own folder."""
    from fedadavr.experiments.experiment import Experiment
    from fedadavr.experiments.run import run

    small = Experiment(dataset="mnist-5k", rounds=1, local_epochs=1, evaluate_examples=50)
    run(small, out=tmp_path / "run")
    result = without(("torch",), "report", str(tmp_path / "run"), "--out", str(tmp_path / "r.md"))
    assert result.stderr == ""
    assert "mnist-5k" in (tmp_path / "r.md").read_text()


WINDOWS = "import sys\n{first}\nsys.modules['fcntl'] = None\n"


@pytest.mark.parametrize(
    "program",
    [
        "from fedadavr.cli import main; main(['memory', 'inspect', 'nowhere'])",
        "from fedadavr.stores import open_store; open_store('lmdb:nowhere')",
        "from fedadavr.flower import FedAdaVR; FedAdaVR()",
    ],
)
def test_windows_is_refused_in_one_sentence(program: str) -> None:
    """At each door, instead of an import that fails somewhere."""
    first = "import flwr.serverapp.strategy" if "flower" in program else ""
    result = python(WINDOWS.format(first=first) + program)
    assert result.returncode != 0
    assert "fedadavr needs a POSIX system, Linux or macOS" in result.stderr.splitlines()[-1]
