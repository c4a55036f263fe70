"""How far FedAdaVR+ trusts its memories, and what kinds it finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedadavr.experiments.folder import METRICS, RunFolder
from fedadavr.memory.addresses import find_address, open_address
from fedadavr.stores.addresses import public


def history(source: str, encrypt_with: Path | None) -> tuple[dict[str, Any], Any]:
    """The trust in each memory, and the share of each kind, round by round."""
    rows: list[dict[str, Any]]
    if (Path(source) / METRICS).is_file():
        rows = [row for row in RunFolder(Path(source)).rows() if "trust" in row]
    else:
        with open_address(source, encrypt_with, read_only=True) as store:
            rows = [note for note in store.rounds().values() if "trust" in note]
    memories = list(rows[0]["trust"]) if rows else []
    told = [[*row["trust"].values(), *row.get("shares", [])] for row in rows]
    if not told:
        raise ValueError(f"{public(find_address(source))} holds no rounds of fedadavr-plus")
    count = len(memories)
    kinds = max(len(row) for row in told) - count
    shares = np.array([[*row[count:], *[0.0] * (kinds - len(row) + count)] for row in told]).T
    trust = {name: np.array([row[k] for row in told]) for k, name in enumerate(memories)}
    return trust, shares


def draw(trust: dict[str, Any], shares: Any, out: Path) -> None:
    """Two panels, one above the other."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2 if len(shares) else 1, 1, figsize=(8, 6), sharex=True,
                                squeeze=False, layout="constrained")  # fmt: skip
    upper = axes[0][0]
    rounds = np.arange(1, len(next(iter(trust.values()))) + 1)
    for name, values in trust.items():
        upper.plot(rounds, values, label=name, linewidth=1.6)
    upper.set(ylabel="trust", ylim=(-0.02, 1.02), title="how far each memory is trusted")
    upper.grid(alpha=0.3)
    upper.legend()
    if len(shares):
        lower = axes[1][0]
        colors = plt.get_cmap("tab20")(np.arange(len(shares)) % 20)
        lower.stackplot(rounds, shares, colors=colors, linewidth=0.3, edgecolor="white")
        lower.set(xlabel="round", ylabel="share", ylim=(0, 1),
                  title=f"{len(shares)} kinds of clients, by examples")  # fmt: skip
    upper.margins(x=0)
    figure.savefig(out, dpi=130)
    plt.close(figure)
