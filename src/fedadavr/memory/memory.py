"""ClientMemory: the last update of each client, encoded, and their running weighted total."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.memory.codecs import codec as find_codec
from fedadavr.memory.population import Population, Undo
from fedadavr.memory.ram import RamStore, Record, Store
from fedadavr.vector import Layout, Vector

Weights = Literal["examples", "clients"]
Floats = npt.NDArray[np.float64]


@dataclass
class Page:
    """The records that a round reads and writes, laid out for the kernels.

    `old` and `new` are addresses. A client never seen has a record of zeros with scale zero, so
    it decodes to zero whatever the codec.
    """

    clients: Sequence[str]
    records: list[Record | None]
    before: Floats
    old: npt.NDArray[np.int64]
    old_scale: npt.NDArray[np.float32]
    buffers: list[npt.NDArray[np.uint8]]
    new: npt.NDArray[np.int64]
    new_scale: npt.NDArray[np.float32]
    undo: list[Undo] = field(default_factory=list)

    @classmethod
    def blank(cls, clients: Sequence[str]) -> Page:
        """The page of a server that remembers nothing."""
        nowhere, scale = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)
        none: list[Record | None] = [None] * len(clients)
        return cls(clients, none, np.zeros(len(clients)), nowhere, scale, [], nowhere, scale)


class ClientMemory:
    """What the server remembers of each client.

    Parameters
    ----------
    layout : the model's layout
    codec : how updates are stored: fp32, fp16, int8 or int4
    weights : `"examples"` weighs a client by its number of examples, `"clients"` by one
    population : see `Population`
    store : where the bytes live; in RAM unless told

    It always holds that `total == sum_j weight_j * decode(y_j)`: the total is moved by what was
    stored, never by what was sent, so a codec's rounding does not make it drift.
    """

    def __init__(
        self,
        layout: Layout,
        codec: str = "fp32",
        *,
        weights: Weights = "examples",
        population: int | Mapping[str, int] | None = None,
        store: Store | None = None,
    ) -> None:
        self.layout = layout
        self.codec = find_codec(codec)
        self.weights = weights
        self.population = Population(population)
        self.store: Store = RamStore() if store is None else store
        self.total: Floats = np.zeros(layout.size)
        self.round = 0
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
        return len(self.store)

    def __contains__(self, client: str) -> bool:
        return self.store.get([client])[0] is not None

    @property
    def nbytes(self) -> int:
        """The bytes of all stored updates."""
        return len(self) * int(self.offsets[-1])

    def update_of(self, client: str) -> Vector:
        """What is remembered of a client: its last update as it was stored, zeros if never seen."""
        record = self.store.get([client])[0]
        return self.layout.zeros() if record is None else self._decode(record)

    def mean(self) -> Floats:
        """The weighted mean of what is remembered, over the whole population."""
        return self.total / self.weight if self.weight else self.total.copy()

    def staleness(self, client: str) -> int | None:
        """For how many rounds the client has not been seen; None if never."""
        record = self.store.get([client])[0]
        return None if record is None else self.round - record.round

    def resum(self) -> Floats:
        """The total, summed again from the stored records."""
        total = np.zeros(self.layout.size)
        for _, record in self.store.items():
            self.codec.accumulate(self.layout, record.data, record.weight, total)
        return total

    # --- joining and leaving ---

    def join(self, client: str, examples: int | None = None) -> None:
        """Count a client that is connected but has not been seen yet."""
        if client not in self:
            self.population.join(client, examples)

    def forget(self, client: str) -> None:
        """Make a client never-seen: its update, size and name go, the population stays as large.

        The model keeps what it has learned from the client.
        """
        self.population.forget(client, self._take_out(client))

    def leave(self, client: str) -> None:
        """Forget a client, and do not count it in the population any more."""
        self.population.leave(client, self._take_out(client))

    def _take_out(self, client: str) -> int | None:
        """Take a client's record out of the total and the store; its weight, None if never seen."""
        record = self.store.get([client])[0]
        if record is None:
            return None
        self.codec.accumulate(self.layout, record.data, -record.weight, self.total)
        weight = record.weight
        self.store.commit({client: None})
        if not len(self.store):
            self.total[:] = 0.0
        return weight

    # --- one round ---

    def open(self, clients: Sequence[str]) -> Page:
        """Read the records of a round's clients and find room for the new ones. Changes nothing."""
        if len(self.store) != self.population.seen:
            raise RuntimeError(
                f"the state remembers {self.population.seen} clients, the store holds "
                f"{len(self.store)}: load the records that belong to this state first"
            )
        records = self.store.get(clients)
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
            buffers.append(record.data if self.store.in_place else np.empty(size, np.uint8))
        new = np.array([kernels.address(buffer) for buffer in buffers], np.int64)
        old = new.copy()
        for k, record in enumerate(records):
            if record is not None:
                old[k] = kernels.address(record.data)
        return Page(clients, records, before, old, scale, buffers, new, np.ones_like(scale))

    def admit(self, page: Page, sizes: Sequence[int]) -> Floats:
        """Count a round's clients in the population; gives the weights of their new records."""
        for client, record, size in zip(page.clients, page.records, sizes, strict=True):
            before = None if record is None else record.weight
            counted = size if self.weights == "examples" else 1
            page.undo.append(self.population.see(client, before, counted))
        return np.array(sizes, np.float64) if self.weights == "examples" else np.ones(len(sizes))

    def dismiss(self, page: Page) -> None:
        """Take back what `admit` has counted: the round cannot be made."""
        while page.undo:
            page.undo.pop()()

    def close(self, page: Page, weights: Floats) -> None:
        """Commit a round's records, which the kernels have written and the total has followed."""
        self.round += 1
        scales = page.new_scale.view(np.uint8)
        records: dict[str, Record | None] = {}
        for k, client in enumerate(page.clients):
            page.buffers[k][: 4 * self._scales] = scales[k, : 4 * self._scales]
            records[client] = Record(int(weights[k]), self.round, page.buffers[k])
        self.store.commit(records)

    # --- state ---

    def records(self) -> Iterator[tuple[str, Record]]:
        """All clients and their records."""
        return self.store.items()

    def state_dict(self) -> dict[str, Any]:
        """All of the state but the records, which the store holds."""
        return {
            "codec": self.codec.name,
            "weights": self.weights,
            "round": self.round,
            "total": self.total.copy(),
            "population": self.population.state_dict(),
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

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state made by `state_dict`."""
        self.check_state(state)
        self.round = int(state["round"])
        self.total[...] = state["total"]
        self.population.load_state_dict(state["population"])

    def _decode(self, record: Record) -> Vector:
        return self.codec.decode(self.layout, record.data)
