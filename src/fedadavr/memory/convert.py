"""A store into a new one, perhaps with another codec, key or kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fedadavr.codecs import Support
from fedadavr.memory.own import ClientMemory
from fedadavr.memory.verify import AnyStore, Watch, unwatched
from fedadavr.stores.addresses import open_store, public
from fedadavr.stores.compression import Compress
from fedadavr.stores.persistent import PersistentStore
from fedadavr.stores.store import Damaged, Record, State

BATCH = 1 << 26  # bytes that are committed at once


def copy_all(
    old: AnyStore,
    target: str,
    codec: str | None,
    key_file: Path | None,
    watch: Watch = unwatched,
    compress: Compress | None = None,
) -> None:
    """Copy a store into a new one, or leave none behind; compressed as it was, unless told."""
    if target == "ram":
        raise ValueError("a store in RAM would be gone at once: name a folder or a Redis")
    memory, state = ClientMemory.stored(old)
    was: Compress = old.compress if isinstance(old, PersistentStore) else "none"
    new = open_store(target, key_file, compress=compress or was)
    assert isinstance(new, PersistentStore)
    try:
        if new.state() is not None:
            raise ValueError(f"{public(target)} holds a store already")
        try:
            if memory is None:
                new.commit({}, state, rounds=old.rounds(), metrics=old.metrics())
            else:
                copy(memory, state, new, codec or memory.codec.name, watch)
        except BaseException:
            new.erase()  # it was empty before
            raise
    finally:
        new.close()


def copy(
    memory: ClientMemory,
    state: State,
    new: PersistentStore,
    codec: str,
    watch: Watch = unwatched,
) -> None:
    """Put all records, then the state: until then the new store counts as unfinished."""
    layout, same = memory.layout, codec == memory.codec.name
    if not same and not memory.codec.bits:
        raise ValueError("this store keeps no updates of clients: there is no codec to change")
    half = memory.staleness_half_life
    twin = ClientMemory(layout, codec, weights=memory.weights, staleness_half_life=half)
    twin.round = memory.round
    if same:
        twin.born[...] = memory.born
    elif twin.codec.omits_zeros:
        for _, record in memory.records():
            early = (memory.read(record) != 0) & (twin.born > record.round)
            twin.born[early] = record.round
    batch: dict[str, Record | None] = {}
    size = 0
    for client, record in watch(memory.all(), len(memory), "converting"):
        if isinstance(record, Damaged):
            raise ValueError(
                f"client {client!r}: its record cannot be read, {record.why}; forget it first"
            )
        data = record.data
        if not same:
            support = Support(twin.born, record.round)
            data = twin.codec.encode(layout, memory.read(record), support)
        new_record = replace(record, data=np.array(data), codec=codec)
        twin.add_up(new_record, twin.share(record), twin.total)
        batch[client] = new_record
        size += data.nbytes
        if size >= BATCH:
            new.commit(batch)
            batch, size = {}, 0
    inner = state["server"]["memory"] | {"codec": codec, "population": memory.population.counts()}
    inner["total"] = memory.total if same else twin.total
    inner.pop("born", None)
    if len(twin.born):
        inner["born"] = twin.born
    known, extra = memory.population, dict(state["extra"])
    if not same and "settings" in extra:  # a Flower strategy goes on with these
        settings = extra["settings"] | {"codec": codec}
        if twin.codec.stochastic is None:
            settings.pop("rounding_seed", None)
        extra["settings"] = settings
    new.commit(
        batch, state | {"server": state["server"] | {"memory": inner}, "extra": extra},
        members={client: known.member(client) for client in (*known.waiting, *known.left)},
        rounds=memory.store.rounds(), metrics=memory.store.metrics(),
    )  # fmt: skip
