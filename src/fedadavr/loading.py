"""Importing a user's own Python file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def load_file(path: str) -> None:
    """Import a Python file once, by its path."""
    file = Path(path).resolve()
    name = f"fedadavr_loaded_{file.stem}"
    if name in sys.modules:
        return
    if not file.is_file():
        raise ValueError(f"--load: there is no file {path}")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
