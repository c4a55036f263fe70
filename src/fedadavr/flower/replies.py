"""The replies of a round: each is read on its own, and a bad one costs only itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from logging import ERROR, WARNING
from typing import Any

import numpy as np
from flwr.app import Message, RecordDict

from fedadavr.algorithms import Update
from fedadavr.flower.arrays import BadArrays, Model, Values
from fedadavr.flower.errors import OF_THE_APP
from fedadavr.flower.ids import one_line
from fedadavr.flower.log import log
from fedadavr.flower.privacy import about_secure_aggregation

SUPERLINK = 1  # the node id under which the SuperLink reports errors
BEYOND = 1000.0  # times what other clients' buffers reach, where one is not believed any more
SEVERAL = 3  # clients that it takes to end a run by what they send
NEVER_NEGATIVE = ("var", "variance", "num_batches_tracked")  # how such buffers' names end
UNKNOWN_REPLIES = (
    "the replies answer no message of the round: whoever changes replies sets message.content, or "
    "makes new ones with Message(content, reply_to=...)"
)
ALONE = 1e6  # the same with one client, times what the buffer was before


@dataclass(frozen=True)
class Reply:
    """A reply that can be stepped with."""

    update: Update
    buffers: dict[str, Any]
    content: RecordDict


@dataclass
class SortedReplies:
    """A round's replies: those that can be read, by client, and what became of the others."""

    what: str
    good: dict[str, Any] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)  # client -> why
    failed: dict[str, str] = field(default_factory=dict)
    raised: dict[str, str] = field(default_factory=dict)  # those failed whose app has raised

    def reject(self, client: str, why: str) -> None:
        """A reply is not taken."""
        self.good.pop(client, None)
        self.rejected[client] = why = one_line(why, 300)
        log(WARNING, "%s: the reply of client %r is rejected: %s", self.what, one_line(client), why)

    def fail(self, client: str, why: str) -> None:
        """A client could not do it."""
        self.failed[client] = why = one_line(why, 300)
        log(WARNING, "%s: client %r %s", self.what, one_line(client), why)

    @property
    def reason(self) -> str:
        """Why most of them are not good."""
        reasons = Counter([*self.rejected.values(), *self.failed.values()])
        return reasons.most_common(1)[0][0] if reasons else "nobody was asked"


Answers = list[tuple[Message, int]]
"""Replies, each with the node that it is from."""


def match(asked: Sequence[Message], replies: Iterable[Message]) -> tuple[Answers, list[int]]:
    """The replies to what was asked, and the nodes that were asked.

    What is no reply to these messages is left out. Where nothing is one, they were replaced on
    their way, by a strategy that wraps this one, say: then the replies tell themselves who they
    are from, and nobody knows who else was asked.
    """
    replies = list(replies)
    if not asked:  # replies made by hand, by somebody's test: each is a client's of its own
        made = [m for m in replies if isinstance(m, Message)]
        return [(m, _sender(m, k)) for k, m in enumerate(made, 1)], [
            _sender(m, k) for k, m in enumerate(made, 1)]  # fmt: skip
    nodes = {m.metadata.message_id: m.metadata.dst_node_id for m in asked}
    nodes.pop("", None)  # it was never sent
    if not any(_replied_to(message) in nodes for message in replies):
        senders = {_replied_to(m): m.metadata.src_node_id for m in replies if _replied_to(m)}
        senders = {key: node for key, node in senders.items() if node != SUPERLINK}
        nodes = senders or nodes
    return list(_answers(nodes, replies)), list(dict.fromkeys(nodes.values()))


def sort(
    what: str,
    answers: tuple[Answers, list[int]],
    client_of: Callable[[int], str],
    read: Callable[[str, int, RecordDict], Any],
) -> SortedReplies:
    """Read every reply on its own; each node that was asked has one, to the question asked now."""
    found = SortedReplies(what)
    waiting = dict.fromkeys(answers[1])
    for message, node in answers[0]:
        client = client_of(node)
        if node not in waiting:
            log(WARNING, "%s: a reply of client %r is omitted: it has answered before", what,
                one_line(client))  # fmt: skip
            continue
        del waiting[node]
        try:
            if message.has_error():
                lines = str(message.error.reason or "").strip().splitlines()
                found.fail(client, f"failed: {lines[-1] if lines else message.error}")
                if message.error.code in OF_THE_APP:
                    found.raised[client] = str(message.error.reason)
            else:
                found.good[client] = read(client, node, message.content)
        except Exception as error:  # whatever a reply can be made to raise
            found.reject(client, str(error) or type(error).__name__)
    for node in waiting:
        found.fail(client_of(node), "did not answer in time")
    return found


def _replied_to(message: Any) -> str:
    """The id of the message that this answers; empty for what is no message at all."""
    return message.metadata.reply_to_message_id if isinstance(message, Message) else ""


def _sender(message: Message, place: int) -> int:
    """The node of a reply made by hand, or a number that no node has."""
    node = message.metadata.src_node_id
    return node if isinstance(node, int) and node > SUPERLINK else -place


def _answers(nodes: dict[str, int], replies: Iterable[Message]) -> Iterator[tuple[Message, int]]:
    """Each reply and the node that it is from; what is no reply to these messages is left out."""
    for message in replies:
        try:
            about = message.metadata
            node = nodes.get(about.reply_to_message_id)
            if node is None:
                raise ValueError("it answers no message of this round")
            if about.src_node_id not in (node, SUPERLINK):
                raise ValueError(f"it came from node {about.src_node_id}, node {node} was asked")
            if about.src_node_id == SUPERLINK != node and not message.has_error():
                raise ValueError("it came from no node")
        except Exception as error:  # something else than a message, say
            log(WARNING, "a reply is omitted: %s", one_line(error, 300))
            continue
        yield message, node


class NothingAccepted(RuntimeError):
    """Round after round every reply was rejected: the model is not trained."""


class RejectedRounds:
    """Rounds in a row in which every reply was rejected. After `most` of them the run ends.

    It takes several clients, unless there are no more: one client's replies end no run.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._rounds = 0
        self._clients: set[str] = set()

    def look(self, found: SortedReplies, clients: int, omitted: int) -> None:
        """Look at a round; `clients` are there in all, so many replies answer no message of it."""
        if found.good:
            self._rounds, self._clients = 0, set()
            return
        mute = omitted and not found.rejected and not found.raised
        reason = UNKNOWN_REPLIES if mute else found.reason
        log(ERROR, "%s: no reply was accepted, the model stays as it was: %s", found.what, reason)
        if not found.rejected and not found.raised and not omitted:
            return  # nobody answered: an outage, which may pass
        self._rounds += 1
        self._clients.update(found.rejected, found.raised, found.failed if mute else ())
        if self._rounds >= self._most and len(self._clients) >= min(SEVERAL, clients):
            raise NothingAccepted(
                f"every reply of the last {self._rounds} rounds was rejected"
                f"{' or an error' if found.raised else ''}, so that nothing is trained; the "
                f"last reason: {reason}"
            )


class WrongKey(ValueError):
    """A key of the strategy's records that no client has: it is misspelt here, or there."""


class Keys:
    """Whether the clients' records have the keys that the strategy was told.

    Once a reply has them they are right. Until then it takes several clients without them, unless
    there are no more, to say that they are wrong.
    """

    def __init__(self, weighted_by: str, arrays: str, config: str) -> None:
        self._weighted_by, self._sent = weighted_by, (arrays, config)
        self._right = False
        self._lacking: dict[str, list[str]] = {}  # client -> the metrics that it has
        self._raised: dict[str, str] = {}

    def has_weight(self, client: str, metrics: Mapping[str, Any]) -> bool:
        """Whether a client's metrics have the weight."""
        if self._weighted_by in metrics:
            self._right = True
            return True
        self._lacking[client] = list(metrics)
        return False

    def check(self, found: SortedReplies, clients: int) -> None:
        """Raise `WrongKey` if a key is wrong; `clients` are there in all."""
        self._raised |= {c: why for c, why in found.raised.items() if "KeyError" in why}
        several = max(1, min(SEVERAL, clients))
        if self._right:
            return
        if len(self._lacking) >= several:
            has = ", ".join(repr(one_line(key)) for key in [*self._lacking.values()][-1][:10])
            raise WrongKey(
                f"no reply has {self._weighted_by!r} in its metrics, which weighted_by_key asks "
                f"for; the last one has {has or 'none at all'}"
            )
        if len(self._raised) >= several:
            arrays, config = self._sent
            raise WrongKey(
                about_secure_aggregation(found.reason)
                or f"the clients cannot find what was sent ({one_line(found.reason, 300)}): the "
                f"model is sent as {arrays!r} (arrayrecord_key), the config as {config!r} "
                "(configrecord_key)"
            )


def check_buffers(found: SortedReplies, model: Model, now: dict[str, Values]) -> None:
    """Reject replies whose buffers are out of all measure beside the others' and today's.

    A buffer is averaged, so one client's 1e30 in a running variance would be everybody's.
    """
    for name in (name for name in model.buffers if name not in model.constant):
        peaks = {client: _peak(reply.buffers[name]) for client, reply in found.good.items()}
        if not peaks:
            return
        typical = sorted(peaks.values())[(len(peaks) - 1) // 2]
        before = max(1.0, _peak(now[name]))
        most = BEYOND * max(before, typical) if len(peaks) > 1 else ALONE * before
        for client, peak in peaks.items():
            if peak > most:
                found.reject(client, f"its buffer {name!r} has {peak:.3g}, others {typical:.3g}")
        never = name.endswith(NEVER_NEGATIVE)  # a negative variance would make the model's NaN
        if never or (_lowest(now[name]) >= 0 and name not in model.means):
            below = [c for c, r in found.good.items() if _falls_below(r.buffers[name], now[name])]
            few = 2 * len(below) <= len(found.good)  # what begins at zero may be a mean, too
            for client in below if few or never else []:
                found.reject(client, f"its buffer {name!r} is negative, and the model's is not")


def _falls_below(values: Values, now: Values) -> bool:
    """Whether a value is negative that is not so in the model."""
    return _is_real(now) and bool(((values < 0) & (now >= 0)).any())


def _lowest(values: Values) -> float:
    return float(values.min(initial=0.0)) if _is_real(values) else 0.0


def _is_real(values: Values) -> bool:
    return np.issubdtype(values.dtype, np.floating) or np.issubdtype(values.dtype, np.integer)


def _peak(values: Values) -> float:
    if not values.size:
        return 0.0
    wide = np.complex128 if np.issubdtype(values.dtype, np.complexfloating) else np.float64
    return float(np.abs(np.asarray(values, wide)).max())


def number(value: Any) -> Any:
    """A whole number that came as a float, as a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def parts(content: RecordDict) -> tuple[Any, Any]:
    """The one ArrayRecord and the one MetricRecord of a reply."""
    found = []
    for what, records in (("ArrayRecord", content.array_records),
                          ("MetricRecord", content.metric_records)):  # fmt: skip
        if len(records) != 1:
            raise BadArrays(f"it must hold one {what}, and holds {len(records)}")
        found.append(next(iter(records.values())))
    return found[0], found[1]
