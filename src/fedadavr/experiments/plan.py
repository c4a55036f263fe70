"""`fedadavr memory plan`: how much room a memory takes, the paper's table for any model."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from fedadavr.codecs import CODECS, Codec
from fedadavr.stores.record_format import SIZE
from fedadavr.vector import Layout

PAGE = 4096  # LMDB's, in bytes
PAGE_HEAD = 16
LEAF = 64  # bytes of a client's name and place in LMDB's tree, about
REDIS = 200  # bytes of a client's name, hash and fields in Redis, about


@dataclass(frozen=True)
class Row:
    """One line of the table; GB are 10^9 bytes."""

    model: str
    parameters: int
    clients: int
    codec: str
    record_bytes: int
    paper_gb: float  # parameters * 4 / 2^20 * clients / 1000, times bits / 32
    ram_gb: float  # the server, with the memory in RAM
    lmdb_ram_gb: float  # the server, with the memory in LMDB
    lmdb_disk_gb: float
    redis_gb: float  # the Redis server or cluster; ours then has what it has with LMDB


def plan(
    model: tuple[str, ...] = (),
    parameters: tuple[float, ...] = (),
    clients: tuple[int, ...] = (1_000, 10_000, 100_000),
    clients_per_round: int = 5,
    json: bool = False,
) -> None:
    """Say how much RAM and disk a memory of every client takes.

    Args:
        model: Models by name, such as lenet5, resnet18, gru (default: lenet5 and resnet18).
        parameters: Models by their number of parameters, such as 1.2e6.
        clients: How many clients there are.
        clients_per_round: How many of them come in a round.
        json: One line of JSON.
    """
    for name, values in (("clients", clients), ("parameters", parameters),
                         ("clients-per-round", (clients_per_round,))):  # fmt: skip
        for value in values:
            if not 1 <= value <= 1e13:
                raise ValueError(f"--{name} must be from 1 to 1e13, got {value:g}")
    chosen = {f"{int(p):,}": Layout({"x": (int(p),)}) for p in parameters}
    if not parameters or model:
        chosen |= layouts(model or ("lenet5", "resnet18"))
    rows = [
        row(name, layout, n, codec, clients_per_round)
        for name, layout in chosen.items()
        for n in clients
        for codec in CODECS.values()
    ]
    if json:
        print(json_format.dumps([asdict(r) for r in rows]))
    else:
        show(rows)


def layouts(models: Iterable[str]) -> dict[str, Layout]:
    """The layouts of models by name."""
    from fedadavr.clients import layout_of
    from fedadavr.models import build

    return {name: layout_of(build(name, 10, 0)) for name in models}


def row(model: str, layout: Layout, clients: int, codec: Codec, cohort: int) -> Row:
    """The figures of one case."""
    d, size = layout.size, codec.nbytes(layout)
    value = SIZE + size
    pages = -(-(PAGE_HEAD + value) // PAGE) * PAGE if value > PAGE // 2 else value
    state = 20 * d  # the model and two moments in float32, the total in float64
    replies = cohort * (4 * d + size)
    return Row(
        model, d, clients, codec.name, size,
        paper_gb=d * 4 / 2**20 * clients / 1000 * codec.bits / 32,
        ram_gb=(clients * size + state + replies) / 1e9,
        lmdb_ram_gb=(state + replies + cohort * size) / 1e9,
        lmdb_disk_gb=(clients * (pages + LEAF) + 3 * state) / 1e9,
        redis_gb=(clients * (allocated(size) + SIZE + REDIS) + 2 * state) / 1e9,
    )  # fmt: skip


def allocated(size: int) -> int:
    """What Redis's allocator, jemalloc, sets aside: four steps between the powers of two."""
    step = max(16, 1 << max(0, (size - 1).bit_length() - 3))
    return -(-size // step) * step


def show(rows: list[Row]) -> None:
    """Print the table."""
    table = Table(title="GB, of 10^9 bytes", title_justify="left")
    for name in ("model", "clients", "codec", "paper", "in RAM", "lmdb:\nRAM", "lmdb:\ndisk",
                 "redis:\nRAM"):  # fmt: skip
        left = name in ("model", "codec")
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    before = None
    for r in rows:
        if before and (before.model, before.clients) != (r.model, r.clients):
            table.add_section()
        before = r
        figures = (r.paper_gb, r.ram_gb, r.lmdb_ram_gb, r.lmdb_disk_gb, r.redis_gb)
        table.add_row(r.model, f"{r.clients:,}", r.codec, *(f"{x:.3g}" if x < 1000 else f"{x:,.0f}"
                                                           for x in figures))  # fmt: skip
    console = Console()
    console.print(table)
    console.print(
        "paper: its own unit, parameters * 4 / 2^20 * clients / 1000, at the codec's bits. "
        "lmdb's RAM is the same for any number of clients; its disk holds the state three times, "
        "as a commit never writes over the last one, nor over what it has just freed."
    )
