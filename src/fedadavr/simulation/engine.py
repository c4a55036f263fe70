"""One round after the other: sample, train, step, evaluate.

`Engine.rounds` is the loop. The evaluation of a round overlaps the training of the next, since both
only read its model. Every random draw is keyed by (seed, round, purpose, client), so nothing
depends on the order in which work is done, and a run that is continued draws what it would have
drawn.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fedadavr.algorithms import Algorithm, Update
from fedadavr.availability import Availability, Dropout, find_availability, find_dropout
from fedadavr.clients import LocalSGD
from fedadavr.data import Federation
from fedadavr.sampling import CAP, EVALUATE, sample
from fedadavr.simulation.participation import Participation, clients_of
from fedadavr.simulation.schedules import Arrivals, Buffered, Job, Rounds, Schedule, visits
from fedadavr.simulation.versions import Versions
from fedadavr.simulation.workers import (
    EvaluateJob,
    InProcessWorker,
    JobResult,
    ProcessWorkers,
    SharedBuffers,
    TrainJob,
    Worker,
)
from fedadavr.vector import Vector

PATIENCE = 3  # rounds in a row without an acceptable reply, after which a run has diverged
CHUNK = 500  # examples evaluated at once; fixed, so that the sums do not depend on the workers


class Diverged(ValueError):
    """Training has left the finite numbers; the message says where, and what to try."""


@dataclass(frozen=True)
class Evaluation:
    """What a round's evaluation tells: over all examples, and client by client."""

    round: int
    accuracy: float  # percent
    loss: float
    client_accuracy: list[float]
    clients: list[int]  # whose accuracies these are; a client without a test example has none
    seconds: float


@dataclass(frozen=True)
class RoundReport:
    """What a round tells."""

    round: int
    loss: float | None  # None if every reply was rejected, or none came
    clients: list[int]  # those whose replies came
    seconds_training: float  # of all workers together
    seconds_server: float
    report: dict[str, Any]  # what the algorithm tells of itself; how many replies it rejected
    there: int  # clients that could have been asked
    asked: int  # clients that were
    clock: float  # simulated seconds since the run began
    age: float  # steps since the replies' models were sent, in the mean
    under_way: PendingEvaluation | None = field(default=None, repr=False)

    @property
    def answered(self) -> int:
        """How many replies came, good or not."""
        return len(self.clients)

    @property
    def rejected(self) -> int:
        """How many replies were rejected, each at its own cost only."""
        return int(self.report.get("rejected", 0))

    @property
    def seconds(self) -> float:
        """What training and the server's step took, without the evaluation."""
        return self.seconds_training + self.seconds_server

    @property
    def evaluation(self) -> Evaluation | None:
        """The round's evaluation, waited for if need be; None where none was asked for."""
        return None if self.under_way is None else self.under_way.result()


class PendingEvaluation:
    """An evaluation that the workers do while the next round trains."""

    def __init__(self, engine: Engine) -> None:
        engine.begin_evaluation()
        self._engine: Engine | None = engine
        self._found: Evaluation | None = None

    def result(self) -> Evaluation:
        """What it tells; the first call waits for it."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            self._found = engine.finish_evaluation()
        if self._found is None:
            raise Diverged("the evaluation has failed before")
        return self._found


class Engine:
    """Runs an algorithm on a federation.

    Parameters
    ----------
    server : Algorithm
        The algorithm; its `client_lr` is the clients' rate.
    module : nn.Module
        The model; its initial weights are the first model's. It is trained in.
    federation : Federation
        The data.
    local_sgd : LocalSGD
        How clients train.
    seed : int
        Seed of who is sampled, and of every draw of a client.
    clients_per_round : int
        How many clients are asked in a round, or all that are there if there are fewer.
    buffer : int, optional
        Do not wait: `clients_per_round` clients are under way at any time, and the server steps
        whenever so many replies have come, whatever model they started from. None: wait for all.
    availability : str or Availability
        Who is there, as `markov:on=0.2,off=0.1`.
    dropout : str, float or Dropout
        Whose replies never come, as `deadline:seconds=60`; a number is a probability.
    evaluate_clients, evaluate_examples : int, optional
        An evaluation takes at most so many clients, drawn anew each time, and examples.
    workers : int
        Processes that train and evaluate; the result does not depend on it.
    device : str
        Where models live, as PyTorch names it.
    fast : bool
        Whether models that have a fast path take it.
    prepare : Callable[[], None], optional
        Called in each worker process before anything else, to import the user's own code.
    w : Vector, optional
        The model to go on from.
    round : int
        How many rounds it has done.
    patience : int
        After so many rounds in a row in which every reply was rejected, it has diverged.

    Examples
    --------
    A run is a loop of one's own::

        with Engine(server, module, federation, LocalSGD(0.01, 0.9, 1, 20), seed=42,
                    clients_per_round=5) as engine:
            for report in engine.rounds(20, evaluate_every=5):
                if report.evaluation:
                    print(report.round, report.loss, report.evaluation.accuracy)
    """

    def __init__(
        self,
        server: Algorithm,
        module: nn.Module,
        federation: Federation,
        local_sgd: LocalSGD,
        *,
        seed: int,
        clients_per_round: int,
        buffer: int | None = None,
        availability: str | Availability = "uniform",
        dropout: str | float | Dropout = "none",
        evaluate_clients: int | None = None,
        evaluate_examples: int | None = None,
        workers: int = 1,
        device: str = "cpu",
        fast: bool = True,
        prepare: Callable[[], None] | None = None,
        w: Vector | None = None,
        round: int = 0,
        patience: int = PATIENCE,
    ) -> None:
        for name, value in (("clients_per_round", clients_per_round), ("buffer", buffer)):
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} must be a whole number from 1 up, got {value!r}")
        self.server, self.federation, self.local_sgd, self.seed = (
            server,
            federation,
            local_sgd,
            seed,
        )
        self.clients_per_round = clients_per_round
        self.evaluate_clients = evaluate_clients
        self.evaluate_examples = evaluate_examples
        self.round, self.patience = round, patience
        self._reasons: Counter[str] = Counter()  # of the rounds in a row that came to nothing
        self._refused: set[str] = set()  # whose replies they were
        parameters = [p.detach().reshape(-1) for p in module.parameters()]
        first = torch.cat(parameters) if w is None else torch.from_numpy(w)
        out = 0 if buffer is None else clients_per_round  # models that are still out
        if server.needs.echo:
            out = len(federation.train_parts)
        self._models = Versions(first, round, 2 + out)
        self._buffers: SharedBuffers | None = None
        self.participation = Participation(
            find_availability(availability),
            find_dropout(dropout),
            clients_of(federation, seed, local_sgd.epochs),
        )
        self.participation.count(server, round + 1)
        self._schedule: Schedule
        if buffer is None:
            self._schedule = Rounds(self.participation, clients_per_round)
        else:
            server.check_buffered()
            self._schedule = Buffered(self.participation, clients_per_round, buffer)
        self._state, self._out = self._schedule.state_dict(), self._schedule.versions
        self._training: Arrivals | None = None
        self._evaluating: tuple[int, dict[int, int], int] | None = None
        self._pending: PendingEvaluation | None = None
        self._waiting: dict[type, list[JobResult]] = {TrainJob: [], EvaluateJob: []}
        worker = Worker(module, federation, local_sgd, seed, device, fast)
        self._workers: InProcessWorker | ProcessWorkers = (
            InProcessWorker(worker) if workers == 1 else ProcessWorkers(worker, workers, prepare)
        )

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._workers.close()

    @property
    def w(self) -> Vector:
        """The model after the last round."""
        return self._models[self.round]

    @property
    def served(self) -> Vector:
        """What is evaluated and handed out after the last round: `w`, or an average of models."""
        return self.server.served(self.w)

    # --- rounds ---

    def rounds(self, number: int, *, evaluate_every: int | None = None) -> Iterator[RoundReport]:
        """Do so many more rounds, and yield a report after each.

        While a report is looked at, `w` and `round` are those of its round; what is changed of the
        server then counts from the next round on. A rejected reply costs only itself and is counted
        in the report. An evaluation that the loop does not ask for at once overlaps the training of
        the next round.

        Parameters
        ----------
        number : int
            How many rounds. A loop that was left can be followed by another, which goes on.
        evaluate_every : int, optional
            Evaluate the model after every round whose number is a multiple of this; None: never.

        Yields
        ------
        RoundReport
            The round, its training loss, its clients, what the algorithm tells, its seconds, and
            its evaluation where one was asked for.

        Raises
        ------
        Diverged
            After `patience` rounds in a row in which every reply was rejected, or if the loss of an
            evaluation is not finite.
        """
        if evaluate_every is not None and evaluate_every < 1:
            raise ValueError(f"evaluate_every must be at least 1, got {evaluate_every}")
        for _ in range(number):
            trained = self.finish_training()
            self._settle()
            if evaluate_every is not None and self.round % evaluate_every == 0:
                self._pending = PendingEvaluation(self)
            try:
                yield replace(trained, under_way=self._pending)
            except GeneratorExit:  # the loop was left
                self._settle()
                raise
        self._settle()

    def _settle(self) -> None:
        """Wait for an evaluation that nobody has waited for: its model's place is needed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    # --- state ---

    def state_dict(self) -> dict[str, Any]:
        """Beside the model and the server: the clock, who is under way, and with which models."""
        models = {str(v): self._models[v].copy() for v in sorted(self._out - {self.round})}
        return self._state | ({"models": models} if models else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state made by `state_dict` after as many rounds."""
        self._schedule.load_state_dict(state)
        self._state, self._out = self._schedule.state_dict(), self._schedule.versions
        self._models.load({int(v): model for v, model in state.get("models", {}).items()})

    # --- training ---

    def begin_training(self) -> None:
        """Hand the training whose replies come next to the workers."""
        if self._training is not None:
            return
        self._training = self._schedule.next(self.server, self.round)
        replies = self._training.replies
        self._allocate_buffers(len(replies), self.server.needs.correction)
        assert self._buffers is not None
        parts = self.federation.train_parts
        replies.sort(key=lambda job: (-len(parts[job.client]), job.number, job.client))
        for place, job in enumerate(replies):  # the longest first
            if self._buffers.corrections is not None:
                correction = self.server.correction(str(job.client))
                self._buffers.corrections[place] = torch.from_numpy(correction)
            slot = self._models.slot(job.version)
            self._workers.submit(
                TrainJob(job.number, job.client, slot, place, self.server.client_lr)
            )

    def finish_training(self) -> RoundReport:
        """Wait for the replies and step."""
        self.begin_training()
        assert self._training is not None
        arrivals, self._training = self._training, None
        jobs, parts = arrivals.replies, self.federation.train_parts
        done = sorted(self._take(TrainJob, len(jobs)), key=lambda d: d.job.place)  # type: ignore[union-attr]
        losses = [d.result[0] for d in done]
        began = time.perf_counter()
        # A loss that is not finite means weights that are not, or will not be for long.
        lost = {
            str(job.client): f"its training loss is {loss}"
            for job, loss in zip(jobs, losses, strict=True)
            if not np.isfinite(loss)
        }
        updates = [
            self._update(place, job, visit, done[place].result[1])
            for place, (job, visit) in enumerate(zip(jobs, visits(jobs), strict=True))
            if str(job.client) not in lost
        ]
        round = self.round + 1
        self._models.keep({self.round, *(job.version for job in jobs), *self._schedule.versions})
        report, rejected = self._step(updates, lost, self._models.new(round))
        ages = [self.round - job.version for job in jobs]
        self.round = round
        # As it is now: the next training may begin any time.
        self._state, self._out = self._schedule.state_dict(), self._schedule.versions
        self.participation.count(self.server, round + 1)  # part of this round's state
        self._check_progress(round, rejected)
        good = [k for k, job in enumerate(jobs) if str(job.client) not in rejected]
        sizes = [len(parts[jobs[k].client]) for k in good]
        return RoundReport(
            round,
            float(np.average([losses[k] for k in good], weights=sizes)) if good else None,
            sorted(job.client for job in jobs),
            sum(d.seconds for d in done),
            time.perf_counter() - began,
            report | ({"rejected": len(rejected)} if rejected else {}),
            arrivals.there,
            arrivals.asked,
            self._schedule.clock,
            float(np.mean(ages)) if ages else 0.0,
        )

    def _update(self, place: int, job: Job, visit: int, steps: int) -> Update:
        """A reply, taken against the model that it started from."""
        assert self._buffers is not None
        weights, age = self._buffers.replies[place].numpy(), self.round - job.version
        examples = len(self.federation.train_parts[job.client])
        echo = self.server.needs.echo
        if echo:
            start = self._models[job.version]
            weights[...] = start - np.float32(echo * (age + 1)) * (start - weights)
            return Update(str(job.client), weights, examples, steps)
        if age:
            np.subtract(self._models[job.version], weights, out=weights)
        return Update(
            str(job.client), weights, examples, steps, difference=age > 0, age=age, visit=visit
        )

    def _step(
        self, updates: list[Update], lost: dict[str, str], out: Vector
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """The server's step, if a reply came; what it tells, and what it rejected."""
        if not updates and not lost:
            out[...] = self.w
            return {}, {}
        rejected = self.server.step_good(self.w, updates, rejected=lost, out=out)[1]
        return self.server.report(), rejected

    def _check_progress(self, round: int, rejected: dict[str, str]) -> None:
        """Rounds in a row that come to nothing end the run."""
        refused = self.server.influence.refused
        if not refused:
            self._reasons, self._refused = Counter(), set()
        self._reasons.update(rejected.values())
        self._refused |= rejected.keys()
        # One client alone, which may be all of a buffer, ends nothing.
        several = min(self.patience, len(self.federation.train_parts))
        if refused >= self.patience and len(self._refused) >= several:
            lr, server_lr = self.server.client_lr, self.server.server_optimizer.lr
            raise Diverged(
                f"round {round}: training has diverged, every reply of {refused} rounds in a row "
                f"was rejected, most often because {self._reasons.most_common(1)[0][0]}: "
                f"try a smaller client-lr than {lr:g} or a smaller server-lr than {server_lr:g}"
            )

    def _allocate_buffers(self, places: int, corrections: bool) -> None:
        """Have room for a cohort's replies, in memory that the workers share."""
        if self._buffers is None or len(self._buffers.replies) < places:
            size, places = self._models.tensor.shape[1], max(1, places)
            self._buffers = SharedBuffers(
                self._models.tensor,
                torch.zeros(places, size),
                torch.zeros(places, size) if corrections else None,
            )
            self._workers.use(self._buffers)

    # --- evaluation ---

    def begin_evaluation(self) -> None:
        """Hand the evaluation of the model that is served now to the workers."""
        assert self._evaluating is None
        self._allocate_buffers(1, self.server.needs.correction)
        indices, lengths = self._test_indices()
        chunks = [indices[i : i + CHUNK] for i in range(0, len(indices), CHUNK)]
        slot = self._models.slot(self.round)
        if self.server.average is not None:
            slot = self._models.set_aside(self.served)
        for number, chunk in enumerate(chunks):
            self._workers.submit(EvaluateJob(self.round, slot, number, chunk))
        self._evaluating = (self.round, lengths, len(chunks))

    def finish_evaluation(self) -> Evaluation:
        """Wait for the evaluation under way."""
        assert self._evaluating is not None
        round, lengths, chunks = self._evaluating
        done = sorted(self._take(EvaluateJob, chunks), key=lambda d: d.job.chunk)  # type: ignore[union-attr]
        self._evaluating = None
        losses = np.concatenate([d.result[0] for d in done]).astype(np.float64)
        hits = np.concatenate([d.result[1] for d in done]).astype(np.float64)
        loss = float(losses.mean())
        if not np.isfinite(loss):
            raise Diverged(
                f"round {round}: diverged: the model's evaluation loss is {loss}: try a smaller "
                f"server-lr than {self.server.server_optimizer.lr:g}, or a smaller client-lr"
            )
        ends = np.cumsum([0, *lengths.values()])
        each = [100 * float(hits[lo:hi].mean()) for lo, hi in pairwise(ends)]
        seconds = sum(d.seconds for d in done)
        return Evaluation(round, 100 * float(hits.mean()), loss, each, list(lengths), seconds)

    def _test_indices(self) -> tuple[npt.NDArray[np.int64], dict[int, int]]:
        """The test examples of this round, and how many of them a client has that has any."""
        parts = self.federation.test_parts
        chosen = list(range(len(parts)))
        held_out = self.federation.held_out
        if self.evaluate_clients is not None and self.evaluate_clients < len(parts):
            chosen = sorted(
                sample(self.seed, self.round, EVALUATE, len(parts), self.evaluate_clients)
            )
        indices = np.concatenate([parts[client] for client in chosen])
        owners = np.repeat(np.arange(len(chosen)), [len(parts[client]) for client in chosen])
        if self.evaluate_examples is not None and self.evaluate_examples < len(indices):
            # Held-out clients are the same in every round and run, and so are their examples.
            key = [0, CAP] if held_out else [self.seed, self.round, CAP]
            few = np.random.default_rng(key).choice(
                len(indices), self.evaluate_examples, replace=False
            )
            few.sort()
            indices, owners = indices[few], owners[few]
        places, lengths = np.unique(owners, return_counts=True)
        return indices, {chosen[k]: n for k, n in zip(places, lengths.tolist(), strict=True)}

    def _take(self, kind: type, number: int) -> list[JobResult]:
        """The results of one kind of jobs; the others' are kept until they are asked for."""
        waiting = self._waiting
        while len(waiting[kind]) < number:
            done = self._workers.take()
            waiting[type(done.job)].append(done)
        taken, waiting[kind] = waiting[kind], []
        return taken
