"""What is said to be kept is on the disk by then: after a power cut, not only after `kill -9`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import lmdb
import pytest

from fedadavr.algorithms.server_state import ServerState
from fedadavr.cli import main
from fedadavr.experiments import sweep
from fedadavr.experiments.folder import METRICS, write_whole
from fedadavr.experiments.records import RECORDS, read_lines
from fedadavr.experiments.run import RunOptions, run
from fedadavr.stores.lmdb import DATA, LmdbStore
from tests.rounds import play, server_on
from tests.test_runs import small
from tests.test_sweep import words


class Disk:
    """Notes what is synced and what takes its place, in order; and does it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[tuple[str, Any]] = []
        self.synced: dict[int, int] = {}  # by inode, how many of its bytes are safe
        fsync, replace = os.fsync, Path.replace

        def noted_fsync(handle: int) -> None:
            fsync(handle)
            about = os.fstat(handle)
            self.synced[about.st_ino] = about.st_size
            self.events.append(("sync", about.st_ino))

        def noted_replace(path: Path, target: Any) -> Path:
            there = replace(path, target)
            self.events.append(("replace", Path(target)))
            return there

        monkeypatch.setattr(os, "fsync", noted_fsync)
        monkeypatch.setattr(Path, "replace", noted_replace)

    def bytes_of(self, path: Path) -> int:
        """How many bytes of a file would be there after a power cut."""
        return self.synced.get(path.stat().st_ino, 0)

    def order(self, path: Path) -> list[str]:
        """What happened to a file and to its folder."""
        file, folder = path.stat().st_ino, path.parent.stat().st_ino
        names = {("sync", file): "file", ("sync", folder): "folder", ("replace", path): "replace"}
        return [names[event] for event in self.events if event in names]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_lmdb_syncs_every_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is made, opened, grown, and opened again after an error: none is left to chance."""
    flags: list[Any] = []
    real = lmdb.open

    def opened(*args: Any, **options: Any) -> Any:
        env = real(*args, **options)
        flags.append(env.flags())
        return env

    monkeypatch.setattr(lmdb, "open", opened)
    with LmdbStore(tmp_path / "s", map_size=1 << 18) as store:
        play(server_on(store), 20)
        assert store._env.info()["map_size"] > 1 << 18
        flags.append(store._env.flags())
    assert len(flags) >= 4
    for set_ones in flags:
        assert (set_ones["sync"], set_ones["metasync"], set_ones["lock"]) == (True, True, True)
        assert not set_ones["map_async"]


@pytest.mark.parametrize("how", ["made", "backup"])
def test_a_new_store_has_its_place_on_the_disk(how: str, tmp_path: Path, disk: Disk) -> None:
    """The folder is synced once its file has its name in it."""
    with LmdbStore(tmp_path / "s") as store:
        play(server_on(store), 2)
        if how == "backup":
            store.backup(tmp_path / "copy")
    place = tmp_path / ("s" if how == "made" else "copy") / DATA
    assert disk.order(place)[-2:] == ["replace", "folder"]


def test_a_file_is_whole_on_the_disk_before_it_takes_its_place(tmp_path: Path, disk: Disk) -> None:
    """Or else a power cut leaves the new name with nothing in it."""
    path = tmp_path / "config.toml"
    for text in (b"old", b"a longer new one"):
        disk.events.clear()
        write_whole(path, text)
        assert disk.order(path) == ["file", "replace", "folder"]
        assert disk.bytes_of(path) == len(text) == path.stat().st_size


@pytest.mark.parametrize("evaluate_every", [1, 3])
def test_a_checkpoint_reckons_with_no_line_that_can_be_lost(
    evaluate_every: int, mine: str, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a round is committed, the lines of all before it are on the disk."""
    out, commits = tmp_path / "run", []
    commit = ServerState.commit

    def noted(self: Any, w: Any, **extra: Any) -> None:
        text = (out / METRICS).read_bytes()[: disk.bytes_of(out / METRICS)]
        there = [json.loads(line)["round"] for line in text.splitlines()]
        last = extra["round"] - bool(extra["pending"])  # its own line waits for its evaluation
        assert there == list(range(1, last + 1))
        commits.append(extra["round"])
        commit(self, w, **extra)

    monkeypatch.setattr(ServerState, "commit", noted)
    run(small(mine, evaluate_every=evaluate_every), RunOptions(checkpoint_every=5), out)
    assert commits == [5, 10, 12]
    run(small(mine, evaluate_every=evaluate_every, rounds=16), RunOptions(checkpoint_every=5), out,
        resume=True)  # fmt: skip
    assert commits == [5, 10, 12, 15, 16]
    for name in ("config.toml", "committed"):
        assert disk.order(out / name)[-1] == "folder"
        assert disk.bytes_of(out / name) == (out / name).stat().st_size > 0


def test_a_sweeps_record_is_on_the_disk_before_its_run_is_removed(
    mine: str, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is in its folder or in the records, whenever the power goes."""
    out, cleared = tmp_path / "sweep", []
    clear = sweep.clear

    def noted(folder: Path) -> None:
        records = out / RECORDS
        assert folder.name in [record.id for record in read_lines(records)]
        assert disk.bytes_of(records) == records.stat().st_size
        cleared.append(folder.name)
        clear(folder)

    monkeypatch.setattr(sweep, "clear", noted)
    main(words(mine, out, "--grid", "seed=1,2"))
    assert len(cleared) == 2
