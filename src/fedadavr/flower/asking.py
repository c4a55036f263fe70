"""The question who a node's client is, and its answer: one node is asked first."""

from __future__ import annotations

import time
from collections.abc import Iterable
from logging import INFO, WARNING
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from fedadavr.flower.errors import OF_THE_APP
from fedadavr.flower.ids import one_line
from fedadavr.flower.log import log

ACTION = "client_id"
QUESTION = f"query.{ACTION}"
RECORD, KEY = "identity", "client-id"
CONFIG = (KEY, "partition-id")  # entries of a node's config that name its client
INSTALLING = "DependencyInstallation"  # Flower's error of a node that cannot make the app ready
SEVERAL = 3  # nodes whose apps must refuse, where a store's clients have told their ids before
HASTE = 10.0  # seconds between two questions to a node, at least
UNREAD = 600.0  # seconds after which a question that no node has fetched is dropped


def answer_identity(app: ClientApp) -> ClientApp:
    """Let an app tell its client's id, from `client-id` or `partition-id` in the node's config."""

    @app.query(ACTION)
    def client_id(message: Message, context: Context) -> Message:
        given = [context.node_config[key] for key in CONFIG if key in context.node_config]
        record = ConfigRecord({KEY: str(given[0])} if given else {})
        return Message(content=RecordDict({RECORD: record}), reply_to=message)

    return app


class Asking:
    """Asks nodes for their clients' ids: one first, and the others only if its app can answer.

    An app that has no answer raises, and so may a mod of it: its client logs a traceback. Nothing
    public tells before whether an app has one. A grid knows of nodes, not of apps; each kind of
    message that an app has not registered raises alike; and to look into the app, the server
    would have to run the clients' code. So one traceback in a run it is, not one in each client.

    A node that does not answer, or is not able to run the app, says nothing of the app: then
    another one is asked, and if that is silent, too, more at once.

    Parameters
    ----------
    patience : float
        Seconds that a node has to answer.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self.answers: bool | None = None  # whether the app does; None: nobody knows yet
        self.told_before = False  # whether clients of the store have told their ids
        self.why = ""  # what the app said instead of an answer
        self._refusals = self._silent = 0
        self._later: dict[int, tuple[float, float, float]] = {}  # silent: asked when, due, pause

    def ask(self, grid: Grid, nodes: Iterable[int], within: float, hurry: bool) -> dict[int, Any]:
        """What these nodes tell; None: known by its id. Those that are silent are left out.

        Parameters
        ----------
        within : float
            Seconds that all of it may take.
        hurry : bool
            Whether nodes that were silent are asked again without a long pause.
        """
        now = time.monotonic()
        end, told = now + within, dict[int, Any]()
        waiting = sorted(
            (node for node in nodes if self._is_due(node, now, hurry)),
            key=lambda node: (node in self._later, node),
        )
        while waiting and self.answers is not False:
            some, until = len(waiting), end
            if self.answers is None:  # then who is listed is looked up again
                some, until = max(1, self._silent**2), min(end, now + self._patience)
            left = min(until - time.monotonic(), self._patience)
            heard = self._question(grid, waiting[:some], left) if left > 0 else None
            if heard is None:
                return told
            told |= heard
            waiting = waiting[some:]
        if self.answers is False:
            self._later.clear()
            told |= {node: None for node in nodes if node not in told}
        return told

    def keep(self, nodes: Iterable[int]) -> None:
        """Forget all nodes but these."""
        self._later = {node: self._later[node] for node in nodes if node in self._later}

    def _is_due(self, node: int, now: float, hurry: bool) -> bool:
        asked, due, pause = self._later.get(node, (now, now, 0.0))
        return now >= (asked + min(pause, HASTE) if hurry else due)

    def _question(self, grid: Grid, nodes: list[int], patience: float) -> dict[int, Any] | None:
        """Ask these nodes at once; None: they could not be asked."""
        log(INFO, "asking %d new nodes for their client ids", len(nodes))
        began, lives = time.monotonic(), max(UNREAD, patience)
        questions = [
            Message(content=RecordDict(), dst_node_id=node, message_type=QUESTION, ttl=lives)
            for node in nodes
        ]
        try:
            replies = list(grid.send_and_receive(questions, timeout=patience))
        except Exception as error:  # whatever a connection can raise
            log(WARNING, "the nodes could not be asked: %s", one_line(error, 300))
            return None
        asked = {q.metadata.message_id: q.metadata.dst_node_id for q in questions}
        told: dict[int, Any] = {}
        reason = ""
        for reply in replies:
            node = asked.pop(_replied_to(reply), None)
            if node is None:
                continue
            answers, said = _read(reply)
            if answers is None:
                reason = f": {said}"
                continue
            told[node] = said if answers else None
            self._note(answers, "" if answers else f"node {node}: {said}")
        silent = [node for node in nodes if node not in told]
        self._silent += len(silent)
        for node in silent:  # dead ones are listed for a while: do not wait for them every round
            pause = 2 * self._later.get(node, (0.0, 0.0, self._patience / 2))[2]
            self._later[node] = (began, time.monotonic() + pause, pause)
        if silent:
            log(WARNING, "%d nodes did not tell their client ids yet%s", len(silent), reason)
        return told

    def _note(self, answers: bool, why: str) -> None:
        if answers:
            self.answers = True
            return
        self.why = self.why or why
        self._refusals += 1
        if self.answers is None and self._refusals >= (SEVERAL if self.told_before else 1):
            self.answers = False


def _replied_to(reply: Any) -> str:
    return reply.metadata.reply_to_message_id if isinstance(reply, Message) else ""


def _read(reply: Message) -> tuple[bool | None, Any]:
    """Whether the app answers, None if that is not known, and what it says, or why not."""
    try:
        if reply.has_error():
            lines = str(reply.error.reason or "").strip().splitlines()
            why = one_line(lines[-1] if lines else reply.error, 200)
            broken = any(INSTALLING in line for line in lines)
            return (False if reply.error.code in OF_THE_APP and not broken else None), why
        record = reply.content.get(RECORD)
        if isinstance(record, ConfigRecord):
            return True, record.get(KEY)
    except Exception as error:  # whatever a reply can be made to raise
        return False, one_line(error, 200)
    return False, "its reply is no answer"
