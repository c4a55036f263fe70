"""The bias and the variance of one round's direction, over all cohorts of four among sixteen.

Sixteen clients of four kinds, unequal sizes, noise between clients of a kind. Each algorithm plays
four or forty rounds with the model held still (four: a client has been seen once in the mean); then
every cohort is tried from the state it has reached. Published in README.md.
"""

from __future__ import annotations

import copy
from itertools import combinations, product
from typing import Any

import numpy as np

from fedadavr import Layout, Update, algorithm

LAYOUT = Layout({"x": (200,)})
CLIENTS, COHORT = 16, 4


def main() -> None:
    """Print the table."""
    print("| rounds | kinds' noise | | FedAvg | FedAdaVR | own, learned | centers | both |")
    print("|---|---|---|---|---|---|---|---|")
    for rounds, noise in product((4, 40), (0.1, 0.5, 1.0)):
        figures = [measure(rounds, noise, name, **settings) for name, settings in (
            ("fedavg", {}),
            ("fedadavr", {}),
            ("fedadavr-plus", {"memories": "own"}),
            ("fedadavr-plus", {"memories": "centers"}),
            ("fedadavr-plus", {}),
        )]  # fmt: skip
        for label, column in (("bias", 0), ("deviation", 1)):
            cells = " | ".join(f"{pair[column]:.3f}" for pair in figures)
            print(f"| {rounds} | {noise} | {label} | {cells} |")


def measure(rounds: int, noise: float, name: str, **settings: Any) -> tuple[float, float]:
    """|mean r - full update| and the root mean square of |r - mean r|, over |full update|."""
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(4, LAYOUT.size))
    move = np.array([kinds[c % 4] + noise * rng.normal(size=LAYOUT.size) for c in range(CLIENTS)])
    sizes = rng.integers(10, 40, CLIENTS)
    w = LAYOUT.zeros()

    def updates(cohort: Any) -> list[Update]:
        # A client's update varies from round to round, too, by a tenth of what it is.
        wobble = 0.1 * rng.normal(size=(CLIENTS, LAYOUT.size))
        return [
            Update(str(c), (w - move[c] - wobble[c]).astype("f4"), int(sizes[c])) for c in cohort
        ]

    if name != "fedavg":
        settings |= {"optimizer": "sgd", "server_lr": 1.0, "population": CLIENTS}
    server = algorithm(name, LAYOUT, **settings)
    for _ in range(rounds):
        server.step(w, updates(rng.choice(CLIENTS, COHORT, replace=False)))
    cohorts = list(combinations(range(CLIENTS), COHORT))
    r = np.array([-copy.deepcopy(server).step(w, updates(cohort)) for cohort in cohorts])
    full = (sizes[:, None] * move).sum(axis=0) / sizes.sum()
    mean = r.mean(axis=0)
    deviation = np.sqrt(((r - mean) ** 2).sum(axis=1).mean())
    return float(np.linalg.norm(mean - full) / np.linalg.norm(full)), float(
        deviation / np.linalg.norm(full)
    )


if __name__ == "__main__":
    main()
