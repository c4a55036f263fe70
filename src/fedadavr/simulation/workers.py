"""Who does the work: this process, or several that share memory with it. The bits are the same."""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.multiprocessing  # registers how tensors are shared with other processes
from torch import Tensor, nn

from fedadavr.clients import FlatModel, LocalSGD
from fedadavr.data import Federation
from fedadavr.processes import Processes
from fedadavr.sampling import DRAWS, ORDER


class TrainJob(NamedTuple):
    """Train a client from the model in a slot; its weights go to a place among the replies."""

    round: int
    client: int
    slot: int
    place: int
    lr: float


class EvaluateJob(NamedTuple):
    """Evaluate the model in a slot on some test examples."""

    round: int
    slot: int
    chunk: int
    indices: Any


class JobResult(NamedTuple):
    """A job's result: for `TrainJob` loss and steps, for `EvaluateJob` losses and hits."""

    job: TrainJob | EvaluateJob
    result: tuple[Any, Any]
    seconds: float


@dataclass
class SharedBuffers:
    """What workers read from and write to; tensors in memory that all processes share."""

    models: Tensor  # the models in use, each in a slot
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
    local_sgd: LocalSGD
    seed: int
    device: str
    fast: bool

    def __post_init__(self) -> None:
        self.model = FlatModel(self.module, self.device, self.fast)

    def do(self, job: TrainJob | EvaluateJob, buffers: SharedBuffers) -> JobResult:
        """Do one job."""
        began = time.perf_counter()
        result: tuple[Any, Any]
        if isinstance(job, TrainJob):
            part = torch.from_numpy(self.federation.train_parts[job.client])
            rng = np.random.default_rng([self.seed, job.round, ORDER, job.client])
            local_sgd = self.local_sgd
            if job.lr != local_sgd.lr:
                local_sgd = LocalSGD(**{**vars(local_sgd), "lr": job.lr})
            correction = None if buffers.corrections is None else buffers.corrections[job.place]
            correction = None if correction is None else correction.to(self.device)
            start = buffers.models[job.slot].to(self.device)
            with torch.random.fork_rng(devices=[]):  # for models that draw, as dropout does
                draw = np.random.default_rng([self.seed, job.round, DRAWS, job.client])
                torch.manual_seed(int(draw.integers(2**62)))
                result = self.model.train(
                    start, self.federation.train, part, local_sgd, rng, correction
                )
            buffers.replies[job.place].copy_(self.model.w)
        else:
            losses, hits = self.model.evaluate(
                buffers.models[job.slot], self.federation.test, torch.from_numpy(job.indices)
            )
            result = losses.numpy(), hits.numpy()
            job = job._replace(indices=None)
        return JobResult(job, result, time.perf_counter() - began)


class InProcessWorker:
    """All jobs in this process, when they are asked for."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._buffers: SharedBuffers | None = None
        self._jobs: deque[TrainJob | EvaluateJob] = deque()
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)

    def use(self, buffers: SharedBuffers) -> None:
        """Work on these buffers from now on."""
        self._buffers = buffers

    def submit(self, job: TrainJob | EvaluateJob) -> None:
        """Put a job at the end of the queue."""
        self._jobs.append(job)

    def take(self) -> JobResult:
        """The next result."""
        assert self._buffers is not None
        return self._worker.do(self._jobs.popleft(), self._buffers)

    def close(self) -> None:
        """Leave the process as it was found."""
        torch.set_num_threads(self._threads)


class ProcessWorkers:
    """Several persistent processes that share the data and the buffers."""

    AHEAD = 2  # jobs given to a process at a time: the next is there when one is done

    def __init__(self, worker: Worker, number: int, prepare: Callable[[], None] | None) -> None:
        self._processes = Processes(number, _work, prepare)
        self._jobs: deque[TrainJob | EvaluateJob] = deque()
        self._given = [0] * number
        for k in range(number):
            # Not as arguments: a class of the user's own can be unpickled only after `prepare`.
            parts = (worker.module, worker.federation, worker.local_sgd, worker.seed, worker.fast)
            self._processes.send(k, parts)

    def use(self, buffers: SharedBuffers) -> None:
        """Work on these buffers from now on."""
        buffers.share()
        for k in range(len(self._given)):
            self._processes.send(k, buffers)

    def submit(self, job: TrainJob | EvaluateJob) -> None:
        """Put a job at the end of the queue, which is kept here: a pipe's end is soon reached."""
        self._jobs.append(job)
        self._feed()

    def take(self) -> JobResult:
        """The next result, of whichever job is finished first."""
        k, done = self._processes.receive()
        if isinstance(done, str):
            raise RuntimeError(f"a worker failed:\n{done}")
        self._given[k] -= 1
        self._feed()
        return done

    def _feed(self) -> None:
        while self._jobs and min(self._given) < self.AHEAD:
            k = self._given.index(min(self._given))
            self._processes.send(k, self._jobs.popleft())
            self._given[k] += 1

    def close(self) -> None:
        """End the processes."""
        self._processes.close()


def _work(line: Any, prepare: Callable[[], None] | None) -> None:
    """A worker process's life."""
    torch.set_num_threads(1)
    try:
        if prepare is not None:
            prepare()
        module, federation, local_sgd, seed, fast = line.recv()
        worker = Worker(module, federation, local_sgd, seed, "cpu", fast)
        buffers = line.recv()
        while True:
            said = line.recv()
            if isinstance(said, SharedBuffers):
                buffers = said
            else:
                line.send(worker.do(said, buffers))
    except (EOFError, OSError):
        raise
    except Exception:
        line.send(traceback.format_exc())
