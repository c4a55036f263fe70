"""The replies of a round: each is read on its own, and a bad one costs only itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from logging import ERROR, WARNING
from typing import Any

import numpy as np
from flwr.app import Message, RecordDict
from flwr.common.logger import log

from fedadavr.algorithms import Update
from fedadavr.flower.arrays import BadArrays, Model, Values
from fedadavr.flower.ids import one_line

SUPERLINK = 1  # the node id under which the SuperLink reports errors
BEYOND = 1000.0  # times what other clients' buffers reach, where one is not believed any more
FRUITLESS = 3  # rounds in a row without one good reply, after which a run ends
NEVER_NEGATIVE = ("var", "variance", "num_batches_tracked")  # how such buffers' names end
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


def sort(
    what: str,
    asked: Sequence[Message],
    replies: Iterable[Message],
    client_of: Callable[[int], str],
    read: Callable[[str, int, RecordDict], Any],
) -> SortedReplies:
    """Read every reply on its own; each node that was asked has one, to the question asked now."""
    found = SortedReplies(what)
    nodes = {m.metadata.message_id: m.metadata.dst_node_id for m in asked}
    waiting = dict.fromkeys(nodes.values())
    for message, node in _answers(nodes, replies):
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
            else:
                found.good[client] = read(client, node, message.content)
        except Exception as error:  # whatever a reply can be made to raise
            found.reject(client, str(error) or type(error).__name__)
    for node in waiting:
        found.fail(client_of(node), "did not answer in time")
    return found


def _answers(
    nodes: dict[str, int], replies: Iterable[Message]
) -> Iterator[tuple[Message, int]]:  # fmt: skip
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
    """Rounds in a row in which every reply was rejected. After some of them the run ends.

    It takes several clients, unless there are no more: one client's replies end no run.
    """

    def __init__(self) -> None:
        self._rounds = 0
        self._clients: set[str] = set()

    def look(self, found: SortedReplies, clients: int) -> None:
        """Look at a round; `clients` are there in all."""
        if found.good:
            self._rounds, self._clients = 0, set()
            return
        log(ERROR, "%s: no reply was accepted, the model stays as it was: %s", found.what,
            found.reason)  # fmt: skip
        if not found.rejected:
            return  # nobody answered: an outage, which may pass
        self._rounds += 1
        self._clients.update(found.rejected)
        if self._rounds >= FRUITLESS and len(self._clients) >= min(FRUITLESS, clients):
            raise NothingAccepted(
                f"every reply of the last {self._rounds} rounds was rejected, so that nothing is "
                f"trained; the last reason: {found.reason}"
            )


def check_buffers(found: SortedReplies, model: Model, now: dict[str, Values]) -> None:
    """Reject replies whose buffers are out of all measure beside the others' and today's.

    A buffer is averaged, so one client's 1e30 in a running variance would be everybody's.
    """
    for name in model.buffers:
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
        if never or _lowest(now[name]) >= 0:
            below = [c for c, r in found.good.items() if _falls_below(r.buffers[name], now[name])]
            few = 2 * len(below) <= len(found.good)  # a mean, which begins at zero, may be anything
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
