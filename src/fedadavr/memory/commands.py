"""`fedadavr memory inspect`, `verify`, `repair`, `forget`, `convert`, `backup` and `rewind`."""

from __future__ import annotations

import json as json_format
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from heapq import nsmallest
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fedadavr.codecs import codec as find_codec
from fedadavr.memory.own import ClientMemory
from fedadavr.memory.verify import AnyStore, check, mend, steadily
from fedadavr.stores.addresses import is_address, open_any_store, open_store, public, read_note
from fedadavr.stores.persistent import PersistentStore
from fedadavr.stores.record_format import SIZE
from fedadavr.stores.store import Damaged, Record, State

BATCH = 1 << 26  # bytes that `convert` commits at once
WIDTH = 40  # of the longest bar

Address = Annotated[str, tyro.conf.Positional]
T = TypeVar("T")


def find_address(address: str) -> str:
    """The address of a store, of one in a folder, or of that of the run in a folder."""
    if is_address(address):
        return address
    note, checkpoint = Path(address) / "store", Path(address) / "checkpoint"
    if note.is_file():
        return read_note(note)
    return f"lmdb:{checkpoint if (checkpoint / 'data.mdb').is_file() else address}"


def open_address(address: str, key_file: Path | None, *, read_only: bool) -> AnyStore:
    """The durable store at an address, in a folder, or of the run in a folder."""
    return open_any_store(find_address(address), key_file, read_only=read_only)


def open_to_write(address: str, key_file: Path | None) -> PersistentStore:
    """The same, to change it."""
    store = open_address(address, key_file, read_only=False)
    if isinstance(store, PersistentStore):
        return store
    store.close()
    raise ValueError(f"{store.where} has format 1: convert it first, with fedadavr memory upgrade")


# --- inspect ---


@dataclass(frozen=True)
class Overview:
    """What a store holds."""

    store: str
    algorithm: str
    round: int
    population: int
    clients: int
    codec: str
    encrypted: bool
    lost: int
    snapshots: list[int]
    record_bytes: int
    store_bytes: int
    staleness: dict[str, int]
    stalest: list[dict[str, Any]]
    kinds: list[dict[str, Any]]
    alike: list[list[float]]
    trust: dict[str, list[float]]


def inspect(
    store: Address,
    /,
    encrypt_with: Path | None = None,
    stalest: int = 10,
    json: bool = False,
) -> None:
    """Show what a store holds: clients, bytes, and how old their updates are.

    Args:
        store: A folder, lmdb:FOLDER or redis://HOST:PORT. A server may be using it.
        encrypt_with: The key file of an encrypted store.
        stalest: How many of the clients not seen for longest to list.
        json: One line of JSON.
    """
    if stalest < 0:
        raise ValueError(f"--stalest must be 0 or more, got {stalest}")
    with open_address(store, encrypt_with, read_only=True) as opened:
        view = steadily(opened, lambda: overview(opened, stalest))
    if json:
        print(json_format.dumps(asdict(view)))
        return
    print(
        f"{view.store}: {view.algorithm}, after round {view.round}\n"
        f"{view.clients} clients remembered of a population of {view.population}, codec "
        f"{view.codec}{', encrypted' if view.encrypted else ''}\n"
        f"{view.record_bytes / 1e6:.1f} MB of records, {view.store_bytes / 1e6:.1f} MB in the store"
    )
    if view.lost:
        print(f"{view.lost} records were lost or damaged so far; their clients count as never seen")
    if view.snapshots:
        print(f"can go back to round {', '.join(map(str, view.snapshots))} (memory rewind)")
    show_kinds(view)
    if not view.clients:
        return
    print("rounds since a client was seen")
    most = max(view.staleness.values())
    for label, number in view.staleness.items():
        print(f"  {label:>11}  {'█' * -(-WIDTH * number // most):<{WIDTH}}  {number}")
    table = Table(title="not seen for longest", title_justify="left")
    for name in ("client", "last seen in round", "rounds ago", "weight"):
        table.add_column(name, justify="left" if name == "client" else "right")
    for row in view.stalest:
        table.add_row(row["client"], *(f"{row[k]:g}" for k in ("round", "staleness", "weight")))
    Console().print(table)


def show_kinds(view: Overview) -> None:
    """What FedAdaVR+ has learned."""
    if view.kinds:
        table = Table(title="kinds of clients, and how alike their centers are (cosines)",
                      title_justify="left")  # fmt: skip
        for name in ("kind", "share", "last fed", *(str(row["kind"]) for row in view.kinds)):
            table.add_column(name, justify="right")
        for row, cosines in zip(view.kinds, view.alike, strict=True):
            near = [f"{c:.2f}".replace("0.", ".") for c in cosines]
            table.add_row(str(row["kind"]), f"{row['share']:.3f}", str(row["fed"]), *near)
        Console().print(table)
    for name, values in view.trust.items():
        if not values:
            continue
        few = values[:: max(1, -(-len(values) // WIDTH))]
        line = "".join(" ▁▂▃▄▅▆▇█"[round(8 * value)] for value in few)
        print(f"trust in {name:<8} {line} {values[-1]:.2f} after {len(values)} rounds")


def kinds_of(store: AnyStore, state: State) -> dict[str, Any]:
    """FedAdaVR+'s centers, their shares and its trust; empty for other algorithms."""
    told: dict[str, Any] = {"kinds": [], "alike": [], "trust": {}}
    server = state["server"]
    if server.get("kinds") is not None:
        vectors = server["kinds"]["vectors"].astype(np.float64)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = vectors / np.where(norms > 0, norms, 1.0)
        told["alike"] = (unit @ unit.T).round(4).tolist()
        weights = [server["memory"]["kinds"].get(str(k + 1), 0) for k in range(len(vectors))]
        told["kinds"] = [
            {"kind": k + 1, "share": weight / max(1, sum(weights)), "fed": fed}
            for k, (weight, fed) in enumerate(zip(weights, server["kinds"]["fed"], strict=True))
        ]
    if server.get("trust") is not None:
        rows = [note["trust"] for note in store.rounds().values() if "trust" in note]
        told["trust"] = {name: [row[name] for row in rows] for name in server["trust"]["memories"]}
    return told


def overview(store: AnyStore, stalest: int) -> Overview:
    """Read all headers."""
    memory, state = ClientMemory.stored(store)
    ages: Counter[int] = Counter()
    size = 0

    def heads() -> Iterator[tuple[int, str, float]]:
        nonlocal size
        for client, record in counted(store.items(data=False), len(store), "reading headers"):
            if isinstance(record, Record) and memory is not None:
                ages[memory.round - record.round] += 1
                size += SIZE + int(memory.offsets[-1])
                yield record.round, client, record.weight

    oldest = nsmallest(max(1, stalest), heads())[:stalest]
    now = 0 if memory is None else memory.round
    return Overview(
        store=store.where.removeprefix("the store "),
        algorithm=state["server"]["algorithm"],
        round=int(state["server"]["optimizer"]["steps"]),
        population=0 if memory is None else memory.count,
        clients=ages.total(),
        codec="none" if memory is None else memory.codec.name,
        encrypted=store.encrypted,
        lost=store.lost,
        snapshots=list(store.snapshots),
        record_bytes=size,
        store_bytes=store.nbytes,
        staleness=histogram(ages),
        stalest=[
            {"client": client, "round": round, "staleness": now - round, "weight": weight}
            for round, client, weight in oldest
        ],
        **kinds_of(store, state),
    )


def histogram(ages: Counter[int]) -> dict[str, int]:
    """Ages in bins that double: 0, 1, 2-3, 4-7, ..."""
    bins: dict[str, int] = {}
    low, high = 0, 0
    while ages and low <= max(ages):
        label = str(low) if low == high else f"{low}-{high}"
        bins[label] = sum(n for age, n in ages.items() if low <= age <= high)
        low, high = high + 1, 2 * high + 1
    return bins


# --- verify ---


def verify(store: Address, /, encrypt_with: Path | None = None, json: bool = False) -> None:
    """Check every checksum and sum the total again; exit with 1 if anything is wrong.

    Args:
        store: A folder, lmdb:FOLDER or redis://HOST:PORT. A server may be using it.
        encrypt_with: The key file of an encrypted store.
        json: One line of JSON.
    """
    with open_address(store, encrypt_with, read_only=True) as opened:
        faults, clients = check(opened, counted)
        where = opened.where
    if json:
        print(json_format.dumps({"clients": clients, "faults": faults}))
    elif faults:
        print("\n".join(faults))
    else:
        print(f"{where} is sound: {clients} clients, the total is the sum of what is stored")
    if faults:
        raise SystemExit(1)


# --- repair ---


def repair(store: Address, /, encrypt_with: Path | None = None) -> None:
    """Mend a store: drop lost or damaged records, sum the total again, reset broken moments.

    What else is there is taken as it is: where somebody may have changed it, restore a backup.

    Args:
        store: A folder, lmdb:FOLDER or redis://HOST:PORT; no server may be using it.
        encrypt_with: The key file of an encrypted store.
    """
    with open_to_write(store, encrypt_with) as opened:
        memory, state = ClientMemory.stored(opened)
        done = mend(memory, state)
        faults = opened.faults()
        if memory is None:
            opened.commit({}, state, lost=0, accept=True)
        else:
            state["server"]["memory"] = memory.state_dict()
            memory.commit(state, lost=0, accept=True)
        left, _ = check(opened, counted)
        where = opened.where
    print("\n".join([*done, *faults]) or f"{where} needed no repair")
    if left:
        raise ValueError(f"{where} is not sound yet: {'; '.join(left)}")
    if done or faults:
        print(f"{where} is sound now")


# --- backup and rewind ---


def backup(store: Address, folder: Address, /, encrypt_with: Path | None = None) -> None:
    """Copy a store into a folder, also while a server is using it.

    The copy is a store itself: `fedadavr memory convert FOLDER STORE` puts it back.

    Args:
        store: A folder, lmdb:FOLDER or redis://HOST:PORT.
        folder: Where no store is yet.
        encrypt_with: The key file of an encrypted store; the copy has the same key.
    """
    from fedadavr.stores.lmdb import LmdbStore

    if is_address(folder) and not folder.startswith("lmdb:"):
        raise ValueError(f"a backup goes into a folder, not to {public(folder)}")
    target = Path(folder.removeprefix("lmdb:"))
    with open_address(store, encrypt_with, read_only=True) as opened:
        if isinstance(opened, LmdbStore):
            opened.backup(target)
        else:
            steadily(opened, lambda: copy_all(opened, f"lmdb:{target}", None, encrypt_with))
        where = opened.where
    print(f"{target} holds what {where} does")


def rewind(
    store: Address, /, round: int, encrypt_with: Path | None = None, force: bool = False
) -> None:
    """Take a store back to a snapshot (`snapshot_every`); what came after it is gone.

    Args:
        store: A folder, lmdb:FOLDER or redis://HOST:PORT; no server may be using it.
        round: The round to go back to; `memory inspect` lists those that can be.
        encrypt_with: The key file of an encrypted store.
        force: Also where records were lost since; the store must be repaired then.
    """
    with open_to_write(store, encrypt_with) as opened:
        opened.rewind(round, force=force)
        faults, clients = check(opened, counted)
        where = opened.where
    if faults:
        raise ValueError(f"{where} is at round {round}, but not sound: {'; '.join(faults)}")
    print(f"{where} is at round {round} again, with {clients} clients")


# --- forget ---


def forget(
    store: Address,
    clients: Annotated[list[str], tyro.conf.Positional],
    /,
    encrypt_with: Path | None = None,
) -> None:
    """Take clients out of the memory: their updates, sizes and identities go, in one commit.

    The model keeps what it has learned from them, and backups keep their records.

    Args:
        store: A folder, lmdb:FOLDER or redis://HOST:PORT; no server may be using it.
        clients: Their ids.
        encrypt_with: The key file of an encrypted store.
    """
    if not clients:
        raise ValueError("say whom to forget: fedadavr memory forget STORE CLIENT ...")
    with open_to_write(store, encrypt_with) as opened:
        memory, state = ClientMemory.stored(opened)
        if memory is None:
            raise ValueError(
                f"{opened.where} is of {state['server']['algorithm']}, which remembers no clients"
            )
        if state["server"]["algorithm"] == "cluster-fedvarp":
            raise ValueError(
                "cluster-fedvarp remembers clusters, not clients: nobody can be taken out"
            )
        erase(memory, clients)
        state["server"]["memory"] = memory.state_dict()
        memory.commit(state)
    print(
        f"forgot {', '.join(clients)}; {len(memory)} clients are left. The model keeps what it has "
        "learned from them, and backups keep their records: only training again without them "
        "undoes that. The disk may hold the bytes until they are written over: `fedadavr memory "
        "convert` makes a store without them."
    )


def erase(memory: ClientMemory, clients: list[str]) -> None:
    """Forget clients, or none of them if one is not known."""
    for client in clients:
        if client not in memory and client not in memory.dropped:
            raise ValueError(f"client {client!r} is not in the store; nothing was changed")
    for client in dict.fromkeys(clients):
        if client not in memory.dropped:
            memory.forget(client)


# --- convert ---


def convert(
    source: Address,
    target: Address,
    /,
    codec: str | None = None,
    encrypt_with: Path | None = None,
    encrypt_target_with: Path | None = None,
) -> None:
    """Copy a store into a new one, perhaps with another codec, key or kind.

    Args:
        source: A folder, lmdb:FOLDER or redis://HOST:PORT; no server may be using it.
        target: lmdb:FOLDER or redis://HOST:PORT, where no store is yet.
        codec: fp32, fp16, int8 or int4 (default: as it is).
        encrypt_with: The key file of the source, if it is encrypted.
        encrypt_target_with: The key file of the target, if it shall be.
    """
    if not is_address(target):
        target = f"lmdb:{target}"
    if codec is not None:
        find_codec(codec)
    if find_address(source) == target:
        raise ValueError(f"{public(target)} is the source and the target: name another target")
    with open_address(source, encrypt_with, read_only=False) as old:
        copy_all(old, target, codec, encrypt_target_with)
    print(f"{public(target)} holds what {old.where} does")


def copy_all(old: AnyStore, target: str, codec: str | None, key_file: Path | None) -> None:
    """Copy a store into a new one, or leave none behind."""
    if target == "ram":
        raise ValueError("a store in RAM would be gone at once: name a folder or a Redis")
    memory, state = ClientMemory.stored(old)
    new = open_store(target, key_file)
    assert isinstance(new, PersistentStore)
    try:
        if new.state() is not None:
            raise ValueError(f"{public(target)} holds a store already")
        try:
            if memory is None:
                new.commit({}, state, rounds=old.rounds())
            else:
                copy(memory, state, new, codec or memory.codec.name)
        except BaseException:
            new.erase()  # it was empty before
            raise
    finally:
        new.close()


def copy(memory: ClientMemory, state: State, new: PersistentStore, codec: str) -> None:
    """Put all records, then the state: until then the new store counts as unfinished."""
    layout, same = memory.layout, codec == memory.codec.name
    if not same and not memory.codec.bits:
        raise ValueError("this store keeps no updates of clients: there is no codec to change")
    twin = ClientMemory(layout, codec, weights=memory.weights)
    batch: dict[str, Record | None] = {}
    size = 0
    for client, record in counted(memory.all(), len(memory), "converting"):
        if isinstance(record, Damaged):
            raise ValueError(
                f"client {client!r}: its record cannot be read, {record.why}; forget it first"
            )
        data = record.data if same else twin.codec.encode(layout, memory.codec.decode(
            layout, record.data))  # fmt: skip
        twin.codec.accumulate(layout, data, record.weight, twin.total)
        batch[client] = replace(record, data=np.array(data), codec=codec)
        size += data.nbytes
        if size >= BATCH:
            new.commit(batch)
            batch, size = {}, 0
    inner = state["server"]["memory"] | {"codec": codec, "population": memory.population.counts()}
    inner["total"] = memory.total if same else twin.total
    known = memory.population
    new.commit(
        batch, state | {"server": state["server"] | {"memory": inner}},
        members={client: known.member(client) for client in (*known.waiting, *known.left)},
        rounds=memory.store.rounds(),
    )  # fmt: skip


def counted(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """The items, with a bar on stderr where somebody is looking."""
    console = Console(stderr=True)
    yield from track(items, what, total, console=console, transient=True,
                     disable=not console.is_terminal)  # fmt: skip
