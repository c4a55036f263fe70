"""`python -m fedadavr.flower.stub` writes `strategies.pyi`.

There editors and type checkers read how each strategy is called. A test compares.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from inspect import Parameter

from fedadavr.flower import strategies, strategy
from fedadavr.flower.signatures import STUB, Argument, arguments, documentation

HEAD = '''# ruff: noqa
# fmt: off
"""Each algorithm as a strategy of its own name.

Written by `python -m fedadavr.flower.stub`, from the algorithms' settings: do not edit.
"""
'''
MODULES = {"ClassVar": "typing", "Literal": "typing", "Mapping": "collections.abc",
           "Sequence": "collections.abc", "Strategy": "fedadavr.flower.strategy"}  # fmt: skip
"""Where names come from that strategy.py may not import."""
OWNERS = ("flwr", "fedadavr")


def classes() -> dict[str, str]:
    """The strategies in the order of their file, and what it says of each."""
    nodes = ast.parse(inspect.getsource(strategies)).body
    return {n.name: ast.get_docstring(n) or "" for n in nodes if isinstance(n, ast.ClassDef)}


def stub() -> str:
    """The text of the stub."""
    bodies = "\n".join(_class(name, summary) for name, summary in classes().items())
    return "\n".join([HEAD, _imports(bodies), "", bodies])


def _class(name: str, summary: str) -> str:
    algorithm = getattr(strategies, name).name
    text = documentation(algorithm, summary).replace("\\", "\\\\")
    lines = [f"class {name}(Strategy):"]
    lines += textwrap.indent(f'"""{text}"""', " " * 4).splitlines()
    lines += ["", "    name: ClassVar[str]", "", "    def __init__(", "        self,"]
    keyword = False
    for argument in arguments(algorithm):
        if argument.parameter.kind is Parameter.KEYWORD_ONLY and not keyword:
            keyword = True
            lines.append("        *,")
        lines.append(_line(argument))
    return "\n".join([*lines, "    ) -> None: ...", ""])


def _line(argument: Argument) -> str:
    """An argument and its default."""
    default = argument.parameter.default
    shown = "" if default is Parameter.empty else f" = {default!r}"
    return f"        {argument.parameter.name}: {argument.type}{shown},".replace("'", '"')


def _imports(text: str) -> str:
    """The imports of the names that stand in the stub's annotations."""
    known = MODULES | _imported()
    names: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and node.id in known:
            names.setdefault(known[node.id], set()).add(node.id)
    groups = [[m for m in sorted(names) if _owner(m) == owner] for owner in ("", *OWNERS)]
    lines = [[f"from {m} import {', '.join(sorted(names[m]))}" for m in group] for group in groups]
    return "\n\n".join("\n".join(group) for group in lines if group)


def _owner(module: str) -> str:
    """The package that a module is of; empty for Python's own."""
    package = module.partition(".")[0]
    return package if package in OWNERS else ""


def _imported() -> dict[str, str]:
    """The names that strategy.py imports, and from where; its own are its own."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(inspect.getsource(strategy))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {a.name: node.module for a in node.names if a.asname is None}
    own = [name for name, value in vars(strategy).items()
           if getattr(value, "__module__", "") == strategy.__name__]  # fmt: skip
    return dict.fromkeys(own, strategy.__name__) | found


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
