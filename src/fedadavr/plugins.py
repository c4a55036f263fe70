"""What others bring: registries by name, entry points of packages, one file by --load."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from fedadavr.naming import unknown

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Things of one kind by name: those of this package, of loaded files, of installed packages.

    An installed package lists what it brings as entry points of the group, each under the name that
    it registers; they are listed without being imported, and only the one asked for is loaded.

    Parameters
    ----------
    kind : str
        What the things are, as it stands in a sentence.
    group : str
        The group of entry points.

    Examples
    --------
    >>> shapes: Registry[int] = Registry("shape", "example.shapes")
    >>> shapes.add("square", 4)
    >>> shapes.find("square"), shapes.names()
    (4, ['square'])
    """

    def __init__(self, kind: str, group: str) -> None:
        self.kind, self.group = kind, group
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> None:
        """Make something known by a name that nothing else has."""
        if name in self._entries:
            raise ValueError(f"there is already a {self.kind} {name!r}: choose another name")
        self._entries[name] = entry

    def named(self, name: str) -> Callable[[T], T]:
        """A decorator that adds what it decorates."""

        def decorate(entry: T) -> T:
            self.add(name, entry)
            return entry

        return decorate

    def names(self) -> list[str]:
        """All names, those of installed packages last; nothing is imported."""
        return list(dict.fromkeys([*self._entries, *_entry_points(self.group)]))

    def loaded(self) -> dict[str, T]:
        """What is there without importing anything."""
        return dict(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in _entry_points(self.group)

    def find(self, name: str) -> T:
        """The thing of that name, or a `ValueError` that lists what there is."""
        if name not in self._entries:
            point = _entry_points(self.group).get(name)
            if point is None:
                raise ValueError(unknown(self.kind, name, self.names()))
            try:
                point.load()
            except Exception as error:
                raise ValueError(
                    f"the {self.kind} {name!r} of the package {_package(point)} cannot be loaded: "
                    f"{type(error).__name__}: {error}"
                ) from error
            if name not in self._entries:
                raise ValueError(
                    f"the package {_package(point)} promises a {self.kind} {name!r} in "
                    f"{point.value} and registers none of that name"
                )
        return self._entries[name]

    def __getitem__(self, name: str) -> T:
        if name not in self:
            raise KeyError(name)
        return self.find(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Forget, at the end, what was added meanwhile: for tests."""
        before = dict(self._entries)
        try:
            yield
        finally:
            self._entries = before


def import_all(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, each of which registers what it brings."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")


@functools.cache
def _entry_points(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}


def _package(point: importlib.metadata.EntryPoint) -> str:
    return point.dist.name if point.dist else point.module


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
