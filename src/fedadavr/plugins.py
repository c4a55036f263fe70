"""What others bring: registries by name, entry points of packages, one file by --load."""

from __future__ import annotations

import ast
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
from typing import Any, NamedTuple, TypeVar

from fedadavr.naming import unknown

T = TypeVar("T")

LOADED = "fedadavr_loaded_"  # begins the names of modules that were loaded from a file


class Registry(Mapping[str, T]):
    """Things of one kind by name: those of this package, of loaded files, of installed packages.

    A file of this package declares what it brings by a decorator with a name, and an installed
    package by an entry point of the group, under the name that it registers. Both are listed
    without being imported, and only the file or entry point asked for is loaded.

    Parameters
    ----------
    kind : str
        What the things are, as it stands in a sentence.
    group : str
        The group of entry points.
    package : str, optional
        The package of ours whose files declare such things.
    decorator : str, optional
        The name of the decorator by which they do.

    Examples
    --------
    >>> shapes: Registry[int] = Registry("shape", "example.shapes")
    >>> shapes.add("square", 4)
    >>> shapes.find("square"), shapes.names()
    (4, ['square'])
    """

    def __init__(
        self, kind: str, group: str, package: str | None = None, decorator: str | None = None
    ) -> None:
        self.kind, self.group = kind, group
        self._place = (package, decorator) if package and decorator else None
        self._entries: dict[str, T] = {}
        self._facts: dict[str, Mapping[str, Any]] = {}

    def add(self, name: str, entry: T, **facts: Any) -> None:
        """Make something known by a name that nothing else has, with facts about it."""
        ours = self._declared().get(name)
        theirs = ours is not None and getattr(entry, "__module__", None) != ours.module
        if name in self._entries or theirs:
            raise ValueError(f"the {self.kind} {name!r} is there already: choose another name")
        self._entries[name], self._facts[name] = entry, facts

    def named(self, name: str, **facts: Any) -> Callable[[T], T]:
        """A decorator that adds what it decorates."""

        def decorate(entry: T) -> T:
            self.add(name, entry, **facts)
            return entry

        return decorate

    def names(self) -> list[str]:
        """All names, those of installed packages last; nothing is imported."""
        return list(dict.fromkeys([*self._declared(), *self._entries, *_entry_points(self.group)]))

    def loaded(self) -> dict[str, T]:
        """What is there without importing anything."""
        return dict(self._entries)

    def facts(self, name: str) -> Mapping[str, Any]:
        """The facts about the thing of that name; those of this package without importing it."""
        if name not in self._facts and name in self._declared():
            return self._declared()[name].facts
        self.find(name)
        return self._facts[name]

    def __contains__(self, name: object) -> bool:
        return (
            name in self._entries or name in self._declared() or name in _entry_points(self.group)
        )

    def find(self, name: str) -> T:
        """The thing of that name, or a `ValueError` that lists what there is."""
        if name not in self._entries and name in self._declared():
            importlib.import_module(self._declared()[name].module)
        elif name not in self._entries:
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
                    f"the package {_package(point)} promises the {self.kind} {name!r} in "
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

    def _declared(self) -> dict[str, Declaration]:
        return declared(*self._place) if self._place else {}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Forget, at the end, what was added meanwhile, and which files were loaded: for tests."""
        before, modules = set(self._entries), set(sys.modules)
        try:
            yield
        finally:
            for name in set(self._entries) - before - set(self._declared()):
                del self._entries[name]
                self._facts.pop(name, None)
            for name in set(sys.modules) - modules:
                if name.startswith(LOADED):
                    del sys.modules[name]


class Declaration(NamedTuple):
    """Where a file of this package declares something, and the facts that it gives."""

    module: str
    facts: Mapping[str, Any]


@functools.cache
def declared(package: str, decorator: str) -> dict[str, Declaration]:
    """What the files of a package declare by a decorator, read without importing them.

    A declaration is `@decorator("name", fact=literal)` above a function or class, or the call
    `decorator("name")(thing)` by itself.
    """
    spec = importlib.util.find_spec(package)
    assert spec is not None
    found = {}
    for folder in spec.submodule_search_locations or ():
        for file in sorted(Path(folder).glob("*.py")):
            text = file.read_text()
            if f"{decorator}(" in text:
                for call in _calls(ast.parse(text), decorator):
                    name = ast.literal_eval(call.args[0])
                    facts = {k.arg or "": ast.literal_eval(k.value) for k in call.keywords}
                    found[name] = Declaration(f"{package}.{file.stem}", facts)
    return found


def _calls(module: ast.Module, decorator: str) -> Iterator[ast.Call]:
    """The calls of a decorator with a name, at the top of a file."""
    for node in module.body:
        candidates: list[ast.expr] = []
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            candidates = node.decorator_list
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            candidates = [node.value.func]
        for call in candidates:
            if isinstance(call, ast.Call) and getattr(call.func, "id", None) == decorator:
                yield call


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
    name = f"{LOADED}{file.stem}_{digest}"  # two files of one name are two modules
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
