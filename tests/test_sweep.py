"""Sweeps: each run once, none lost, none half done; in processes, on Ray, and as a search."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedadavr.cli import main
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.grid import grid
from fedadavr.experiments.records import (
    RECORDS,
    RunRecord,
    command,
    from_rows,
    given,
    read,
    read_lines,
    run_id,
)
from fedadavr.experiments.run import RunOptions, run
from fedadavr.experiments.sweep import own_place, record_run, sweep
from fedadavr.paper.presets import PRESETS
from fedadavr.stores import open_store
from tests.test_runs import small

ROOT = Path(__file__).parent.parent


def words(mine: str, out: Path, *more: str) -> list[str]:
    """A sweep of short runs, as it is typed."""
    return ["sweep", "--load", mine, "--dataset", "blobs", "--model", "mlp", "--clients", "20",
            "--rounds", "3", "--out", str(out), "--json", *more]  # fmt: skip


def figures(out: Path) -> dict[str, Any]:
    """What the runs of a sweep came to, by their names; the times are left out."""
    return {
        r.id: (r.rounds, r.accuracy, r.loss, r.final_accuracy, r.worst_decile, r.failure)
        for r in read_lines(out / RECORDS)
    }


def test_each_run_is_done_once(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second call does nothing, a larger grid what is new; the figures are those of `run`."""
    out = tmp_path / "sweep"
    main(words(mine, out, "--grid", "server-lr=0.01,0.1", "seed=1,2", "--workers", "2"))
    first = json.loads(capsys.readouterr().out)
    assert (first["runs"], first["new"], first["kept"]) == (4, 4, 0)
    lines = (out / RECORDS).read_bytes()
    main(words(mine, out, "--grid", "server-lr=0.01,0.1", "seed=1,2"))
    again = json.loads(capsys.readouterr().out)
    assert (again["runs"], again["new"], again["kept"]) == (4, 0, 4)
    assert (out / RECORDS).read_bytes() == lines
    main(words(mine, out, "--grid", "seed=1,2,3", "server-lr=0.1"))
    assert json.loads(capsys.readouterr().out)["new"] == 1
    assert not (out / "unfinished").exists()
    record = read_lines(out / RECORDS)[0]
    one = run(replace(record.experiment, load=mine), RunOptions(), tmp_path / "one")
    assert one.final_accuracy == pytest.approx(record.final_accuracy, abs=1e-4)
    # The same from the run's own folder.
    (same,) = read([tmp_path / "one"])
    assert (same.accuracy, same.loss, same.worst_decile) == (
        record.accuracy, record.loss, record.worst_decile
    )  # fmt: skip


def committed(path: Path) -> bool:
    """Whether a checkpoint holds a round; a run that is being made or removed does not."""
    try:
        with open_store(f"lmdb:{path}", read_only=True) as store:  # type: ignore[union-attr]
            return store.state() is not None
    except (ValueError, OSError):
        return False


def test_a_killed_sweep_goes_on(mine: str, tmp_path: Path) -> None:
    """kill -9 after the first record: nothing is lost, a run goes on from its checkpoint."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    more = ["--grid", "seed=1,2,3", "--rounds", "120", "--checkpoint-every", "2"]
    main(words(mine, whole, *more))
    program = [sys.executable, "-c", "from fedadavr.cli import main; main()"]
    process = subprocess.Popen([*program, *words(mine, cut, *more)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    deadline = time.monotonic() + 60
    while not (  # the first run is recorded, the second has a checkpoint
        (cut / RECORDS).exists()
        and (cut / RECORDS).stat().st_size
        and [p for p in cut.glob("unfinished/*/checkpoint") if committed(p)]
    ):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.kill()
    process.wait()
    assert 1 <= len(read_lines(cut / RECORDS)) < 3
    with (cut / RECORDS).open("ab") as file:  # as if it had been killed while it wrote
        file.write(b'{"settings": {"dataset"')
    main(words(mine, cut, *more))
    assert figures(cut) == figures(whole)
    assert not (cut / "unfinished").exists()
    lines = (cut / RECORDS).read_bytes()
    (cut / RECORDS).write_bytes(lines.removesuffix(b"\n"))  # a whole line, but for its end
    main(words(mine, cut, *more))
    assert (cut / RECORDS).read_bytes() == lines
    blank = lines.replace(b"\n", b"\n\n").removesuffix(b"\n\n")  # as merged by hand
    (cut / RECORDS).write_bytes(blank)
    main(words(mine, cut, *more))
    assert (cut / RECORDS).read_bytes() == blank + b"\n"


def test_a_killed_sweep_with_stores_goes_on(mine: str, tmp_path: Path) -> None:
    """Each run has a store of its own, resumes from it after kill -9, and leaves none behind."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    more = ["--grid", "seed=1,2,3", "--rounds", "120", "--workers", "2"]
    stores = ["--store", "lmdb", "--commit-every", "3"]
    main(words(mine, whole, *more))
    program = [sys.executable, "-c", "from fedadavr.cli import main; main()"]
    process = subprocess.Popen([*program, *words(mine, cut, *more, *stores)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    deadline = time.monotonic() + 120

    def rounds() -> list[int]:
        """How far the runs under way are."""
        return [
            len(path.read_bytes().splitlines()) for path in cut.glob("unfinished/*/metrics.jsonl")
        ]

    while max(rounds(), default=0) < 7:  # one has committed
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.kill()
    process.wait()
    assert any(committed(path) for path in cut.glob("unfinished/*/checkpoint"))
    main(words(mine, cut, *more))  # without --store: they go on as they began
    assert figures(cut) == figures(whole)
    assert not (cut / "unfinished").exists()


def test_a_run_killed_too_early_begins_again(mine: str, tmp_path: Path) -> None:
    """It goes on only where both its settings and its checkpoint are there."""
    folder, stores = tmp_path / "run", RunOptions(store="lmdb", commit_every=2)
    assert own_place(stores, folder) == (RunOptions(checkpoint_every=2), False)
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "checkpoint" / "data.mdb").touch()
    assert own_place(stores, folder)[1] is False  # no settings yet: it was killed too early
    (folder / "config.toml").touch()
    assert own_place(stores, folder)[1] is True


def test_a_run_that_diverges_has_a_record(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its reason; it is not tried again, and the others go on."""
    out = tmp_path / "sweep"
    more = ["--algorithm", "fedavg", "--grid", "client-lr=1e30,0.05"]
    main(words(mine, out, *more))
    assert json.loads(capsys.readouterr().out)["failed"] == 0
    lost, fine = sorted(read_lines(out / RECORDS), key=lambda r: r.failure is None)
    assert lost.failure is not None
    assert "diverged" in lost.failure
    assert lost.final_accuracy is None
    assert fine.final_accuracy is not None
    main(words(mine, out, *more))
    assert json.loads(capsys.readouterr().out)["new"] == 0


def test_a_run_that_fails_otherwise_is_told_and_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no record; the program ends with 1, after the others."""
    file = tmp_path / "broken.py"
    file.write_text(
        "import torch\nfrom fedadavr.models import model\n\n\n@model('broken')\n"
        "class Broken(torch.nn.Module):\n    def __init__(self, classes=10):\n"
        "        super().__init__()\n        self.layer = torch.nn.Linear(784, classes)\n\n"
        "    def forward(self, x):\n        if self.training and x.std() != 0:\n"
        "            raise KeyError('broken')\n        return self.layer(x.flatten(1))\n"
    )
    out = tmp_path / "sweep"
    arguments = ["sweep", "--load", str(file), "--rounds", "1", "--out", str(out), "--json",
                 "--grid", "model=broken,lenet5", "--clients", "50"]  # fmt: skip
    for new in (1, 0):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 1
        told = capsys.readouterr()
        assert json.loads(told.out) | {"out": ""} == {
            "runs": 1, "new": new, "kept": 1 - new, "failed": 1, "out": ""
        }  # fmt: skip
        assert "KeyError" in told.err


def test_a_worker_that_dies_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the out-of-memory killer would have it: its runs are lost, the others are done."""
    file = tmp_path / "deadly.py"
    file.write_text(
        "import os\nimport torch\nfrom fedadavr.models import model\n\n\n@model('deadly')\n"
        "class Deadly(torch.nn.Module):\n    def __init__(self, classes=10):\n"
        "        super().__init__()\n        self.layer = torch.nn.Linear(784, classes)\n\n"
        "    def forward(self, x):\n        if self.training and torch.is_grad_enabled():\n"
        "            os.kill(os.getpid(), 9)\n        return self.layer(x.flatten(1))\n"
    )
    arguments = [
        "sweep",
        "--load",
        str(file),
        "--rounds",
        "1",
        "--out",
        str(tmp_path / "out"),
        "--json",
        "--clients",
        "50",
        "--grid",
        "model=deadly,lenet5",
        "seed=1,2",
    ]
    with pytest.raises(SystemExit):
        main(arguments)
    told = json.loads(capsys.readouterr().out)
    assert (told["new"], told["failed"]) == (2, 2)


def test_two_sweeps_do_not_share_a_folder(mine: str, tmp_path: Path) -> None:
    """The second is refused while the first is writing."""
    seen = []

    def second(record: RunRecord) -> None:
        with pytest.raises(ValueError, match="another sweep is writing into"):
            sweep([small(mine).resolved()], RunOptions(), tmp_path)
        seen.append(record)

    sweep([small(mine, rounds=1).resolved()], RunOptions(), tmp_path, on_record=second)
    assert len(seen) == 1


def test_ray_gives_the_same_records(mine: str, tmp_path: Path) -> None:
    """`--on ray`: on a real Ray, the same bits."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    more = ["--grid", "seed=1,2", "--algorithms", "fedavg", "fedadavr:optimizer=yogi"]
    main(words(mine, tmp_path / "ray", *more, "--on", "ray", "--workers", "2"))
    main(words(mine, tmp_path / "here", *more))
    assert figures(tmp_path / "ray") == figures(tmp_path / "here")
    assert len(figures(tmp_path / "ray")) == 4


def test_a_search_learns_and_goes_on(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Points lie in the range; a search that is continued finds the runs it has made."""
    more = ["--algorithm", "fedavg", "--search", "optuna", "--grid", "client-lr=0.0001..0.1",
            "momentum=0,0.9", "seed=1,2"]  # fmt: skip
    main(words(mine, tmp_path, *more, "--trials", "2"))
    assert json.loads(capsys.readouterr().out)["new"] == 4
    main(words(mine, tmp_path, *more, "--trials", "4"))
    told = json.loads(capsys.readouterr().out)
    assert (told["new"], told["kept"]) == (4, 4)
    records = read_lines(tmp_path / RECORDS)
    assert all(0.0001 <= r.settings["client_lr"] <= 0.1 for r in records)
    assert {r.settings["seed"] for r in records} == {1, 2}
    assert len({r.settings["client_lr"] for r in records}) == 4


def test_a_search_may_propose_a_point_again(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two points, six trials: each point is run once, and the search ends."""
    more = ["--search", "optuna", "--grid", "optimizer=adam,yogi", "--trials", "6"]
    main(words(mine, tmp_path, *more, "--workers", "2"))
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["new"], told["kept"]) == (2, 2, 4)
    assert len(read_lines(tmp_path / RECORDS)) == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--grid", "sever-lr=1"], "did you mean 'server-lr'"),
        (["--grid", "rounds=1,many"], "rounds must be a whole number or none, got 'many'"),
        (["--grid", "server-lr"], "type a field and its values"),
        (["--grid", "fast=maybe"], "fast must be true or false, got 'maybe'"),
        (["--grid", "seed=1,1"], "names a value twice"),
        (["--grid", "seed=1", "seed=2"], "names a field twice"),
        (["--grid", "algorithm=fedavg,fedadavr", "optimizer=adam"], "fedavg has no setting"),
        (["--grid", "algorithm=fedavg", "--algorithms", "fedavg"], "not in both"),
        (["--on", "moon"], "'moon'"),
        (["--search", "grid"], "'grid'"),
        (["--search", "optuna"], "something to search"),
        (["--search", "optuna", "--grid", "server-lr=1..0.1"], "to a larger one"),
        (["--search", "optuna", "--grid", "server-lr=1..inf"], "to a larger one"),
        (["--search", "optuna", "--grid", "server-lr=1..2", "seed=1..5"], "one by one"),
        (["--search", "optuna", "--grid", "clients-per-round=2..100"], "more than the 20"),
        (["--search", "optuna", "--grid", "server-lr=1..2", "server-lr=3..4"], "a field twice"),
        (["--search", "optuna", "--grid", "server-lr=1..2", "seed=42", "seed=43"], "a field twice"),
        (["--search", "optuna", "--grid", "optimizer=adam,foo,yogi"], "unknown optimizer 'foo'"),
        (["--commit-every", "5"], "each needs a store of its own"),
        (["--algorithms", "fedavg:client-lr=1", "--grid", "client-lr=2"], "has its own"),
        (["--store", "lmdb:x"], "each needs a store of its own: type --store lmdb"),
        (["--store", "redis://x:1"], "each needs a store of its own: type --store lmdb"),
        (["--store", "lmdb", "--encrypt-with", "key"], "stores do not stay"),
    ],
)
def test_bad_sweeps_are_refused_before_any_work(
    more: list[str], message: str, mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, and no folder."""
    with pytest.raises(SystemExit) as ended:
        main(words(mine, tmp_path / "out", *more))
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert message in told
    assert len(told.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_grid_from_a_file(mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same fields in TOML, with the grid as a table; what is typed wins."""
    config = tmp_path / "grid.toml"
    config.write_text(
        f'load = "{mine}"\ndataset = "blobs"\nmodel = "mlp"\nclients = 20\nrounds = 2\n'
        "[grid]\nserver-lr = [0.01, 0.1]\nseed = [1, 2]\noptimizer = 'adam'\n"
    )
    main(["sweep", "--config", str(config), "--rounds", "1", "--out", str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out)["new"] == 4
    assert {r.settings["rounds"] for r in read_lines(tmp_path / RECORDS)} == {1}


def test_a_grid_is_every_combination_seed_by_seed() -> None:
    """So that all settings can be seen early."""
    base = Experiment(rounds=2)
    found = grid(base, ("optimizer=adam,yogi", "seed=1,2"), ())
    assert [(e.seed, e.get("optimizer")) for e in found] == [
        (1, "adam"), (1, "yogi"), (2, "adam"), (2, "yogi")
    ]  # fmt: skip
    specs = ("fedavg:client-lr=0.1", "fedadavr:optimizer=yogi")
    assert [(e.algorithm, e.client_lr) for e in grid(base, (), specs)] == [
        ("fedavg", 0.1), ("fedadavr", 0.01)
    ]  # fmt: skip


def test_a_run_is_named_by_its_settings(mine: str, tmp_path: Path) -> None:
    """Every field counts, a default as when spelled out; of a file what is in it, not where."""
    one = small(mine).resolved()
    names = {run_id(one.updated(**change)) for change in (
        {}, {"seed": 8}, {"rounds": 13}, {"client_lr": 0.051}, {"server_lr": 0.02},
        {"evaluate_every": 2},
    )}  # fmt: skip
    assert len(names) == 6
    usual = {"optimizer": "adam", "server_lr": "learned", "codec": "fp32", "beta1": 0.9}
    assert run_id(one.updated(**usual)) in names
    elsewhere = tmp_path / "mine.py"
    elsewhere.write_text(Path(mine).read_text())
    assert run_id(given(replace(one, load=str(elsewhere)))) in names
    elsewhere.write_text(Path(mine).read_text() + "\n# changed\n")
    assert run_id(given(replace(one, load=str(elsewhere)))) not in names
    assert str(tmp_path) not in json.dumps(given(replace(one, load=str(elsewhere))))


def test_fast_paths_do_not_change_which_run_it_is() -> None:
    """A record of older versions, one with fast paths and one without are of the same run."""
    experiment = Experiment(dataset="mnist", partition="iid").resolved()
    plain = replace(experiment, fast=False)
    assert "fast" not in given(experiment)  # as it was recorded before there were any
    assert given(plain) == given(experiment) | {"fast": False}
    assert run_id(given(plain)) == run_id(given(experiment))
    assert "--no-fast" in command(plain)
    assert "fast" not in command(experiment)


def test_recorded_results_are_known_as_done() -> None:
    """The runs of the tables that are committed would not be done again."""
    for preset in ("mnist-optimizers", "fmnist-precisions"):
        records = read_lines(ROOT / "results" / "paper" / preset / RECORDS)
        done = {record.id for record in records}
        wanted = PRESETS[preset].experiments([], (42, 43, 44))
        assert {run_id(given(e)) for e in wanted} == done


def test_a_file_that_changes_under_a_sweep_is_refused(mine: str, tmp_path: Path) -> None:
    """A record names the file that it ran, by its contents; after a change nobody could say."""
    copy = tmp_path / "copy.py"
    copy.write_text(Path(mine).read_text())
    one = replace(small(mine).resolved(), load=str(copy))
    settings = given(one)
    copy.write_text(copy.read_text() + "# changed\n")
    with pytest.raises(ValueError, match=r"copy\.py has changed since the sweep began"):
        record_run((one, settings, RunOptions(), tmp_path / "run"), lambda row: None)


def test_the_command_of_a_record_runs_it_again() -> None:
    """What is typed is what the protocol does not fill in, and gives the same settings."""
    from fedadavr.cli.arguments import parse
    from fedadavr.cli.run import RunArguments

    for experiment in (
        Experiment.of(
            dataset="mnist", partition="lq-2", optimizer="yogi", server_lr=0.005, seed=43
        ),
        Experiment.of(dataset="fmnist", algorithm="fedprox", mu=1e-9, rounds=150, average_last=25),
        Experiment(dataset="fmnist", rounds=150, average_last=10, client_lr=0.0031415926535),
        Experiment(dataset="shakespeare", evaluate_examples=20_000, algorithm="fedavg"),
        Experiment(dataset="mnist", fast=False),
    ):
        full = experiment.resolved()
        line = command(full).split()
        assert line[:2] == ["fedadavr", "run"]
        assert parse(RunArguments, line[2:], "fedadavr run").experiment.resolved() == full


def test_a_record_tells_the_accuracy_by_how_often_clients_came() -> None:
    """Quarters of the evaluated clients, by visits in all rounds; None where others are tested."""
    experiment = Experiment(clients=8, partition="lq-1", average_last=2)
    rows = [
        {"round": 1, "clients": [0, 1, 2, 3], "elapsed": 1.0},
        {"round": 2, "clients": [0, 1], "elapsed": 2.0, "accuracy": 1.0, "loss": 1.0,
         "client_accuracy": [10, 20, 30, 40, 50, 60, 70, 80]},
        {"round": 3, "clients": [0, 1, 4], "elapsed": 3.0, "accuracy": 1.0, "loss": 1.0,
         "client_accuracy": [20, 30, 40, 50, 60, 70, 80], "evaluated": [0, 1, 2, 3, 4, 5, 6]},
    ]  # fmt: skip
    # Client 7 was evaluated once; 5, 6, 7 never came, 2, 3, 4 once, 0 and 1 three times.
    assert from_rows(experiment, rows).by_visits == [
        [0, 70], [0.5, 57.5], [1, 50], [3, 20]
    ]  # fmt: skip
    assert from_rows(replace(experiment, clients=9), rows).by_visits is None
    assert from_rows(replace(experiment, partition="natural"), rows).by_visits is None
