"""Settings: what a class can be told, from its own dataclass fields, typed and checked here.

A setting has the field's name, type and default, and the string under it in the source as help.
What is typed on the command line, stands in a TOML or JSON file, or is given as a keyword becomes a
value of that type, or one sentence that says what is wrong with it.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import numbers
import textwrap
import types
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from fedadavr.naming import shown, unknown

REQUIRED = dataclasses.MISSING
"""The default of a setting that has none."""


class RawText(str):
    """A value as it was typed, which is of no type yet."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True)
class Setting:
    """One field of a class, as a user sees it."""

    name: str
    type: Any
    default: Any
    help: str

    @property
    def flag(self) -> str:
        """Its name as one types it."""
        return flag(self.name)

    def read(self, value: Any, where: str = "") -> Any:
        """A value of the setting's type, or a `ValueError` that begins with `where`.

        Examples
        --------
        >>> mu = Setting("mu", float, 0.01, "Weight of the proximal term.")
        >>> mu.read(RawText("0.5")), mu.read(1)
        (0.5, 1.0)
        >>> mu.read("0.5", "fedprox")
        Traceback (most recent call last):
        ValueError: fedprox: mu must be a number, got '0.5'
        """
        try:
            return convert(value, self.type)
        except (TypeError, ValueError, OverflowError):
            begin = f"{where}: " if where else ""
            name = self.name.replace("_", "-") if isinstance(value, RawText) else self.name
            raise ValueError(
                f"{begin}{name} must be {described(self.type)}, got {shown(_plain(value))}"
            ) from None


class Settings(Mapping[str, Any]):
    """Settings by name, as values that do not change, so that they can be compared and hashed.

    >>> Settings({"codec": "int8"}) == {"codec": "int8"}
    True
    """

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = {name: _frozen(value) for name, value in (values or {}).items()}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Settings({self._values!r})"

    def __or__(self, other: Mapping[str, Any]) -> Settings:
        return Settings({**self, **other})


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Settings(value)
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def plain(value: Any) -> Any:
    """A value as JSON and TOML can hold it: lists and dictionaries; a text for what they cannot."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, RawText) else value


def flag(name: str) -> str:
    """A field's name as one types it."""
    return "--" + name.replace("_", "-")


def settings_of(cls: type) -> dict[str, Setting]:
    """The settings of a dataclass: its fields that can be given, in their order."""
    return dict(_settings_of(cls))


@functools.cache
def _settings_of(cls: Any) -> dict[str, Setting]:
    try:
        hints = typing.get_type_hints(cls)
    except NameError as error:
        raise ValueError(
            f"the types of {cls.__name__}'s settings cannot be read: {error}; import what they name"
        ) from None
    helps: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        helps |= _helps(base)
    found = {}
    for field in dataclasses.fields(cls):
        if field.init:
            made = field.default_factory
            default = field.default if made is dataclasses.MISSING else made()
            told = helps.get(field.name, "")
            found[field.name] = Setting(field.name, hints[field.name], default, told)
    return found


def _helps(cls: type) -> dict[str, str]:
    """The string under each field of a class, as far as its source is at hand."""
    if not dataclasses.is_dataclass(cls):
        return {}
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    helps = {}
    for node, after in pairwise(tree.body if isinstance(tree, ast.ClassDef) else []):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            text = after.value.value if said else ""  # type: ignore[attr-defined]
            helps[node.target.id] = " ".join(text.split()) if isinstance(text, str) else ""
    return helps


def check_names(
    given: Collection[str], known: Collection[str], kind: str = "setting", where: str = ""
) -> None:
    """Refuse a name that is not known, with the nearest that is."""
    for name in given:
        if name not in known:
            raise ValueError(f"{where}: " * bool(where) + unknown(kind, name, known))


# --- values and their types ---

SEQUENCES: tuple[Any, ...] = (tuple, list, Sequence)
STRICTNESS = (types.NoneType, Literal, bool, int, float, Path)


def convert(value: Any, kind: Any) -> Any:
    """A value as one of that type; raises `TypeError` or `ValueError` if it is none.

    A `RawText` is read: numbers, true and false, none, a list as a+b. Other values must be of the
    type already, where a whole number is a number, a list a tuple, and the text none is None.
    """
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    text = str(value) if isinstance(value, RawText) else None
    if origin in (typing.Union, types.UnionType):
        return _any_of(value, inner)
    if kind is Any:
        return _plain(value)
    if kind is types.NoneType:
        return _check(None, value is None or value == "none")
    if origin is Literal:
        (choice,) = (c for c in inner if (c == value if text is None else str(c) == text))
        return choice
    if kind is bool and text is not None:
        return _check(text == "true", text in ("true", "false"))
    if kind in (int, float) and text is not None:
        return kind(text)
    if kind in (int, float):
        number = numbers.Integral if kind is int else numbers.Real
        return kind(_check(value, isinstance(value, number) and not isinstance(value, bool)))
    if kind is Path:
        return Path(_check(_plain(value), isinstance(value, str | Path)))
    if origin in SEQUENCES:
        items = value if text is None else [RawText(item) for item in text.split("+")]
        _check(items, isinstance(items, list | tuple))
        return tuple(convert(item, inner[0]) for item in items)
    if origin in (Mapping, dict):
        _check(value, isinstance(value, Mapping))
        return {convert(k, inner[0]): convert(v, inner[1]) for k, v in value.items()}
    return _check(_plain(value), isinstance(value, origin or kind))


def _check(value: Any, good: bool) -> Any:
    if not good:
        raise TypeError(value)
    return value


def _any_of(value: Any, kinds: Sequence[Any]) -> Any:
    """The value as the strictest of the types that it can be."""

    def rank(kind: Any) -> int:
        kind = typing.get_origin(kind) or kind
        return STRICTNESS.index(kind) if kind in STRICTNESS else len(STRICTNESS)

    for kind in sorted(kinds, key=rank):
        try:
            return convert(value, kind)
        except (TypeError, ValueError, OverflowError):
            continue
    raise TypeError(value)


NAMES = {
    bool: "true or false", int: "a whole number", float: "a number", str: "a text",
    Path: "a path", types.NoneType: "none",
}  # fmt: skip


def described(kind: Any) -> str:
    """A type, as it stands in a sentence.

    >>> described(float | None), described(Literal["all", "zeros", "seen"])
    ('a number or none', "'all', 'zeros' or 'seen'")
    """
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(described, inner))
    if origin is Literal:
        *others, last = map(repr, inner)
        return f"{', '.join(others)} or {last}" if others else last
    if origin in SEQUENCES:
        return "a list"
    if origin in (Mapping, dict):
        return "a table"
    return NAMES.get(kind) or f"of type {getattr(kind, '__name__', kind)}"
