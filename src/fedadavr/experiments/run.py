"""One run: from settings to a folder, with progress, checkpoints, and a way to go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedadavr.algorithms import Algorithm
from fedadavr.data import Federation, federate, load
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.folder import RunFolder
from fedadavr.experiments.options import RunOptions
from fedadavr.models import build
from fedadavr.plugins import load_file
from fedadavr.signals import Hold, Stop
from fedadavr.stores import Store, open_store
from fedadavr.stores.addresses import absolute, public
from fedadavr.vector import Vector

if TYPE_CHECKING:
    import torch

    from fedadavr.simulation import Engine, Evaluation

__all__ = ["Result", "Row", "RunOptions", "run"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Result:
    """What a run comes to."""

    final_accuracy: float
    final_loss: float
    rounds: int
    seconds: float
    seconds_training: float
    seconds_server: float
    seconds_evaluating: float
    memory_bytes: int
    run_dir: str
    finished: bool = True


def run(
    experiment: Experiment,
    run_options: RunOptions | None = None,
    out: Path | None = None,
    *,
    resume: bool = False,
    federation: Federation | None = None,
    on_row: Callable[[Row], None] | None = None,
    keep_last: bool = True,
) -> Result:
    """Run an experiment into a folder; `resume` goes on from the checkpoint that is there.

    Without `keep_last` nothing is kept of the model after the last round, only the figures.
    `on_row` is told every round's line as it is written. Ctrl-C or SIGTERM ends the run after the
    round that is under way, with a checkpoint; a second one ends it at once, and what was kept last
    stays as it is.
    """
    run_options = run_options or RunOptions()
    device = run_options.check()
    experiment = experiment.resolved()
    # Whatever is wrong so far is said before PyTorch is imported, which takes seconds.
    from fedadavr.clients import LocalSGD, layout_of
    from fedadavr.simulation import Engine

    folder = RunFolder(out or default_folder(experiment))
    if not resume:
        folder.check_free()
    store = open_run_store(folder, run_options, resume)
    try:
        if federation is None:
            federation = make_federation(experiment)
        module = build(model_name(experiment), federation.classes, experiment.seed)
        check_fit(module, federation, experiment)
        if store is None:
            store = open_store(folder.checkpoint(), must_exist=resume)
        sizes = {str(k): len(part) for k, part in enumerate(federation.train_parts)}
        server = experiment.server(layout_of(module), sizes, store)
        server.snapshot_every = run_options.snapshot_every
        checkpointer = Checkpointer(folder, server, experiment, run_options, keep_last)
        w, done, pending, rows = checkpointer.resume() if resume else checkpointer.start()
        recorder = Recorder(folder, rows, on_row, run_options.tensorboard, len(sizes))
        assert experiment.local_epochs is not None
        assert experiment.batch_size is not None
        local_sgd = LocalSGD(
            experiment.client_lr, experiment.momentum, experiment.local_epochs,
            experiment.batch_size, server.needs.proximal_mu, server.needs.gradient_scale,
        )  # fmt: skip
        stop = Stop()
        try:
            with stop, Engine(
                server, module, federation, local_sgd, seed=experiment.seed,
                clients_per_round=experiment.clients_per_round, buffer=experiment.buffer,
                availability=experiment.availability, dropout=experiment.dropout,
                evaluate_clients=experiment.evaluate_clients,
                evaluate_examples=experiment.evaluate_examples,
                workers=run_options.workers, device=device, fast=experiment.fast, w=w, round=done,
                prepare=partial(load_file, experiment.load) if experiment.load else None,
            ) as engine:  # fmt: skip
                if checkpointer.engine_state is not None:
                    engine.load_state_dict(checkpointer.engine_state)
                _play(engine, experiment, checkpointer, recorder, pending, stop)
                finished = engine.round == experiment.rounds
        finally:
            recorder.close()
        memory_bytes = 0 if server.memory is None else server.memory.nbytes
    finally:
        if store is not None:
            store.close()
    return summarize(rows, experiment, memory_bytes, folder.path, finished)


def open_run_store(folder: RunFolder, run_options: RunOptions, resume: bool) -> Store | None:
    """The store that is asked for, or that the run to be continued has; None: its checkpoint."""
    saved = folder.store() if resume else None
    address = saved if run_options.store is None else absolute(run_options.store)
    if resume and address is not None and saved is None:
        raise ValueError(f"the run in {folder.path} lives in its checkpoint: it has no --store")
    if address is None or address == "ram":
        only = (run_options.commit_every, run_options.encrypt_with, run_options.compress)
        if any(value is not None for value in only):
            raise ValueError(
                "--commit-every, --encrypt-with and --compress go with a --store that lasts"
            )
        if resume:
            folder.check_checkpoint()
        return None
    if run_options.checkpoint_every is not None:
        raise ValueError("with --store there are no checkpoints: use --commit-every")
    store = open_store(
        address, run_options.encrypt_with, must_exist=resume, compress=run_options.compress
    )
    if not resume and store.state() is not None:
        store.close()
        raise ValueError(
            f"{public(address)} holds a run already: continue it with --resume and its folder, "
            "or choose another --store"
        )
    return store


class Checkpointer:
    """Keeps the model and the server's state in the run's store, which may be its checkpoint."""

    def __init__(
        self,
        folder: RunFolder,
        server: Algorithm,
        experiment: Experiment,
        run_options: RunOptions,
        keep_last: bool = True,
    ) -> None:
        self.folder, self.server, self.experiment = folder, server, experiment
        self._keep_last = keep_last
        self.engine_state: dict[str, Any] | None = None
        elsewhere = run_options.store if run_options.store != "ram" else None
        self.address = elsewhere and public(absolute(elsewhere))
        if self.address or folder.store():
            self.every = run_options.commit_every or 1
        else:
            self.every = (
                10 if run_options.checkpoint_every is None else run_options.checkpoint_every
            )

    def start(self) -> tuple[Vector | None, int, Row | None, list[Row]]:
        """Begin a new run."""
        self.folder.create(self.experiment, self.address)
        return None, 0, None, []

    def resume(self) -> tuple[Vector | None, int, Row | None, list[Row]]:
        """Take up what was kept: the model, the rounds done, a line not written yet, the lines."""
        experiment, folder = self.experiment, self.folder
        where = public(self.address or folder.store() or folder.checkpoint())
        w: Vector | None
        about: dict[str, Any]
        kept = self.server.restore()
        if kept is None and folder.committed():
            raise ValueError(
                f"the run in {folder.path} has rounds, but {where} holds none: restore it from a "
                "backup, or begin anew in another folder"
            )
        w, about = kept or (None, {})
        saved = Experiment.from_toml(about.get("experiment", "")) if kept else experiment
        if _essence(saved) != _essence(experiment):
            raise ValueError(f"{where} holds another run than the one in {folder.path}")
        done = int(about.get("round", 0))
        assert experiment.rounds is not None
        if experiment.rounds < done:
            raise ValueError(
                f"the run in {folder.path} has done {done} rounds already: "
                f"--rounds {experiment.rounds} cannot take any back"
            )
        folder.write_config(experiment)
        if kept:
            folder.note_commit()  # a version before this file had none
        if self.address is not None:
            folder.write_store(self.address)  # it may have been converted, or moved
        self.engine_state = about.get("engine")  # a version before 0.2 had none
        pending: Row | None = about.get("pending")
        return w, done, pending, folder.rewind(done, unwritten=1 if pending else 0)

    def due(self, round: int) -> bool:
        """Whether the state is kept after this round."""
        if round == self.experiment.rounds:
            return self._keep_last
        return bool(self.every) and round % self.every == 0

    def keep(self, engine: Engine, pending: Row | None) -> None:
        """Keep the state as it is after a round; a signal waits until it is kept."""
        with Hold():
            self.folder.sync()  # a line is never lost that the store reckons with
            about: dict[str, Any] = {
                "pending": pending,
                "experiment": self.experiment.to_toml(),
                "engine": engine.state_dict(),
            }
            self.server.commit(engine.w, round=engine.round, **about)
            self.folder.note_commit()


def _essence(experiment: Experiment) -> Experiment:
    """The settings of a run that cannot change when it is continued."""
    return replace(experiment, rounds=None, average_last=None, load=None)


def _play(
    engine: Engine,
    experiment: Experiment,
    checkpointer: Checkpointer,
    recorder: Recorder,
    pending: Row | None,
    stop: Stop,
) -> None:
    """Round after round, until the last or a signal; `pending`: a line without its evaluation."""
    assert experiment.rounds is not None
    saved = engine.round

    if pending is not None:
        engine.begin_evaluation()
    while engine.round < experiment.rounds and not stop.asked:
        trained = engine.finish_training()
        last = engine.round == experiment.rounds
        if not last and not stop.asked:
            engine.begin_training()  # before the evaluation, which then fills the gaps
        if pending is not None:
            recorder.write(pending, engine.finish_evaluation())
        pending = {
            "round": trained.round,
            "train_loss": trained.loss,
            "clients": trained.clients,
            "there": trained.there,
            "asked": trained.asked,
            "answered": trained.answered,
            "clock": round(trained.clock, 3),
            **({} if experiment.buffer is None else {"age": trained.age}),
            "seconds_training": trained.seconds_training,
            "seconds_server": trained.seconds_server,
            **trained.report,
        }
        if experiment.due(engine.round):
            engine.begin_evaluation()
        else:
            recorder.write(pending, None)
            pending = None
        if checkpointer.due(engine.round):
            checkpointer.keep(engine, pending)
            saved = engine.round
    if saved != engine.round and stop.asked:
        checkpointer.keep(engine, pending)
    if pending is not None:
        recorder.write(pending, engine.finish_evaluation())


class Recorder:
    """Keeps a run's lines: in its folder, for TensorBoard, and for whoever wants to be told."""

    def __init__(
        self,
        folder: RunFolder,
        rows: list[Row],
        on_row: Callable[[Row], None] | None,
        tensorboard: bool,
        clients: int,
    ) -> None:
        self.folder, self.rows, self._on_row, self._clients = folder, rows, on_row, clients
        self._before = rows[-1]["elapsed"] if rows else 0.0
        self._began = time.perf_counter()
        self._writer: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder.path))

    def write(self, row: Row, evaluation: Evaluation | None) -> None:
        """A round is complete."""
        if evaluation is not None:
            row |= {
                "accuracy": evaluation.accuracy,
                "loss": evaluation.loss,
                "client_accuracy": [round(a, 2) for a in evaluation.client_accuracy],
                "seconds_evaluating": evaluation.seconds,
            }
            if len(evaluation.clients) < self._clients:
                row["evaluated"] = evaluation.clients
        row["elapsed"] = self._before + time.perf_counter() - self._began
        self.folder.write_row(row)
        self.rows.append(row)
        if self._writer is not None:
            for key in ("train_loss", "accuracy", "loss"):
                if row.get(key) is not None:  # no reply was good enough to have a training loss
                    self._writer.add_scalar(key, row[key], row["round"])
        if self._on_row is not None:
            self._on_row(row)

    def close(self) -> None:
        """Close the files."""
        self.folder.close()
        if self._writer is not None:
            self._writer.close()


def summarize(
    rows: list[Row], experiment: Experiment, memory_bytes: int, path: Path, finished: bool = True
) -> Result:
    """The figures of a run from its lines."""
    assert experiment.average_last is not None
    reached = rows[-1]["round"] if rows else 0
    window = [r for r in rows if "loss" in r and r["round"] > reached - experiment.average_last]

    def total(key: str) -> float:
        return float(sum(row.get(key, 0.0) for row in rows))

    def mean(key: str) -> float:
        return float(np.mean([row[key] for row in window])) if window else float("nan")

    return Result(
        mean("accuracy"), mean("loss"), reached, rows[-1]["elapsed"] if rows else 0.0,
        total("seconds_training"), total("seconds_server"), total("seconds_evaluating"),
        memory_bytes, str(path), finished,
    )  # fmt: skip


def make_federation(experiment: Experiment) -> Federation:
    """The data, dealt out."""
    assert experiment.partition is not None
    return federate(load(experiment.dataset), experiment.partition, experiment.clients,
                    experiment.seed)  # fmt: skip


def check_fit(module: torch.nn.Module, federation: Federation, experiment: Experiment) -> None:
    """Try the model on two examples, so that a misfit is said before any work."""
    import torch

    first = torch.from_numpy(federation.train_parts[0][:2])
    inputs = federation.train.inputs(first)
    try:
        with torch.no_grad():
            answer = module(inputs)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        shape: tuple[int, ...] = ()
        why = str(error).splitlines()[0]
    else:
        tensor = isinstance(answer, torch.Tensor)
        shape = tuple(answer.shape) if tensor else ()
        why = f"it answers with {f'shape {shape}' if tensor else f'a {type(answer).__name__}'}"
    if shape != (len(first), federation.classes):
        raise ValueError(
            f"the model {experiment.model} does not fit the data set {experiment.dataset}, whose "
            f"inputs have shape {tuple(inputs.shape[1:])} and {federation.classes} classes: {why}"
        )


def model_name(experiment: Experiment) -> str:
    """The model, stem included."""
    assert experiment.model is not None
    return experiment.model + ("-cifar" if experiment.stem == "cifar" else "")


def default_folder(experiment: Experiment) -> Path:
    """runs/NAME, with a number behind it if that is taken."""
    e = experiment
    base = f"{e.dataset}-{e.partition}-{e.algorithm}-{e.seed}"
    number = 1
    while (path := Path("runs") / (base if number == 1 else f"{base}-{number}")).exists():
        number += 1
    return path
