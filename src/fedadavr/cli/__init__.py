"""The command line: `fedadavr COMMAND ...`. A command's module is imported when it is called."""

from __future__ import annotations

import importlib
import inspect
import logging
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fedadavr.naming import unknown
from fedadavr.signals import TermAsInterrupt, Terminated

COMMANDS = {
    "run": ("fedadavr.cli.run:main", "train one model"),
    "compare": ("fedadavr.cli.compare:main", "several algorithms and seeds, with error bars"),
    "report": ("fedadavr.paper.runs_report:main", "what came of runs, as one HTML page"),
    "sweep": (
        "fedadavr.experiments.sweep_command:main",
        "many settings, in parallel, each run once",
    ),
    "algorithms": ("fedadavr.cli.algorithms:main", "what there is to run, and its settings"),
    "paper list": ("fedadavr.paper.commands:list_presets", "the paper's tables and figures"),
    "paper run": ("fedadavr.paper.commands:run_preset", "run one of them, with error bars"),
    "paper report": ("fedadavr.paper.report:main", "ours beside the paper's, as one page"),
    "data list": ("fedadavr.data.commands:list_datasets", "which data sets are at hand, and where"),
    "data show": ("fedadavr.data.commands:show", "draw who holds what"),
    "quadratic": (
        "fedadavr.experiments.quadratic:main",
        "every algorithm where the answer is known",
    ),
    "memory inspect": ("fedadavr.memory.commands:inspect", "what a store holds"),
    "memory verify": ("fedadavr.memory.commands:verify", "check a store, record by record"),
    "memory repair": ("fedadavr.memory.commands:repair", "mend a store"),
    "memory forget": ("fedadavr.memory.commands:forget", "take clients out of a store"),
    "memory convert": ("fedadavr.memory.commands:convert", "another codec, key or kind of store"),
    "memory backup": ("fedadavr.memory.commands:backup", "copy a store, also one in use"),
    "memory rewind": ("fedadavr.memory.commands:rewind", "take a store back to a snapshot"),
    "memory upgrade": (
        "fedadavr.experiments.upgrade:upgrade",
        "convert a store or run of version 0.1",
    ),
    "memory trust": ("fedadavr.experiments.trust:draw_trust", "draw FedAdaVR+'s trust and kinds"),
    "memory plan": ("fedadavr.experiments.plan:plan", "how much room a memory takes"),
    "bench flower": ("fedadavr.bench.flower:main", "time aggregate_train, beside Flower's own"),
    "bench memory": ("fedadavr.bench.memory:main", "time stores, from few clients to a million"),
    "bench round": ("fedadavr.bench.round:main", "time one round of training and evaluation"),
    "bench server": ("fedadavr.bench.server:main", "time one server step"),
    "bench training": ("fedadavr.bench.training:main", "time local training, plain and fast"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the `fedadavr` program."""
    args = list(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    if not args or args[0] in ("-h", "--help"):
        print(overview())
        return
    name = " ".join(args[:2]) if " ".join(args[:2]) in COMMANDS else args[0]
    if name not in COMMANDS:
        group = [command for command in COMMANDS if command.startswith(f"{name} ")]
        if group and args[1:2] in (["-h"], ["--help"]):
            print(overview(group))
            return
        fail(unknown("command", " ".join(args[:2]) if group else name, group or COMMANDS))
    try:
        with TermAsInterrupt():
            call(name, args[len(name.split()) :])
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fedadavr"):
            raise
        extra = "cli" if error.name in ("tyro", "rich") else "experiments"
        fail(f"this command needs {error.name}: pip install 'fedadavr[{extra}]'")
    except BrokenPipeError:  # whoever was reading has seen enough
        sys.stderr.close()
    except KeyboardInterrupt as error:
        print("fedadavr: interrupted; what was finished is kept", file=sys.stderr)
        raise SystemExit(143 if isinstance(error, Terminated) else 130) from None
    except (ValueError, OSError) as error:
        fail(str(error))
    finally:
        if argv is None:  # the process ends: a late Ctrl-C has nothing left to interrupt
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def call(name: str, rest: list[str]) -> None:
    """Call a command with the words after its name."""
    import tyro

    command = load(COMMANDS[name][0])
    if "argv" in inspect.signature(command).parameters:
        command(argv=rest, prog=f"fedadavr {name}")
    else:
        tyro.cli(command, prog=f"fedadavr {name}", args=rest)


def overview(commands: Iterable[str] = COMMANDS) -> str:
    """What there is."""
    width = max(map(len, commands))
    lines = [f"  fedadavr {name:<{width}}  {COMMANDS[name][1]}" for name in commands]
    return "\n".join(["usage: fedadavr COMMAND [--help]", "", *lines])


def load(place: str) -> Callable[..., Any]:
    """The function at `module:name`."""
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def fail(message: str) -> None:
    """End with one sentence on stderr."""
    print(f"fedadavr: {message}", file=sys.stderr)
    raise SystemExit(2)
