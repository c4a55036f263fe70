"""Importing a user's own Python file."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path


def load_file(path: str) -> None:
    """Import a Python file once, by its path; what is wrong with it is said in one sentence."""
    file = Path(path).resolve()
    digest = hashlib.sha256(str(file).encode()).hexdigest()[:12]
    name = f"fedadavr_loaded_{file.stem}_{digest}"  # two files of one name are two modules
    if name in sys.modules:
        return
    if not file.is_file():
        raise ValueError(f"--load: there is no file {path}")
    if file.suffix != ".py":
        raise ValueError(f"--load: {path} is no Python file, its name must end with .py")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, (Exception, SystemExit)):
            why = _told(error, file)
            raise ValueError(f"--load: {path} cannot be imported: {why}") from error
        raise


def _told(error: BaseException, file: Path) -> str:
    """What went wrong, and in which line of the file, as far as that is known."""
    where = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if frame.filename == str(file)]  # fmt: skip
    line = error.lineno if isinstance(error, SyntaxError) else where[-1] if where else None
    said = str(error.msg if isinstance(error, SyntaxError) else error).strip().split("\n")[0]
    place = "" if line is None else f"line {line}: "
    return f"{place}{type(error).__name__}{said and f': {said}'}"
