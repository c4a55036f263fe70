"""All clients' records, and their running weighted total."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedadavr.checks import positive
from fedadavr.codecs import NOTHING, Support
from fedadavr.codecs import codec as find_codec
from fedadavr.kernels import NEVER
from fedadavr.memory.population import Population
from fedadavr.stores.ram import RamStore
from fedadavr.stores.store import Damaged, Record, State, Store, StoreError
from fedadavr.vector import Layout, Vector

log = logging.getLogger(__name__)

Weighting = Literal["examples", "clients"]
Floats = npt.NDArray[np.float64]

DWARFS = 1e6  # times: of the total's sixteen digits, six may be lost


class RecordTable:
    """The records of all clients in a store, those changed since the last commit, their total.

    It always holds that `total == sum_j weight_j * decode(y_j)`: the total is moved by what was
    stored, never by what was sent, so a codec's rounding does not make it drift. With a
    `staleness_half_life` h, each weight is times 2^(-age_j / h), age_j being the rounds since the
    client was seen. With a durable store, what rounds have changed stays in RAM until `commit`.
    """

    def __init__(
        self,
        layout: Layout,
        codec: str,
        weights: Weighting,
        population: int | Mapping[str, int] | None,
        store: Store | None,
        staleness_half_life: float | None = None,
    ) -> None:
        if staleness_half_life is not None:
            staleness_half_life = positive("staleness_half_life", staleness_half_life)
        self.staleness_half_life = staleness_half_life
        self.layout = layout
        self.codec = NOTHING if codec == NOTHING.name else find_codec(codec)
        self.weights = weights
        self.population = Population(population)
        self.store: Store = RamStore() if store is None else store
        self.total: Floats = np.zeros(layout.size if self.codec.bits else 0)
        born = layout.size if self.codec.omits_zeros else 0
        self.born = np.full(born, NEVER, np.int32)  # the round in which each was first not zero
        blocks = layout.blocks.number if born else 0
        self.whole = np.full(blocks, NEVER, np.int32)  # that of a block's last, once it is known
        self.label_weight: dict[int, float] = {}  # the weights of the clients of each label
        self.reach = 0.0  # the largest that a record has put into the total since it was summed
        self.round = 0
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
        return self.read(record)

    def read(self, record: Record) -> Vector:
        """What a record holds."""
        return self.codec.decode(self.layout, record.data, Support(self.born, record.round))

    def left(self, rounds: float) -> float:
        """What is left of a record's weight so many rounds after its client was seen."""
        half = self.staleness_half_life
        return 1.0 if half is None else float(2.0 ** (-rounds / half))

    def share(self, record: Record) -> float:
        """The weight of a record in the total."""
        return record.weight * self.left(self.round - record.round)

    def add_up(self, record: Record, factor: float, total: Floats) -> None:
        """total += factor * what a record holds."""
        support = Support(self.born, record.round)
        self.codec.accumulate(self.layout, record.data, factor, total, support)

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
            self.add_up(record, self.share(record), total)
        return total

    def settle(self, largest: float = 0.0) -> None:
        """Sum the total again if what was taken out of it dwarfs what remains.

        A float64 that has held something huge has lost the digits of everything else.

        Parameters
        ----------
        largest : float
            The largest magnitude, times its weight, among the records written last.
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
        """The record, unless it is of another model or codec, or of a round yet to come."""
        if isinstance(record, Record):
            if record.round > self.round:
                return Damaged(f"it is of round {record.round}, the state of {self.round}")
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
                self.add_up(record, self.share(record), total)
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
        metrics: Mapping[int, Any] | None = None,
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
            rounds=rounds, metrics=metrics, snapshot=snapshot,
            lost=lost if self._lost is None else self._lost, accept=accept,
        )  # fmt: skip
        self._staged, self._lost = {}, None
        known.changed.clear()

    def adopt(self, records: Mapping[str, Record | None]) -> None:
        """Take over records that belong to the state loaded before."""
        self._stage(records)
