"""Who does the work: this process, or several that share memory with it. The bits are the same."""

from __future__ import annotations

import signal
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.multiprocessing as mp
from torch import Tensor, nn

from fedadavr.clients import FlatModel, Recipe
from fedadavr.data import Federation


class Train(NamedTuple):
    """Train a client from the model in a slot; its weights go to a place among the replies."""

    round: int
    client: int
    slot: int
    place: int
    lr: float


class Evaluate(NamedTuple):
    """Evaluate the model in a slot on some test examples."""

    round: int
    slot: int
    chunk: int
    indices: Any


class Done(NamedTuple):
    """A job's result: for `Train` loss and steps, for `Evaluate` losses and hits."""

    job: Train | Evaluate
    result: tuple[Any, Any]
    seconds: float


@dataclass
class Desk:
    """What workers read from and write to; tensors in memory that all processes share."""

    models: Tensor  # the last two models, by the parity of their round
    replies: Tensor
    corrections: Tensor | None

    def share(self) -> None:
        """Move it into shared memory."""
        for tensor in (self.models, self.replies, self.corrections):
            if tensor is not None:
                tensor.share_memory_()


@dataclass
class Worker:
    """Does jobs, one torch thread, every random draw keyed by seed, round and client."""

    module: nn.Module
    federation: Federation
    recipe: Recipe
    seed: int
    device: str

    def __post_init__(self) -> None:
        self.model = FlatModel(self.module, self.device)

    def do(self, job: Train | Evaluate, desk: Desk) -> Done:
        """Do one job."""
        began = time.perf_counter()
        result: tuple[Any, Any]
        if isinstance(job, Train):
            part = torch.from_numpy(self.federation.train_parts[job.client])
            rng = np.random.default_rng([self.seed, job.round, 3, job.client])
            recipe = self.recipe
            if job.lr != recipe.lr:
                recipe = Recipe(**{**vars(recipe), "lr": job.lr})
            correction = None if desk.corrections is None else desk.corrections[job.place]
            correction = None if correction is None else correction.to(self.device)
            start = desk.models[job.slot].to(self.device)
            result = self.model.train(start, self.federation.train, part, recipe, rng, correction)
            desk.replies[job.place].copy_(self.model.w)
        else:
            losses, hits = self.model.evaluate(
                desk.models[job.slot], self.federation.test, torch.from_numpy(job.indices)
            )
            result = losses.numpy(), hits.numpy()
            job = job._replace(indices=None)
        return Done(job, result, time.perf_counter() - began)


class Alone:
    """All jobs in this process, when they are asked for."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._desk: Desk | None = None
        self._jobs: deque[Train | Evaluate] = deque()
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)

    def use(self, desk: Desk) -> None:
        """Work at this desk from now on."""
        self._desk = desk

    def submit(self, job: Train | Evaluate) -> None:
        """Put a job at the end of the queue."""
        self._jobs.append(job)

    def take(self) -> Done:
        """The next result."""
        assert self._desk is not None
        return self._worker.do(self._jobs.popleft(), self._desk)

    def close(self) -> None:
        """Leave the process as it was found."""
        torch.set_num_threads(self._threads)


class Crew:
    """Several persistent processes, spawned (not forked), that share the data and the desk."""

    def __init__(self, worker: Worker, number: int, prepare: Callable[[], None] | None) -> None:
        context = mp.get_context("spawn")
        self._jobs: Any = context.SimpleQueue()
        self._results: Any = context.SimpleQueue()
        self._lines = []
        self._processes = []
        for _ in range(number):
            here, there = context.Pipe()
            process = context.Process(
                target=_work, args=(prepare, there, self._jobs, self._results), daemon=True
            )
            process.start()
            there.close()
            # Not as arguments: a class of the user's own can be unpickled only after `prepare`.
            here.send((worker.module, worker.federation, worker.recipe, worker.seed))
            self._lines.append(here)
            self._processes.append(process)

    def use(self, desk: Desk) -> None:
        """Work at this desk from now on."""
        desk.share()
        for line in self._lines:
            line.send(desk)

    def submit(self, job: Train | Evaluate) -> None:
        """Put a job at the end of the queue."""
        self._jobs.put(job)

    def take(self) -> Done:
        """The next result, of whichever job is finished first."""
        while not self._results._reader.poll(1.0):
            self._check()
        done = self._results.get()
        if isinstance(done, str):
            raise RuntimeError(f"a worker failed:\n{done}")
        return done

    def _check(self) -> None:
        """Raise if a worker has died."""
        for process in self._processes:
            if not process.is_alive():
                raise RuntimeError(
                    f"a worker process ended by itself (exit code {process.exitcode}): "
                    "if that is -9, memory ran out; use fewer --workers"
                )

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()


def _work(prepare: Callable[[], None] | None, line: Any, jobs: Any, results: Any) -> None:
    """A worker process's life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    torch.set_num_threads(1)
    try:
        if prepare is not None:
            prepare()
        module, federation, recipe, seed = line.recv()
        worker = Worker(module, federation, recipe, seed, "cpu")
        desk: Any = None
        while True:
            job = jobs.get()
            while line.poll():  # a desk is sent before the first job that needs it
                desk = line.recv()
            results.put(worker.do(job, desk))
    except Exception:
        results.put(traceback.format_exc())
