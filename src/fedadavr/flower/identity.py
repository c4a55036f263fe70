"""Who is behind a node: the strategy asks, the client's app answers from its node's config."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from logging import INFO, WARNING

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.common.logger import log
from flwr.serverapp import Grid

ACTION = "client_id"
QUESTION = f"query.{ACTION}"
KEY = "client-id"
CONFIG = (KEY, "partition-id")  # entries of a node's config that name its client


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
    """

    def __init__(self, owner_of: Callable[[str], int], patience: float) -> None:
        self._owner_of, self._patience = owner_of, patience
        self.nodes: dict[str, int] = {}  # client -> node
        self.clients: dict[int, str] = {}  # node -> client
        self.refused: set[int] = set()  # nodes that claimed another's id
        self._later: dict[int, tuple[float, float]] = {}  # when to ask again, and the last pause
        self._warned = False

    def connected(self, grid: Grid, nodes: Iterable[int], least: int = 0) -> dict[str, int]:
        """The clients behind these nodes; asks those that are new.

        A node that did not answer is asked again after a pause, or at once where there are fewer
        clients than `least`.
        """
        nodes = list(nodes)
        now, known = time.monotonic(), sum(node in self.clients for node in nodes)
        new = [
            node
            for node in nodes
            if node not in self.clients
            and node not in self.refused
            and (self._later.get(node, (0.0, 0.0))[0] <= now or known < least)
        ]
        if new:
            self._ask(grid, new)
        return {self.clients[node]: node for node in nodes if node in self.clients}

    def _ask(self, grid: Grid, nodes: list[int]) -> None:
        log(INFO, "asking %d new nodes for their client ids", len(nodes))
        questions = [
            Message(content=RecordDict(), dst_node_id=node, message_type=QUESTION) for node in nodes
        ]
        replies = list(grid.send_and_receive(questions, timeout=self._patience))
        asked = {q.metadata.message_id: q.metadata.dst_node_id for q in questions}
        answers: dict[int, str | None] = {}
        for reply in replies:
            node = asked.get(reply.metadata.reply_to_message_id, reply.metadata.src_node_id)
            if reply.has_error() and reply.error.code != ErrorCode.CLIENT_APP_RAISED_EXCEPTION:
                continue  # it is down, or busy: that says nothing of its app
            record = None if reply.has_error() else reply.content.get("identity")
            known = isinstance(record, ConfigRecord) and record.get(KEY)
            answers[node] = str(known) if known else None
        for node in sorted(answers):  # so that who comes first does not depend on the network
            self._bind(node, answers[node])
        silent = [node for node in nodes if node not in answers]
        for node in silent:  # dead ones are listed for a while: do not wait for them every round
            _, pause = self._later.get(node, (0.0, self._patience / 2))
            self._later[node] = (time.monotonic() + 2 * pause, 2 * pause)
        if silent:
            log(WARNING, "%d nodes did not tell their client ids yet", len(silent))

    def _bind(self, node: int, client: str | None) -> None:
        if client is None:
            if not self._warned:
                self._warned = True
                log(
                    WARNING,
                    "this app does not tell its clients' ids, so they are known by their nodes': "
                    "the memory survives a restart only where nodes have registered keys. Add "
                    "fedadavr.flower.answer_identity(app) and a client-id to each node's config",
                )
            client = f"node:{node}"
        owner = self.nodes.get(client) or self._owner_of(client) or node
        if owner != node:
            log(
                WARNING,
                "node %d claims to be client %r, which is node %d: it is refused",
                node, client, owner,
            )  # fmt: skip
            self.refused.add(node)
            return
        self.nodes[client], self.clients[node] = node, client
