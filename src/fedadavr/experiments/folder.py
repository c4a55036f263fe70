"""A run is a folder: its settings, a line for each round, and the last checkpoint.

`config.toml` holds everything needed to run it again, every setting of the algorithm included.
`metrics.jsonl` has one line per round, in order. `checkpoint` is a store (LMDB) with the model, the
server's state and the client memory. A run with a store elsewhere has none: the file `store` says
where it is.
"""

from __future__ import annotations

import json
import logging
import os
import tomllib
from pathlib import Path
from typing import IO, Any

from fedadavr.experiments.experiment import Experiment

log = logging.getLogger(__name__)

CONFIG, METRICS, CHECKPOINT, STORE = "config.toml", "metrics.jsonl", "checkpoint", "store"
DAMAGED = "metrics.jsonl.damaged"
OLD_CHECKPOINT = "checkpoint.safetensors"  # of version 0.1.0


class RunFolder:
    """Reads and writes a run's files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._metrics: IO[str] | None = None

    def check_free(self) -> None:
        """Refuse a folder that holds a run."""
        if (self.path / CONFIG).exists():
            raise ValueError(
                f"{self.path} holds a run already: continue it with --resume {self.path}, "
                "or choose another --out"
            )

    def create(self, experiment: Experiment, store: str | None = None) -> None:
        """Start a new run here; `store` is the address of its store, if it has one."""
        self.check_free()
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
        return path.read_text() if path.is_file() else None

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

    def write_row(self, row: dict[str, Any]) -> None:
        """Add a round's line."""
        assert self._metrics is not None
        self._metrics.write(json.dumps(row) + "\n")
        self._metrics.flush()

    def rows(self) -> list[dict[str, Any]]:
        """All lines; those that cannot be read, as a crash may cut the last one, are left out."""
        path = self.path / METRICS
        rows = []
        for line in path.read_bytes().splitlines() if path.exists() else []:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and type(row.get("round")) is int:
                rows.append(row)
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
