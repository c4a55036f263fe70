"""Runs: the same bits with any workers, after a kill, after Ctrl-C; and each algorithm learns."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr.algorithms import algorithm_names
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.folder import RunFolder
from fedadavr.experiments.run import RunOptions, run
from fedadavr.simulation import Diverged
from tests.rounds import flat, opened
from tests.seeds import new_rng

ROOT = Path(__file__).parent.parent


def small(mine: str, **settings: Any) -> Experiment:
    """A run of a second on the data of docs/your-own.md."""
    given: dict[str, Any] = {
        "dataset": "blobs", "model": "mlp", "partition": "lq-1", "clients": 20, "rounds": 12,
        "clients_per_round": 4, "load": mine, "client_lr": 0.05, "seed": 7, "evaluate_clients": 10,
    }  # fmt: skip
    return Experiment.of(**(given | settings))


def outcome(path: Path) -> Any:
    """Everything that a run is, but for the times."""
    with opened(RunFolder(path).checkpoint(), read_only=True) as store:
        records = {
            c: (r.weight, r.round, r.owner, r.label, r.data.tobytes()) for c, r in store.items()
        }
        state = store.state()
        state["extra"].pop("pending")
        tensors = flat(state), records
    rows = [
        {key: value for key, value in row.items() if "seconds" not in key and key != "elapsed"}
        for row in RunFolder(path).rows()
    ]
    return tensors, rows


@pytest.mark.parametrize("name", ["fedadavr", "scaffold", "mifa", "fedprox"])
def test_any_number_of_workers_gives_the_same_bits(name: str, mine: str, tmp_path: Path) -> None:
    """Promise 5: model, memory, losses and accuracies."""
    results = []
    for workers in (1, 2, 3):
        out = tmp_path / str(workers)
        run(small(mine, algorithm=name), RunOptions(workers=workers), out)
        results.append(outcome(out))
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize(
    "name", ["fedadavr", "fedadavr-plus", "scaffold", "cluster-fedvarp", "fedyogi"]
)
@pytest.mark.parametrize("codec", [None, "int4"])
def test_a_run_in_two_parts_is_the_same_run(
    name: str, codec: str | None, mine: str, tmp_path: Path
) -> None:
    """Stopping after round 5 and going on, with checkpoints every other round."""
    if codec and name == "fedyogi":
        codec = None
    own = {"codec": codec} if codec else {}
    whole = small(mine, algorithm=name, evaluate_every=3, average_last=2, **own)
    run(whole, RunOptions(), tmp_path / "whole")

    def stop(row: dict[str, Any]) -> None:
        if row["round"] == 5:
            signal.raise_signal(signal.SIGINT)

    result = run(whole, RunOptions(checkpoint_every=2), tmp_path / "parts", on_row=stop)
    assert not result.finished
    assert result.rounds < 12
    run(whole, RunOptions(), tmp_path / "parts", resume=True)
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", "from fedadavr.cli import main; main()", *words]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_kill_9_at_any_moment_loses_nothing(workers: str, mine: str, tmp_path: Path) -> None:
    """Promise 2, with real kills: the same bits, each round's line once, and no orphans."""
    rounds = 60
    settings = ["--load", mine, "--dataset", "blobs", "--model", "mlp", "--clients", "20",
                "--rounds", str(rounds), "--clients-per-round", "4", "--seed", "7"]  # fmt: skip
    subprocess.run(
        command("run", *settings, "--out", str(tmp_path / "whole")), check=True, capture_output=True
    )
    out = tmp_path / "killed"
    rng = new_rng()
    often = ["--checkpoint-every", "7", "--workers", workers]
    words = command("run", *settings, "--out", str(out), *often)
    kills, deadline = 0, time.monotonic() + 150
    while kills < 3 and time.monotonic() < deadline:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        have = len(RunFolder(out).rows()) if (out / "metrics.jsonl").exists() else 0
        moment, patience = have + rng.randint(1, 12), rng.random() * 0.02
        while process.poll() is None and time.monotonic() < deadline:
            if (out / "metrics.jsonl").exists() and len(RunFolder(out).rows()) >= moment:
                time.sleep(patience)  # so that not every kill comes right after a line
                children = children_of(process.pid)
                process.kill()
                kills += 1
                wait_until_gone(children)
                break
            time.sleep(0.001)
        process.wait()
        words = command("run", "--resume", str(out), "--load", mine, *often)
    assert kills == 3
    subprocess.run(words, check=True, capture_output=True)
    assert [row["round"] for row in RunFolder(out).rows()] == list(range(1, rounds + 1))
    assert outcome(out) == outcome(tmp_path / "whole")


def children_of(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def wait_until_gone(processes: list[int], seconds: float = 30) -> None:
    """Fail if one of them outlives its parent."""
    deadline = time.monotonic() + seconds
    while any(Path(f"/proc/{p}").exists() for p in processes):
        assert time.monotonic() < deadline, "a worker outlived the run"
        time.sleep(0.05)


def test_a_torn_last_line_is_written_again(mine: str, tmp_path: Path) -> None:
    """A crash in the middle of a line costs nothing."""
    experiment = small(mine)
    run(experiment, RunOptions(), tmp_path / "whole")
    run(experiment, RunOptions(checkpoint_every=5), tmp_path / "torn")
    path = tmp_path / "torn" / "metrics.jsonl"
    path.write_text(path.read_text()[:-20])
    run(experiment, RunOptions(), tmp_path / "torn", resume=True)
    assert outcome(tmp_path / "torn") == outcome(tmp_path / "whole")


def test_a_run_of_a_version_without_fast_paths_goes_on_without(mine: str, tmp_path: Path) -> None:
    """Its settings do not name them; resumed, it is to the bit the run that it was."""
    whole = small(mine, fast=False)
    run(whole, RunOptions(), tmp_path / "whole")
    out = tmp_path / "old"

    def stop(row: dict[str, Any]) -> None:
        if row["round"] == 5:
            signal.raise_signal(signal.SIGINT)

    assert not run(whole, RunOptions(checkpoint_every=2), out, on_row=stop).finished
    config = (out / "config.toml").read_text()
    assert "fast = false\n" in config
    (out / "config.toml").write_text(config.replace("fast = false\n", ""))
    old = RunFolder(out).experiment()
    assert old.fast is False
    run(old, RunOptions(), out, resume=True)
    assert outcome(out) == outcome(tmp_path / "whole")


def test_fast_paths_cannot_be_changed_on_the_way(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They round differently, and a run that goes on gives the bits of one that never stopped."""
    from fedadavr.cli import main

    run(small(mine), RunOptions(), tmp_path)
    with pytest.raises(SystemExit):
        main(["run", "--resume", str(tmp_path), "--no-fast", "--load", mine])
    assert "--fast cannot change" in capsys.readouterr().err


def test_a_diverging_run_says_where_and_what_to_do(mine: str, tmp_path: Path) -> None:
    """The round, the commonest reason and a hint, after three rounds that came to nothing."""
    message = (
        r"round 3: training has diverged, every reply of 3 rounds in a row was rejected, most "
        r"often because its training loss is .*try a smaller client-lr than 1e\+20"
    )
    with pytest.raises(Diverged, match=message):
        run(small(mine, client_lr=1e20, algorithm="fedavg"), RunOptions(), tmp_path / "run")


OWN = """
import torch
from torch import nn
from fedadavr.data import Arrays, Dataset, dataset
from fedadavr.models import model

@dataset("wide")
def wide():
    x = torch.randn(60_000, 3, generator=torch.Generator().manual_seed(1))
    y = torch.arange(60_000) % 4
    return Dataset("wide", Arrays(x[:400], y[:400]), Arrays(x[400:], y[400:]), classes=4)

@model("drops")
def drops(classes):
    return nn.Sequential(nn.Linear(3, 32), nn.Dropout(0.5), nn.Linear(32, classes))
"""


def test_large_evaluations_and_models_that_draw(tmp_path: Path) -> None:
    """59,600 test examples are more jobs than a pipe holds; dropout is keyed like other draws."""
    file = tmp_path / "wide.py"
    file.write_text(OWN)
    experiment = Experiment(
        dataset="wide", model="drops", partition="iid", clients=20, rounds=2, load=str(file)
    )
    for workers in (1, 2):
        run(experiment, RunOptions(workers=workers), tmp_path / str(workers))
    assert outcome(tmp_path / "1") == outcome(tmp_path / "2")


def test_a_worker_that_dies_is_reported(mine: str, tmp_path: Path) -> None:
    """One sentence instead of waiting for ever."""

    def kill(row: dict[str, Any]) -> None:
        for child in children_of(os.getpid()):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(child, signal.SIGKILL)

    with pytest.raises(ValueError, match=r"worker process \d ended by itself \(exit code -9\)"):
        run(small(mine, rounds=200), RunOptions(workers=2), tmp_path / "run", on_row=kill)


def test_evaluation_is_weighted_by_examples(mine: str, tmp_path: Path) -> None:
    """The accuracy is that over all examples of the evaluated clients; theirs are kept."""
    experiment = small(mine, partition="dirichlet", rounds=2, evaluate_clients=20)
    run(experiment, RunOptions(), tmp_path / "run")
    row = RunFolder(tmp_path / "run").rows()[-1]
    from fedadavr.experiments.run import make_federation

    sizes = [len(part) for part in make_federation(experiment.resolved()).test_parts if len(part)]
    assert len(row["client_accuracy"]) == len(sizes)
    assert row["accuracy"] == pytest.approx(
        np.average(row["client_accuracy"], weights=sizes), abs=0.01
    )


def test_evaluate_examples_caps_the_work(mine: str, tmp_path: Path) -> None:
    """At most so many examples are looked at."""
    run(small(mine, evaluate_examples=37, rounds=1), RunOptions(), tmp_path / "run")
    row = RunFolder(tmp_path / "run").rows()[0]
    hits = row["accuracy"] * 37 / 100
    assert 0 < hits < 37
    assert hits == pytest.approx(round(hits))


def test_tensorboard_events_are_written(mine: str, tmp_path: Path) -> None:
    """With --tensorboard there is an event file."""
    run(small(mine, rounds=2), RunOptions(tensorboard=True), tmp_path / "run")
    assert list((tmp_path / "run").glob("events.out.tfevents.*"))


RATES: dict[str, dict[str, Any]] = {
    "fedadagrad": {"server_lr": 0.03},
    "fedadam": {"server_lr": 0.01},
    "fedyogi": {"server_lr": 0.01},
    "cluster-fedvarp": {"clusters": 3},
    "fedawe": {"clients_per_round": 20},  # who starts from its own last model must come often
}


@pytest.mark.parametrize("name", [n for n in algorithm_names() if not n.startswith("half")])
def test_each_algorithm_learns_mnist(name: str, tmp_path: Path) -> None:
    """Fifteen rounds of mnist-5k, at a rate that suits it: far better than chance (10 %)."""
    experiment = Experiment.of(
        dataset="mnist-5k", partition="iid", clients=20, rounds=15, local_epochs=1, seed=1,
        algorithm=name, client_lr=0.02, evaluate_every=100, average_last=2, **RATES.get(name, {}),
    )  # fmt: skip
    result = run(experiment, RunOptions(checkpoint_every=0), tmp_path / "run")
    assert result.final_accuracy > 60


def test_the_program_of_the_guide_runs(mine: str) -> None:
    """docs/your-own.md, its last example."""
    text = (ROOT / "docs" / "your-own.md").read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[-1]
    from fedadavr.data import federate, load
    from fedadavr.models import build
    from fedadavr.plugins import load_file

    load_file(mine)
    data = load("blobs")
    dealt = federate(data, "lq-1", 20, seed=0)
    known = {
        "train": data.train, "test": data.test, "module": build("mlp", 4, 0),
        "train_parts": dealt.train_parts, "test_parts": dealt.test_parts,
    }  # fmt: skip
    exec(code, known)
