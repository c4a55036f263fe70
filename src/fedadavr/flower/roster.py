"""Who is there, and who is counted in the population."""

from __future__ import annotations

import time
from logging import INFO, WARNING

from flwr.serverapp import Grid

from fedadavr.algorithms import Algorithm
from fedadavr.flower.identity import Identities
from fedadavr.flower.ids import one_line
from fedadavr.flower.log import log
from fedadavr.flower.retrying import Retry

POLL = 1.0  # seconds between looks for nodes
MOST_NEW = 100_000  # clients that are counted before they have ever trained


class Roster:
    """The clients that are connected, and those that a server counts.

    A client counts from when it is connected. One that has trained counts on when it is away;
    one that never has is taken out of the count again, some rounds after it was last there.
    """

    def __init__(self, identities: Identities) -> None:
        self._identities = identities
        self.joined: set[str] = set()
        self._barred: set[str] = set()  # clients that the algorithm has no place for

    def connected(
        self, grid: Grid, wanted: dict[str, int], timeout: float, retry: Retry
    ) -> dict[str, int]:
        """The clients that are there, and their nodes; waits for enough of them, not for ever.

        `wanted` are the settings that say how many are enough; `TimeoutError` if they do not come.
        """
        least = max(1, *wanted.values())
        deadline, said = time.monotonic() + timeout, ""
        while True:
            clients: dict[str, int] = {}
            try:
                nodes, trouble = self._identities.listed(grid), ""
            except Exception as error:  # whatever a connection can raise
                nodes, trouble = None, f": {one_line(error, 300)}"
            if nodes is not None:
                self._identities.ask(grid, nodes, least, deadline - time.monotonic())
                clients = retry("finding out who is who", self._identities.bind)
            if len(clients) >= least or time.monotonic() > deadline:
                break
            if said != (said := f"waiting for clients{trouble}"):
                log(INFO, "waiting for %d clients, %d are there%s", least, len(clients), trouble)
            time.sleep(max(0.0, min(POLL, deadline - time.monotonic())))
        if len(clients) < least:
            asked = ", ".join(f"{name}={number}" for name, number in wanted.items())
            come = f"only {len(clients)} of {least} clients have" if clients else "no client has"
            raise TimeoutError(
                f"{come} come within {timeout:.0f} s (timeout){trouble}: connect more nodes, or "
                f"ask for fewer ({asked})"
            )
        return clients

    def take_over(self, server: Algorithm, round: int) -> None:
        """Clients that a store counts since they were connected once: now they may expire."""
        if server.memory is not None:
            for client, size in server.memory.population.waiting.items():
                if size is None:
                    self._identities.note_new(client, round)

    def join(self, server: Algorithm, round: int, clients: dict[str, int]) -> dict[str, int]:
        """Count clients that are there; those that cannot take part are left out.

        It can be called again where the store could not be read.
        """
        memory = server.memory
        for client in [c for c in clients if c not in self.joined and c not in self._barred]:
            try:
                record = server.record_of(client)
            except ValueError as error:
                log(WARNING, "client %r cannot take part: %s", one_line(client), error)
                self._identities.note_new(client, round)
                self._barred.add(client)
                continue
            if memory is not None:
                if self._identities.newcomers >= MOST_NEW:
                    continue  # it gets its turn when others have trained, or have gone
                memory.join(record)
            if memory is None or record in memory.population.waiting:
                self._identities.note_new(client, round)
            self.joined.add(client)
        return {client: node for client, node in clients.items() if client in self.joined}

    def expire(self, server: Algorithm, round: int) -> None:
        """Take clients out of the count that never trained and are not connected any more."""
        for client in self._identities.expire(round):
            self.joined.discard(client)
            self._barred.discard(client)
            if server.memory is not None:
                server.memory.withdraw(client)
