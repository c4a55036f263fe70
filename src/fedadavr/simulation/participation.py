"""Who takes part in a round: who is there, who of them is asked, and whose replies come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fedadavr.algorithms import Algorithm
from fedadavr.availability import Availability, Clients, Dropout
from fedadavr.data import Federation
from fedadavr.data.picture import class_counts


class Attendance(NamedTuple):
    """The clients of one round."""

    there: int  # how many could have been asked
    asked: list[int]
    answering: list[int]  # those of them whose replies come


@dataclass(frozen=True)
class Participation:
    """An availability and a dropout on the clients of a federation."""

    availability: Availability
    dropout: Dropout
    clients: Clients

    def __post_init__(self) -> None:
        self.availability.check_clients(self.clients)
        self.dropout.check_clients(self.clients)

    def attendance(self, server: Algorithm, round: int, size: int) -> Attendance:
        """So many clients of those that are there, or all if there are fewer."""
        there = [str(client) for client in self.availability.available(round, self.clients)]
        if not there:
            return Attendance(0, [], [])
        drawn = server.sample(self.clients.seed, round, there, min(size, len(there)))
        asked = [int(client) for client in drawn]
        answers = self.dropout.answers(round, self.clients)
        return Attendance(len(there), asked, [client for client in asked if answers[client]])

    def count(self, server: Algorithm, round: int) -> None:
        """Have the server's memory count those that have joined by a round and have not left.

        What it counts already tells what is to do, so a server that was restored is served alike.
        A memory whose records are not the clients' own (of clusters) stays as it is.
        """
        members = self.availability.members(round, self.clients)
        if members is None or server.memory is None:
            return
        memory, population = server.memory, server.memory.population
        for place, member in enumerate(members.tolist()):
            client = str(place)
            if member == (client not in population.left) or server.record_of(client) != client:
                continue
            if member:
                memory.join(client, self.clients.sizes[place])
            elif client in population.waiting or population.anonymous or client in memory:
                memory.leave(client)


def clients_of(federation: Federation, seed: int, epochs: int = 1) -> Clients:
    """What an availability may know of the clients."""
    sizes = [len(part) for part in federation.train_parts]
    return Clients(len(sizes), seed, sizes, epochs, lambda: class_counts(federation))
