"""numba's compilers, with a cache that looks at every file that a function takes code from.

numba itself looks at the one file in which a function stands. What it calls from another file is
compiled in, constants and layouts with it: after an edit there alone (a `git pull` is enough), old
machine code would run on buffers of the new size. So whoever calls into another file names it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from numba import njit
from numba.core import sigutils
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher


class _Cache(FunctionCache):
    """Machine code by signature, processor, and the contents of other files."""

    def __init__(self, function: Callable[..., Any], sources: tuple[ModuleType, ...]) -> None:
        super().__init__(function)
        self.files = [str(module.__file__) for module in sources]
        contents = b"\0".join(Path(file).read_bytes() for file in self.files)
        self._digest = hashlib.sha256(contents).hexdigest()

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(signature, codegen), self._digest)


def jit(*sources: ModuleType, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: `njit` without the GIL, cached.

    Parameters
    ----------
    *sources : ModuleType
        Other files of the house whose functions or intrinsics it calls, and those that they call.
    **options
        More options of `njit`.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = njit(nogil=True, error_model="numpy", **options)(function)
        if isinstance(compiled, Dispatcher):  # not where NUMBA_DISABLE_JIT is set
            compiled._cache = _Cache(function, sources)
        return compiled

    return decorate


def callback(function: Callable[..., Any], signature: str, *sources: ModuleType) -> CFunc:
    """A function that is called by its address: compiled, or from the cache."""
    options = {"nopython": True, "error_model": "numpy"}
    compiled = CFunc(function, sigutils.normalize_signature(signature), {}, options)
    compiled._cache = _Cache(function, sources)
    compiled.compile()
    return compiled
