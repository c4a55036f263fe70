"""The command line: `fedadavr COMMAND ...`. A command's module is imported when it is called."""

from __future__ import annotations

import importlib
import inspect
import logging
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from fedadavr import __version__
from fedadavr.naming import unknown
from fedadavr.signals import TermAsInterrupt, Terminated
from fedadavr.supported import check_platform

HELP = ("-h", "--help")

COMMANDS = {
    "run": ("fedadavr.cli.run:main", "train one model"),
    "compare": ("fedadavr.cli.compare:main", "several algorithms and seeds, with error bars"),
    "report": ("fedadavr.cli.report:main", "what came of runs, as one HTML page"),
    "sweep": (
        "fedadavr.cli.sweep:main",
        "many settings, in parallel, each run once",
    ),
    "algorithms": ("fedadavr.cli.algorithms:main", "what there is to run, and its settings"),
    "paper list": ("fedadavr.cli.paper:list_presets", "the paper's tables and figures"),
    "paper run": ("fedadavr.cli.paper:run_preset", "run one of them, with error bars"),
    "paper status": ("fedadavr.cli.paper:status", "how far the runs of each are"),
    "paper report": ("fedadavr.cli.paper:report", "ours beside the paper's, as one page"),
    "data list": ("fedadavr.cli.data:list_datasets", "which data sets are at hand, and where"),
    "data show": ("fedadavr.cli.data:show", "draw who holds what"),
    "quadratic": (
        "fedadavr.cli.quadratic:main",
        "every algorithm where the answer is known",
    ),
    "theory": ("fedadavr.cli.theory:main", "the paper's theorem, checked, and the error split"),
    "memory inspect": ("fedadavr.cli.memory:inspect", "what a store holds"),
    "memory verify": ("fedadavr.cli.memory:verify", "check a store, record by record"),
    "memory repair": ("fedadavr.cli.memory:repair", "mend a store"),
    "memory forget": ("fedadavr.cli.memory:forget", "take clients out of a store"),
    "memory convert": ("fedadavr.cli.memory:convert", "another codec, key or kind of store"),
    "memory backup": ("fedadavr.cli.memory:backup", "copy a store, also one in use"),
    "memory rewind": ("fedadavr.cli.memory:rewind", "take a store back to a snapshot"),
    "memory export": ("fedadavr.cli.memory:export", "the model as .safetensors or .npz"),
    "memory reset": ("fedadavr.cli.memory:reset", "empty a store, to begin anew"),
    "memory upgrade": (
        "fedadavr.cli.memory:upgrade",
        "convert a store or run of version 0.1",
    ),
    "memory trust": ("fedadavr.cli.memory:trust", "draw FedAdaVR+'s trust and kinds"),
    "memory plan": ("fedadavr.cli.plan:plan", "how much room a memory takes"),
    "bench flower": ("fedadavr.cli.bench:flower", "time aggregate_train, beside Flower's own"),
    "bench memory": ("fedadavr.cli.bench:memory", "time stores, from few clients to a million"),
    "bench round": ("fedadavr.cli.bench:mnist_round", "time one round of training and evaluation"),
    "bench server": ("fedadavr.cli.bench:server", "time one server step"),
    "bench training": ("fedadavr.cli.bench:training", "time local training, plain and fast"),
}


EXTRAS = {
    "tyro": "cli", "rich": "cli",
    "torch": "experiments", "datasets": "experiments", "safetensors": "experiments",
    "matplotlib": "experiments", "mlxtend": "experiments", "optuna": "experiments",
    "plotly": "experiments", "tensorboard": "experiments",
    "flwr": "flower", "redis": "redis", "cryptography": "encryption", "pfl": "bench",
}  # fmt: skip
"""The extra that brings a package, as pyproject.toml has them."""


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the `fedadavr` program."""
    args = list(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    name = command_of(args)
    if name is None:
        return
    try:
        check_platform()
        with TermAsInterrupt():
            call(name, args[len(name.split()) :])
    except ModuleNotFoundError as error:
        fail(missing(error))
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


def command_of(args: Sequence[str]) -> str | None:
    """The command that is typed; None if it was help or the version, which have been printed."""
    if not args or args[0] in HELP:
        print(overview())
        return None
    if args[0] == "--version":
        print(f"fedadavr {__version__}")
        return None
    name = " ".join(args[:2]) if " ".join(args[:2]) in COMMANDS else args[0]
    if name in COMMANDS:
        return name
    group = [command for command in COMMANDS if command.startswith(f"{name} ")]
    if group and (len(args) == 1 or args[1] in HELP):
        print(overview(group))
        return None
    from fedadavr.stores.addresses import public  # a store's address may be where a command goes

    typed = " ".join(map(public, args[:2])) if group else public(name)
    return fail(unknown("command", typed, group or COMMANDS))


def missing(error: ModuleNotFoundError) -> str:
    """Which extra brings a module that is not installed."""
    package = (error.name or "").partition(".")[0]
    if package == "fedadavr":
        raise error
    if package not in EXTRAS:
        return f"this command needs {package}, which is not installed: pip install {package}"
    return f"this command needs {package}: pip install 'fedadavr[{EXTRAS[package]}]'"


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
    return "\n".join(["usage: fedadavr COMMAND [--help]", "       fedadavr --version", "", *lines])


def load(place: str) -> Callable[..., Any]:
    """The function at `module:name`."""
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def fail(message: str) -> NoReturn:
    """End with one sentence on stderr."""
    print(f"fedadavr: {message}", file=sys.stderr)
    raise SystemExit(2)
