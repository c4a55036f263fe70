"""A run is a folder: its settings, a line for each round, and the last checkpoint.

`config.toml` holds everything needed to run it again, every setting of the algorithm included.
`metrics.jsonl` has one line per round, in order. `checkpoint` is a store (LMDB) with the model, the
server's state and the client memory. A run with a store elsewhere has none: the file `store` says
where it is. The file `committed` is there once either has held a round, so that one that is empty
again is known to be lost.
"""

from __future__ import annotations

import json
import logging
import math
import os
import tomllib
from pathlib import Path
from typing import IO, Any

from fedadavr.experiments.experiment import Experiment
from fedadavr.stores.addresses import read_note
from fedadavr.stores.lmdb import LmdbStore

log = logging.getLogger(__name__)

CONFIG, METRICS, CHECKPOINT, STORE = "config.toml", "metrics.jsonl", "checkpoint", "store"
COMMITTED, DAMAGED = "committed", "metrics.jsonl.damaged"
OLD_CHECKPOINT = "checkpoint.safetensors"  # of version 0.1.0


class RunFolder:
    """Reads and writes a run's files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._metrics: IO[str] | None = None

    def check_free(self) -> None:
        """Refuse a folder that holds a run, also one that has lost its settings."""
        self._check_no_files()
        if (self.path / CHECKPOINT / "data.mdb").exists():
            with LmdbStore(self.path / CHECKPOINT, read_only=True) as store:
                if store.state() is not None:  # or else it was made just before a crash
                    raise ValueError(self._lacks_settings(CHECKPOINT))

    def _check_no_files(self) -> None:
        if (self.path / CONFIG).exists():
            raise ValueError(
                f"{self.path} holds a run already: continue it with --resume {self.path}, "
                "or choose another --out"
            )
        for name in (METRICS, COMMITTED, OLD_CHECKPOINT):
            if (self.path / name).exists():
                raise ValueError(self._lacks_settings(name))

    def _lacks_settings(self, there: str) -> str:
        return (
            f"{self.path} holds a run already, whose {CONFIG} is lost ({there} is there): restore "
            "it from a backup, or choose another --out"
        )

    def create(self, experiment: Experiment, store: str | None = None) -> None:
        """Start a new run here; `store` is the address of its store, if it has one."""
        self._check_no_files()
        self.path.mkdir(parents=True, exist_ok=True)
        if store is not None:
            self.write_store(store)
        self.write_config(experiment)
        self._metrics = (self.path / METRICS).open("w")

    def write_config(self, experiment: Experiment) -> None:
        """Note the settings; a run that goes on may have been given more rounds."""
        write_whole(self.path / CONFIG, experiment.to_toml().encode())

    def experiment(self) -> Experiment:
        """The settings of the run that is here."""
        path = self.path / CONFIG
        if not path.is_file():
            raise ValueError(f"{self.path} holds no run: there is no {CONFIG} in it")
        try:
            return Experiment.from_toml(path.read_text(), str(path))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not valid TOML: {error}") from None

    def write_store(self, address: str) -> None:
        """Note where the run's store is."""
        write_whole(self.path / STORE, address.encode())

    def store(self) -> str | None:
        """The address of the run's store, if it is not the checkpoint."""
        path = self.path / STORE
        return read_note(path) if path.is_file() else None

    def checkpoint(self) -> str:
        """The address of the checkpoint, which is a store in the folder."""
        return f"lmdb:{self.path / CHECKPOINT}"

    def check_checkpoint(self) -> None:
        """A run that has lost its checkpoint must not begin again over its lines."""
        if (self.path / CHECKPOINT).exists():
            return
        if (self.path / OLD_CHECKPOINT).exists():
            raise ValueError(
                f"the run in {self.path} was made by version 0.1.0: convert it first, with "
                f"fedadavr memory upgrade {self.path}"
            )
        raise ValueError(
            f"the run in {self.path} has lost its checkpoint: restore the folder "
            f"{self.path / CHECKPOINT} from a backup, or begin anew in another folder"
        )

    def note_commit(self) -> None:
        """From now on there is a round in the run's store or checkpoint."""
        if not self.committed():
            write_whole(self.path / COMMITTED, b"this run has had a round in its store\n")

    def committed(self) -> bool:
        """Whether there was ever a round in the run's store or checkpoint."""
        return (self.path / COMMITTED).exists()

    def write_row(self, row: dict[str, Any]) -> None:
        """Add a round's line."""
        assert self._metrics is not None
        self._metrics.write(json.dumps(row) + "\n")
        self._metrics.flush()

    def rows(self) -> list[dict[str, Any]]:
        """All lines; those that are not a round's are left out, and said in the log.

        But for the last, if it has no line break: a crash has cut it, or it is being written.
        """
        path = self.path / METRICS
        rows, wrong = [], []
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                rows.append(_round_of(line))
            except ValueError as error:
                if line.endswith(b"\n"):
                    wrong.append(f"{path}, line {number}, is not a round's: {error}")
        if wrong:
            more = f" (so are {len(wrong) - 1} lines after it)" if wrong[1:] else ""
            log.warning("%s; it is left out%s", wrong[0], more)
        return rows

    def rewind(self, round: int, unwritten: int) -> list[dict[str, Any]]:
        """Keep the lines up to a round, but for the last `unwritten`; go on after them."""
        kept = [row for row in self.rows() if row["round"] <= round - unwritten]
        missing = set(range(1, round - unwritten + 1)) - {row["round"] for row in kept}
        if missing:
            log.warning("%s lacks the lines of rounds %s; as it was, it is kept as %s",
                        self.path / METRICS, sorted(missing), DAMAGED)  # fmt: skip
            if (self.path / METRICS).exists():
                write_whole(self.path / DAMAGED, (self.path / METRICS).read_bytes())
        text = "".join(json.dumps(row) + "\n" for row in kept)
        write_whole(self.path / METRICS, text.encode())
        self._metrics = (self.path / METRICS).open("a")
        return kept

    def sync(self) -> None:
        """Have the lines safe on the disk."""
        assert self._metrics is not None
        os.fsync(self._metrics.fileno())

    def close(self) -> None:
        """Close the files."""
        if self._metrics is not None:
            self._metrics.close()


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file, so that at any moment it is the old one or the new one, whole."""
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


TIMES = ("elapsed", "seconds_training", "seconds_server", "seconds_evaluating")
EVALUATED = ("accuracy", "loss", "client_accuracy")


def _round_of(line: bytes) -> dict[str, Any]:
    """A line's round, if all that is computed with later is what it must be."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(row, dict) or type(row.get("round")) is not int or row["round"] < 1:
        raise ValueError("it has no round")
    evaluated = EVALUATED if "loss" in row or "client_accuracy" in row else ()
    for key in ("elapsed", *evaluated):
        if key not in row:
            raise ValueError(f"it has no {key!r}")
    for key in (*TIMES, *evaluated):
        value = row.get(key, 0.0)
        if key in TIMES:
            good = _is_number(value) and 0 <= value < math.inf
        elif key == "client_accuracy":
            good = isinstance(value, list) and all(map(_is_number, value))
        else:
            good = _is_number(value)
        if not good:
            raise ValueError(f"its {key!r} is {json.dumps(value)[:40]}")
    return row


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) < 1 << 53)
