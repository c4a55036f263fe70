"""Who trains from which model, and whose replies make a step: in rounds, or without waiting.

Time is simulated: a client takes as long as its examples and its speed say. What happens depends on
no model, only on settings, the seed and whom the server samples. So a client is trained when its
reply is due, and a run is continued from the clock and the list of those under way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, NamedTuple

from fedadavr.algorithms import Algorithm
from fedadavr.simulation.participation import Participation

PATIENCE = 10  # times the clients: so many asked in vain, in a row, and a step goes with less


class Job(NamedTuple):
    """A client under way, in the order in which their replies are due."""

    due: float  # in simulated seconds
    number: int  # of all jobs so far, from 1: the key of its random draws
    client: int
    version: int  # of the model that it was sent
    answers: bool


class Arrivals(NamedTuple):
    """What happens between two steps."""

    replies: list[Job]
    there: int
    asked: int


class Schedule(ABC):
    """The simulated clock, and what happens until the next step."""

    clock: float = 0.0

    @abstractmethod
    def next(self, server: Algorithm, version: int) -> Arrivals:
        """The replies that make the next step, for which the clock goes on.

        Parameters
        ----------
        server : Algorithm
            Samples whom to ask.
        version : int
            The steps that it has done: the model that is sent out now.
        """

    @property
    def versions(self) -> set[int]:
        """The models that somebody under way was sent."""
        return set()

    def state_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"clock": self.clock}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state made by `state_dict`."""
        self.clock = float(state["clock"])


class Rounds(Schedule):
    """A cohort is asked, and the server waits for all of it, or until a deadline."""

    def __init__(self, participation: Participation, clients_per_round: int) -> None:
        self.participation, self._size = participation, clients_per_round
        self._last: dict[int, int] | None = None  # the version that each client had last

    def next(self, server: Algorithm, version: int) -> Arrivals:
        """The clients of a round; only those whose replies will come are trained."""
        round, who = version + 1, self.participation
        if server.needs.echo and self._last is None:
            self._last = {}
        attendance = who.attendance(server, round, self._size)
        takes = who.dropout.waits(round, who.clients)[attendance.asked]
        self.clock += float(takes.max()) if len(takes) else 0.0
        jobs = [
            Job(self.clock, round, client, self._start(client, version), True)
            for client in attendance.answering
        ]
        if self._last is not None:
            self._last |= dict.fromkeys(attendance.answering, round)
        return Arrivals(jobs, attendance.there, len(attendance.asked))

    def _start(self, client: int, version: int) -> int:
        return version if self._last is None else self._last.get(client, 0)

    @property
    def versions(self) -> set[int]:
        """The models that clients were left with."""
        if self._last is None:
            return set()
        unseen = len(self._last) < self.participation.clients.number
        return {*self._last.values(), *([0] if unseen else [])}

    def state_dict(self) -> dict[str, Any]:
        """The clock, and which model each client was left with."""
        if self._last is None:
            return super().state_dict()
        return super().state_dict() | {"last": {str(c): v for c, v in self._last.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state made by `state_dict`."""
        super().load_state_dict(state)
        if "last" in state:
            self._last = {int(client): int(version) for client, version in state["last"].items()}


class Buffered(Schedule):
    """The server does not wait: so many clients are under way, and so many replies make a step.

    Whenever a reply comes, or does not come in time, another client of those that are there is
    sent the model as it is. One that is fast may answer twice before the server steps.

    Parameters
    ----------
    participation : Participation
        Who is there, how long clients take, and whose replies never come.
    under_way : int
        How many clients are under way at a time.
    buffer : int
        How many replies make a step.
    """

    def __init__(self, participation: Participation, under_way: int, buffer: int) -> None:
        self.participation, self.buffer = participation, buffer
        self._places = under_way
        self.jobs: list[Job] = []
        self._number = 0

    def next(self, server: Algorithm, version: int) -> Arrivals:
        """So many replies, or fewer if nobody is there."""
        clients = self.participation.clients
        there = self.participation.availability.available(version + 1, clients)
        replies: list[Job] = []
        before, most = self._number, self._number + PATIENCE * clients.number
        self._send(server, version, there)
        while self.jobs and len(replies) < self.buffer and self._number < most:
            job = self.jobs.pop(0)
            self.clock = job.due
            if job.answers:
                replies.append(job)
                most = self._number + PATIENCE * clients.number
            if len(replies) < self.buffer:  # with the last one comes another model
                self._send(server, version, there)
        return Arrivals(replies, len(there), self._number - before)

    def _send(self, server: Algorithm, version: int, there: list[int]) -> None:
        """Have as many under way as there should be, if so many are there."""
        participation = self.participation
        clients, dropout = participation.clients, participation.dropout
        while len(self.jobs) < self._places:
            busy = {job.client for job in self.jobs}
            free = [str(client) for client in there if client not in busy]
            if not free:
                return
            self._number += 1
            client = int(server.sample(clients.seed, self._number, free, 1)[0])
            takes = float(dropout.waits(self._number, clients)[client])
            answers = bool(dropout.answers(self._number, clients)[client])
            self.jobs.append(Job(self.clock + takes, self._number, client, version, answers))
            self.jobs.sort()

    @property
    def versions(self) -> set[int]:
        """The models that somebody under way was sent."""
        return {job.version for job in self.jobs}

    def state_dict(self) -> dict[str, Any]:
        """The clock and who is under way."""
        return {
            "clock": self.clock,
            "number": self._number,
            "jobs": [list(job) for job in self.jobs],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state made by `state_dict`."""
        self.clock, self._number = float(state["clock"]), int(state["number"])
        self.jobs = [Job(*job) for job in state["jobs"]]


def visits(replies: list[Job]) -> list[int]:
    """Which of its client's replies each is, from 0."""
    seen: Counter[int] = Counter()
    found = []
    for job in replies:
        found.append(seen[job.client])
        seen[job.client] += 1
    return found
