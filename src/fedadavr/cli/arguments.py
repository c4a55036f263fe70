"""Experiments as they are typed: flags made from fields and settings, TOML files beneath them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import tyro

from fedadavr.algorithms.registry import ALGORITHMS, algorithm_class, algorithm_names, user_settings
from fedadavr.experiments.experiment import Experiment, by_field
from fedadavr.experiments.options import RunOptions
from fedadavr.naming import unknown
from fedadavr.plugins import load_file
from fedadavr.settings import REQUIRED, RawText, Setting, Settings, flag, plain
from fedadavr.settings import settings_of as fields_of

A = TypeVar("A", bound="Arguments")
HELP = ("-h", "--help")


@dataclass(frozen=True)
class Arguments(Experiment, RunOptions):
    """What every command that runs experiments takes."""

    settings: tyro.conf.SuppressFixed[tyro.conf.Fixed[Mapping[str, Any]]] = field(
        default_factory=Settings
    )
    config: Path | None = None
    """A TOML file with the same settings; what is typed here wins."""
    out: Path | None = None
    """Where to write (default: a new folder below runs/)."""
    json: bool = False
    """End with one line of JSON on stdout."""

    @property
    def experiment(self) -> Experiment:
        """The part that the result depends on."""
        return Experiment(**{f.name: getattr(self, f.name) for f in fields(Experiment)})

    @property
    def run_options(self) -> RunOptions:
        """The part that it does not."""
        return RunOptions(**{f.name: getattr(self, f.name) for f in fields(RunOptions)})


def parse(
    kind: type[A], argv: list[str], prog: str, named: Iterable[str] = (), **defaults: Any
) -> A:
    """The words typed, over the file that `--config` names, over the defaults.

    The settings are those of the algorithms that are typed or in the file; what is typed of them
    stays a `RawText`, which each algorithm reads by its own type.

    Parameters
    ----------
    kind : type
        The arguments of the command.
    argv : list of str
        The words after the command.
    prog : str
        The command.
    named : iterable of str
        The algorithms, where they are known from elsewhere; those that there are count.
    **defaults
        Arguments whose defaults differ from the class's.
    """
    told, path = _config(_typed("config", argv, {}))
    load = _typed("load", argv, told)
    if load and load[0]:
        load_file(load[0])
    there = [name for name in named if name in ALGORITHMS]
    algorithms = list(dict.fromkeys(there or _algorithms(kind, argv, told)))
    known = _settings_of(algorithms, kind)
    given = dict(defaults) | _from_file(kind, told, known, path)
    _check_flags(argv, kind, known, algorithms)
    found, typed = _call_tyro(kind, argv, prog, given, known, algorithms)
    return replace(found, settings=Settings(found.settings) | typed)


def words_of(argv: Sequence[str]) -> Iterator[str]:
    """The names of the flags that were typed, as those of fields."""
    for word in argv:
        if word.startswith("--") and len(word) > 2:
            yield word[2:].partition("=")[0].replace("-", "_")


def read_config(path: Path, kind: type[Arguments]) -> dict[str, Any]:
    """The arguments and settings in a file alone, by name; wrong names and values are refused."""
    told, _ = _config([str(path)])
    return _from_file(kind, told, _settings_of(_algorithms(kind, [], told), kind), path)


def _config(paths: Sequence[str]) -> tuple[dict[str, Any], Path | None]:
    """What a file says, and which it was."""
    if not paths:
        return {}, None
    path = Path(paths[-1])
    try:
        told = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    told.pop("version", None)  # a run's own file says it
    return by_field(told), path


def _typed(name: str, argv: Sequence[str], told: Mapping[str, Any]) -> list[str]:
    """The words after a flag; what the file says if it was not typed."""
    found: list[str] | None = None
    for place, word in enumerate(argv):
        typed, equals, value = word.partition("=")
        if typed.startswith("--") and typed.replace("_", "-") == flag(name):
            found = [value] if equals else []
            for after in argv[place + 1 :] if not equals else ():
                if after.startswith("--"):
                    break
                found.append(after)
    if found is not None:
        return found
    values = told.get(name)
    return [str(value) for value in (values if isinstance(values, list) else [values]) if value]


def _algorithms(kind: type[Arguments], argv: Sequence[str], told: Mapping[str, Any]) -> list[str]:
    """The algorithms that a command is about."""
    several = fields_of(kind).get("algorithms")
    specs = _typed("algorithms", argv, told) if several else []
    inside = told.get("grid")
    axes = _typed("grid", argv, {} if isinstance(inside, dict) else told)
    for axis in axes:
        if axis.startswith("algorithm="):
            specs += axis.removeprefix("algorithm=").split(",")
    if isinstance(inside, dict) and not axes:
        chosen = inside.get("algorithm", [])
        specs += chosen if isinstance(chosen, list) else [chosen]
    specs = specs or _typed("algorithm", argv, told)[:1]
    specs = specs or list(several.default if several else ()) or [Experiment.algorithm]
    return [str(spec).partition(":")[0] for spec in specs]


def _settings_of(algorithms: Sequence[str], kind: type[Arguments]) -> dict[str, Setting]:
    """The settings of all these algorithms; where they have one of the same name, of any type."""
    found: dict[str, Setting] = {}
    for name in algorithms:
        for key, setting in user_settings(name).items():
            if key in fields_of(kind):
                raise ValueError(
                    f"the algorithm {name} has a setting {key!r}, which is a flag of its own here: "
                    "give it another name"
                )
            before = found.get(key, setting)
            found[key] = replace(before, type=before.type | setting.type)
    return found


def _from_file(
    kind: type[Arguments], told: Mapping[str, Any], known: Mapping[str, Setting], path: Path | None
) -> dict[str, Any]:
    """The arguments and settings in a file, by name; wrong names and values are refused."""
    inside = told.get("settings", {})
    if not isinstance(inside, Mapping):
        raise ValueError(f"{path}: settings must be a table")
    arguments = {k: v for k, v in fields_of(kind).items() if k != "settings"}
    given: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for key, value in {**told, **inside}.items():
        if key == "settings":
            continue
        if key == "grid" and key in arguments and isinstance(value, Mapping):
            given[key] = tuple(_axis(name, values) for name, values in value.items())
        elif key in arguments:
            given[key] = arguments[key].read(value, str(path))
        elif key in known:
            settings[key] = known[key].read(value, str(path))
        else:
            raise ValueError(f"{path}: {unknown('setting', key, [*arguments, *known])}")
    return given | ({"settings": settings} if settings else {})


def _axis(name: str, values: Any) -> str:
    """An axis of a grid in a file as it would be typed."""
    said = plain(values if isinstance(values, list) else [values])
    texts = [str(v).lower() if isinstance(v, bool) else str(v) for v in said]
    return f"{name}={','.join(texts)}"


def _check_flags(
    argv: Sequence[str],
    kind: type[Arguments],
    known: Mapping[str, Setting],
    algorithms: Sequence[str],
) -> None:
    """Say in one sentence which flag is not known, and what was meant perhaps."""
    arguments = [name for name in fields_of(kind) if name != "settings"]
    both = [*arguments, *known]
    for name in words_of(argv):
        if name in both or name.removeprefix("no_") in both or name == "help":
            continue
        if any(name in user_settings(other) for other in algorithm_names()):
            whose = algorithms[0] if len(algorithms) == 1 else f"none of {', '.join(algorithms)}"
            has = "has no" if len(algorithms) == 1 else "has a"
            raise ValueError(
                f"{whose} {has} setting {flag(name)}; there are: {', '.join(map(flag, known))}"
            )
        raise ValueError(unknown("flag", flag(name), map(flag, both)))


def _call_tyro(
    kind: type[A],
    argv: Sequence[str],
    prog: str,
    given: dict[str, Any],
    known: Mapping[str, Setting],
    algorithms: Sequence[str],
) -> tuple[A, dict[str, Any]]:
    """The arguments, and the settings that were typed."""
    title = algorithms[0].replace("-", "_") if len(algorithms) == 1 else "algorithms"
    told = given.get("settings", {})
    made = make_dataclass("Settings", [_field(s, algorithms, told) for s in known.values()])
    # Two groups of flags without a prefix: the command's, and the settings of the algorithms.
    first: Any = Annotated[kind, tyro.conf.OmitArgPrefixes]
    about = tyro.conf.arg(help=_about(algorithms))
    second: Any = Annotated[made, tyro.conf.OmitArgPrefixes, about]
    command = prog.split()[-1]
    both = make_dataclass("Typed", [(command, first), (title, second)])
    described = (kind.__doc__ or "").split("\n")[0]
    found: Any = tyro.cli(
        both, prog=prog, description=described, args=list(argv), default=both(kind(**given), made())
    )
    values, words = getattr(found, title), set(words_of(argv))
    typed = {
        name: RawText(value) if isinstance(value, str) else value
        for name in known
        if name in words or f"no_{name}" in words
        for value in [getattr(values, name)]
    }
    return getattr(found, command), typed


def _about(algorithms: Sequence[str]) -> str:
    if len(algorithms) > 1:
        return f"Settings of {', '.join(algorithms)}; for one of them: NAME:key=value."
    said = (algorithm_class(algorithms[0]).__doc__ or "").split("\n")[0]
    return f"Settings of {algorithms[0]}. {said}"


def _field(
    setting: Setting, algorithms: Sequence[str], told: Mapping[str, Any]
) -> tuple[str, Any, Any]:
    """A setting as a field that tyro makes a flag of; its text is read by the algorithm."""
    owners = [name for name in algorithms if setting.name in user_settings(name)]
    only = f" Only {', '.join(owners)}." if len(owners) < len(algorithms) else ""
    help = setting.help + only
    if setting.type is bool:
        start = told.get(setting.name, setting.default)
        kind: Any = Annotated[bool, tyro.conf.arg(help=help)]
        return setting.name, kind, field(default=False if start is REQUIRED else start)
    defaults = {shown_default(user_settings(name)[setting.name].default) for name in owners}
    if setting.name in told:
        defaults = {shown_default(told[setting.name])}
    default = defaults.pop() if len(defaults) == 1 else "each its own"
    hint = "(required)" if default == "required" else f"(default: {default})"
    about = tyro.conf.arg(help=help, metavar=metavar(setting.type), help_behavior_hint=hint)
    return setting.name, Annotated[str | None, about], field(default=None)


def shown_default(value: Any) -> str:
    """A default as help tells it."""
    if value is REQUIRED:
        return "required"
    value = plain(value)
    return "+".join(map(str, value)) if isinstance(value, list) else str(value).lower()


def metavar(kind: Any) -> str:
    """A type as help tells it.

    >>> metavar(float | None), metavar(Literal["all", "seen"])
    ('FLOAT|NONE', '{all,seen}')
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "{" + ",".join(map(str, inner)) + "}"
    if origin in (Union, UnionType):
        return "|".join(dict.fromkeys(map(metavar, inner)))
    known = {float: "FLOAT", int: "INT", str: "STR", bool: "{true,false}", type(None): "NONE"}
    return known.get(kind) or ("TABLE" if origin in (Mapping, dict) else "LIST")
