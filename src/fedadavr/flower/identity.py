"""Who is behind a node, and for how long that is remembered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from logging import INFO, WARNING
from numbers import Integral
from typing import Any, Literal

from flwr.serverapp import Grid

from fedadavr.flower.allow_list import AllowList
from fedadavr.flower.asking import Asking
from fedadavr.flower.ids import RESERVED, bad_id, one_line
from fedadavr.flower.log import log

Naming = Literal["ask", "node"] | Callable[[int], str]
"""How a node's client is known: the node is asked, by the node's id, by a function of that."""

IDS_PER_NODE = 3  # different client ids that a node may tell in its life
MOST_NOTED = 100_000  # nodes whose number of ids is remembered


def check_naming(identity: Naming | None, allowed: AllowList | None, remembers: bool) -> Naming:
    """What was asked for, or what an algorithm needs that remembers clients, or does not."""
    if allowed is not None and identity is not None:
        raise ValueError("clients says who is behind which node: omit identity, or omit clients")
    if identity is None:
        return "ask" if remembers else "node"
    if not callable(identity) and not (isinstance(identity, str) and identity in ("ask", "node")):
        raise ValueError(
            "identity must be 'ask', 'node' or a function from a node's id to its client's id, "
            f"got {one_line(repr(identity))}"
        )
    return identity


class Identities:
    """Which client is behind which node.

    An id is bound to the node that first used it: `owner_of` tells the node that a store has
    bound it to, if nodes' ids can be relied on across runs; within a run it is remembered here.
    A node has one client at a time and at most a few in its life, and one that has never trained
    is remembered only while it is connected, and for `expire_after` rounds more: nobody makes the
    server remember much by coming and going.

    Parameters
    ----------
    owner_of : Callable[[str], int]
        The node that a store has bound a client's id to, 0 for none.
    patience : float
        Seconds that a node has to tell its client's id.
    expire_after : int
        Rounds for which who has never trained is remembered.
    allowed : AllowList, optional
        It says who everybody is: nobody is asked.
    naming : "ask", "node" or Callable[[int], str]
        How clients are known without a list.
    remembers : bool
        Whether the algorithm remembers clients.
    handing_over : bool
        Whether a client's id goes to another node that tells it when the node that had it is not
        listed any more: a node without keys that was restarted has a new id.
    """

    def __init__(
        self,
        owner_of: Callable[[str], int],
        patience: float,
        expire_after: int = 10,
        allowed: AllowList | None = None,
        naming: Naming = "ask",
        *,
        remembers: bool = True,
        handing_over: bool = True,
    ) -> None:
        self._owner_of, self._expire_after, self._allowed = owner_of, expire_after, allowed
        self._naming, self._remembers, self._handing_over = naming, remembers, handing_over
        self._asking = Asking(patience)
        self.nodes: dict[str, int] = {}  # client -> node
        self.clients: dict[int, str] = {}  # node -> client
        self.refused: dict[int, int] = {}  # nodes that are not let in, and when they were last here
        self._new: dict[str, int] = {}  # clients that never trained, and when they were last here
        self._listed: set[int] = set()
        self._answers: dict[int, Any] = {}  # nodes that have answered and are not bound yet
        self._told: dict[int, tuple[int, str]] = {}  # how many ids a node has told, and the last
        self._claims: dict[int, str] = {}  # nodes refused while another one is their client
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

    @property
    def told(self) -> bool:
        """Whether clients are known by ids that they have told."""
        return self._asking.answers is True or (
            self._asking.answers is None and self._asking.told_before
        )

    def told_before(self, told: Any) -> None:
        """Whether the clients of a store are: then one node's error does not say they cannot."""
        self._asking.told_before = told is True

    def learn(self, grid: Grid | None, nodes: Iterable[int], within: float = math.inf) -> None:
        """Find out who these nodes are, which were asked to train by others than this strategy.

        Without a grid they cannot be asked, and are known by their nodes'.
        """
        nodes = list(nodes)
        new = self._unknown(nodes)
        if not new:
            return
        if self._allowed is not None:
            if grid is None:
                raise ValueError("with clients=, call super().configure_train(...)")
            self.listed(grid)
        else:
            self._list_again(grid)
            self._name(grid, new, within, hurry=True)
        for node in new:
            self._answers.setdefault(node, None)
        self._listed.update(nodes)  # who has replied was there, whoever has its client's id now

    def _list_again(self, grid: Grid | None) -> None:
        try:
            if grid is not None:
                self._listed = set(grid.get_node_ids())
        except Exception as error:  # whatever a connection can raise
            log(WARNING, "the nodes could not be listed: %s", one_line(error, 300))

    def ask(
        self, grid: Grid, nodes: Iterable[int], least: int = 0, within: float = math.inf
    ) -> None:
        """Find out who the nodes are that are new, within so many seconds.

        A node that did not answer is asked again after a pause, a short one where there are fewer
        clients than `least`.
        """
        nodes = list(nodes)
        self._listed = set(nodes)
        self._asking.keep(self._listed)
        if self._allowed is not None:
            return
        for node, client in list(self._claims.items()):
            if node in self._listed and self.nodes.get(client) not in self._listed:
                del self._claims[node], self.refused[node]
                self._answers[node] = client
        known = sum(node in self.clients for node in self._listed)
        self._name(grid, self._unknown(nodes), within, hurry=known < least)

    def _unknown(self, nodes: list[int]) -> list[int]:
        known = (self.clients, self.refused, self._answers)
        return [node for node in nodes if not any(node in some for some in known)]

    def _name(self, grid: Grid | None, nodes: list[int], within: float, hurry: bool) -> None:
        """Ask these nodes, or say who they are without."""
        if self._naming == "ask":
            if grid is not None:
                self._answers |= self._asking.ask(grid, nodes, within, hurry)
            return
        for node in nodes:
            given: Any = self._naming(node) if callable(self._naming) else None
            whole = isinstance(given, Integral) and not isinstance(given, bool)
            self._answers[node] = str(given) if whole else given

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
        elif client is None and not callable(self._naming):
            client = f"{RESERVED}{node}"
            self._warn()
        else:
            why = bad_id(client) or self._over_quota(node, client)
            if why:
                self._refuse(node, why)
                return
        before = self.nodes.get(client, node)
        if before != node and self._handing_over and self._allowed is None:
            if before in self._listed:
                self._refuse(node, _claim(client, before), " while that one is connected")
                self._claims[node] = client
                return
            self._hand_over(client, before, node)
        owner = self.nodes.get(client) or self._owner_of(client) or node
        if owner != node:
            self._refuse(node, _claim(client, owner))
            return
        self.nodes[client], self.clients[node] = node, client

    def _hand_over(self, client: str, before: int, node: int) -> None:
        """A node that is gone was this client; if it comes back, it waits as others do."""
        log(INFO, "client %r is node %d now: node %d is not connected any more", one_line(client),
            node, before)  # fmt: skip
        self.clients.pop(before, None)
        self.refused[before], self._claims[before] = self._round, client
        self.nodes[client] = node

    def _warn(self) -> None:
        """Once: clients are known by their nodes' ids, and what that means."""
        if self._warned or (self._naming == "node" and not self._remembers):
            return
        self._warned = True
        what = "the memory survives a restart" if self._remembers else "the same are sampled again"
        if self._naming == "node":
            log(WARNING, "clients are known by their nodes' ids: %s only where nodes have "
                "registered keys. identity='ask' asks them", what)  # fmt: skip
            return
        why = f" ({self._asking.why})" if self._asking.why else ""
        log(
            WARNING,
            "this app does not tell its clients' ids%s, so they are known by their nodes': "
            "%s only where nodes have registered keys. Add "
            "fedadavr.flower.answer_identity(app) and a client-id to each node's config; mods of "
            "the whole app must let queries pass",
            why,
            what,
        )

    def _over_quota(self, node: int, client: str) -> str | None:
        number, last = self._told.pop(node, (0, ""))
        number += client != last
        self._told[node] = number, client  # at the end: the oldest are forgotten first
        if len(self._told) > MOST_NOTED:
            del self._told[next(iter(self._told))]
        if number > IDS_PER_NODE:
            return f"tells another client id for the {number}th time, more than {IDS_PER_NODE}"
        return None

    def _refuse(self, node: int, why: str, until: str = "") -> None:
        log(WARNING, "node %d %s: it is refused%s", node, why, until)
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
        self._claims = {n: client for n, client in self._claims.items() if n in self.refused}
        return gone


def _claim(client: str, owner: int) -> str:
    return f"claims to be client {one_line(client)!r}, which is node {owner}"
