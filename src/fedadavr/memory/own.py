"""ClientMemory: the last update of each client, encoded, and their running weighted total."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.codecs import NOTHING
from fedadavr.codecs import codec as find_codec
from fedadavr.memory.cohort_records import CohortRecords
from fedadavr.memory.population import Population
from fedadavr.stores.ram import RamStore
from fedadavr.stores.store import Damaged, Record, State, Store, StoreError
from fedadavr.vector import Layout, Vector

log = logging.getLogger(__name__)

Weighting = Literal["examples", "clients"]
Floats = npt.NDArray[np.float64]

DWARFS = 1e6  # times: of the total's sixteen digits, six may be lost


class ClientMemory:
    """What the server remembers of each client.

    Parameters
    ----------
    layout : the model's layout
    codec : how updates are stored: fp32, fp16, int8 or int4
    weights : `"examples"` weighs a client by its number of examples, `"clients"` by one
    population : see `Population`
    store : where the bytes live; in RAM unless told
    prune_after : forget a client that was not seen for so many rounds; None: never

    It always holds that `total == sum_j weight_j * decode(y_j)`: the total is moved by what was
    stored, never by what was sent, so a codec's rounding does not make it drift. With a durable
    store, what rounds have changed stays in RAM until `commit`.
    """

    def __init__(
        self,
        layout: Layout,
        codec: str = "fp32",
        *,
        weights: Weighting = "examples",
        population: int | Mapping[str, int] | None = None,
        store: Store | None = None,
        prune_after: int | None = None,
    ) -> None:
        self.layout = layout
        self.codec = NOTHING if codec == NOTHING.name else find_codec(codec)
        self.weights = weights
        self.population = Population(population)
        self.store: Store = RamStore() if store is None else store
        self.total: Floats = np.zeros(layout.size if self.codec.bits else 0)
        self.label_weight: dict[int, float] = {}  # the weights of the clients of each label
        self.reach = 0.0  # the largest that a record has put into the total since it was summed
        self.round = 0
        if prune_after is not None and (type(prune_after) is not int or prune_after < 1):
            raise ValueError(f"prune_after must be a whole number from 1 up, got {prune_after!r}")
        self.prune_after = prune_after
        self._seen_in: dict[int, set[str]] | None = None  # who was last seen when, if we prune
        self._staged: dict[str, Record | None] = {}
        self._lost: int | None = None  # records that were lost since the last commit
        self.dropped: set[str] = set()  # clients whose records could not be read
        self.gone: set[str] = set()  # clients taken out since somebody last cleared this
        self.offsets = self.codec.offsets(layout)
        self._scales = self.codec.scale_count(layout)

    @property
    def count(self) -> int:
        """The number of clients in the population, N."""
        return self.population.count

    @property
    def weight(self) -> float:
        """The sum of the weights of the population: P by examples, N by clients."""
        return self.population.size if self.weights == "examples" else float(self.count)

    def __len__(self) -> int:
        return self.population.seen

    def __contains__(self, client: str) -> bool:
        return self._find([client])[0] is not None

    @property
    def nbytes(self) -> int:
        """The bytes of all stored updates."""
        return len(self) * int(self.offsets[-1])

    def update_of(self, client: str) -> Vector:
        """What is remembered of a client: its last update as it was stored, zeros if never seen."""
        record = self._find([client])[0]
        if record is None:
            return self.layout.zeros()
        return self.codec.decode(self.layout, record.data)

    def mean(self) -> Floats:
        """The weighted mean of what is remembered, over the whole population."""
        return self.total / self.weight if self.weight else self.total.copy()

    def staleness(self, client: str) -> int | None:
        """For how many rounds the client has not been seen; None if never."""
        record = self._find([client])[0]
        return None if record is None else self.round - record.round

    def owner_of(self, client: str) -> int:
        """The node that a client's id is bound to, 0 for none."""
        record = self._find([client])[0]
        return 0 if record is None else record.owner

    def resum(self) -> Floats:
        """The total, summed again from the stored records."""
        total = np.zeros_like(self.total)
        for _, record in self.records():
            self.codec.accumulate(self.layout, record.data, record.weight, total)
        return total

    def settle(self, largest: float = 0.0) -> None:
        """Sum the total again if what was taken out of it dwarfs what remains.

        A float64 that has held something huge has lost the digits of everything else.

        Parameters
        ----------
        largest : the largest magnitude, times its weight, among the records written last
        """
        self.reach = max(self.reach, largest)
        if not len(self.total) or self.reach <= DWARFS * largest:
            return
        if not len(self):
            self.reach = 0.0
            return
        remains = float(max(self.total.max(), -self.total.min()))
        if self.reach > DWARFS * remains:
            log.warning(
                "the total of %d clients is summed again: it has held %.3g and holds %.3g",
                len(self), self.reach, remains,
            )  # fmt: skip
            try:
                self.total[...] = self.resum()
            except StoreError as error:  # an outage: the next round tries again
                log.warning("the total could not be summed again yet: %s", error)
                return
            self.reach = float(max(self.total.max(), -self.total.min()))

    def records(self) -> Iterator[tuple[str, Record]]:
        """All clients and their records; those that cannot be read are left out."""
        for client, record in self.all():
            if isinstance(record, Record):
                yield client, record

    def all(self, data: bool = True) -> Iterator[tuple[str, Record | Damaged]]:
        """All clients and their records, those that cannot be read as `Damaged`."""
        for client, record in self.store.items(data):
            if client not in self._staged:
                yield client, self._fitting(client, record) if data else record
        for client, staged in self._staged.items():
            if staged is not None:
                yield client, staged

    def _find(self, clients: Sequence[str]) -> list[Record | None]:
        """The records as the last round left them. One that cannot be read is dropped for good."""
        found = self._look_up(clients)
        if any(isinstance(record, Damaged) for record in found):
            self.repair()
            found = self._look_up(clients)
        return [record if isinstance(record, Record) else None for record in found]

    def _look_up(self, clients: Sequence[str]) -> list[Record | Damaged | None]:
        stored = [client for client in clients if client not in self._staged]
        found: dict[str, Record | Damaged | None] = dict(
            zip(stored, self.store.get(stored) if stored else [], strict=True)
        )
        return [
            self._staged[client] if client in self._staged
            else self._fitting(client, found[client])
            for client in clients
        ]  # fmt: skip

    def _fitting(self, client: str, record: Any) -> Any:
        """The record, unless it is of another model or codec."""
        if isinstance(record, Record):
            for what, theirs, mine in (("layout", record.layout, self.layout.digest),
                                       ("codec", record.codec, self.codec.name)):  # fmt: skip
                if theirs != mine:
                    return Damaged(f"it is of {what} {theirs}, this memory has {mine}")
            if len(record.data) != self.offsets[-1]:
                return Damaged(f"it has {len(record.data)} bytes, need {self.offsets[-1]}")
        return record

    def repair(self) -> int:
        """Drop the records that cannot be read, and sum the rest again; how many were lost.

        Their clients are taken as never seen. Who is missing without a trace is only counted.
        """
        total, seen, size, lost = np.zeros_like(self.total), 0, 0.0, []
        labels: dict[int, float] = {}
        for client, record in self.all():
            if isinstance(record, Damaged):
                log.error(
                    "client %r: its record cannot be read, %s; it counts as never seen from now on",
                    client, record.why,
                )  # fmt: skip
                lost.append(client)
            else:
                self.codec.accumulate(self.layout, record.data, record.weight, total)
                seen, size = seen + 1, size + record.weight
                labels[record.label] = labels.get(record.label, 0.0) + record.weight
        gone = self.population.seen - seen
        if gone > len(lost):
            log.error("%d records are missing without a trace: their clients count as never seen",
                      gone - len(lost))  # fmt: skip
        self.total[...] = total
        self.reach = float(np.abs(total).max(initial=0.0))
        self.label_weight = labels
        self.population.recount(seen, size, max(0, gone))
        self._stage(dict.fromkeys(lost))
        self._seen_in = None
        self._lost = (self._lost or 0) + max(len(lost), gone)
        self.dropped.update(lost)
        self.gone.update(lost)
        return max(len(lost), gone)

    # --- joining and leaving ---

    def join(self, client: str, examples: int | None = None) -> None:
        """Count a client that is connected but has not been seen yet."""
        if client not in self:
            self.population.join(client, examples)

    def withdraw(self, client: str) -> None:
        """Do not count a client any more that only was connected; one that was seen stays."""
        self.population.withdraw(client)

    def forget(self, client: str) -> None:
        """Make a client never-seen: its update, size and name go, the population stays as large.

        The model keeps what it has learned from the client.
        """
        self.population.forget(client, self._take_out(client))
        self.settle()

    def leave(self, client: str) -> None:
        """Forget a client, and do not count it in the population any more."""
        self.population.leave(client, self._take_out(client))
        self.settle()

    def _take_out(self, client: str) -> float | None:
        """Take a client's record out of the total and the store; its weight, None if never seen."""
        record = self._find([client])[0]
        if record is None:
            return None
        self._subtract(client, record)
        return record.weight

    def _subtract(self, client: str, record: Record) -> None:
        self.codec.accumulate(self.layout, record.data, -record.weight, self.total)
        self._count_label(record.label, -record.weight)
        self._note_seen(client, record.round, None)
        self.gone.add(client)
        self._stage({client: None})
        if self.population.seen == 1:  # it was the last
            self.total[:] = 0.0

    def _count_label(self, label: int, weight: float) -> None:
        self.label_weight[label] = self.label_weight.get(label, 0.0) + weight
        if not self.label_weight[label]:
            del self.label_weight[label]  # as if it had never been counted

    def _stage(self, records: Mapping[str, Record | None]) -> None:
        """Change records: at once in RAM, with the next commit in a durable store."""
        if self.store.durable:
            self._staged |= records
        else:
            self.store.commit(records)

    def commit(
        self,
        state: State,
        *,
        rounds: Mapping[int, Any] | None = None,
        snapshot: int | None = None,
        lost: int | None = None,
        accept: bool = False,
    ) -> None:
        """Write what has changed since the last commit, with the state that belongs to it.

        If it fails nothing is lost: the changes stay here, and it can be tried again.
        """
        known = self.population
        inner = state["server"]["memory"] | {"population": known.counts()}
        state = state | {"server": state["server"] | {"memory": inner}}
        self.store.commit(
            self._staged, state, members={client: known.member(client) for client in known.changed},
            rounds=rounds, snapshot=snapshot, lost=lost if self._lost is None else self._lost,
            accept=accept,
        )  # fmt: skip
        self._staged, self._lost = {}, None
        known.changed.clear()

    def adopt(self, records: Mapping[str, Record | None]) -> None:
        """Take over records that belong to the state loaded before."""
        self._stage(records)

    # --- one round ---

    def open(self, clients: Sequence[str]) -> CohortRecords:
        """Read the records of a round's clients and find room for the new ones.

        Changes nothing, unless records were lost: their clients are taken as never seen then.
        """
        if not self._staged and self._lost is None:
            if not self.store.durable and len(self.store) != self.population.seen:
                raise RuntimeError(
                    f"the state remembers {self.population.seen} clients, the store holds "
                    f"{len(self.store)}: load the records that belong to this state first"
                )
            if not self.store.intact() or len(self.store) != self.population.seen:
                self.repair()
        due = [c for c in self._due(max(64, len(clients))) if c not in clients]
        found = self._find([*clients, *due])
        records = found[: len(clients)]
        tensors, size = len(self.layout.shapes), int(self.offsets[-1])
        before = np.zeros(len(clients))
        scale = np.zeros((len(clients), tensors), np.float32)
        buffers = []
        for k, record in enumerate(records):
            if record is None:
                buffers.append(np.zeros(size, np.uint8))
                continue
            before[k] = record.weight
            scale[k] = self.codec.read_scales(self.layout, record.data)
            ours = not self.store.durable or self._staged.get(clients[k]) is record
            buffers.append(record.data if ours else np.empty(size, np.uint8))
        new = np.array([kernels.address(buffer) for buffer in buffers], np.int64)
        old = new.copy()
        for k, record in enumerate(records):
            if record is not None:
                old[k] = kernels.address(record.data)
        page = CohortRecords(
            clients, records, before, old, scale, buffers, new, np.ones_like(scale)
        )
        page.expired = {
            client: record
            for client, record in zip(due, found[len(clients) :], strict=True)
            if record is not None and self.round + 1 - record.round >= (self.prune_after or 0)
        }
        return page

    def _due(self, most: int) -> list[str]:
        """Who was last seen so long ago that the coming round prunes them; some at a time."""
        if self.prune_after is None:
            return []
        if self._seen_in is None:
            self._seen_in = {}
            for client, record in self.all(data=False):
                if isinstance(record, Record):
                    self._note_seen(client, None, record.round)
        old = sorted(r for r in self._seen_in if self.round + 1 - r >= self.prune_after)
        return list(islice((c for r in old for c in sorted(self._seen_in[r])), most))

    def _note_seen(self, client: str, before: int | None, now: int | None) -> None:
        """A client was last seen in another round than before."""
        if self._seen_in is None:
            return
        if before in self._seen_in:
            self._seen_in[before].discard(client)
            if not self._seen_in[before]:
                del self._seen_in[before]
        if now is not None:
            self._seen_in.setdefault(now, set()).add(client)

    def admit(
        self, page: CohortRecords, sizes: Sequence[float], labels: Sequence[int] | None = None
    ) -> Floats:
        """Count a round's clients in the population; gives the weights of their new records.

        `labels` are what another memory keeps with each of them, from 1.
        """
        page.labels = [0] * len(page.clients) if labels is None else list(labels)
        for client, record, size, label in zip(
            page.clients, page.records, sizes, page.labels, strict=True
        ):
            before = None if record is None else record.weight
            counted = size if self.weights == "examples" else 1
            page.undo.append(self.population.see(client, before, counted))
            if record is not None:
                self._count_label(record.label, -record.weight)
                page.undo.append(partial(self._count_label, record.label, record.weight))
            self._count_label(label, counted)
            page.undo.append(partial(self._count_label, label, -counted))
        return np.array(sizes, np.float64) if self.weights == "examples" else np.ones(len(sizes))

    def dismiss(self, page: CohortRecords) -> None:
        """Take back what `admit` has counted: the round cannot be made."""
        while page.undo:
            page.undo.pop()()

    def close(
        self, page: CohortRecords, weights: Floats, owners: Sequence[int] | None = None
    ) -> None:
        """End a round: keep the records that the kernels have written and the total has followed.

        `owners` are the nodes that the clients' ids are bound to; an id stays with its first.
        """
        self.round += 1
        scales = page.new_scale.view(np.uint8)
        records: dict[str, Record | None] = {}
        for k, client in enumerate(page.clients):
            page.buffers[k][: 4 * self._scales] = scales[k, : 4 * self._scales]
            old = page.records[k]
            owner = (old.owner if old else 0) or (owners[k] if owners else 0)
            self._note_seen(client, old.round if old else None, self.round)
            records[client] = Record(
                float(weights[k]), self.round, page.buffers[k], self.codec.name,
                self.layout.digest, owner, page.labels[k],
            )  # fmt: skip
        self._stage(records)
        self.gone.clear()
        for client, record in page.expired.items():
            self._subtract(client, record)
            self.population.forget(client, record.weight)

    # --- state ---

    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """All of the state but the records, which the store holds."""
        return {
            "codec": self.codec.name,
            "weights": self.weights,
            "round": self.round,
            "total": self.total.copy() if copy else self.total,
            "population": self.population.state_dict(copy=copy),
            "kinds": {str(k): weight for k, weight in self.label_weight.items() if weight},
            "prune_after": self.prune_after,
            "reach": self.reach,
        }

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raise unless the state fits this memory; changes nothing."""
        for key, mine in (("codec", self.codec.name), ("weights", self.weights)):
            if state[key] != mine:
                raise ValueError(f"the state's memory has {key} {state[key]!r}, this one {mine!r}")
        if np.shape(state["total"]) != self.total.shape:
            raise ValueError(
                f"the state's total has shape {np.shape(state['total'])}, need {self.total.shape}"
            )
        if np.asarray(state["total"]).dtype != np.float64:
            raise ValueError("the state's total is not float64")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state made by `state_dict`."""
        self.check_state(state)
        self.round = int(state["round"])
        self.total[...] = state["total"]
        known = float(np.abs(self.total).max(initial=0.0))
        self.reach = float(state.get("reach", known))  # states of 0.1 have none
        self.population.load_state_dict(state["population"])
        self.label_weight = {int(k): float(x) for k, x in state["kinds"].items()}
        self._seen_in = None  # looked up when it is needed
        self._staged, self._lost = {}, None

    @classmethod
    def stored(cls, store: Store) -> tuple[ClientMemory | None, State]:
        """The memory that a store holds, None if its algorithm has none, and the whole state."""
        state = stored_state(store)
        if state is None:
            raise ValueError(f"{getattr(store, 'where', 'the store')} holds no round yet")
        inner = state["server"]["memory"]
        if inner is None:
            return None, state
        layout = Layout({name: tuple(shape) for name, shape in state["layout"].items()})
        memory = cls(layout, inner["codec"], weights=inner["weights"], store=store,
                     prune_after=inner["prune_after"])  # fmt: skip
        memory.load_state_dict(inner)
        memory.population.changed.clear()
        return memory, state


def stored_state(store: Store) -> State | None:
    """A store's state, with the names of the population that lie beside it."""
    state = store.state()
    if state is None:
        return None
    try:
        inner = state["server"]["memory"]
        if inner is not None and "waiting" not in inner["population"]:
            members = store.members()
            inner["population"] |= {
                "waiting": {c: m.size for c, m in members.items() if not m.left},
                "left": [c for c, m in members.items() if m.left],
                "placed": [c for c, m in members.items() if m.placed],
            }
    except (KeyError, TypeError, AttributeError):
        raise StoreError(
            f"{getattr(store, 'where', 'the store')}: its state is not one of this program: "
            "restore it from a backup"
        ) from None
    return state
