"""Work on a store that no server is using: mend it, take clients out, copy it as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedadavr.memory.convert import copy_all
from fedadavr.memory.own import ClientMemory
from fedadavr.memory.verify import AnyStore, Watch, check, mend, steadily, unwatched
from fedadavr.stores.persistent import PersistentStore


def repair(store: PersistentStore, watch: Watch = unwatched) -> tuple[list[str], list[str]]:
    """Mend a store; what was done, and what is still wrong with it."""
    memory, state = ClientMemory.stored(store)
    done = [*mend(memory, state), *store.faults()]
    if memory is None:
        store.commit({}, state, lost=0, accept=True)
    else:
        state["server"]["memory"] = memory.state_dict()
        memory.commit(state, lost=0, accept=True)
    left, _ = check(store, watch)
    return done, left


def forget(store: PersistentStore, clients: Sequence[str]) -> int:
    """Take clients out of a store in one commit, or none if one is not known; how many are left."""
    memory, state = ClientMemory.stored(store)
    name = state["server"]["algorithm"]
    if memory is None:
        raise ValueError(f"{store.where} is of {name}, which remembers no clients")
    if name == "cluster-fedvarp":
        raise ValueError("cluster-fedvarp remembers clusters, not clients: nobody can be taken out")
    for client in clients:
        if client not in memory and client not in memory.dropped:
            raise ValueError(f"client {client!r} is not in the store; nothing was changed")
    for client in dict.fromkeys(clients):
        if client not in memory.dropped:
            memory.forget(client)
    state["server"]["memory"] = memory.state_dict()
    memory.commit(state)
    return len(memory)


def backup(store: AnyStore, target: Path, key_file: Path | None, watch: Watch = unwatched) -> None:
    """Copy a store into a folder, also while a server is using it."""
    from fedadavr.stores.lmdb import LmdbStore

    if isinstance(store, LmdbStore):
        store.backup(target)
    else:
        steadily(store, lambda: copy_all(store, f"lmdb:{target}", None, key_file, watch))
