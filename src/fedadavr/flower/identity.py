"""Who is behind a node: the strategy asks, the client's app answers from its node's config."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from logging import INFO, WARNING
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from fedadavr.flower.allow_list import AllowList
from fedadavr.flower.errors import OF_THE_APP
from fedadavr.flower.ids import RESERVED, bad_id, one_line
from fedadavr.flower.log import log

ACTION = "client_id"
QUESTION = f"query.{ACTION}"
KEY = "client-id"
CONFIG = (KEY, "partition-id")  # entries of a node's config that name its client
IDS_PER_NODE = 3  # different client ids that a node may tell in its life
MOST_NOTED = 100_000  # nodes whose number of ids is remembered


def answer_identity(app: ClientApp) -> ClientApp:
    """Let an app tell its client's id, from `client-id` or `partition-id` in the node's config."""

    @app.query(ACTION)
    def client_id(message: Message, context: Context) -> Message:
        given = [context.node_config[key] for key in CONFIG if key in context.node_config]
        record = ConfigRecord({KEY: str(given[0])} if given else {})
        return Message(content=RecordDict({"identity": record}), reply_to=message)

    return app


class Identities:
    """Which client is behind which node.

    An id is bound to the node that first used it: `owner_of` tells the node that a store has
    bound it to, if nodes' ids can be relied on across runs; within a run it is remembered here.
    A node has one client at a time and at most a few in its life, and one that has never trained
    is remembered only while it is connected, and for `expire_after` rounds more: nobody makes the
    server remember much by coming and going. With `allowed`, nobody is asked.
    """

    def __init__(
        self,
        owner_of: Callable[[str], int],
        patience: float,
        expire_after: int = 10,
        allowed: AllowList | None = None,
    ) -> None:
        self._owner_of, self._patience = owner_of, patience
        self._expire_after, self._allowed = expire_after, allowed
        self.nodes: dict[str, int] = {}  # client -> node
        self.clients: dict[int, str] = {}  # node -> client
        self.refused: dict[int, int] = {}  # nodes that are not let in, and when they were last here
        self._new: dict[str, int] = {}  # clients that never trained, and when they were last here
        self._listed: set[int] = set()
        self._answers: dict[int, Any] = {}  # nodes that have answered and are not bound yet
        self._told: dict[int, tuple[int, str]] = {}  # how many ids a node has told, and the last
        self._later: dict[int, tuple[float, float]] = {}  # when to ask again, and the last pause
        self._round = 0
        self._warned = False

    # --- who is there ---

    def connected(self, grid: Grid, nodes: Iterable[int], least: int = 0) -> dict[str, int]:
        """The clients behind these nodes; asks those that are new."""
        self.ask(grid, nodes, least)
        return self.bind()

    def listed(self, grid: Grid) -> list[int]:
        """The nodes that are connected; with a list of those allowed, who they are, too."""
        if self._allowed is None:
            return list(grid.get_node_ids())
        nodes = list(grid.get_nodes())
        for node in nodes:
            if node.node_id not in self.clients and node.node_id not in self.refused:
                self._answers[node.node_id] = self._allowed.client_of(node)
        return [node.node_id for node in nodes]

    def learn(self, grid: Grid | None, nodes: Iterable[int]) -> None:
        """Find out who these nodes are, which were asked to train by others than this strategy.

        Without a grid they cannot be asked, and are known by their nodes'.
        """
        new = [n for n in nodes if n not in self.clients and n not in self.refused]
        if not new:
            return
        if self._allowed is not None:
            if grid is None:
                raise ValueError("with clients=, call super().configure_train(...)")
            self.listed(grid)
        elif grid is not None:
            self._ask(grid, [node for node in new if node not in self._answers])
        for node in new:
            self._answers.setdefault(node, None)
        self._listed.update(new)

    def ask(self, grid: Grid, nodes: Iterable[int], least: int = 0) -> None:
        """Ask the nodes that are new for their clients' ids.

        A node that did not answer is asked again after a pause, or at once where there are fewer
        clients than `least`.
        """
        self._listed = set(nodes)
        self._later = {n: then for n, then in self._later.items() if n in self._listed}
        if self._allowed is not None:
            return
        now, known = time.monotonic(), sum(node in self.clients for node in self._listed)
        new = [
            node
            for node in nodes
            if node not in self.clients
            and node not in self.refused
            and node not in self._answers
            and (self._later.get(node, (0.0, 0.0))[0] <= now or known < least)
        ]
        if new:
            self._ask(grid, new)

    def _ask(self, grid: Grid, nodes: list[int]) -> None:
        log(INFO, "asking %d new nodes for their client ids", len(nodes))
        questions = [
            Message(content=RecordDict(), dst_node_id=node, message_type=QUESTION) for node in nodes
        ]
        try:
            replies = list(grid.send_and_receive(questions, timeout=self._patience))
        except Exception as error:  # whatever a connection can raise
            log(WARNING, "the nodes could not be asked: %s", one_line(error, 300))
            replies = []
        asked = {q.metadata.message_id: q.metadata.dst_node_id for q in questions}
        for reply in replies:
            try:
                node = asked.pop(reply.metadata.reply_to_message_id)
                if reply.has_error():
                    if reply.error.code in OF_THE_APP:
                        self._answers[node] = None
                    continue  # else it is down, or busy: that says nothing of its app
                record = reply.content.get("identity")
                told = record if isinstance(record, ConfigRecord) else {}
                self._answers[node] = told.get(KEY)
            except Exception as error:  # whatever a reply can be made to raise
                log(
                    WARNING,
                    "an answer about a client's id cannot be read: %s",
                    one_line(error, 300),
                )
        silent = [node for node in nodes if node not in self._answers]
        for node in silent:  # dead ones are listed for a while: do not wait for them every round
            _, pause = self._later.get(node, (0.0, self._patience / 2))
            self._later[node] = (time.monotonic() + 2 * pause, 2 * pause)
        if silent:
            log(WARNING, "%d nodes did not tell their client ids yet", len(silent))

    def bind(self) -> dict[str, int]:
        """Bind the ids that were told to their nodes; the clients that are there, and their nodes.

        A store that cannot be read loses no answer: call it again.
        """
        for node in sorted(self._answers):  # so that who is first does not depend on the network
            self._bind(node, self._answers[node])
            del self._answers[node]
        return {self.clients[node]: node for node in self._listed if node in self.clients}

    def _bind(self, node: int, client: Any) -> None:
        if self._allowed is not None:
            if client is None:
                self._refuse(node, "is not on the list of clients")
                return
            before = self.nodes.get(client, node)
            if before not in self._listed:  # the list decides who the client is, not who was first
                self.clients.pop(before, None)
                self.nodes.pop(client, None)
        elif client is None:
            client = f"{RESERVED}{node}"
            if not self._warned:
                self._warned = True
                log(
                    WARNING,
                    "this app does not tell its clients' ids, so they are known by their nodes': "
                    "the memory survives a restart only where nodes have registered keys. Add "
                    "fedadavr.flower.answer_identity(app) and a client-id to each node's config",
                )
        else:
            why = bad_id(client) or self._over_quota(node, client)
            if why:
                self._refuse(node, why)
                return
        owner = self.nodes.get(client) or self._owner_of(client) or node
        if owner != node:
            self._refuse(node, f"claims to be client {one_line(client)!r}, which is node {owner}")
            return
        self.nodes[client], self.clients[node] = node, client

    def _over_quota(self, node: int, client: str) -> str | None:
        number, last = self._told.pop(node, (0, ""))
        number += client != last
        self._told[node] = number, client  # at the end: the oldest are forgotten first
        if len(self._told) > MOST_NOTED:
            del self._told[next(iter(self._told))]
        if number > IDS_PER_NODE:
            return f"tells another client id for the {number}th time, more than {IDS_PER_NODE}"
        return None

    def _refuse(self, node: int, why: str) -> None:
        log(WARNING, "node %d %s: it is refused", node, why)
        self.refused[node] = self._round

    # --- who is forgotten ---

    @property
    def newcomers(self) -> int:
        """How many clients are remembered that have never trained."""
        return len(self._new)

    def note_new(self, client: str, round: int) -> None:
        """A client that has never trained is there."""
        self._new[client] = round

    def note_trained(self, client: str) -> None:
        """A client has trained: from now on it is remembered."""
        self._new.pop(client, None)

    def expire(self, round: int) -> list[str]:
        """Forget who never trained and is not connected any more; gives the clients."""
        self._round = round
        for node in self._listed:
            if node in self.refused:
                self.refused[node] = round
            elif self.clients.get(node) in self._new:
                self._new[self.clients[node]] = round
        oldest = round - self._expire_after
        gone = [client for client, last in self._new.items() if last <= oldest]
        for client in gone:
            del self._new[client]
            self.clients.pop(self.nodes.pop(client, 0), None)
        self.refused = {node: last for node, last in self.refused.items() if last > oldest}
        return gone
