"""ClientMemory: the last update of each client, encoded, and their running weighted total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.codecs import CODECS
from fedadavr.memory.cohort_records import CohortRecords
from fedadavr.memory.record_table import Floats, RecordTable, Weighting
from fedadavr.stores.store import Record, State, Store, StoreError
from fedadavr.vector import Layout

__all__ = ["ClientMemory", "Weighting", "stored_state"]


class ClientMemory(RecordTable):
    """What the server remembers of each client.

    It answers what a memory must: what it predicts for a cohort (`open`), what it takes from the
    replies (`admit`, then `close`), its mean over the population (`mean`), how it forgets a client,
    and its state.

    Parameters
    ----------
    layout : Layout
        The model's layout.
    codec : str
        How updates are stored, by the codec's name; see docs/codecs.md.
    weights : str
        `"examples"` weighs a client by its number of examples, `"clients"` by one.
    population : int or Mapping[str, int], optional
        See `Population`.
    store : Store, optional
        Where the bytes live; in RAM unless told.
    prune_after : int, optional
        Forget a client that was not seen for so many rounds; None: never.
    staleness_half_life : float, optional
        After so many rounds a client's record counts half; None: always the same.
    rounding_seed : int, optional
        Round what is stored up or down at random, so that it is right in the mean: by this seed,
        the round, the client and the place alone. None: to the nearest.
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
        staleness_half_life: float | None = None,
        rounding_seed: int | None = None,
    ) -> None:
        super().__init__(layout, codec, weights, population, store, staleness_half_life)
        if prune_after is not None and (type(prune_after) is not int or prune_after < 1):
            raise ValueError(f"prune_after must be a whole number from 1 up, got {prune_after!r}")
        self.prune_after = prune_after
        if rounding_seed is not None:
            if type(rounding_seed) is not int or not 0 <= rounding_seed < 2**63:
                huge = type(rounding_seed) is int and rounding_seed.bit_length() > 64
                got = f"one of {rounding_seed.bit_length()} bits" if huge else repr(rounding_seed)
                raise ValueError(
                    f"rounding_seed must be a whole number from 0 up, below 2**63, got {got}"
                )
            if self.codec.stochastic is None:
                able = ", ".join(name for name, c in CODECS.items() if c.stochastic)
                raise ValueError(
                    f"rounding_seed: the codec {self.codec.name} does not round at random: "
                    f"take one of {able}, or omit rounding_seed"
                )
        self.rounding_seed = rounding_seed

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
        self.add_up(record, -self.share(record), self.total)
        self._count_label(record.label, -record.weight)
        self._note_seen(client, record.round, None)
        self.gone.add(client)
        self._stage({client: None})
        if self.population.seen == 1:  # it was the last
            self.total[:] = 0.0

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
        before, when = np.zeros(len(clients)), np.zeros(len(clients), np.int64)
        scale = np.zeros((len(clients), tensors), np.float32)
        buffers = []
        for k, record in enumerate(records):
            if record is None:
                buffers.append(np.zeros(size, np.uint8))
                continue
            before[k], when[k] = record.weight, record.round
            scale[k] = self.codec.read_scales(self.layout, record.data)
            ours = not self.store.durable or self._staged.get(clients[k]) is record
            buffers.append(record.data if ours else np.zeros(size, np.uint8))
        new = np.array([kernels.address(buffer) for buffer in buffers], np.int64)
        old = new.copy()
        for k, record in enumerate(records):
            if record is not None:
                old[k] = kernels.address(record.data)
        page = CohortRecords(
            clients, records, before, old, scale, buffers, new, np.ones_like(scale), when
        )
        page.expired = {
            client: record
            for client, record in zip(due, found[len(clients) :], strict=True)
            if record is not None and self.round + 1 - record.round >= (self.prune_after or 0)
        }
        return page

    @property
    def encode_block(self) -> kernels.BlockFunction | None:
        """What writes the new records: the codec's, to the nearest or at random."""
        exact = self.rounding_seed is None
        return self.codec.encode_block if exact else self.codec.stochastic

    def noise_keys(self, clients: Sequence[str]) -> npt.NDArray[np.int64]:
        """What the noise of the coming round's records is made from; empty: there is none."""
        if self.rounding_seed is None:
            return np.zeros(0, np.int64)
        begin = f"{self.rounding_seed} {self.round + 1} "
        keys = [(begin + client).encode(errors="surrogatepass") for client in clients]
        return np.frombuffer(b"".join(blake2b(k, digest_size=8).digest() for k in keys), np.int64)

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
        } | self._more_state(copy)

    def _more_state(self, copy: bool) -> dict[str, Any]:
        """What only some memories have."""
        half = self.staleness_half_life
        more: dict[str, Any] = {} if half is None else {"staleness_half_life": half}
        return more | ({"born": self.born.copy() if copy else self.born} if len(self.born) else {})

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raise unless the state fits this memory; changes nothing."""
        for key, mine in (("codec", self.codec.name), ("weights", self.weights)):
            if state[key] != mine:
                raise ValueError(f"the state's memory has {key} {state[key]!r}, this one {mine!r}")
        half = state.get("staleness_half_life")
        if half != self.staleness_half_life:
            raise ValueError(
                f"the state's memory has staleness_half_life {half!r}, this one "
                f"{self.staleness_half_life!r}"
            )
        if np.shape(state["total"]) != self.total.shape:
            raise ValueError(
                f"the state's total has shape {np.shape(state['total'])}, need {self.total.shape}"
            )
        if np.asarray(state["total"]).dtype != np.float64:
            raise ValueError("the state's total is not float64")
        born = np.asarray(state.get("born", np.zeros(0, np.int32)))
        if born.shape != self.born.shape or born.dtype != np.int32:
            raise ValueError(
                f"the state's rounds in which coordinates were first not zero have shape "
                f"{born.shape} and dtype {born.dtype}, need {self.born.shape} and int32"
            )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state made by `state_dict`."""
        self.check_state(state)
        self.round = int(state["round"])
        self.total[...] = state["total"]
        self.born[...] = state.get("born", 0)
        self.whole[...] = kernels.NEVER
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
        try:
            layout = Layout({name: tuple(shape) for name, shape in state["layout"].items()})
            memory = cls(layout, inner["codec"], weights=inner["weights"], store=store,
                         prune_after=inner["prune_after"],
                         staleness_half_life=inner.get("staleness_half_life"))  # fmt: skip
            memory.load_state_dict(inner)
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError):
            raise _not_ours(store) from None
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
        raise _not_ours(store) from None
    return state


def _not_ours(store: Store) -> StoreError:
    return StoreError(
        f"{getattr(store, 'where', 'the store')}: its state is not one of this program: "
        "restore it from a backup"
    )
