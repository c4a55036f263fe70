"""`fedadavr bench flower | memory | round | server | training`: how fast it is, here."""

from __future__ import annotations

import json as json_format
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from fedadavr.bench.server import ServerTiming

MODELS = ("resnet18", "gru", "lenet5", "simple-cnn", "cnn")  # that `bench training` has


def flower(
    codec: str = "int8",
    rounds: int | None = None,
    replies: str = "",
    models: str = "lenet5,resnet18",
    json: bool = False,
) -> None:
    """Time the aggregation of five ResNet-18 replies, ours and Flower's, in turn.

    With --replies, weigh the RAM of whole rounds with so many replies instead.

    Args:
        codec: How the memory is stored: fp32, fp16, int8, int4, rot4 and so on.
        rounds: How many times each is called; medians count (default: 21; with --replies 1).
        replies: How many replies a round has, with commas, 5,100,1000 say (ResNet-18: up to 100).
        models: Which, with --replies: lenet5,resnet18.
        json: One line of JSON.
    """
    if replies:
        _flower_cohorts(replies, models, codec, 1 if rounds is None else rounds, json)
        return
    from fedadavr.bench.flower import measure
    from fedadavr.bench.server import CLIENTS

    with _told() as tell:
        rows, commit, size = measure(codec, 21 if rounds is None else rounds, tell)
    if json:
        _print_json(rows)
        return
    table = _table(
        f"aggregate_train, {CLIENTS} ResNet-18 replies, d = {size:,}",
        ("name", "codec", "ms", "ours / it"), left=("name", "codec"),
    )  # fmt: skip
    ours = next(row.ms for row in rows if row.name == "fedadavr")
    for row in rows:
        table.add_row(row.name, row.codec, f"{row.ms:.0f}", f"{ours / row.ms:.2f}")
    _show(table)
    print(f"a durable commit to LMDB (records, model, moments and total) adds {commit:.0f} ms")


def _flower_cohorts(replies: str, models: str, codec: str, rounds: int, json: bool) -> None:
    """The RAM of rounds with many replies."""
    from fedadavr.bench.cohorts import MODELS, measure
    from fedadavr.codecs import CODECS
    from fedadavr.naming import find

    try:
        numbers = [int(n) for n in replies.split(",")]
    except ValueError:
        raise ValueError(f"--replies must be whole numbers with commas, got {replies!r}") from None
    for name in models.split(","):
        find("model", name, MODELS)
    codec = find("codec", codec, CODECS).name
    with _told() as tell:
        rows = measure(numbers, models.split(","), codec, rounds, tell)
    if json:
        _print_json(rows)
        return
    table = _table(
        "What a round's replies add to the server's RAM at its peak, MB",
        ("model", "replies", "their MB", "strategy", "own", "of files", "both", "time / Flower's"),
        left=("model", "strategy"),
    )
    flowers = {(r.model, r.replies): r.ms for r in rows if r.name.startswith("flower")}
    for r in rows:
        figures = (f"{x:,.0f}" for x in (r.own_mb, r.file_mb, r.both_mb))
        times = r.ms / flowers[r.model, r.replies]
        table.add_row(r.model, f"{r.replies:,}", f"{r.replies_mb:,.0f}", r.name, *figures,
                      f"{times:.1f}")  # fmt: skip
    _show(table)


def memory(
    clients: str = "1000,100000,1000000",
    model: str = "lenet5",
    store: str = "lmdb",
    codec: str = "int4",
    rounds: int = 60,
    folder: Path | None = None,
    json: bool = False,
) -> None:
    """Time one round's reads and its commit, and weigh the server's RAM and the disk.

    Args:
        clients: How many clients are remembered, with commas.
        model: lenet5, resnet18 or another model.
        store: ram, lmdb, or redis://HOST:PORT (its own names are used, and removed), with commas.
        codec: fp32, fp16, int8, int4, rot4 and so on, with commas.
        rounds: How many rounds are timed.
        folder: Where to put LMDB's stores, which are removed (default: a temporary folder).
        json: One line of JSON.
    """
    from rich.console import Console

    from fedadavr.bench.memory import COHORT, measure_all
    from fedadavr.codecs import CODECS
    from fedadavr.experiments.plan import layouts
    from fedadavr.naming import find

    try:
        numbers = [int(n) for n in clients.split(",")]
    except ValueError:
        raise ValueError(f"--clients must be whole numbers with commas, got {clients!r}") from None
    layout = layouts([model])[model]
    codecs = [find("codec", name, CODECS).name for name in codec.split(",")]
    warn = Console(stderr=True).print
    with _told() as tell:
        rows = measure_all(numbers, layout, store.split(","), codecs, rounds, folder, tell, warn)
    if json:
        _print_json(rows)
        return
    table = _table(
        f"A round of {COHORT} clients, {model} ({layout.size:,} parameters)",
        ("store", "codec", "clients", "commit ms", "read ms", "round ms", "RSS MB", "disk MB"),
        left=("store", "codec"),
    )
    for r in rows:
        figures = (r.commit_ms, r.read_ms, r.round_ms, r.rss_mb, r.disk_mb)
        table.add_row(r.store, r.codec, f"{r.clients:,}", *(f"{x:,.1f}" for x in figures))
    _show(table)


def mnist_round(peers: str = "", json: bool = False, repeats: int = 5) -> None:
    """Time the paper's MNIST round.

    Args:
        peers: Also time others, if they are installed: flower,pfl
        json: Print the rows as JSON.
        repeats: How many times ten rounds of each are timed, in turn.
    """
    from fedadavr.bench.round import measure

    with _told() as tell:
        rows = measure([peer for peer in peers.split(",") if peer], repeats, tell)
    if json:
        _print_json(rows)
        return
    plain = next(row.ms_per_round for row in rows if row.name == "plain")
    table = _table(
        "The paper's MNIST round: 5 clients train, 250 evaluate",
        ("", "workers", "ms per round", "times faster than the plain loop"), left=("",),
    )  # fmt: skip
    for row in rows:
        faster = f"{plain / row.ms_per_round:.2f}"
        table.add_row(row.name, str(row.workers), f"{row.ms_per_round:.0f}", faster)
    _show(table)


def server(json: bool = False, rounds: int = 7) -> None:
    """Time one server step at ResNet-18's size, and at two sizes of population."""
    from rich.console import Console
    from rich.progress import Progress

    from fedadavr.bench.server import measure, timings

    rows: list[ServerTiming] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("one server step", total=timings())
        for row in measure(rounds):
            rows.append(row)
            progress.advance(task)
    if json:
        _print_json(rows)
    else:
        _show_server(rows)


def _show_server(rows: list[ServerTiming]) -> None:
    """The timings as tables for people."""
    from rich.console import Console

    from fedadavr import kernels
    from fedadavr.bench.server import CENTERS, CLIENTS, POPULATIONS, SMALL, cases

    ms = {(r.name, r.codec, r.optimizer): r.ms for r in rows if r.d != SMALL}
    d = next(r.d for r in rows if r.d != SMALL)
    table = _table(
        f"One server step, d = {d:,}, {CLIENTS} clients, {kernels.threads()} threads",
        ("codec", "optimizer", "ours ms", "numpy ms", "bound ms", "numpy/ours", "ours/bound",
         "ours/int4"), left=("codec", "optimizer"),
    )  # fmt: skip
    for codec, optimizer in cases():
        ours, bound = (ms[name, codec, optimizer] for name in ("ours", "bound"))
        plain, int4 = (ms.get((name, codec, optimizer)) for name in ("numpy", "int4"))
        table.add_row(
            codec, optimizer, f"{ours:.1f}", f"{plain:.0f}" if plain else "", f"{bound:.1f}",
            f"{plain / ours:.1f}" if plain else "", f"{ours / bound:.2f}",
            f"{ours / int4:.2f}" if int4 else "",
        )  # fmt: skip
    console = Console()
    console.print(table)
    paper, plus = (ms[name, "int8", "adam"] for name in ("fedadavr", "fedadavr-plus"))
    console.print(
        f"FedAdaVR+ with {CENTERS} centers, int8, adam: {plus:.0f} ms, FedAdaVR {paper:.0f} ms "
        f"({plus / paper:.2f} times)"
    )
    for row in rows:
        if row.name.startswith("flower"):
            console.print(f"{row.name} aggregation of the same arrays: {row.ms:.0f} ms")
    few, many = (next(r for r in rows if r.d == SMALL and r.population == n) for n in POPULATIONS)
    console.print(
        f"d = {SMALL:,}, int4, adam: {few.ms:.3f} ms per round at population {few.population:,}, "
        f"{many.ms:.3f} ms at {many.population:,} ({many.ms / few.ms:.2f} times)"
    )


def training(models: tuple[str, ...] = MODELS, json: bool = False, repeats: int = 5) -> None:
    """Time local training, plain and by fast paths.

    Args:
        models: Which: resnet18, gru, lenet5, simple-cnn, cnn.
        json: Print the rows as JSON.
        repeats: How many times fifty steps of each are timed, in turn.
    """
    from fedadavr.bench.training import EVALUATED, measure_all

    with _told() as tell:
        rows = measure_all(models, repeats, tell)
    if json:
        _print_json(rows)
        return
    table = _table(
        "Local training on one thread, ms",
        ("model", "batch", "plain step", "fast", "times", f"{EVALUATED} tested, plain", "fast",
         "times"), left=("model",),
    )  # fmt: skip
    for r in rows:
        table.add_row(
            r.model, str(r.batch), f"{r.plain:.1f}", f"{r.fast:.1f}", f"{r.plain / r.fast:.2f}",
            f"{r.evaluate_plain:.0f}", f"{r.evaluate_fast:.0f}",
            f"{r.evaluate_plain / r.evaluate_fast:.2f}",
        )  # fmt: skip
    _show(table)


@contextmanager
def _told() -> Iterator[Callable[[str], None]]:
    """What tells what is being done, beside a spinner on stderr."""
    from rich.console import Console
    from rich.status import Status

    console = Console(stderr=True)
    with ExitStack() as stack:
        shown: list[Status] = []

        def tell(what: str) -> None:
            if shown:
                shown[0].update(what)
            else:
                shown.append(stack.enter_context(console.status(what)))

        yield tell


def _table(title: str, columns: Sequence[str], left: Sequence[str]) -> Table:
    """A table whose columns stand on the right, but for some."""
    from rich.table import Table

    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right")
    return table


def _show(table: Table) -> None:
    from rich.console import Console

    Console().print(table)


def _print_json(rows: Sequence[Any]) -> None:
    print(json_format.dumps([asdict(row) for row in rows]))
