"""`fedadavr memory plan`: how much room a memory takes."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedadavr.experiments.plan import PlanRow


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
    from fedadavr.experiments.plan import layouts, plan_rows
    from fedadavr.vector import Layout

    for name, values in (("clients", clients), ("parameters", parameters),
                         ("clients-per-round", (clients_per_round,))):  # fmt: skip
        for value in values:
            if not 1 <= value <= 1e13:
                raise ValueError(f"--{name} must be from 1 to 1e13, got {value:g}")
    chosen = {f"{int(p):,}": Layout({"x": (int(p),)}) for p in parameters}
    if not parameters or model:
        chosen |= layouts(model or ("lenet5", "resnet18"))
    rows = plan_rows(chosen, clients, clients_per_round)
    if json:
        print(json_format.dumps([asdict(r) for r in rows]))
    else:
        show_plan(rows)


def show_plan(rows: list[PlanRow]) -> None:
    """A table for each model and number of clients."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for (model, clients), group in groupby(rows, lambda r: (r.model, r.clients)):
        title = f"{model}, {clients:,} clients: GB"
        table = Table(title=title, title_justify="left", title_style="bold")
        for name in ("codec", "bits", "paper", "in RAM", "lmdb: RAM", "lmdb: disk", "redis: RAM"):
            table.add_column(name, justify="left" if name == "codec" else "right", no_wrap=True)
        for r in group:
            figures = (r.paper_gb, r.ram_gb, r.lmdb_ram_gb, r.lmdb_disk_gb, r.redis_gb)
            bits = f"{8 * r.record_bytes / r.parameters:.2f}"
            told = (f"{x:,.0f}" if 1000 <= x < 1e7 else f"{x:.3g}" for x in figures)
            table.add_row(r.codec, bits, *told)
        console.print(table)
    console.print(
        "GB: of 10^9 bytes. bits: of one parameter, scales included. "
        "paper: its own unit, parameters * 4 / 2^20 * clients / 1000, at the codec's bits. "
        "lmdb's RAM is the same for any number of clients; its disk holds the state three times, "
        "as a commit never writes over the last one, nor over what it has just freed."
    )
