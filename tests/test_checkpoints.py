"""A run's checkpoint is as strong as any store: damage, loss and a second resume are noticed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

from fedadavr.cli import main
from fedadavr.experiments.folder import RunFolder
from fedadavr.experiments.run import RunOptions, run
from fedadavr.stores import StoreError, open_store
from tests.rounds import opened
from tests.test_runs import outcome, small

FIXTURES = Path(__file__).parent / "fixtures" / "format-1"


def files(path: Path) -> dict[str, bytes]:
    """What the user can lose: all but locks."""
    return {
        str(p.relative_to(path)): p.read_bytes()
        for p in path.rglob("*")
        if p.is_file() and "lock" not in p.name
    }


def test_damaged_weights_are_noticed(mine: str, tmp_path: Path) -> None:
    """Wherever a byte of the model is changed, the run does not go on, and nothing is rewritten."""
    out = tmp_path / "run"
    run(small(mine), RunOptions(), out)
    with open_store(RunFolder(out).checkpoint(), read_only=True) as store:  # type: ignore[union-attr]
        w = store.state()["w"].tobytes()  # type: ignore[index]
    whole = (out / "checkpoint" / "data.mdb").read_bytes()
    at = whole.index(w[:200])
    for offset in np.random.default_rng(0).integers(0, len(w), 124):
        raw = bytearray(whole)
        # The last commit's copy may lie behind an older one: spoil every place that holds it.
        here = at
        while here >= 0:
            raw[here + offset] ^= 1
            here = whole.find(w[:200], here + 1)
        (out / "checkpoint" / "data.mdb").write_bytes(raw)
        before = files(out)
        with pytest.raises(StoreError, match=r"state\.w/0 has a wrong checksum"):
            run(small(mine, rounds=14), RunOptions(), out, resume=True)
        assert files(out) == before


def test_a_missing_checkpoint_does_not_begin_again(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines that there are stay; one sentence says what to do."""
    out = tmp_path / "run"
    run(small(mine), RunOptions(), out)
    shutil.rmtree(out / "checkpoint")
    before = files(out)
    with pytest.raises(SystemExit):
        main(["run", "--resume", str(out), "--rounds", "14", "--load", mine])
    assert "has lost its checkpoint: restore the folder" in capsys.readouterr().err
    assert files(out) == before
    (out / "checkpoint").mkdir()  # an empty folder is no checkpoint either
    with pytest.raises(SystemExit):
        main(["run", "--resume", str(out), "--rounds", "14", "--load", mine])
    assert "there is no store in" in capsys.readouterr().err
    assert files(out) == before


def test_a_run_that_was_never_kept_begins_again(mine: str, tmp_path: Path) -> None:
    """Killed before its first checkpoint it has nothing to lose, and its lines are written anew."""
    out, whole = tmp_path / "run", tmp_path / "whole"
    run(small(mine), RunOptions(), whole)

    def die(row: dict[str, Any]) -> None:
        if row["round"] == 3:
            raise RuntimeError("as if killed")

    with pytest.raises(RuntimeError):
        run(small(mine), RunOptions(checkpoint_every=0), out, on_row=die)
    run(small(mine), RunOptions(), out, resume=True)
    assert outcome(out) == outcome(whole)


def test_resume_twice_at_once_is_refused(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second one says who has the run, and touches nothing."""
    out = tmp_path / "run"
    run(small(mine), RunOptions(), out)
    with open_store(RunFolder(out).checkpoint()):  # type: ignore[union-attr]
        before = files(out)
        words = ["run", "--resume", str(out), "--rounds", "14", "--load", mine]
        done = subprocess.run(
            [sys.executable, "-c", "from fedadavr.cli import main; main()", *words],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert f"is in use by another server (process {os.getpid()})" in done.stderr
        assert "Traceback" not in done.stderr
        assert files(out) == before


def test_another_runs_checkpoint_is_refused(mine: str, tmp_path: Path) -> None:
    """Copied by mistake, it would silently be a mixture of two."""
    for seed in (1, 2):
        run(small(mine, seed=seed), RunOptions(), tmp_path / str(seed))
    shutil.rmtree(tmp_path / "1" / "checkpoint")
    shutil.copytree(tmp_path / "2" / "checkpoint", tmp_path / "1" / "checkpoint")
    with pytest.raises(ValueError, match="holds another run than the one in"):
        run(small(mine, seed=1, rounds=14), RunOptions(), tmp_path / "1", resume=True)


def test_nothing_executable_in_a_checkpoint(mine: str, tmp_path: Path) -> None:
    """The manifest is JSON, all else numbers: a pickle would begin with its protocol's byte."""
    out = tmp_path / "run"
    run(small(mine, codec="int8"), RunOptions(), out)
    with lmdb.open(str(out / "checkpoint"), max_dbs=7, readonly=True) as env, env.begin() as txn:
        manifest = txn.get(b"manifest", db=env.open_db(b"state", txn, create=False))
    assert manifest is not None
    assert manifest[9:10] == b"{"
    assert b"\x80\x04\x95" not in (out / "checkpoint" / "data.mdb").read_bytes()


def test_a_run_of_version_0_1_goes_on(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Resuming says how to convert it; converted, it ends as the run that was never interrupted."""
    out, whole = tmp_path / "run", tmp_path / "whole"
    shutil.copytree(FIXTURES / "run", out)
    config = out / "config.toml"
    config.write_text(config.read_text().replace("MINE", mine))
    with pytest.raises(SystemExit):
        main(["run", "--resume", str(out), "--load", mine])
    assert f"fedadavr memory upgrade {out}" in capsys.readouterr().err
    main(["memory", "upgrade", str(out)])
    assert "can be continued" in capsys.readouterr().out
    main(["run", "--resume", str(out), "--load", mine])
    was = {"server_lr": 0.01}  # its default then
    run(small(mine, algorithm="fedadavr-plus", codec="int8", **was), RunOptions(), whole)
    (_, records), rows = outcome(out)
    (_, expected_records), expected_rows = outcome(whole)
    for row in (*rows, *expected_rows):
        for name in ("there", "asked", "answered", "clock", "evaluated"):  # 0.1 told none of it
            row.pop(name, None)
    # To rounding: its first rounds were made on a machine whose last bits may be others.
    near(rows, expected_rows)
    assert records.keys() == expected_records.keys()
    for client, (*told, data) in records.items():
        *expected_told, expected_data = expected_records[client]
        assert told == expected_told
        near(np.frombuffer(data[:16], "f4"), np.frombuffer(expected_data[:16], "f4"))  # scales
        values, expected = (np.frombuffer(d[16:], "i1").astype(int) for d in (data, expected_data))
        assert np.abs(values - expected).max() <= 1
    for name in ("w", "optimizer", "memory", "kinds"):
        near(part_of(out, name), part_of(whole, name))


def near(found: Any, expected: Any) -> None:
    """Whether all numbers in it are the same to rounding, and all else is."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            near(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            near(one, other)
    elif isinstance(expected, float | np.ndarray):
        most = float(np.abs(expected).max(initial=0.0))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * most)
    else:
        assert found == expected


def part_of(path: Path, name: str) -> Any:
    """A part of the state of the run in a folder."""
    with opened(RunFolder(path).checkpoint(), read_only=True) as store:
        state = store.state()
    part = state["w"] if name == "w" else state["server"][name]
    if name == "memory":
        part.pop("reach")  # what has been in the total is not known of before
    return part


def test_going_back_to_a_round(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--snapshot-every`, `memory rewind`, and the run ends as it would have."""
    out, whole = tmp_path / "run", tmp_path / "whole"
    run(small(mine), RunOptions(), whole)
    run(small(mine), RunOptions(snapshot_every=3, checkpoint_every=1), out)
    main(["memory", "rewind", str(out), "--round", "6"])
    assert "is at round 6 again" in capsys.readouterr().out
    run(small(mine), RunOptions(), out, resume=True)
    assert outcome(out) == outcome(whole)
    with pytest.raises(SystemExit):
        main(["memory", "rewind", str(out), "--round", "7"])
    assert "has no snapshot of round 7; there are: 3, 6" in capsys.readouterr().err


ROW = b'{"round": 2, "elapsed": 1.0, "loss": 1.0, "accuracy": 9.0, "client_accuracy": [1.0]}'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"\xff", "it is not JSON"), (b"{", "it is not JSON"), (b"[" * 99_999, "it is not JSON"),
        (b"5", "it has no round"), (b"{}", "it has no round"), (b'{"round": "x"}', "has no round"),
        (ROW.replace(b"elapsed", b"elapsee"), "it has no 'elapsed'"),
        (ROW.replace(b"accuracy", b"accuracz", 1), "it has no 'accuracy'"),
        (ROW.replace(b'"loss"', b'"losz"'), "it has no 'loss'"),
        (ROW.replace(b": 1.0", b': "x"', 1), "its 'elapsed' is \"x\""),
        (ROW.replace(b": 1.0", b": NaN", 1), "its 'elapsed' is NaN"),
        (ROW.replace(b": 9.0", b": null", 1), "its 'accuracy' is null"),
        (ROW.replace(b"[1.0]", b"[{}]", 1), "its 'client_accuracy' is [{}]"),
        (ROW.replace(b"{", b'{"seconds_training": [], '), "its 'seconds_training' is []"),
    ],
    ids=range(14),
)  # fmt: skip
def test_a_damaged_line_costs_only_itself(
    line: bytes, why: str, mine: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The other lines stay, the file as it was is kept beside it, and the log names the line."""
    out = tmp_path / "run"
    run(small(mine), RunOptions(), out)
    lines = (out / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    broken = b"".join([lines[0], line + b"\n", *lines[2:]])
    (out / "metrics.jsonl").write_bytes(broken)
    run(small(mine, rounds=14), RunOptions(), out, resume=True)
    assert [row["round"] for row in RunFolder(out).rows()] == [1, *range(3, 15)]
    assert (out / "metrics.jsonl.damaged").read_bytes() == broken
    said = [record.getMessage() for record in caplog.records]
    (sentence,) = [text for text in said if f"{out / 'metrics.jsonl'}, line 2, is not a" in text]
    assert why in sentence


def test_a_file_of_damaged_lines_is_said_in_one_sentence(
    mine: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And the run ends as it should."""
    out = tmp_path / "run"
    run(small(mine), RunOptions(), out)
    path = out / "metrics.jsonl"
    path.write_text(path.read_text().replace('"elapsed"', '"elapsee"'))
    before = path.read_bytes()
    result = run(small(mine, rounds=14), RunOptions(), out, resume=True)
    assert result.finished
    assert (out / "metrics.jsonl.damaged").read_bytes() == before
    said = [r.getMessage() for r in caplog.records if "is not a round's" in r.getMessage()]
    (sentence,) = said
    assert "line 1, is not a round's: it has no 'elapsed'; it is left out (so are 11" in sentence


@pytest.mark.parametrize("lost", ["lines", "checkpoint", "mark"])
def test_a_run_without_its_settings_is_not_written_over(
    lost: str, mine: str, tmp_path: Path
) -> None:
    """The command typed again is refused while anything else of the run is there."""
    out = tmp_path / "run"
    run(small(mine), RunOptions(), out)
    (out / "config.toml").unlink()
    if lost in ("lines", "mark"):
        (out / "metrics.jsonl").unlink()
    if lost == "checkpoint":
        shutil.rmtree(out / "checkpoint")
    if lost == "mark":
        (out / "committed").unlink()
    before = files(out)
    for machine in (RunOptions(), RunOptions(store=f"lmdb:{tmp_path / 'other'}")):
        with pytest.raises(ValueError, match=r"holds a run already, whose config\.toml is lost"):
            run(small(mine), machine, out)
    assert files(out) == before
    assert not (tmp_path / "other").exists()


def test_a_start_that_was_refused_or_killed_can_be_typed_again(mine: str, tmp_path: Path) -> None:
    """A checkpoint without a round is no run yet."""
    out = tmp_path / "run"
    with open_store(RunFolder(out).checkpoint()):  # type: ignore[union-attr]
        pass
    assert run(small(mine), RunOptions(), out).finished


@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_emptied_checkpoint_does_not_begin_again(
    elsewhere: bool, mine: str, tmp_path: Path
) -> None:
    """A store that is sound but holds no round is not the run's any more; its lines stay."""
    out, store = tmp_path / "run", tmp_path / "store"
    run(small(mine), RunOptions(store=f"lmdb:{store}" if elsewhere else None), out)
    place = store if elsewhere else out / "checkpoint"
    shutil.rmtree(place)
    with open_store(f"lmdb:{place}"):  # type: ignore[union-attr]
        pass
    before = files(tmp_path)
    with pytest.raises(ValueError, match=rf"has rounds, but lmdb:{place} holds none: restore it"):
        run(small(mine, rounds=14), RunOptions(), out, resume=True)
    assert files(tmp_path) == before


def test_a_store_that_is_no_runs_is_refused(mine: str, tmp_path: Path) -> None:
    """One that a server of one's own has written, say, which notes no settings."""
    out = tmp_path / "run"
    run(small(mine), RunOptions(), out)
    with opened(RunFolder(out).checkpoint()) as store:
        state = store.state()
        state["extra"] = {}
        store.commit({}, state)
    with pytest.raises(ValueError, match="holds another run than the one in"):
        run(small(mine, rounds=14), RunOptions(), out, resume=True)
