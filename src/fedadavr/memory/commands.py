"""`fedadavr memory inspect`, `verify`, `forget` and `convert`."""

from __future__ import annotations

import json as json_format
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from heapq import nsmallest
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fedadavr.memory.codecs import codec as find_codec
from fedadavr.memory.durable import DurableStore
from fedadavr.memory.memory import ClientMemory
from fedadavr.memory.opening import open_store, public
from fedadavr.memory.records import SIZE
from fedadavr.memory.store import Damaged, Record, State, StoreError

TOLERANCE = 1e-6  # of the total against a re-sum, relative to its largest number
BATCH = 1 << 26  # bytes that `convert` commits at once
WIDTH = 40  # of the longest bar

Address = Annotated[str, tyro.conf.Positional]
T = TypeVar("T")


def open_address(address: str, key_file: Path | None, *, read_only: bool) -> DurableStore:
    """The durable store at an address, in a folder, or of the run in a folder."""
    if "://" not in address and not address.startswith("lmdb:"):
        note = Path(address) / "store"
        address = note.read_text() if note.is_file() else f"lmdb:{address}"
    folder = Path(address.removeprefix("lmdb:"))
    if address.startswith("lmdb:") and not (folder / "data.mdb").is_file():
        raise ValueError(f"there is no store in {folder}")
    store = open_store(address, key_file, read_only=read_only, must_exist=True)
    assert isinstance(store, DurableStore)
    return store


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
        table.add_row(row["client"], *(str(row[k]) for k in ("round", "staleness", "weight")))
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


def kinds_of(state: State) -> dict[str, Any]:
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
        told["trust"] = {
            name: [row[k] for row in server["trust"]["history"]]
            for k, name in enumerate(server["trust"]["memories"])
        }
    return told


def overview(store: DurableStore, stalest: int) -> Overview:
    """Read all headers."""
    memory, state = ClientMemory.stored(store)
    ages: Counter[int] = Counter()
    size = 0

    def heads() -> Iterator[tuple[int, str, int]]:
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
        record_bytes=size,
        store_bytes=store.nbytes,
        staleness=histogram(ages),
        stalest=[
            {"client": client, "round": round, "staleness": now - round, "weight": weight}
            for round, client, weight in oldest
        ],
        **kinds_of(state),
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
        faults, clients = check(opened)
        where = opened.where
    if json:
        print(json_format.dumps({"clients": clients, "faults": faults}))
    elif faults:
        print("\n".join(faults))
    else:
        print(f"{where} is sound: {clients} clients, the total is the sum of what is stored")
    if faults:
        raise SystemExit(1)


def check(store: DurableStore) -> tuple[list[str], int]:
    """What is wrong with a store, and how many clients it holds."""

    def look() -> tuple[list[str], int]:
        try:
            return _check(store)
        except StoreError as error:
            return [str(error)], 0

    return steadily(store, look)


def steadily(store: DurableStore, look: Callable[[], T]) -> T:
    """What a look at a store gives; again, if a server has changed it under our eyes."""
    for _ in range(5):
        commit = store.refresh()
        found: T | None = None
        trouble: StoreError | None = None
        try:
            found = look()
        except StoreError as error:
            trouble = error
        if store.snapshot or store.refresh() == commit:
            if trouble is not None:
                raise trouble
            return found  # type: ignore[return-value]
    raise StoreError(f"{store.where} changes faster than it can be read: stop the server first")


def _check(store: DurableStore) -> tuple[list[str], int]:
    memory, state = ClientMemory.stored(store)
    faults = [] if np.isfinite(state["w"]).all() else ["the model holds NaN or infinity"]
    if memory is None:
        return faults, 0
    total, clients, size = np.zeros_like(memory.total), 0, 0
    kinds: Counter[int] = Counter()
    for client, record in counted(memory.all(), len(store), "checking records"):
        if isinstance(record, Damaged):
            faults.append(f"client {client!r}: its record cannot be read, {record.why}")
            continue
        clients, size = clients + 1, size + record.weight
        kinds[record.kind] += record.weight
        memory.codec.accumulate(memory.layout, record.data, record.weight, total)
        if record.round > memory.round:
            faults.append(f"client {client!r}: seen in round {record.round} of {memory.round}")
    known = memory.population
    if clients != known.seen:
        faults.append(f"{clients} clients can be read, {known.seen} should be there")
    elif size != known.seen_size:
        faults.append(f"the weights add up to {size}, not to {known.seen_size}")
    elif kinds != Counter(memory.kind_weight):
        faults.append("the weights of the kinds are not the sums of their clients'")
    off = np.abs(total - memory.total).max(initial=0.0)
    if not off <= TOLERANCE * max(np.abs(total).max(initial=0.0), 1e-30) + 1e-12:
        faults.append(f"the total differs from the sum of what is stored by up to {off:.3g}")
    return faults, clients


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
    with open_address(store, encrypt_with, read_only=False) as opened:
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
    if target == "ram":
        raise ValueError("a store in RAM would be gone at once: name a folder or a Redis")
    if "://" not in target and not target.startswith("lmdb:"):
        target = f"lmdb:{target}"
    if codec is not None:
        find_codec(codec)
    with open_address(source, encrypt_with, read_only=False) as old:
        memory, state = ClientMemory.stored(old)
        new = open_store(target, encrypt_target_with)
        assert isinstance(new, DurableStore)
        try:
            if new.state() is not None:
                raise ValueError(f"{public(target)} holds a store already")
            try:
                if memory is None:
                    new.commit({}, state)
                else:
                    copy(memory, state, new, codec or memory.codec.name)
            except BaseException:
                new.erase()  # it was empty before
                raise
        finally:
            new.close()
    print(f"{public(target)} holds what {old.where} does")


def copy(memory: ClientMemory, state: State, new: DurableStore, codec: str) -> None:
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
        batch[client] = Record(
            record.weight,
            record.round,
            np.array(data),
            codec,
            record.layout,
            record.owner,
            record.kind,
        )
        size += data.nbytes
        if size >= BATCH:
            new.commit(batch)
            batch, size = {}, 0
    inner = state["server"]["memory"] | {"codec": codec}
    inner["total"] = memory.total if same else twin.total
    new.commit(batch, state | {"server": state["server"] | {"memory": inner}})


def counted(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """The items, with a bar on stderr where somebody is looking."""
    console = Console(stderr=True)
    yield from track(items, what, total, console=console, transient=True,
                     disable=not console.is_terminal)  # fmt: skip
