"""A sweep: many runs, each done once, each kept when it is finished, and never lost after that."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedadavr.algorithms.registry import user_settings
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.folder import CHECKPOINT, CONFIG, RunFolder
from fedadavr.experiments.options import RunOptions
from fedadavr.experiments.pool import in_processes, on_ray
from fedadavr.experiments.records import (
    RECORDS,
    RunRecord,
    from_rows,
    given,
    read_lines,
    run_id,
)
from fedadavr.experiments.run import Row, run
from fedadavr.stores.addresses import public

BACKENDS = {"processes": in_processes, "ray": on_ray}
UNFINISHED = "unfinished"
LMDB = "lmdb"  # the kind of store that every run has for itself


@dataclass
class Progress:
    """How a sweep is getting on."""

    total: int
    kept: int = 0
    finished: list[RunRecord] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    running: dict[int, tuple[Experiment, Row]] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def left(self) -> str:
        """How long it will take yet, by the rounds done so far."""
        rounds = sum(record.experiment.rounds or 0 for record in self.finished)
        rounds += sum(row["round"] for _, row in self.running.values())
        done = self.kept + len(self.finished) + len(self.failures)
        if not rounds or not self.finished:
            return "?"
        a_run = rounds / (len(self.finished) + len(self.failures) + len(self.running) / 2)
        to_do = (self.total - done) * a_run
        minutes = (time.monotonic() - self.began) / rounds * to_do / 60
        return f"{minutes:.0f} min" if minutes >= 2 else f"{60 * minutes:.0f} s"


OnChange = Callable[[Progress, RunRecord | None], None]
"""Told how a sweep is getting on, and the record of the run that has just finished, if one has."""


def label(experiment: Experiment) -> str:
    """A run in a few words."""
    e = experiment
    told = [e.get(name) for name in ("optimizer", "server_lr", "codec")]
    own = [str(value) for value in (*told, f"client-lr {e.client_lr:g}") if value]
    known = user_settings(e.algorithm)
    own += [
        f"{name.replace('_', '-')} {value}" for name, value in e.settings.items()
        if name not in ("optimizer", "server_lr", "codec") and name in known
        and value != known[name].default
    ]  # fmt: skip
    return f"{e.dataset} {e.partition} {e.algorithm} {' '.join(own)} seed {e.seed}"


def sweep(
    experiments: Iterable[Experiment],
    run_options: RunOptions,
    out: Path,
    on_change: OnChange | None = None,
    *,
    total: int | None = None,
    on: str = "processes",
    known: Iterable[Path] = (),
    on_record: Callable[[RunRecord], None] | None = None,
) -> Progress:
    """Do the runs that are not recorded yet, and record each as it is finished.

    Records go into `out`, a line each. What else is in `known` files is not done again either. A
    run that was cut short goes on from its last checkpoint, which is a store in its working
    folder and is removed once the run is recorded. `experiments` may be made up as they are asked
    for. `on_change` is told whenever there is something new.
    """
    out.mkdir(parents=True, exist_ok=True)
    with _alone(out):
        done = {record.id: record for path in known for record in read_lines(path)}
        done |= {record.id: record for record in read_lines_of(out)}
        for left in (out / UNFINISHED).glob("*"):
            if left.stem in done:  # it was recorded, and then came a crash
                clear(left.with_suffix(""))
        if total is None:
            experiments = list(experiments)
            total = len(experiments)
        progress = Progress(total)
        tasks: list[Experiment] = []

        def to_do() -> Iterator[Task]:
            asked = set()
            for experiment in experiments:
                settings = given(experiment)
                name = run_id(experiment)
                if name in done or name in asked:
                    progress.kept += 1
                    if name in done and on_record is not None:
                        on_record(done[name])
                    continue
                asked.add(name)
                tasks.append(experiment)
                place = None if on == "ray" else out / UNFINISHED / name
                yield experiment, settings, replace(run_options, workers=1), place

        for number, kind, what in BACKENDS[on](record_run, to_do(), run_options.workers):
            experiment, finished = tasks[number], None
            if kind == "row":
                progress.running[number] = (experiment, what)
            else:
                progress.running.pop(number, None)
                if kind == "done":
                    finished = what
                    keep(what, out)
                    done[what.id] = what
                    progress.finished.append(what)
                    if on_record is not None:
                        on_record(what)
                else:
                    progress.failures.append(f"{label(experiment)}: {what}")
            if on_change is not None:
                on_change(progress, finished)
        if (out / UNFINISHED).is_dir() and not any((out / UNFINISHED).iterdir()):
            (out / UNFINISHED).rmdir()
    return progress


Task = tuple[Experiment, dict[str, Any], RunOptions, Path | None]
"""A run, its settings as they will be recorded, and where it works; None: on another machine."""


def record_run(task: Task, tell: Callable[[Row], None]) -> RunRecord:
    """One run of a sweep, in its own process; one that diverges has a record, too."""
    from fedadavr.simulation import Diverged

    experiment, settings, run_options, folder = task
    if folder is None:
        with tempfile.TemporaryDirectory() as place:
            return record_run((experiment, settings, run_options, Path(place) / "run"), tell)
    if given(experiment) != settings:
        raise ValueError(f"{experiment.load} has changed since the sweep began: start it again")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with lock_of(folder).open("w") as lock:
        # The worker of a sweep that was killed may still write here, for a round at most.
        fcntl.flock(lock, fcntl.LOCK_EX)
        run_options, resume = own_place(run_options, folder)
        if not resume:
            shutil.rmtree(folder, ignore_errors=True)
        try:
            result = run(
                experiment, run_options, folder, resume=resume, on_row=tell, keep_last=False
            )
        except Diverged as error:
            rows = RunFolder(folder).rows()
            lost = from_rows(experiment, rows, settings=settings)
            return replace(lost, final_accuracy=None, final_loss=None, worst_decile=None,
                           by_visits=None, failure=str(error))  # fmt: skip
        rows = RunFolder(folder).rows()
        return from_rows(experiment, rows, result.memory_bytes, settings)


def own_place(run_options: RunOptions, folder: Path) -> tuple[RunOptions, bool]:
    """How a run of a sweep keeps its state, and whether there is some.

    Its checkpoint is a store of its own; `--store lmdb` commits to it after every round.
    """
    begun = (folder / CONFIG).is_file() and (folder / CHECKPOINT / "data.mdb").is_file()
    if run_options.store == LMDB:
        run_options = replace(run_options, checkpoint_every=run_options.commit_every or 1)
    return replace(run_options, store=None, commit_every=None), begun


def check_store(store: str | None, commit_every: int | None) -> None:
    """Refuse a store that many runs would share."""
    if store not in (None, "ram", LMDB):
        raise ValueError(
            f"{public(store)}: there are many runs, and each needs a store of its own: "
            f"type --store {LMDB}"
        )
    if commit_every is not None and store != LMDB:
        raise ValueError(
            f"--commit-every goes with --store {LMDB}, where each needs a store of its own"
        )


def lock_of(folder: Path) -> Path:
    """Held by the process that does this run."""
    return folder.with_name(f"{folder.name}.lock")


def keep(record: RunRecord, out: Path) -> None:
    """Add a record to the file, whole and safe on the disk; then its folder is not needed."""
    with (out / RECORDS).open("ab") as file:
        file.write(record.to_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    clear(out / UNFINISHED / record.id)


def clear(folder: Path) -> None:
    """Remove what a run has left that is recorded."""
    shutil.rmtree(folder, ignore_errors=True)
    lock_of(folder).unlink(missing_ok=True)


def read_lines_of(out: Path) -> list[RunRecord]:
    """The records of a sweep's folder; a last line without a line break is completed or removed."""
    path = out / RECORDS
    if not path.is_file():
        return []
    records = read_lines(path)
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        with path.open("r+b") as file:
            if len(records) > sum(map(bool, data.split(b"\n")[:-1])):  # only its break is missing
                file.seek(0, os.SEEK_END)
                file.write(b"\n")
            else:
                file.truncate(data.rfind(b"\n") + 1)
    return records


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Hold a sweep's folder, so that no other sweep writes into it at the same time."""
    with (out / RECORDS).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"another sweep is writing into {out}: wait for it, or choose another --out"
            ) from None
        yield
