"""Rounds of a made-up federation, each drawn from its number alone: for tests of stores.

    python rounds.py ADDRESS ROUNDS COMMIT_EVERY [KEYFILE]

goes on from what the store holds, says each round when it is committed, and ends with a digest.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np

from fedadavr import Layout, Update, algorithm
from fedadavr.stores import open_store

LAYOUT = Layout({"a": (40, 30), "b": (31,), "c": (7, 3)})
CLIENTS = 30


def opened(address: str, key: Any = None, **options: Any) -> Any:
    """A durable store, for tests that look into it."""
    return open_store(address, key, **options)


def server_on(store: Any, codec: str = "int8", name: str = "fedadavr", **settings: Any) -> Any:
    """A server with all that can change in a store: sizes, pruning, moments."""
    if name not in ("fedavg", "fedadam"):
        settings |= {"codec": codec, "population": CLIENTS, "prune_after": 6}
    return algorithm(name, LAYOUT, store=store, **settings)


def one_round(server: Any, w: Any, round: int) -> Any:
    """The model after a round; every seventh also forgets a client."""
    rng = np.random.default_rng([5, round])
    cohort = rng.choice(CLIENTS, 4, replace=False)
    updates = [
        Update(f"client {c}", w - rng.normal(0, 0.1, w.size).astype(np.float32),
               int(rng.integers(1, 50)), int(rng.integers(1, 9)))
        for c in cohort
    ]  # fmt: skip
    w = server.step(w, updates)
    client = f"client {cohort[0]}"
    if round % 7 == 0 and server.memory is not None and client in server.memory:
        server.memory.forget(client)
    return w


def digest(server: Any, w: Any) -> str:
    """All bits of the model, the state and the memory."""
    parts = hashlib.sha256(w.tobytes())
    for part in flat(server.state_dict()):
        parts.update(part)
    if server.memory is not None:
        for client, r in sorted((c, (r.weight, r.round, r.owner, r.label, r.data.tobytes()))
                                for c, r in server.memory.records()):  # fmt: skip
            parts.update(repr((client, *r)).encode())
    return parts.hexdigest()


def flat(tree: Any) -> list[bytes]:
    if isinstance(tree, dict):
        return [part for key in sorted(tree) for part in [key.encode(), *flat(tree[key])]]
    return [tree.tobytes() if isinstance(tree, np.ndarray) else repr(tree).encode()]


def play(server: Any, rounds: int, commit_every: int = 1, tell: bool = False) -> Any:
    """Go on from what the store holds to so many rounds."""
    w, extra = server.restore() or (LAYOUT.zeros(), {"round": 0})
    for round in range(extra["round"] + 1, rounds + 1):
        w = one_round(server, w, round)
        if round % commit_every == 0 or round == rounds:
            server.commit(w, round=round)
            if tell:
                print(round, flush=True)
    return w


if __name__ == "__main__":
    address, rounds, every, *key = sys.argv[1:]
    store = open_store(address, *key)
    server = server_on(store)
    print("open", flush=True)
    w = play(server, int(rounds), int(every), tell=True)
    print(digest(server, w), flush=True)
    store.close()
