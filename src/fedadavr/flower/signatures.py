"""Each strategy's own signature and documentation, from its algorithm's settings.

What is called is `Strategy.__init__` as before: a setting that is not given stays not given, so
that a default does not override what a store's rounds were made with. Tools that do not run the
code read the same in `strategies.pyi`, which `fedadavr.flower.stub` writes.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import types
import typing
from functools import cache
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from fedadavr.algorithms.registry import settings_of
from fedadavr.codecs import CODECS
from fedadavr.flower.aliases import ALIASES
from fedadavr.flower.strategy import Strategy
from fedadavr.optimizers import OPTIMIZERS
from fedadavr.settings import REQUIRED, Setting

STUB = Path(__file__).with_name("strategies.pyi")
WIDTH = 96  # of a docstring's lines, which are indented in the stub
LEFT_OUT = ("self", "algorithm")  # a class has its algorithm
CHOICES: dict[str, Any] = {"codec": CODECS, "optimizer": OPTIMIZERS}

FLOWERS = {
    "fraction_train": "Share of the connected clients that train in a round.",
    "fraction_evaluate": "Share of the connected clients that evaluate; 0: nobody does.",
    "min_train_nodes": "Train with at least so many clients, whatever the share.",
    "min_evaluate_nodes": "Evaluate with at least so many clients, whatever the share.",
    "min_available_nodes": "Wait until so many clients are connected.",
    "weighted_by_key": "The metric of a reply that tells its number of examples.",
    "arrayrecord_key": "The name of the record in which the model is sent.",
    "configrecord_key": "The name of the record in which the config is sent.",
    "train_metrics_aggr_fn": "Makes one MetricRecord of the training replies' and the name of "
    "their weight; None: the weighted mean.",
    "evaluate_metrics_aggr_fn": "The same for the evaluation's replies.",
}
"""What the arguments do that Flower's FedAvg has, too."""

KEPT = (
    "Settings that are not given are, with a store that holds rounds, what these were made with; "
    "else their defaults."
)


class Argument(NamedTuple):
    """One argument of a strategy."""

    parameter: Parameter
    type: str
    """As it stands in the source."""
    told: str
    """The type as it stands in the documentation."""
    help: str


class _NotGiven:
    """The default of Flower's name of a setting: the setting's own counts."""

    def __repr__(self) -> str:
        return "..."


@cache
def arguments(algorithm: str) -> tuple[Argument, ...]:
    """The arguments of an algorithm's strategy: Flower's, ours, the settings, Flower's names."""
    found = {argument.parameter.name: argument for argument in _common()}
    settings = {n: s for n, s in settings_of(algorithm).items() if n not in found}
    for name, setting in settings.items():
        kind = _offered(setting)
        default = Parameter.empty if setting.default is REQUIRED else setting.default
        parameter = Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        found[name] = Argument(parameter, written(kind), written(kind), setting.help)
    for alias, name in ALIASES.items():
        if name in settings and alias not in found:
            parameter = found[name].parameter.replace(name=alias, default=_NotGiven())
            text = found[name].type
            found[alias] = Argument(parameter, text, text, f"Flower's name of `{name}`.")
    return tuple(found.values())


def _common() -> list[Argument]:
    """The arguments that every strategy has."""
    raw = inspect.signature(Strategy.__init__)
    try:
        known = inspect.signature(Strategy.__init__, eval_str=True)
    except NameError:  # a name that is there for type checkers only
        known = raw
    documented = _documented(inspect.getdoc(Strategy) or "")
    found = []
    for name, parameter in raw.parameters.items():
        if name in LEFT_OUT or parameter.kind is Parameter.VAR_KEYWORD:
            continue
        text = parameter.annotation
        told, help = documented.get(name) or (text, FLOWERS.get(name, ""))
        found.append(Argument(known.parameters[name], text, told, help))
    return found


def _documented(docstring: str) -> dict[str, tuple[str, str]]:
    """The parameters of a numpydoc docstring: each one's type and description."""
    section = docstring.partition("Parameters\n----------\n")[2]
    found: dict[str, tuple[str, str]] = {}
    for entry in re.split(r"\n(?=\S)", section):
        head, _, text = entry.partition("\n")
        name, _, told = head.partition(" : ")
        found[name] = told, " ".join(text.split())
    return found


def _offered(setting: Setting) -> Any:
    """A setting's type; where plugins may bring more, our own names and any other."""
    words = re.findall(r"[\w-]+", setting.help)
    names = [word for word in words if word in CHOICES.get(setting.name, ())]
    return typing.Union[Literal[tuple(names)], setting.type] if names else setting.type  # noqa: UP007


def written(kind: Any) -> str:
    """A type as it stands in the source.

    >>> written(typing.Optional[Literal["a", 1]]), written(dict[str, int])
    ("Literal['a', 1] | None", 'dict[str, int]')
    """
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(written, inner))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if kind is types.NoneType:
        return "None"
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(written, inner))}]"
    return str(kind.__name__)


@cache
def signature(algorithm: str) -> Signature:
    """How an algorithm's strategy is called."""
    return Signature([argument.parameter for argument in arguments(algorithm)])


def documentation(algorithm: str, summary: str) -> str:
    """What a strategy is and what it can be told, as numpydoc has it."""
    lines = [*textwrap.wrap(summary, WIDTH), "", *textwrap.wrap(KEPT, WIDTH), "", "Parameters",
             "----------"]  # fmt: skip
    for argument in arguments(algorithm):
        default = argument.parameter.default
        plain = default is Parameter.empty or isinstance(default, _NotGiven)
        shown = "" if plain or "optional" in argument.told else f", default {default!r}"
        lines.append(f"{argument.parameter.name} : {argument.told}{shown}")
        lines += textwrap.wrap(argument.help, WIDTH, initial_indent=" " * 4,
                               subsequent_indent=" " * 4)  # fmt: skip
    return "\n".join(lines) + "\n"


S = TypeVar("S", bound=type[Strategy])


def documented(cls: S) -> S:
    """Class decorator: a strategy with the signature and documentation of its algorithm."""
    cls.__signature__ = _Signature()  # type: ignore[attr-defined]
    cls.__doc__ = _in_the_stub().get(cls.__name__, cls.__doc__)
    return cls


@cache
def _in_the_stub() -> dict[str, str]:
    """The documentation of each class as the stub has it: quicker than to make it again."""
    try:
        text = STUB.read_text(encoding="utf-8")
    except OSError:
        return {}
    found = re.findall(r'(?ms)^class (\w+)\(Strategy\):\n    """(.*?)"""', text)
    return {name: inspect.cleandoc(told) + "\n" for name, told in found}


class _Signature:
    """`__signature__` of a class and of those below it that have no `__init__` of their own."""

    def __get__(self, instance: Any, owner: type[Strategy]) -> Signature | None:
        if owner.__init__ is not Strategy.__init__:
            return None  # `inspect` looks at that one
        try:
            return signature(owner.name)
        except ValueError:  # no such algorithm: making the strategy will say so
            return None
