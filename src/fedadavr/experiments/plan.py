"""How much room a memory takes: the paper's table for any model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedadavr.codecs import CODECS, Codec
from fedadavr.stores.record_format import SIZE
from fedadavr.vector import Layout

PAGE = 4096  # LMDB's, in bytes
PAGE_HEAD = 16
LEAF = 64  # bytes of a client's name and place in LMDB's tree, about
REDIS = 200  # bytes of a client's name, hash and fields in Redis, about


@dataclass(frozen=True)
class PlanRow:
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


def plan_rows(
    models: Mapping[str, Layout], clients: Iterable[int], clients_per_round: int
) -> list[PlanRow]:
    """A row for each model, number of clients and codec."""
    return [
        row(name, layout, n, codec, clients_per_round)
        for name, layout in models.items()
        for n in clients
        for codec in CODECS.values()
    ]


def layouts(models: Iterable[str]) -> dict[str, Layout]:
    """The layouts of models by name."""
    from fedadavr.clients import layout_of
    from fedadavr.models import build

    return {name: layout_of(build(name, 10, 0)) for name in models}


def row(model: str, layout: Layout, clients: int, codec: Codec, cohort: int) -> PlanRow:
    """The figures of one case."""
    d, size = layout.size, codec.nbytes(layout)
    value = SIZE + size
    pages = -(-(PAGE_HEAD + value) // PAGE) * PAGE if value > PAGE // 2 else value
    state = 24 * d  # the model, its average and two moments in float32, the total in float64
    state += 4 * d if codec.omits_zeros else 0  # when each coordinate was first not zero
    replies = cohort * (4 * d + size)
    return PlanRow(
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
