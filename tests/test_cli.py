"""The command line, as a user types it: what it prints, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fedadavr.cli import main
from fedadavr.plugins import load_file


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from fedadavr.cli import main; main()", *words],
        capture_output=True,
        text=True,
        check=False,
    )


def blobs(mine: str, *words: str) -> list[str]:
    return ["--load", mine, "--dataset", "blobs", "--model", "mlp", "--clients", "20", *words]


def test_run_ends_with_one_object(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json the last line of stdout has at least these keys, and the folder these files."""
    out = tmp_path / "run"
    main(["run", *blobs(mine, "--rounds", "4", "--codec", "int8", "--out", str(out), "--json")])
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(result) >= {
        "final_accuracy", "final_loss", "rounds", "seconds", "seconds_training",
        "seconds_server", "seconds_evaluating", "memory_bytes", "run_dir",
    }  # fmt: skip
    assert result["rounds"] == 4
    assert result["run_dir"] == str(out)
    assert {p.name for p in out.iterdir()} == {
        "config.toml", "metrics.jsonl", "checkpoint", "committed"
    }  # fmt: skip


def test_config_files_and_flags(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A TOML file holds the same; what is typed wins; the run's own config runs it again."""
    config = tmp_path / "mine.toml"
    config.write_text(
        f'load = "{mine}"\ndataset = "blobs"\nmodel = "mlp"\nclients = 20\nrounds = 3\n'
        'server-lr = 1\nalgorithm = "fedavg"\n'
    )
    main(["run", "--config", str(config), "--rounds", "2", "--out", str(tmp_path / "a"), "--json"])
    first = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert first["rounds"] == 2
    again = ["--config", str(tmp_path / "a" / "config.toml"), "--out", str(tmp_path / "b")]
    main(["run", *again, "--json"])
    second = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert second["final_loss"] == first["final_loss"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--algorithm", "fedadvr"], "did you mean 'fedadavr'?"),
        (["run", "--dataset", "mnits"], "unknown data set 'mnits' (did you mean 'mnist'?)"),
        (["run", "--partition", "lq-9"], "unknown partition 'lq-9'"),
        (["run", "--model", "lenet"], "did you mean 'lenet5'?"),
        (["run", "--algorithm", "fedavg", "--codec", "int4"], "fedavg has no setting --codec"),
        (["run", "--optimizer", "adamw"], "unknown optimizer 'adamw'"),
        (["run", "--clients-per-round", "500"], "is more than the 100 clients"),
        (["run", "--rounds", "0"], "--rounds must be at least 1, got 0"),
        (["run", "--rounds", "9" * 30], "--rounds must be below 2,147,483,648"),
        (["run", "--local-epochs", "9" * 20], "--local-epochs must be below 2,147,483,648"),
        (["run", "--batch-size", "9" * 20], "--batch-size must be below 2,147,483,648"),
        (["run", "--seed", "9" * 26], "--seed must be below 2^63"),
        (["run", "--client-lr", "-1"], "client_lr must be a finite number above 0, got -1.0"),
        (["run", "--momentum", "1.5"], "--momentum must lie in [0, 1), got 1.5"),
        (["run", "--average-last", "200"], "--average-last 200 is more than the 100 rounds"),
        (["run", "--stem", "cifar"], "--stem is for resnet18"),
        (["run", "--workers", "0"], "--workers must be at least 1"),
        (["run", "--device", "gpu"], "--device must be cpu, cuda, mps or auto, got 'gpu'"),
        (["run", "--resume", "nowhere"], "nowhere holds no run"),
        (["run", "--config", "nowhere.toml"], "there is no file nowhere.toml"),
        (["run", "--load", "nowhere.py"], "there is no file nowhere.py"),
        (["compare", "--algorithms", "fedavg", "fedavg"], "names something twice"),
        (["compare", "--algorithms", "fedadam:beta1=x"], "beta1 must be a number, got 'x'"),
        (["compare", "--algorithms", "fedavg:rate=1"], "unknown setting of fedavg 'rate'"),
        (["compare", "--algorithms", "fedavg:rounds=3"], "unknown setting of fedavg 'rounds'"),
        (["run", "--model", "gru"], "the model gru does not fit the data set mnist-5k"),
        (["compare", "--codec", "int4"], "give it to those that have it, as NAME:codec=..."),
        (["compare", "--algorithm", "fedavg"], "compare takes --algorithms"),
        (["compare", "--target", "120"], "--target is an accuracy in percent"),
        (["data", "show", "--partition", "natural"], "does not come with clients"),
        (
            ["bench", "trains"],
            "there are: bench flower, bench memory, bench round, bench server, bench training",
        ),
        (["memory", "inspct"], "unknown command 'memory inspct' (did you mean 'memory inspect'?)"),
        (["quadratics"], "did you mean 'quadratic'?"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Exit code 2, one line on stderr, no traceback, and nothing was begun."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.strip().count("\n") == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rounds = ", "is not valid TOML"),
        ("round = 3", "unknown setting 'round' (did you mean 'rounds'?)"),
        ('rounds = "3"', "rounds must be a whole number or none, got '3'"),
    ],
)
def test_a_bad_config_is_refused(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file and the setting are named."""
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(SystemExit):
        main(["run", "--config", str(path)])
    error = capsys.readouterr().err
    assert message in error
    assert "bad.toml" in error


def test_a_folder_with_a_run_is_not_overwritten(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second run there is refused, and a resume with other settings; more rounds are fine."""
    out = str(tmp_path / "run")
    words = blobs(mine, "--rounds", "2", "--out", out)
    main(["run", *words])
    before = (tmp_path / "run" / "metrics.jsonl").read_text()
    for again, message in (
        (words, "holds a run already: continue it with --resume"),
        (["--resume", out, "--load", mine, "--server-lr", "0.5"], "--server-lr cannot change"),
    ):
        with pytest.raises(SystemExit):
            main(["run", *again])
        assert message in capsys.readouterr().err
        assert (tmp_path / "run" / "metrics.jsonl").read_text() == before
    for again, message in (
        (["--resume", out, "--load", mine, "--seed", "43"], "--seed cannot change"),
        (["--resume", out, "--load", mine, "--client-lr", "0.2"], "--client-lr cannot change"),
        (["--resume", out, "--load", mine, "--rounds", "1"], "has done 2 rounds already"),
        (["--resume", out, "--out", out], "--out cannot change it"),
    ):
        with pytest.raises(SystemExit):
            main(["run", *again])
        assert message in capsys.readouterr().err
    main(["run", "--resume", out, "--load", mine, "--rounds", "5", "--json"])
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["rounds"] == 5


def test_a_resume_executes_only_the_file_that_is_typed(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder may come from anybody: its own word for what to execute is not enough."""
    out = str(tmp_path / "run")
    main(["run", *blobs(mine, "--rounds", "1", "--out", out)])
    trap = tmp_path / "trap.py"
    trap.write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\n")
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace(mine, str(trap)))
    for words, message in (
        ([], f"executes a Python file: if you trust it, add --load {trap}"),
        (["--rounds", "3"], "executes a Python file"),
        (["--load", mine], "--load cannot change"),
    ):
        with pytest.raises(SystemExit):
            main(["run", "--resume", out, *words])
        error = capsys.readouterr().err
        assert message in error
        assert error.strip().count("\n") == 0
    assert not (tmp_path / "sprung").exists()


BROKEN = {
    "syntax.py": ("def f(:", "cannot be imported: line 1: SyntaxError"),
    "imports.py": ("\nimport nothing_of_that_name", "line 2: ModuleNotFoundError: No module named"),
    "raises.py": ("x = 1\n\n1 / 0", "line 3: ZeroDivisionError: division by zero"),
    "leaves.py": ("import sys\nsys.exit(3)", "line 2: SystemExit: 3"),
    "zeros.py": ("\0", "cannot be imported: "),
    "mine.txt": ("", "is no Python file, its name must end with .py"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("command", [["run"], ["compare"], ["data", "show"]])
def test_a_broken_file_is_named_in_one_sentence(
    name: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the line; no traceback."""
    text, message = BROKEN[name]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main([*command, "--load", str(path)])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert str(path) in error
    assert error.strip().count("\n") == 0


def test_two_files_of_one_name_are_two(tmp_path: Path) -> None:
    """They are known by their paths, and each is executed once."""
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.py").write_text(
            f"open({str(tmp_path / 'said')!r}, 'a').write({folder!r})\n"
        )
    for folder in "abab":
        load_file(str(tmp_path / folder / "same.py"))
    assert (tmp_path / "said").read_text() == "ab"


def test_ctrl_c_ends_with_a_checkpoint_and_the_way_on(mine: str, tmp_path: Path) -> None:
    """SIGINT in a run: it finishes its round, says how to go on, and that works."""
    out = tmp_path / "run"
    words = blobs(mine, "--rounds", "100000", "--out", str(out), "--checkpoint-every", "0")
    process = subprocess.Popen(
        [sys.executable, "-c", "from fedadavr.cli import main; main()", "run", *words],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    metrics = out / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0
    assert f"go on with: fedadavr run --resume {out}" in error
    assert "Traceback" not in error
    done = len(metrics.read_text().splitlines())
    result = typed("run", "--resume", str(out), "--load", mine, "--rounds", str(done + 3), "--json")
    assert json.loads(result.stdout.splitlines()[-1])["rounds"] == done + 3


def test_compare_tells_means_deviations_and_draws(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two algorithms, two seeds, two processes: a line each, and a picture."""
    out = tmp_path / "cmp"
    words = blobs(mine, "--rounds", "6", "--seeds", "1", "2", "--workers", "2", "--target", "30")
    words += ["--algorithms", "fedavg", "fedadavr:optimizer=yogi,server-lr=0.05"]
    main(["compare", *words, "--out", str(out), "--json"])
    told: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [line["algorithm"] for line in told["summary"]] == words[-2:]
    for line in told["summary"]:
        assert len(line["accuracies"]) == len(line["rounds_to_target"]) == 2
        assert line["accuracy"] == pytest.approx(sum(line["accuracies"]) / 2)
    assert Path(told["picture"]).read_bytes().startswith(b"\x89PNG")
    # The same run by itself gives the same figure.
    main(["run", *blobs(mine, "--rounds", "6", "--seed", "2", "--algorithm", "fedavg", "--json"),
          "--out", str(tmp_path / "one")])  # fmt: skip
    alone = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert alone["final_accuracy"] == told["summary"][0]["accuracies"][1]


def test_compare_goes_on_without_the_run_that_diverges(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named with its reason; the others are summed up. And the file may hold it all."""
    config = tmp_path / "compare.toml"
    config.write_text(
        f'load = "{mine}"\ndataset = "blobs"\nmodel = "mlp"\nclients = 20\nrounds = 3\n'
        'algorithms = ["fedavg", "half-varp-2:client-lr=1e20"]\nseeds = [1, 2]\nworkers = 2\n'
    )
    main(["compare", "--config", str(config), "--out", str(tmp_path / "out"), "--json"])
    captured = capsys.readouterr()
    told = json.loads(captured.out.splitlines()[-1])
    assert [line["algorithm"] for line in told["summary"]] == ["fedavg"]
    assert len(told["summary"][0]["accuracies"]) == 2
    assert captured.err.count("half-varp-2:client-lr=1e20, seed") == 2
    assert "diverged" in captured.err


def test_data_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`data list` names all data sets; `data show` tells numbers and draws."""
    main(["data", "list"])
    listed = capsys.readouterr().out
    for name in ("mnist-5k", "mnist", "fmnist", "cifar10", "shakespeare"):
        assert name in listed
    picture = tmp_path / "who.png"
    main(["data", "show", "--partition", "lq-2", "--clients", "50", "--out", str(picture)])
    told = capsys.readouterr().out
    assert "classes per client: 2 to 2, mean 2.0 of 10" in told
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_help_is_made_from_the_settings() -> None:
    """Each field's line of help is on the screen."""
    shown = typed("run", "--help").stdout
    assert "--clients-per-round" in shown
    assert "How many of them train in a round." in shown
    assert "fedadavr compare" in typed().stdout
