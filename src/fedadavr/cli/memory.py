"""`fedadavr memory ...`: what a store holds, and work on it."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from fedadavr.memory.overview import Overview

WIDTH = 40  # of the longest bar

Address = Annotated[str, tyro.conf.Positional]


# --- inspect ---


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
    from fedadavr.cli.progress import counted
    from fedadavr.memory.addresses import open_address
    from fedadavr.memory.overview import overview
    from fedadavr.memory.verify import steadily

    if stalest < 0:
        raise ValueError(f"--stalest must be 0 or more, got {stalest}")
    with open_address(store, encrypt_with, read_only=True) as opened:
        view = steadily(opened, lambda: overview(opened, stalest, counted))
    if json:
        print(json_format.dumps(asdict(view)))
    else:
        show_overview(view)


def show_overview(view: Overview) -> None:
    """What a store holds, for people."""
    from rich.console import Console
    from rich.table import Table

    print(
        f"{view.store}: {view.algorithm}, after round {view.round}\n"
        f"{view.clients} clients remembered of a population of {view.population}, codec "
        f"{view.codec}{'' if view.compress == 'none' else f', {view.compress}'}"
        f"{', encrypted' if view.encrypted else ''}\n"
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
    from rich.console import Console
    from rich.table import Table

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


# --- verify and repair ---


def verify(store: Address, /, encrypt_with: Path | None = None, json: bool = False) -> None:
    """Check every checksum and sum the total again; exit with 1 if anything is wrong.

    Args:
        store: A folder, lmdb:FOLDER or redis://HOST:PORT. A server may be using it.
        encrypt_with: The key file of an encrypted store.
        json: One line of JSON.
    """
    from fedadavr.cli.progress import counted
    from fedadavr.memory.addresses import open_address
    from fedadavr.memory.verify import check

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


def repair(store: Address, /, encrypt_with: Path | None = None) -> None:
    """Mend a store: drop lost or damaged records, sum the total again, reset broken moments.

    What else is there is taken as it is: where somebody may have changed it, restore a backup.

    Args:
        store: A folder, lmdb:FOLDER or redis://HOST:PORT; no server may be using it.
        encrypt_with: The key file of an encrypted store.
    """
    from fedadavr.cli.progress import counted
    from fedadavr.memory import maintenance
    from fedadavr.memory.addresses import open_to_write

    with open_to_write(store, encrypt_with) as opened:
        done, left = maintenance.repair(opened, counted)
        where = opened.where
    print("\n".join(done) or f"{where} needed no repair")
    if left:
        raise ValueError(f"{where} is not sound yet: {'; '.join(left)}")
    if done:
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
    from fedadavr.cli.progress import counted
    from fedadavr.memory import maintenance
    from fedadavr.memory.addresses import open_address
    from fedadavr.stores.addresses import is_address, public

    if is_address(folder) and not folder.startswith("lmdb:"):
        raise ValueError(f"a backup goes into a folder, not to {public(folder)}")
    target = Path(folder.removeprefix("lmdb:"))
    with open_address(store, encrypt_with, read_only=True) as opened:
        maintenance.backup(opened, target, encrypt_with, counted)
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
    from fedadavr.cli.progress import counted
    from fedadavr.memory.addresses import open_to_write
    from fedadavr.memory.verify import check

    with open_to_write(store, encrypt_with) as opened:
        opened.rewind(round, force=force)
        faults, clients = check(opened, counted)
        where = opened.where
    if faults:
        raise ValueError(f"{where} is at round {round}, but not sound: {'; '.join(faults)}")
    print(f"{where} is at round {round} again, with {clients} clients")


# --- export and reset ---


def export(store: Address, path: Path, /, encrypt_with: Path | None = None) -> None:
    """Write the model of a store's last round into a file; a server may be using the store.

    Args:
        store: A folder, lmdb:FOLDER or redis://HOST:PORT.
        path: The file, .safetensors or .npz; one that is there is replaced.
        encrypt_with: The key file of an encrypted store.
    """
    from fedadavr.memory.addresses import open_address
    from fedadavr.memory.model import stored_model
    from fedadavr.memory.verify import steadily
    from fedadavr.model_files import check_suffix, write_model

    check_suffix(path)
    with open_address(store, encrypt_with, read_only=True) as opened:
        round, arrays = steadily(opened, lambda: stored_model(opened))
        where = opened.where
    write_model(path, arrays)
    size = sum(array.size for array in arrays.values())
    print(f"{path} holds the model of {where} after round {round}: {size:,} numbers in "
          f"{len(arrays)} arrays")  # fmt: skip


def reset(store: Address, /, encrypt_with: Path | None = None) -> None:
    """Empty a store, so that the next run on it begins anew: all of its rounds are gone.

    Args:
        store: A folder, lmdb:FOLDER or redis://HOST:PORT; no server may be using it.
        encrypt_with: The key file of an encrypted store.
    """
    from fedadavr.memory.addresses import is_run, open_to_write

    if is_run(store):
        raise ValueError(f"{store} is the folder of a run: begin another with --out elsewhere")
    with open_to_write(store, encrypt_with) as opened:
        clients, where = len(opened), opened.where
        opened.erase()
    print(f"{where} is empty: its model and the updates of {clients} clients are gone")


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
    from fedadavr.memory import maintenance
    from fedadavr.memory.addresses import open_to_write

    if not clients:
        raise ValueError("say whom to forget: fedadavr memory forget STORE CLIENT ...")
    with open_to_write(store, encrypt_with) as opened:
        left = maintenance.forget(opened, clients)
    print(
        f"forgot {', '.join(clients)}; {left} clients are left. The model keeps what it has "
        "learned from them, and backups keep their records: only training again without them "
        "undoes that. The disk may hold the bytes until they are written over: `fedadavr memory "
        "convert` makes a store without them."
    )


# --- convert and upgrade ---


def convert(
    source: Address,
    target: Address,
    /,
    codec: str | None = None,
    encrypt_with: Path | None = None,
    encrypt_target_with: Path | None = None,
    compress: Literal["zstd", "none"] | None = None,
) -> None:
    """Copy a store into a new one, perhaps with another codec, key or kind.

    Args:
        source: A folder, lmdb:FOLDER or redis://HOST:PORT; no server may be using it.
        target: lmdb:FOLDER or redis://HOST:PORT, where no store is yet.
        codec: fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1
            (default: as it is).
        encrypt_with: The key file of the source, if it is encrypted.
        encrypt_target_with: The key file of the target, if it shall be.
        compress: Whether the target's records are compressed (default: as the source's are).
    """
    from fedadavr.cli.progress import counted
    from fedadavr.codecs import codec as find_codec
    from fedadavr.memory.addresses import find_address, open_address
    from fedadavr.memory.convert import copy_all
    from fedadavr.stores.addresses import is_address, public

    if not is_address(target):
        target = f"lmdb:{target}"
    if codec is not None:
        find_codec(codec)
    if find_address(source) == target:
        raise ValueError(f"{public(target)} is the source and the target: name another target")
    with open_address(source, encrypt_with, read_only=False) as old:
        copy_all(old, target, codec, encrypt_target_with, counted, compress)
    print(f"{public(target)} holds what {old.where} does")


def upgrade(source: Address, /, encrypt_with: Path | None = None) -> None:
    """Convert a store or a run's folder of version 0.1.0, in its place; the old files are kept.

    Args:
        source: The run's folder, or its store in a folder; for Redis use `memory convert`.
        encrypt_with: The key file of an encrypted store.
    """
    from fedadavr.cli.progress import counted
    from fedadavr.experiments.upgrade import is_old_run, upgrade_run, upgrade_store

    path = Path(source)
    if is_old_run(path):
        old = upgrade_run(path)
        print(f"{path} can be continued; {old} is not needed any more")
    else:
        folder, old = upgrade_store(source, encrypt_with, counted)
        print(f"{folder} has today's format; the old file is kept as {old}")


# --- trust ---


def trust(
    source: Address, /, out: Path = Path("trust.png"), encrypt_with: Path | None = None
) -> None:
    """Draw the trust in each memory and the share of each kind, over the rounds.

    Args:
        source: The folder of a run with fedadavr-plus, or its store.
        out: The picture.
        encrypt_with: The key file of an encrypted store.
    """
    from fedadavr.experiments.trust import draw, history

    learned, shares = history(source, encrypt_with)
    draw(learned, shares, out)
    last = ", ".join(f"{name} {values[-1]:.2f}" for name, values in learned.items())
    kinds = f"; {len(shares)} kinds" if len(shares) else ""
    print(f"{len(next(iter(learned.values())))} rounds: trust in {last}{kinds}; drawn in {out}")
