"""A federation in this process whose nodes come and go, and whose replies get lost.

`ComingAndGoing` is a `LocalGrid` that lists only the nodes that an availability has there, and
loses the replies that a dropout loses, after the client has trained. Time goes on by one round
with every cohort that trains, and also while the server waits because too few nodes are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flwr.app import Message
from flwr.clientapp import ClientApp

from fedadavr.availability import Clients, find_availability, find_dropout
from tests.flower_grid import LocalGrid


class ComingAndGoing(LocalGrid):
    """Nodes in their order are the clients of the availability; `least` are there, or time goes on.

    `told` has a line for each cohort: the time, who was there, who was asked, and who answered.
    """

    def __init__(
        self,
        app: ClientApp,
        clients: Mapping[int, Any],
        availability: str,
        dropout: str | float = "none",
        *,
        seed: int = 0,
        least: int = 1,
    ) -> None:
        super().__init__(app, clients)
        self.availability, self.dropout = find_availability(availability), find_dropout(dropout)
        self.population = Clients(len(clients), seed, [10] * len(clients))
        self.time, self.least = 1, least
        self.told: list[tuple[int, list[int], list[int], list[int]]] = []
        self._nodes = list(clients)

    def get_node_ids(self) -> Iterable[int]:
        while len(there := self.availability.available(self.time, self.population)) < self.least:
            self.time += 1
        return [self._nodes[place] for place in there]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        messages = list(messages)
        if not any(message.metadata.message_type.startswith("train") for message in messages):
            return super().send_and_receive(messages, timeout=timeout)
        answers = self.dropout.answers(self.time, self.population)
        asked = [message.metadata.dst_node_id for message in messages]
        answering = [node for node in asked if answers[self._nodes.index(node)]]
        self.told.append((self.time, list(self.get_node_ids()), asked, answering))
        self.time += 1
        replies = super().send_and_receive(messages, timeout=timeout)
        return [reply for reply in replies if reply.metadata.src_node_id in answering]
