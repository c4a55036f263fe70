"""A run is a folder: its settings, a line for each round, and the last checkpoint.

`config.toml` holds everything needed to run it again. `metrics.jsonl` has one line a round, in
order. `checkpoint.safetensors` holds the model, the server's state and the client memory; what is
no array stands as JSON in its header. It is replaced whole, so a crash leaves the last one. A run
with a store has no checkpoint: all that lives in the store, and the file `store` says where it is.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from fedadavr.algorithms import Algorithm
from fedadavr.experiments.experiment import Experiment, read_toml
from fedadavr.memory import Record
from fedadavr.memory.durable import fill, strip
from fedadavr.vector import Vector

log = logging.getLogger(__name__)

CONFIG, METRICS, CHECKPOINT = "config.toml", "metrics.jsonl", "checkpoint.safetensors"
STORE = "store"


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
        if not (self.path / CONFIG).is_file():
            raise ValueError(f"{self.path} holds no run: there is no {CONFIG} in it")
        return Experiment(**read_toml(self.path / CONFIG))

    def write_store(self, address: str) -> None:
        """Note where the run's store is."""
        write_whole(self.path / STORE, address.encode())

    def store(self) -> str | None:
        """The address of the run's store, if it has one."""
        path = self.path / STORE
        return path.read_text() if path.is_file() else None

    def write_row(self, row: dict[str, Any]) -> None:
        """Add a round's line."""
        assert self._metrics is not None
        self._metrics.write(json.dumps(row) + "\n")
        self._metrics.flush()

    def rows(self) -> list[dict[str, Any]]:
        """All lines; a last one that a crash cut short is left out."""
        path = self.path / METRICS
        rows = []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return rows

    def rewind(self, round: int, unwritten: int) -> list[dict[str, Any]]:
        """Keep the lines up to a round, but for the last `unwritten`; go on after them."""
        kept = [row for row in self.rows() if row["round"] <= round - unwritten]
        missing = set(range(1, round - unwritten + 1)) - {row["round"] for row in kept}
        if missing:
            log.warning("%s lacks the lines of rounds %s", self.path / METRICS, sorted(missing))
        text = "".join(json.dumps(row) + "\n" for row in kept)
        write_whole(self.path / METRICS, text.encode())
        self._metrics = (self.path / METRICS).open("a")
        return kept

    def sync(self) -> None:
        """Have the lines safe on the disk."""
        assert self._metrics is not None
        os.fsync(self._metrics.fileno())

    def save(self, w: Vector, server: Algorithm, extra: dict[str, Any]) -> None:
        """Write the checkpoint, after the lines of the rounds before it are safe on the disk."""
        self.sync()
        arrays: dict[str, Any] = {"w": w}
        about: dict[str, Any] = {"state": strip(server.state_dict(), "state", arrays), **extra}
        if server.memory is not None:
            records = sorted(server.memory.records())
            about["clients"] = [[c, r.weight, r.round, r.owner, r.kind] for c, r in records]
            size = int(server.memory.offsets[-1])
            arrays["records"] = np.stack([r.data for _, r in records]) if records else np.zeros(
                (0, size), np.uint8)  # fmt: skip
        header = {"fedadavr": json.dumps(about)}
        write_whole(self.path / CHECKPOINT, save(arrays, metadata=header))

    def restore(self, server: Algorithm) -> tuple[Vector | None, dict[str, Any]]:
        """Give the server the checkpoint's state; the model and what else was saved with it."""
        path = self.path / CHECKPOINT
        if not path.exists():
            return None, {}
        try:
            with safe_open(path, "numpy") as file:
                about = json.loads((file.metadata() or {})["fedadavr"])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, KeyError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is damaged ({error}): the run cannot be continued") from None
        server.load_state_dict(fill(about.pop("state"), arrays))
        if server.memory is not None:
            codec, layout = server.memory.codec.name, server.layout.digest
            server.memory.store.commit({
                client: Record(weight, round, data.copy(), codec, layout, owner, kind)
                for (client, weight, round, owner, kind), data in zip(
                    about.pop("clients"), arrays["records"], strict=True)
            })  # fmt: skip
        return arrays["w"], about

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
