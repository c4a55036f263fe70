"""`make mutants`: small wrong changes to the source, each of which some test should notice.

    python -m tests.mutants [--sample 200] [--seed 1] [--rooms stores ...] [--minutes 60]

Every place where a comparison, a sum, a number, a truth, a condition, a statement or a returned
value can be changed is a mutant. A sample of them, drawn by the seed, is made in a copy of the
repository, one at a time, and the tests that run the changed line are run, fastest first, until one
fails. Which test runs which line is traced first, once for each test file. What was found out is
kept in `.mutants/`, so that a run broken off goes on; what survived is tried again when its tests
have changed. Tests that fail without any change are left out, and said.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
KEPT = ROOT / ".mutants"
ROOMS = {
    "algorithms": ["golden", "promises", "algorithms", "influence", "plus", "variants", "strategy",
                   "stores"],
    "memory": ["promises", "plus", "strategy", "stores", "store_format", "memory_commands"],
    "stores": ["stores", "store_format", "memory_commands", "on_the_disk"],
    "flower": ["flower", "strategy", "identity", "outages"],
}  # fmt: skip
HEAVY = ("numba", "torch", "lmdb", "redis", "hypothesis", "flwr.serverapp", "flwr.clientapp",
         "flwr.serverapp.strategy", "tyro", "rich.table")  # fmt: skip
KILLED = ("killed", "timeout")
MOST = 60.0  # seconds of tests for one mutant, as they take without a change
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div,
    ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
}  # fmt: skip


@dataclass(frozen=True, order=True)
class Mutant:
    """A change to one file: bytes from `start` to `end` become `text`."""

    room: str
    path: str
    line: int
    start: int
    end: int
    text: str
    was: str
    imported: bool = field(repr=False)  # it is run when the module is imported

    @property
    def id(self) -> str:
        source = (ROOT / self.path).read_bytes()
        return hashlib.sha256(repr(self).encode() + source).hexdigest()[:16]

    def __str__(self) -> str:
        was, now = (" ".join(text.split())[:70] for text in (self.was, self.text))
        line = (ROOT / self.path).read_text().splitlines()[self.line - 1].strip()
        where = "" if line.startswith(was) else f"  in  {line}"
        return f"{self.path}:{self.line}: {was}  ->  {now}{where}"


# --- what can be changed ---


def changes(node: ast.AST) -> Iterator[str]:
    """What a node may become."""
    new: Any = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        new.ops = [SWAPS[type(node.ops[0])]()]
        yield f"({ast.unparse(new)})"
    elif isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in SWAPS:
        new.op = SWAPS[type(node.op)]()
        yield f"({ast.unparse(new)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield repr(not node.value if isinstance(node.value, bool) else node.value + 1)
    elif isinstance(node, ast.Return) and not (
        node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
    ):
        yield "return None"
    elif isinstance(node, ast.AugAssign | ast.Delete) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        if not ast.unparse(node).startswith(("log.", "log(", "super().__init__")):
            yield "pass"
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        yield "pass"


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those of annotations and of texts."""
    yield tree
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from nodes(child)


def mutants(room: str) -> list[Mutant]:
    """All mutants of a package, in the order of its source."""
    found = []
    for path in sorted((ROOT / "src" / "fedadavr" / room).rglob("*.py")):
        source = path.read_bytes()
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        tree = ast.parse(source)
        inside = [range(f.body[0].lineno, (f.end_lineno or 0) + 1) for f in ast.walk(tree)
                  if isinstance(f, ast.FunctionDef)]  # fmt: skip
        for node in nodes(tree):
            for text in changes(node):
                here: Any = node
                start = starts[here.lineno - 1] + here.col_offset
                end = starts[here.end_lineno - 1] + here.end_col_offset
                was = source[start:end].decode()
                name = str(path.relative_to(ROOT))
                imported = not any(here.lineno in lines for lines in inside)
                found.append(Mutant(room, name, here.lineno, start, end, text, was, imported))
    return sorted(found)


# --- what the tests run ---


class Tracer:
    """A pytest plugin: which test runs which lines, how long it takes, and whether it fails."""

    def __init__(self, source: str) -> None:
        self.source, self.skipped = source, len(source) - len("src/fedadavr/")
        self.lines: dict[str, list[str]] = {}
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self._now: set[tuple[str, int]] = set()

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(self.source):
            return None
        self._now.add((file, frame.f_lineno))
        return self._trace

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Iterator[None]:
        self._now, began = set(), time.monotonic()
        sys.settrace(self._trace)
        threading.settrace(self._trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.seconds[item.nodeid] = time.monotonic() - began
            self.lines[item.nodeid] = sorted(f"{f[self.skipped :]}:{n}" for f, n in self._now)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def in_a_child(tree: Path, work: Callable[[], int], seconds: float) -> int | None:
    """What a forked process, which has all heavy libraries, returns; None: it took too long."""
    child = os.fork()
    if not child:
        status = 99
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            quiet = os.open(tree / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            for name in [m for m in sys.modules if m.split(".")[0] in ("tests", "fedadavr")]:
                del sys.modules[name]
            os.chdir(tree)
            sys.path[:0] = [str(tree / "src"), str(tree)]
            os.environ |= {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
            sys.dont_write_bytecode = True
            status = work()
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what its tests have left behind


def digest(paths: list[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()[:16]


def traced(tree: Path, file: str) -> dict[str, Any]:
    """What the tests of a file run; from `.mutants/`, if nothing has changed."""
    sources = [*(ROOT / "src").rglob("*.py"), ROOT / "tests" / f"test_{file}.py"]
    kept = KEPT / f"lines-{file}-{digest(sources)}.json"
    if not kept.exists():
        print(f"tracing tests/test_{file}.py", flush=True)

        def work() -> int:
            tracer = Tracer(f"{tree}/src/fedadavr/")
            pytest.main(["-q", "-p", "no:cacheprovider", f"tests/test_{file}.py"], [tracer])
            told = {"lines": tracer.lines, "seconds": tracer.seconds, "failed": tracer.failed}
            (tree / "lines").write_text(json.dumps(told))
            return 0

        if in_a_child(tree, work, 1200) != 0:
            sys.exit(f"tests/test_{file}.py cannot be traced: {(tree / 'output').read_text()}")
        shutil.copy(tree / "lines", new := kept.with_name(f"{kept.name}.{os.getpid()}"))
        new.replace(kept)
    return json.loads(kept.read_text())


def tests_of(tree: Path, room: str) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Which tests run a line, and how long each takes."""
    lines: dict[str, list[str]] = defaultdict(list)
    seconds: dict[str, float] = {}
    for file in ROOMS[room]:
        told = traced(tree, file)
        if told["failed"]:
            print(f"  {len(told['failed'])} tests of {file} fail without a change: left out")
        for test in told["lines"].keys() - set(told["failed"]):
            seconds[test] = told["seconds"][test]
            for line in told["lines"][test]:
                lines[line].append(test)
    return lines, seconds


def try_out(
    tree: Path, mutant: Mutant, lines: dict[str, list[str]], seconds: dict[str, float]
) -> str:
    """Killed, survived, timed out, or run by no test.

    Killed only where the test that failed fails again, alone, and passes without the change.
    """
    last = mutant.line + mutant.was.count("\n")
    covering = {t for n in range(mutant.line, last + 1) for t in lines[f"{mutant.path}:{n}"]}
    if mutant.imported:  # before any test: all that run something of the file may notice
        here = f"{mutant.path}:"
        covering |= {t for line, tests in lines.items() if line.startswith(here) for t in tests}
    chosen: list[str] = []
    total = 0.0
    for test in sorted(covering, key=lambda test: (seconds[test], test)):
        total += seconds[test]
        if total > MOST and chosen:
            break
        chosen.append(test)
    if not chosen:
        return "no test"
    source = (ROOT / mutant.path).read_bytes()
    changed = source[: mutant.start] + mutant.text.encode() + source[mutant.end :]
    place = tree / mutant.path
    try:
        while chosen:
            place.write_bytes(changed)
            ended, failed = run_tests(tree, chosen, total)
            if ended == 0:
                break
            if ended is None:
                return "timeout"
            alone = [failed] if failed else ["--collect-only", *chosen]  # it cannot be imported
            again, _ = run_tests(tree, alone, total)
            shutil.copy2(ROOT / mutant.path, place)
            if again != 0 and run_tests(tree, alone, total)[0] == 0:
                return "killed"
            if failed is None:
                return "unclear"
            chosen.remove(failed)  # it fails now and then, or by itself: it tells nothing
        return "survived"
    finally:
        shutil.copy2(ROOT / mutant.path, place)


def run_tests(tree: Path, words: list[str], seconds: float) -> tuple[int | None, str | None]:
    """How pytest ends, None if it does not, and the first test that failed."""
    note = tree / "failed"
    note.unlink(missing_ok=True)

    class FirstFailure:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed and not note.exists():
                note.write_text(report.nodeid)

    options = ["-x", "-q", "-p", "no:cacheprovider", *words]
    ended = in_a_child(tree, lambda: int(pytest.main(options, [FirstFailure()])), 60 + 5 * seconds)
    return ended, note.read_text() if note.exists() else None


def copy_to(tree: Path) -> None:
    """The repository as it is, without its results: nothing is changed where somebody works."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for file in names.splitlines():
        if not file.startswith("results/") and (ROOT / file).is_file():
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, tree / file)


def try_all(tree: Path, drawn: list[Mutant], deadline: float) -> dict[str, list[Mutant]]:
    """What became of each mutant, known from before or tried now."""
    results, known = KEPT / "results.jsonl", {}
    if results.exists():
        known = {row["id"]: row for row in map(json.loads, results.read_text().splitlines())}
    rooms = sorted({mutant.room for mutant in drawn})
    told = {room: tests_of(tree, room) for room in rooms}
    tests = {room: digest([ROOT / "tests" / f"test_{file}.py" for file in ROOMS[room]])
             for room in rooms}  # fmt: skip
    found: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in drawn:
        now = {"id": mutant.id, "tests": tests[mutant.room], "mutant": str(mutant)}
        before = known.get(mutant.id, {"result": None})
        if before["result"] in KILLED or (before["result"] and before["tests"] == now["tests"]):
            result = before["result"]
        elif time.monotonic() > deadline:
            result = "not tried"
        else:
            result = try_out(tree, mutant, *told[mutant.room])
            with results.open("a") as file:
                file.write(json.dumps(now | {"result": result}) + "\n")
            print(f"{result:9} {mutant}", flush=True)
        found[result].append(mutant)
    return found


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rooms", nargs="*", default=list(ROOMS), choices=list(ROOMS))
    parser.add_argument("--minutes", type=float, default=60.0, help="then stop; go on another time")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and end what was started
    deadline = time.monotonic() + 60 * options.minutes
    everything = [mutant for room in options.rooms for mutant in mutants(room)]
    drawn = random.Random(options.seed).sample(everything, min(options.sample, len(everything)))
    print(f"{len(drawn)} of {len(everything)} mutants, seed {options.seed}", flush=True)
    KEPT.mkdir(exist_ok=True)
    for name in HEAVY:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="fedadavr-mutants-") as folder:
        copy_to(Path(folder))
        found = try_all(Path(folder), drawn, deadline)
    print("\nleft:")
    for result in ("survived", "no test", "unclear"):
        for mutant in sorted(found[result]):
            print(f"{result:9} {mutant}")
    count = {
        result: len(found[result])
        for result in (*KILLED, "survived", "no test", "unclear", "not tried")
    }
    killed = sum(count[result] for result in KILLED)
    tried = len(drawn) - count["not tried"]
    told = ", ".join(f"{result} {number}" for result, number in count.items())
    print(
        f"\nseed {options.seed}: killed {killed} of {tried}, {killed / max(1, tried):.0%} ({told})"
    )


if __name__ == "__main__":
    main()
