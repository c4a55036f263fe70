"""Experiments as they are typed: flags made from the dataclasses, TOML files beneath them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import tyro

from fedadavr.experiments.experiment import Experiment, read_toml
from fedadavr.experiments.run import RunOptions

A = TypeVar("A", bound="Arguments")


@dataclass(frozen=True)
class Arguments(Experiment, RunOptions):
    """What every command that runs experiments takes."""

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


def parse(kind: type[A], argv: list[str], prog: str, **defaults: Any) -> A:
    """The words typed, over the file that `--config` names, over the defaults."""
    given = dict(defaults)
    for i, word in enumerate(argv):
        if word == "--config" and i + 1 < len(argv):
            given |= read_toml(Path(argv[i + 1]), kind)
        elif word.startswith("--config="):
            given |= read_toml(Path(word.removeprefix("--config=")), kind)
    return tyro.cli(kind, prog=prog, args=argv, default=kind(**given))
