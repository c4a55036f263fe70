"""Each Flower strategy says what it can be told: to editors, type checkers, help and inspect."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fedadavr.flower as flower
from fedadavr.algorithms import FedAvg
from fedadavr.algorithms.registry import ALGORITHMS, register, settings_of
from fedadavr.flower import strategies, stub
from fedadavr.flower.aliases import ALIASES
from fedadavr.flower.signatures import STUB, arguments
from tests.flower_grid import federation, first_model, strategy_on

FLOWER = Path(flower.__file__).parent
CLASSES = [getattr(strategies, name) for name in stub.classes()]
every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


def expected(cls: type[flower.Strategy]) -> set[str]:
    """Strategy's arguments, the algorithm's settings, and Flower's names of them."""
    common = set(inspect.signature(flower.Strategy).parameters) - {"algorithm", "settings"}
    settings = set(settings_of(cls.name))
    return common | settings | {alias for alias, name in ALIASES.items() if name in settings}


def test_the_stub_is_current() -> None:
    """What editors read is made of today's settings."""
    current = STUB.read_text() == stub.stub()
    assert current, "settings have changed: run `python -m fedadavr.flower.stub`"


def test_every_strategy_is_in_the_stub() -> None:
    """Those that the package exports, but for the one that takes any algorithm."""
    exported = {
        name
        for name in flower.__all__
        if isinstance(cls := getattr(flower, name), type) and issubclass(cls, flower.Strategy)
    }
    assert {cls.__name__ for cls in CLASSES} == exported - {"Strategy"}


@every_class
def test_a_signature_has_every_setting_and_its_default(cls: type[flower.Strategy]) -> None:
    """As `inspect` tells it; Flower's names have no default of their own."""
    found = inspect.signature(cls).parameters
    assert set(found) == expected(cls)
    for name, setting in settings_of(cls.name).items():
        if name != "store":
            assert found[name].default == setting.default
            assert found[name].kind is inspect.Parameter.KEYWORD_ONLY
    assert all(repr(found[alias].default) == "..." for alias in ALIASES if alias in found)


@every_class
def test_every_argument_is_documented(cls: type[flower.Strategy]) -> None:
    """With its type and a sentence, in the class's docstring, which `help` shows."""
    assert cls.__doc__ is not None
    section = cls.__doc__.partition("Parameters\n----------\n")[2]
    told = dict(re.findall(r"^(\w+) : \S.*\n((?:    .+\n)+)", section, re.MULTILINE))
    assert set(told) == expected(cls)
    assert all(argument.help for argument in arguments(cls.name))
    assert inspect.getdoc(cls) == cls.__doc__.rstrip()
    shown = pydoc.plain(pydoc.render_doc(cls))
    assert all(f"{name} : " in shown for name in told)


PROGRAM = """
from fedadavr.flower import ClusterFedVARP, FedAdam, FedAdaVR, FedAvg, FedProx, Strategy

FedAdaVR(0.5, server_lr=0.1, codec="int8", store="lmdb:/state", population={"a": 3})
FedAdaVR(codec="of-a-plugin", optimizer="of-a-plugin", weighting="ht")
FedAdam(eta=0.1, eta_l=0.1, beta_1=0.9, beta_2=0.99)
FedAdam(eta="learned", server_lr_start=0.01)
FedProx(proximal_mu=0.1)
Strategy(algorithm="one's own", whatever=1)


class Mine(FedAdaVR):
    def __init__(self, *args: float, mine: int, **kw: str) -> None:
        super().__init__(codec="int4")


Mine(mine=3)
FedAdaVR(sever_lr=0.1)  # wrong: did you mean "server_lr"
FedAdaVR(server_lr="0.1")  # wrong: has incompatible type
FedAdaVR(max_norm="0.1")  # wrong: has incompatible type "str"
FedAvg(server_lr="learned")  # wrong: has incompatible type "str"
FedAdaVR(weighting="hat")  # wrong: has incompatible type
FedAvg(codec="int8")  # wrong: Unexpected keyword argument "codec"
FedAvg(proximal_mu=0.1)  # wrong: Unexpected keyword argument "proximal_mu"
ClusterFedVARP(clusters=0.5)  # wrong: has incompatible type "float"
"""


def test_mypy_knows_each_strategys_settings(tmp_path: Path) -> None:
    """Right calls pass, and wrong names and types are errors.

    Imports are not followed, which takes a second instead of twenty; `make lint` follows them.
    """
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=skip", "--config-file=", "--cache-dir",
         str(tmp_path), "program.py", str(FLOWER / "__init__.py"), str(FLOWER / "strategies.pyi")],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    errors = dict(re.findall(r"^program\.py:(\d+): error: (.*)$", result.stdout, re.MULTILINE))
    lines = enumerate(PROGRAM.splitlines(), 1)
    wrong = {str(k): line.partition("# wrong: ")[2] for k, line in lines if "# wrong" in line}
    assert set(errors) == set(wrong), result.stdout + result.stderr
    for line, why in wrong.items():
        assert why in errors[line]


def test_settings_that_are_not_given_are_still_the_stores(tmp_path: Path) -> None:
    """A signature's default is shown, and never passed: the store's rounds keep their settings."""
    url = f"lmdb:{tmp_path / 'store'}"
    strategy_on(url, codec="int8", server_lr=0.25).start(federation(), first_model(5), 1)
    assert inspect.signature(flower.FedAdaVR).parameters["server_lr"].default is None
    again = flower.FedAdaVR(fraction_evaluate=0.0, min_available_nodes=6, store=url)
    seen: list[Any] = []

    def look(round: int, arrays: Any) -> None:
        assert again.server is not None
        seen.append(again.server.server_optimizer.lr)
        assert again.server.memory is not None
        seen.append(again.server.memory.codec.name)

    again.start(federation(), first_model(5), 2, evaluate_fn=look)
    assert seen == [0.25, "int8"]


class Mine(flower.FedAdaVR):
    """A subclass with an argument of its own."""

    def __init__(self, *args: Any, mine: int, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.mine = mine


class Nearly(flower.FedAdaVR):
    name = "fedadavr-noopt"


class Unknown(flower.FedAdaVR):
    name = "not-there"


def test_subclasses_are_their_own() -> None:
    """An `__init__` of one's own is what `inspect` shows; another algorithm's name is followed."""
    assert list(inspect.signature(Mine).parameters) == ["args", "mine", "kw"]
    strategy = Mine(0.5, mine=3, codec="int4", eta=0.1)
    assert (strategy.mine, strategy._settings) == (3, {"codec": "int4", "server_lr": 0.1})
    assert Mine.__doc__ == "A subclass with an argument of its own."
    assert set(inspect.signature(Nearly).parameters) == expected(Nearly)
    assert "settings" in inspect.signature(Unknown).parameters
    with pytest.raises(ValueError, match="unknown setting of fedadavr 'sever_lr'"):
        Mine(mine=3, sever_lr=0.1)


def test_an_algorithm_of_ones_own_takes_any_settings() -> None:
    """The generic strategy is as it was, and reads them from the algorithm's fields."""
    with ALGORITHMS.unchanged():

        @register("of-my-own")
        class OfMyOwn(FedAvg):
            """FedAvg with a setting."""

            warmth: float = 1.0
            """How warm."""

        strategy = flower.Strategy(algorithm="of-my-own", warmth=2, eta=0.5)
        assert strategy._settings == {"warmth": 2, "server_lr": 0.5}
        with pytest.raises(ValueError, match="unknown setting of of-my-own 'wramth'"):
            flower.Strategy(algorithm="of-my-own", wramth=2)
    assert "settings" in inspect.signature(flower.Strategy).parameters
