"""`fedadavr theory`: the paper's theorem where everything it names is known."""

from __future__ import annotations

import json as json_format
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from fedadavr.experiments.theorem import Condition
    from fedadavr.experiments.theory import Theory


def main(
    clients: int = 50,
    per_round: int = 5,
    local_steps: int = 5,
    dimension: int = 20,
    rounds: int = 600,
    client_lr: float = 0.05,
    server_lr: float = 0.1,
    epsilon: float = 1.0,
    sigma: float = 2.0,
    spread: float = 0.5,
    scale: float = 1.0,
    distance: float = 10.0,
    seeds: int = 3,
    seed: int = 0,
    split: bool = True,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Check the paper's theorem on noisy quadratics, and split the error into its parts.

    Args:
        clients: N, how many clients there are.
        per_round: M, how many take part in a round.
        local_steps: K, the steps that a client takes.
        dimension: How many parameters the model has.
        rounds: T.
        client_lr: eta_c, of the theorem's check and of the split.
        server_lr: eta_s of the theorem's Adagrad.
        epsilon: Adagrad's.
        sigma: The root of a gradient's variance.
        spread: How far the clients' curvatures differ, from 0 (not at all) to below 1.
        scale: What all curvatures are multiplied with.
        distance: How far from the optimum it begins.
        seeds: Over how many seeds of cohorts and noise the mean is taken.
        seed: Seed of the problem.
        split: Whether the error is split (most of the time goes there).
        json: Print JSON.
        out: Draw a picture into this file.
    """
    from rich.console import Console
    from rich.progress import track

    from fedadavr.experiments.theory import NoisyQuadratic, draw, theory

    problem = NoisyQuadratic(
        clients=clients, per_round=per_round, local_steps=local_steps, dimension=dimension,
        client_lr=client_lr, sigma=sigma, spread=spread, scale=scale, distance=distance, seed=seed,
    )  # fmt: skip
    progress = Console(stderr=True)
    found = theory(
        problem, rounds=rounds, seeds=seeds, server_lr=server_lr, epsilon=epsilon, with_split=split,
        track=lambda work: iter(track(work, "the theorem", console=progress, transient=True)),
    )  # fmt: skip
    if out is not None:
        draw(found, out)
    if json:
        print(json_format.dumps(as_dict(found)))
        return
    console = Console(width=max(100, Console().width))
    c = found.constants
    console.print(
        f"L {c.L:.3g}, mu {c.mu:.3g}, sigma {c.sigma:.3g}, sigma_g {c.sigma_g:.3g}, G {c.G:.3g} "
        f"(both over the ball around the optimum with w0 on its edge), f(w0) - f* {c.gap:.3g}, "
        f"|grad f(w0)|^2 {c.first**2:.3g}, A {c.A:.3g}",
        highlight=False,
    )
    console.print(conditions(found))
    console.print(bounds(found))
    if not sigma and found.floor:
        words = f"At no rates that the theorem admits does |grad f|^2 fall below {found.floor:.3g}."
        console.print(words, highlight=False)
    if found.splits:
        console.print(parts(found))
    if out is not None:
        console.print(f"picture: {out}", highlight=False)


def conditions(found: Theory) -> Table:
    """What the theorem asks of the rates, and what its proof needs."""
    from rich.table import Table

    table = Table(title="Conditions of the theorem, and what its proof needs besides")
    table.add_column("condition", overflow="fold")
    for each in found.checks:
        table.add_column(f"{each.rates}: value", justify="right")
        table.add_column("limit", justify="right")
        table.add_column("holds")
    for kind in ("printed", "silent"):
        rows = zip(*(getattr(each, kind) for each in found.checks), strict=True)
        for row in rows:
            cells: list[str] = []
            for each in row:
                cells += [f"{each.value:.3g}", f"{each.limit:.3g}", "yes" if each.holds else "NO"]
            table.add_row(row[0].text, *cells)
        table.add_section()
    return table


def bounds(found: Theory) -> Table:
    """The bound's terms, and what is measured."""
    from rich.table import Table

    table = Table(title="min over the rounds of E|grad f|^2: FedAdaVR with Adagrad")
    table.add_column("")
    for each in found.checks:
        table.add_column(f"rates {each.rates}", justify="right")
    rows: dict[str, list[float] | list[float | None]] = {
        "eta_c": [each.client_lr for each in found.checks],
        "eta_s": [each.server_lr for each in found.checks],
        "4 (f(w0) - f*)/T": [each.bound.start for each in found.checks],
        "4 A_1 sigma_g^2": [each.bound.drift for each in found.checks],
        "4 A_2 sigma^2": [each.bound.noise for each in found.checks],
        "4 A_3": [each.bound.rest for each in found.checks],
        "the bound": [each.bound.total for each in found.checks],
        "measured, min": [each.measured for each in found.checks],
        "measured, mean": [each.mean for each in found.checks],
        "measured min / bound": [each.ratio for each in found.checks],
        "the bound, first term at the real rate": [each.bound.rescaled for each in found.checks],
    }
    for name, values in rows.items():
        table.add_row(name, *("too small for float32" if v is None else f"{v:.3g}" for v in values))
    return table


def parts(found: Theory) -> Table:
    """Where each algorithm's error comes from."""
    from rich.table import Table

    table = Table(title="E|grad f|^2 over the last tenth of the rounds, and what adds to it")
    table.add_column("algorithm")
    columns = ("base", "drift", "participation", "stochastic", "total")
    for column in columns:
        table.add_column(column, justify="right")
    for each in found.splits:
        table.add_row(each.algorithm, *(f"{getattr(each, name):.2e}" for name in columns))
    return table


def as_dict(found: Theory) -> dict[str, Any]:
    """All of it but the curves; a limit that does not bind is null."""
    return {
        "constants": asdict(found.constants) | {"A": found.constants.A},
        "floor": found.floor,
        "checks": [
            {
                "rates": each.rates, "client_lr": each.client_lr, "server_lr": each.server_lr,
                "printed": [told(condition) for condition in each.printed],
                "silent": [told(condition) for condition in each.silent],
                "bound": asdict(each.bound) | {"total": each.bound.total},
                "measured": each.measured, "mean": each.mean, "ratio": each.ratio,
            }
            for each in found.checks
        ],
        "splits": [
            {name: getattr(each, name) for name in
             ("algorithm", "base", "drift", "participation", "stochastic", "total")}
            for each in found.splits
        ],
    }  # fmt: skip


def told(condition: Condition) -> dict[str, Any]:
    """A condition, and whether it holds."""
    limit = condition.limit if math.isfinite(condition.limit) else None
    return asdict(condition) | {"limit": limit, "holds": condition.holds}
