"""`fedadavr quadratic`: every algorithm where the answer is known."""

from __future__ import annotations

import json as json_format


def main(rounds: int = 600, seed: int = 0, json: bool = False) -> None:
    """Run every algorithm on a quadratic federation and tell how near it comes to the optimum."""
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from fedadavr.experiments.quadratic import Quadratic, cases

    problem = Quadratic(seed=seed)
    rows = []
    progress = Console(stderr=True)
    work = cases(problem)
    for name, settings in track(work, "a quadratic federation", console=progress, transient=True):
        distances = problem.solve(name, rounds, **settings)
        tail = distances[-max(1, rounds // 10) :]
        rows.append((name, settings.get("optimizer", ""), distances[0], sum(tail) / len(tail)))
    if json:
        keys = ("algorithm", "optimizer", "first", "last")
        print(json_format.dumps([dict(zip(keys, row, strict=True)) for row in rows]))
        return
    table = Table(
        title=f"Distance from the optimum: {problem.clients} clients, {problem.per_round} per "
        f"round, {rounds} rounds, exact gradients"
    )
    for column in ("algorithm", "optimizer", "after round 1", "mean of the last tenth"):
        table.add_column(
            column, justify="left" if column in ("algorithm", "optimizer") else "right"
        )
    for name, optimizer, first, last in rows:
        table.add_row(name, optimizer, f"{first:.2f}", f"{last:.1e}")
    Console().print(table)
