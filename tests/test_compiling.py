"""Compiled code is never older than any of the files that it was made of."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

import fedadavr

NEAR = """
import far
from fedadavr.kernels.compiling import callback, jit

@jit(far)
def doubled(x):
    return far.twice(x) + far.MORE

def written(at):
    far.put(at, far.MORE)

import numpy as np
room = np.zeros(1, np.int64)
call = callback(written, "void(int64)", far)
call.ctypes(room.ctypes.data)
told = doubled(3), room[0]
hits = sum(doubled.stats.cache_hits.values()), call.cache_hits
print(*map(int, told + hits))
"""
FAR = """
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from fedadavr.kernels.compiling import jit

MORE = {more}

@jit()
def twice(x):
    return {factor} * x

@intrinsic
def put(typing_context, at, value):
    def generate(context, builder, signature, args):
        builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()))
        return context.get_dummy_value()
    return types.void(types.int64, types.int64), generate
"""


def test_an_edit_of_another_file_is_seen(tmp_path: Path) -> None:
    """Its constants and functions are compiled in; without an edit nothing is compiled again."""
    near, far = tmp_path / "near.py", tmp_path / "far.py"
    near.write_text(NEAR)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PATH": "",
                   "PYTHONPATH": ":".join([str(tmp_path), *sys.path])}  # fmt: skip

    def run(more: int, factor: int) -> list[int]:
        far.write_text(FAR.format(more=more, factor=factor))
        done = subprocess.run([sys.executable, "-B", near], env=environment, capture_output=True,
                              text=True, check=True)  # fmt: skip
        return [int(word) for word in done.stdout.split()]

    assert run(1, 2) == [7, 1, 0, 0]
    assert run(1, 2) == [7, 1, 1, 1]
    assert run(5, 2) == [11, 5, 0, 0]
    assert run(5, 7) == [26, 5, 0, 0]


def compiled_functions() -> list[Any]:
    """Every jitted function of the package."""
    root = Path(fedadavr.__file__).parent
    found: dict[int, Any] = {}
    for file in sorted(root.rglob("*.py")):
        if "njit" in (text := file.read_text()) or "kernels.compiling import" in text:
            name = ".".join(["fedadavr", *file.relative_to(root).with_suffix("").parts])
            values = vars(importlib.import_module(name)).values()
            found |= {id(value): value for value in values if isinstance(value, Dispatcher)}
    return list(found.values())


def files_of(function: Any) -> set[str]:
    """The files that a function takes code from, its own not counted."""
    own, todo, seen = function.__code__.co_filename, [function], set()
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        for name in one.__code__.co_names:
            value = one.__globals__.get(name)
            if isinstance(value, Dispatcher):
                todo.append(value.py_func)
            elif isinstance(value, _Intrinsic):
                todo.append(value._defn)
            elif isinstance(value, ModuleType):
                parts = (getattr(value, part, None) for part in one.__code__.co_names)
                todo += [part._defn for part in parts if isinstance(part, _Intrinsic)]
    return {one.__code__.co_filename for one in seen} - {own}


@pytest.mark.parametrize("function", compiled_functions(), ids=lambda f: f.py_func.__qualname__)
def test_every_function_names_the_files_that_it_takes_code_from(function: Any) -> None:
    """One that is forgotten would leave old machine code behind an edit."""
    if not hasattr(function._cache, "files"):
        assert type(function._cache).__name__ == "NullCache"
        return
    assert files_of(function.py_func) <= set(function._cache.files)


def test_the_walk_finds_what_is_called() -> None:
    """So that the test above can fail."""
    from fedadavr.kernels import intrinsics, passes
    from fedadavr.models.fast import products, recurrent_kernels, registers

    assert files_of(recurrent_kernels.gru_back.py_func) == {products.__file__, registers.__file__}
    assert files_of(passes.advance.py_func) == {intrinsics.__file__}
