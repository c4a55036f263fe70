"""Settings: an algorithm's own fields, from wherever they are told; and what others bring."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

import fedadavr
from fedadavr.algorithms import FedProx, algorithm_names
from fedadavr.algorithms.registry import (
    ALGORITHMS,
    algorithm_class,
    settings_in_use,
    user_settings,
)
from fedadavr.cli import main
from fedadavr.data.registry import DATASETS, PARTITIONS
from fedadavr.defaults import filled
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.folder import RunFolder
from fedadavr.experiments.records import RECORDS, read_lines, run_id
from fedadavr.experiments.run import RunOptions, run
from fedadavr.models.registry import MODELS
from fedadavr.report.grouping import _spoken
from fedadavr.settings import RawText, Setting, Settings
from fedadavr.vector import Layout

ROOT = Path(__file__).parent.parent
PROBE = Layout({"probe": (1,)})

OWN = '''
from typing import Literal

import torch
from torch import nn

from fedadavr.algorithms.base import Cohort, Direction, Remembering
from fedadavr.algorithms.registry import register
from fedadavr.data import Arrays, Dataset, dataset, partition
from fedadavr.models import model


@dataset("NAME-dots", clients=10, model="NAME-line", rounds=3)
def dots():
    x = torch.randn(400, 3, generator=torch.Generator().manual_seed(1))
    y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    return Dataset("NAME-dots", Arrays(x[:300], y[:300]), Arrays(x[300:], y[300:]), classes=4)


@model("NAME-line")
def line(classes):
    return nn.Linear(3, classes)


@partition("NAME-halves")
def halves(labels, classes, clients, rng):
    shares = rng.random((classes, clients)) + 1.0
    return shares / shares.sum(axis=1, keepdims=True)


@register("NAME")
class Trusting(Remembering):
    """FedVARP with its memory scaled by `trust`."""

    trust: float = 0.5
    """How far to believe the memory."""
    first: Literal["all", "none"] = "none"
    """Whether the memory counts in the first round."""
    bold: bool = False
    """Step twice as far."""

    def direction(self, cohort: Cohort) -> Direction:
        gain = cohort.even * (2.0 if self.bold else 1.0)
        return Direction(gain=gain, recall=self.trust * gain, base=self.trust / cohort.count)
'''


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A file from outside: an algorithm with settings of its own, and data to try it on."""
    path = tmp_path_factory.mktemp("outside") / "trusting.py"
    path.write_text(OWN.replace("NAME", "trusting"))
    with (ALGORITHMS.unchanged(), DATASETS.unchanged(), MODELS.unchanged(),
          PARTITIONS.unchanged()):  # fmt: skip
        yield str(path)


def small(file: str, *words: str) -> list[str]:
    return ["--load", file, "--dataset", "trusting-dots", "--partition", "trusting-halves", *words]


def program(*words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, which also tells whether PyTorch was imported."""
    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(path or '.')!r})\n"
        "from fedadavr.cli import main\n"
        "try: main()\nfinally: print('torch' in sys.modules, 'theirs' in sys.modules)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )


# --- an algorithm from outside, from its file to a report ---


def test_an_algorithm_from_outside_has_its_settings_everywhere(
    trusting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run, resume, compare, sweep and report, each with settings that nothing of ours names."""
    out = tmp_path / "run"
    typed = ["--algorithm", "trusting", "--trust", "0.3", "--bold"]
    main(["run", *small(trusting, *typed, "--out", str(out), "--json")])
    saved = RunFolder(out).experiment()
    assert saved.settings["trust"] == 0.3
    assert saved.settings["bold"] is True
    assert saved.settings["first"] == "none"  # a default is written, too
    assert saved.settings["clip"] == 50.0
    resume = ["--resume", str(out), "--load", trusting]
    with pytest.raises(SystemExit):
        main(["run", *resume, "--trust", "0.4"])
    assert "--trust cannot change" in capsys.readouterr().err
    main(["run", *resume, "--trust", "0.3", "--rounds", "5", "--json"])
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["rounds"] == 5
    fresh = program("run", *resume, "--trust", "0.3", "--rounds", "6", "--json")
    assert json.loads(fresh.stdout.splitlines()[0])["rounds"] == 6, fresh.stderr

    specs = ["fedavg", "trusting:trust=0.3,first=all", "trusting:bold=true"]
    compared = tmp_path / "compared"
    main(["compare", *small(trusting, "--algorithms", *specs, "--seeds", "1", "2"),
          "--out", str(compared), "--json"])  # fmt: skip
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["summary"]
    assert [line["algorithm"] for line in told] == specs
    one = RunFolder(compared / "trusting_trust=0.3_first=all-1").experiment().settings
    assert (one["trust"], one["first"], one["bold"]) == (0.3, "all", False)

    swept = tmp_path / "swept"
    axes = ["--algorithm", "trusting", "--grid", "trust=0.1,0.5", "bold=true,false"]
    main(["sweep", *small(trusting, *axes), "--out", str(swept), "--json"])
    assert json.loads(capsys.readouterr().out)["new"] == 4
    spelled = ["--algorithm", "trusting", "--grid", "trust=0.50,0.9", "bold=false"]
    main(["sweep", *small(trusting, *spelled), "--out", str(swept), "--json"])
    assert json.loads(capsys.readouterr().out)["kept"] == 1
    found = [(r.settings["trust"], r.settings["bold"]) for r in read_lines(swept / RECORDS)]
    assert sorted(found) == [(0.1, False), (0.1, True), (0.5, False), (0.5, True), (0.9, False)]

    page = tmp_path / "page.md"
    main(["report", str(swept), "-o", str(page)])
    text = page.read_text()
    assert "trust=0.1 bold=True" in text
    assert "--trust 0.1 --bold" in text


def test_an_algorithm_from_outside_is_a_flower_strategy(trusting: str, tmp_path: Path) -> None:
    """Its settings are keywords, typed and checked; a store keeps them for the next start."""
    from fedadavr.flower import Strategy
    from fedadavr.plugins import load_file
    from tests.flower_grid import federation, first_model

    load_file(trusting)
    for keyword, message in (
        ({"trsut": 0.3}, "unknown setting of trusting 'trsut' (did you mean 'trust'?)"),
        ({"trust": "much"}, "trusting: trust must be a number, got 'much'"),
        ({"first": "some"}, "trusting: first must be 'all' or 'none', got 'some'"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            Strategy(algorithm="trusting", **keyword)
    store, used = f"lmdb:{tmp_path / 'store'}", []

    class Watched(Strategy):
        def close(self) -> None:
            if isinstance(self.server, algorithm_class("trusting")):
                used.append(self.server.trust)  # type: ignore[attr-defined]
            super().close()

    for rounds, given in ((2, {"trust": 0.3}), (4, {})):
        strategy = Watched(algorithm="trusting", store=store, fraction_evaluate=0.0, **given)  # type: ignore[arg-type]
        strategy.start(federation(), first_model(40), num_rounds=rounds)
    assert used == [0.3, 0.3]


# --- defaults, then and now ---


def change_default(monkeypatch: pytest.MonkeyPatch, cls: Any, name: str, value: Any) -> None:
    """As if a new version had another default."""
    from fedadavr import settings
    from fedadavr.experiments import experiment

    monkeypatch.setitem(cls.__init__.__kwdefaults__, name, value)
    monkeypatch.setattr(cls.__dataclass_fields__[name], "default", value)
    settings._settings_of.cache_clear()
    experiment._in_use.cache_clear()  # another test may have asked for the same


def old_config(out: Path, *given: str) -> None:
    """Write a run's settings as version 0.1 did: flat, and only what was given."""
    config = (out / "config.toml").read_text()
    flat = re.sub(r'^version = ".*"\n', "", config.partition("[settings]")[0])
    (out / "config.toml").write_text(flat + "\n".join(given) + "\n")


@pytest.mark.parametrize("version", ["0.1", "now"])
def test_a_resume_never_takes_a_new_default(
    version: str, mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run goes on with what it began with, also one whose folder does not tell its defaults."""
    words = ["--load", mine, "--dataset", "blobs", "--model", "mlp", "--clients", "20"]
    more = ["--algorithm", "fedprox", "--max-norm", "50", "--rounds", "4"]
    main(["run", *words, *more, "--out", str(tmp_path / "whole")])
    main(["run", *words, *more, "--rounds", "2", "--average-last", "1", "--out",
          str(tmp_path / "cut")])  # fmt: skip
    if version == "0.1":
        old_config(tmp_path / "cut", "max_norm = 50.0")
    change_default(monkeypatch, FedProx, "mu", 5.0)
    assert Experiment(algorithm="fedprox").resolved().settings["mu"] == 5.0
    saved = RunFolder(tmp_path / "cut").experiment()
    assert saved.settings["mu"] == 0.01
    assert saved.settings["max_norm"] == 50.0
    main(["run", "--resume", str(tmp_path / "cut"), "--load", mine, "--rounds", "4"])
    assert RunFolder(tmp_path / "cut").experiment().settings["mu"] == 0.01
    losses = [
        [row["train_loss"] for row in RunFolder(tmp_path / name).rows()]
        for name in ("cut", "whole")
    ]
    assert losses[0] == losses[1]
    monkeypatch.undo()
    change_default(monkeypatch, FedProx, "mu", 0.01)  # and forget what was read meanwhile


def test_another_default_is_another_run(mine: str, tmp_path: Path) -> None:
    """A program that resumes with settings that are not the run's is told so."""
    one = Experiment.of(dataset="blobs", model="mlp", clients=20, rounds=2, load=mine)
    run(one, RunOptions(), tmp_path / "run")
    with pytest.raises(ValueError, match="holds another run"):
        run(one.updated(eps=1e-3), RunOptions(), tmp_path / "run", resume=True)


@pytest.mark.parametrize("name", algorithm_names())
@pytest.mark.parametrize("optimizer", [None, "yogi", "sgd"])
def test_what_0_1_wrote_is_the_same_run(name: str, optimizer: str | None) -> None:
    """Settings that were left to their defaults then are known as those of today."""
    given = {"optimizer": optimizer} if optimizer and "optimizer" in user_settings(name) else {}
    learns = name in ("fedadavr", "fedadavr-quant", "fedadavr-plus") and optimizer != "sgd"
    then = {"server_lr": 0.01} if learns else {}  # a default that is another now
    new = Experiment.of(
        dataset="mnist", partition="iid", algorithm=name, **given, **then
    ).resolved()
    fields = {k: v for k, v in new.flat().items() if k not in new.settings and k != "fast"}
    old = Experiment.read(fields | given)
    assert run_id(old) == run_id(new)
    assert old.settings == new.settings


def test_the_defaults_of_0_1_hold_for_what_is_made_of_its_classes() -> None:
    """An algorithm of one's own has those of the class that it extends, where it has no others."""
    with ALGORITHMS.unchanged():

        @fedadavr.register("own-quant")
        class OwnQuant(algorithm_class("fedadavr-quant")):  # type: ignore[misc]
            clip: float = 7.0

        found = filled("own-quant", {"optimizer": "yogi"})
        assert (found["codec"], found["clip"], found["server_lr"]) == ("fp16", 7.0, 0.01)
        later = filled("own-quant", {}, version="0.9.0")
        assert (later["clip"], later["beta1"]) == (7.0, None)


def test_every_setting_is_in_the_file_and_in_the_record(mine: str, tmp_path: Path) -> None:
    """Also None, and lists; read again, it is the same experiment."""
    experiment = Experiment.of(algorithm="fedadavr-plus", trust=0.25, memories="own").resolved()
    again = Experiment.from_toml(experiment.to_toml())
    assert again == experiment
    assert hash(again) == hash(experiment)
    assert 'max_norm = "none"' in experiment.to_toml()
    assert set(experiment.settings) == set(user_settings("fedadavr-plus"))
    assert Experiment.read(json.loads(json.dumps(experiment.flat()))) == experiment
    server = experiment.server(PROBE)
    assert Settings(settings_in_use(server)) == experiment.settings


# --- values and names ---


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (float, RawText("1e-3"), 1e-3), (float, 1, 1.0), (int, RawText("7"), 7),
        (bool, RawText("true"), True),
        (float | None, RawText("none"), None), (float | None, "none", None),
        (str, RawText("1"), "1"),
        (float | Literal["learned"], RawText("0.5"), 0.5), (int | float, RawText("3"), 3),
        (float | Literal["learned"], "learned", "learned"), (Literal[1, 2], RawText("2"), 2),
        (Sequence[str], RawText("own+centers"), ("own", "centers")), (tuple[int, ...], [1], (1,)),
        (int | Mapping[str, int], {"a": 1}, {"a": 1}), (Path, "x", Path("x")),
    ],
)  # fmt: skip
def test_values_become_of_their_type(kind: Any, value: Any, read: Any) -> None:
    """As they are typed, or stand in a file."""
    found = Setting("x", kind, None, "").read(value)
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (float, RawText("x"), "a: big-x must be a number, got 'x'"),
        (float, "0.5", "a: big_x must be a number, got '0.5'"),
        (int, 1.5, "a: big_x must be a whole number, got 1.5"),
        (int, True, "a: big_x must be a whole number, got True"),
        (int | None, RawText("many"), "a: big-x must be a whole number or none, got 'many'"),
        (bool, RawText("yes"), "a: big-x must be true or false, got 'yes'"),
        (Literal["p", "q", "r"], RawText("s"), "a: big-x must be 'p', 'q' or 'r', got 's'"),
        (float, 10**400, "a: big_x must be a number, got a number of more than 128 bits"),
    ],
)
def test_a_wrong_value_is_said_in_one_sentence(kind: Any, value: Any, message: str) -> None:
    """With the place, the name as it was told, and what it must be."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Setting("big_x", kind, None, "").read(value, "a")


def test_a_setting_without_a_default_must_be_told(tmp_path: Path) -> None:
    """The sentence is the setting's help; and a name that is taken is refused."""
    with ALGORITHMS.unchanged():

        @fedadavr.register("needy")
        class Needy(algorithm_class("fedavg")):  # type: ignore[misc]
            much: float
            """How much."""

        assert Experiment.of(algorithm="needy", much=2).resolved().settings["much"] == 2.0
        with pytest.raises(ValueError, match="needy needs a value of much"):
            Experiment(algorithm="needy").resolved()

        @fedadavr.register("greedy")
        class Greedy(algorithm_class("fedavg")):  # type: ignore[misc]
            rounds: int = 3

        with pytest.raises(ValueError, match="'rounds', which is a field of every experiment"):
            Experiment(algorithm="greedy").resolved()
        with pytest.raises(ValueError, match="the algorithm 'fedavg' is there already"):
            fedadavr.register("fedavg")(Needy)


# --- help and errors, quickly ---


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--help"], "--clients-per-round INT"),
        (["run", "--algorithm", "mifa", "--help"], "--warmup {all,zeros,seen}"),
        (["compare", "--help"], "Only fedvarp, fedadavr."),
        (["sweep", "--help"], "--grid"),
        (["algorithms"], "cluster-fedvarp"),
        (["run", "--sever-lr", "1"], "unknown flag '--sever-lr' (did you mean '--server-lr'?)"),
        (["run", "--algorithm", "mifa", "--mu", "1"], "mifa has no setting --mu"),
        (["compare", "--mu", "1"], "none of fedavg, fedvarp, fedadavr-novr, fedadavr has"),
        (["run", "--algorithm", "mifa", "--warmup", "al"], "warmup must be 'all', 'zeros' or"),
        (["run", "--algorithm", "miffa"], "did you mean 'mifa'?"),
        (["run", "--model", "lenet"], "did you mean 'lenet5'?"),
        (["run", "--dataset", "mnits"], "did you mean 'mnist'?"),
        (["run", "--partition", "dirichle"], "did you mean 'dirichlet'?"),
        (["compare", "--algorithms", "fedadavr:codek=int8"], "did you mean 'codec'?"),
        (["sweep", "--grid", "sever-lr=1"], "did you mean 'server-lr'?"),
    ],
)  # fmt: skip
def test_help_and_errors_need_no_pytorch(words: list[str], said: str) -> None:
    """It takes seconds to import; what is listed is known without."""
    done = program(*words)
    assert said in " ".join((done.stdout + done.stderr).replace("│", "").split())
    assert done.stdout.splitlines()[-1].startswith("False")
    assert "Traceback" not in done.stderr


def test_help_shows_the_settings_of_an_algorithm_from_outside(trusting: str) -> None:
    """With its help and defaults, beside the fields of the experiment."""
    shown = " ".join(
        program("run", *small(trusting, "--algorithm", "trusting", "--help")).stdout.split()
    )
    for text in ("How far to believe the memory. (default: 0.5)", "--bold, --no-bold",
                 "--first {all,none}", "--rounds"):  # fmt: skip
        assert text in shown


def test_algorithms_are_listed_with_their_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, first line, settings; all of them have help."""
    main(["algorithms", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert {"fedavg", "fedadavr-plus"} <= {line["name"] for line in told}
    for line in told:
        if line["name"].startswith("plus-"):  # of a study, which another test has loaded
            continue
        assert line["about"]
        assert all(setting["help"] for setting in line["settings"].values()), line["name"]
    (prox,) = (line for line in told if line["name"] == "fedprox")
    assert prox["settings"]["mu"] == {"default": "0.01", "help": "Weight of the proximal term."}


def test_the_package_of_algorithms_is_not_hidden() -> None:
    """`import fedadavr.algorithms` gives the package; the old function warns."""
    import fedadavr.algorithms

    assert fedadavr.algorithms.FedProx is FedProx
    assert "fedavg" in fedadavr.algorithm_names()
    with pytest.warns(DeprecationWarning, match="algorithm_names"):
        old = fedadavr.algorithms.algorithms
    assert old() == fedadavr.algorithm_names()


# --- what others bring ---


def test_an_installed_package_brings_one_of_each(tmp_path: Path) -> None:
    """By entry points, listed without being imported; the one that is named is loaded."""
    (tmp_path / "theirs.py").write_text(OWN.replace("NAME", "theirs"))
    about = tmp_path / "theirs-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[fedadavr.algorithms]\ntheirs = theirs\nlost = theirs\nbroken = not_there\n"
        "[fedadavr.datasets]\ntheirs-dots = theirs\n"
        "[fedadavr.models]\ntheirs-line = theirs\n"
        "[fedadavr.partitions]\ntheirs-halves = theirs\n"
    )
    words = ["run", "--dataset", "theirs-dots", "--partition", "theirs-halves", "--algorithm",
             "theirs", "--trust", "0.2", "--out", str(tmp_path / "out"), "--json"]  # fmt: skip
    done = program(*words, path=tmp_path)
    assert done.returncode == 0, done.stderr
    saved = tomlish(tmp_path / "out" / "config.toml")
    assert saved["settings"]["trust"] == 0.2
    assert (saved["model"], saved["clients"]) == ("theirs-line", 10)
    for flag, name in (("dataset", "dots"), ("partition", "halves"), ("model", "line")):
        done = program("run", f"--{flag}", f"theirs-{name[:-1]}", path=tmp_path)
        assert f"did you mean 'theirs-{name}'?" in done.stderr
        assert done.stdout.splitlines()[-1] == "False False"  # neither PyTorch nor the package
    for name, message in (
        ("lost", "the package theirs promises the algorithm 'lost' in theirs and registers none"),
        ("broken", "'broken' of the package theirs cannot be loaded: ModuleNotFoundError"),
    ):
        assert message in program("run", "--algorithm", name, path=tmp_path).stderr


def tomlish(path: Path) -> dict[str, Any]:
    """A TOML file."""
    import tomllib

    return tomllib.loads(path.read_text())


def test_a_name_of_ours_is_not_taken(tmp_path: Path) -> None:
    """Also where our own file has not been imported yet."""
    for line, kind in (
        ("from fedadavr.models import model\nmodel('gru')(lambda classes: None)", "model 'gru'"),
        ("from fedadavr.data import dataset\ndataset('mnist')(lambda: None)", "data set 'mnist'"),
        ("from fedadavr.data import partition\npartition('iid')(lambda: None)", "partition 'iid'"),
    ):
        file = tmp_path / f"{kind.split()[0]}.py"
        file.write_text(line)
        done = program("run", "--load", str(file))
        assert f"the {kind} is there already: choose another name" in done.stderr


def test_the_algorithm_of_contributing_is_compared_by_its_setting(tmp_path: Path) -> None:
    """As it stands there, as `mine:trust=0.3`."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert code
    file = tmp_path / "mine.py"
    file.write_text(code.group(1))
    typed = re.search(r"```\n(fedadavr compare .*?)```", text, re.DOTALL)
    assert typed
    words = typed.group(1).replace("\\\n", " ").split()[1:]
    words = [str(file) if word == "mine.py" else word for word in words]
    assert "mine:trust=0.3" in words
    done = program(*words, "--rounds", "2", "--seeds", "1", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    saved = tomlish(tmp_path / "out" / "mine_trust=0.3-1" / "config.toml")
    assert saved["settings"]["trust"] == 0.3


def test_records_of_0_1_know_what_they_were_run_with() -> None:
    """Those that are committed: every setting is known, and the command spells what was given."""
    (first, *_) = read_lines(ROOT / "results" / "paper" / "fmnist-precisions" / RECORDS)
    assert "beta1" not in first.settings
    assert first.experiment.settings["beta1"] == 0.9
    assert set(first.experiment.settings) == set(user_settings("fedadavr-quant"))
    assert "--optimizer adagrad --server-lr 0.001 --client-lr 0.001 --codec" in first.command()
    assert "beta1" not in first.command()
    later = replace(first, settings=first.experiment.flat())
    assert later.id == first.id


@pytest.mark.parametrize("written", [{"trust": "0.5"}, {"memories": "own"},
                                     {"memories": "centers+own", "trust": "0.25"}])  # fmt: skip
def test_what_0_1_wrote_as_words_is_read_as_it_was_meant(written: dict[str, str]) -> None:
    """A number among words, a list as words: the same run as one that is typed now."""
    old = Experiment.read({"algorithm": "fedadavr-plus", "rounds": 3, **written}).resolved()
    typed: dict[str, Any] = dict(written)
    if "trust" in typed:
        typed["trust"] = float(typed["trust"])
    new = Experiment.of(algorithm="fedadavr-plus", rounds=3, server_lr=0.01, **typed).resolved()
    assert old.settings == new.settings
    assert run_id(old) == run_id(new)
    unresolved = Experiment.read({**old.flat(), **written})
    assert run_id(unresolved) == run_id(new)


def test_a_list_of_numbers_is_spoken_in_a_report() -> None:
    """As it is typed, with plus signs."""
    assert _spoken("factors", (1.0, 0.5)) == "factors=1.0+0.5"


def test_old_names_warn_and_work() -> None:
    """For one release: what was public in 0.1 is found where it is now."""
    import fedadavr.clients
    import fedadavr.memory

    with pytest.warns(DeprecationWarning, match="LocalSGD"):
        assert fedadavr.clients.Recipe is fedadavr.clients.LocalSGD
    with pytest.warns(DeprecationWarning, match=r"fedadavr\.stores"):
        assert callable(fedadavr.memory.open_store)
    assert "algorithm_names" in dir(fedadavr)
