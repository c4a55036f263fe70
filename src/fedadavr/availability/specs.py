"""Things with settings as one text: NAME, or NAME:key=value,key=value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fedadavr.availability.base import Drawn
from fedadavr.naming import unknown
from fedadavr.plugins import Registry
from fedadavr.settings import REQUIRED, RawText, settings_of

K = TypeVar("K", bound=Drawn)


def read(known: Registry[type[K]], spec: str) -> K:
    """The thing that a text means, or one sentence about what is wrong with it."""
    name, _, rest = spec.partition(":")
    kind = known.find(name)
    settings = settings_of(kind)
    given: dict[str, Any] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = (part.strip() for part in pair.partition("="))
        field = key.replace("-", "_")
        if not equals:
            raise ValueError(f"{known.kind} {spec}: give {key!r} a value, as {key}=...")
        if field not in settings:
            names = [own.replace("_", "-") for own in settings]
            if not names:
                raise ValueError(f"{known.kind} {spec}: {name} has no settings, got {key!r}")
            raise ValueError(f"{known.kind} {spec}: {unknown(f'setting of {name}', key, names)}")
        if field in given:
            raise ValueError(f"{known.kind} {spec}: {key} is there twice")
        given[field] = settings[field].read(RawText(value), f"{known.kind} {spec}")
    for field, setting in settings.items():
        if setting.default is REQUIRED and field not in given:
            key = field.replace("_", "-")
            raise ValueError(
                f"{known.kind} {spec}: {name} needs a value of {key}, as {name}:{key}=...: "
                f"{setting.help}"
            )
    try:
        return kind(**given)
    except ValueError as error:
        raise ValueError(f"{known.kind} {spec}: {error}") from None


def spec_of(thing: Drawn, path: Callable[[Path], str] = str) -> str:
    """The text that means it, with every setting; `path` says how a file is told."""
    pairs = [
        f"{name.replace('_', '-')}={_typed(getattr(thing, name), path)}"
        for name in settings_of(type(thing))
    ]
    return f"{thing.name}:{','.join(pairs)}" if pairs else thing.name


def _typed(value: Any, path: Callable[[Path], str]) -> str:
    if isinstance(value, Path):
        return path(value)
    if isinstance(value, tuple):
        return "+".join(_typed(item, path) for item in value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)
