"""`fedadavr data list` and `fedadavr data show`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from fedadavr.data.federation import Federation, federate
from fedadavr.data.sources import datasets, where
from fedadavr.data.sources import load as load_dataset
from fedadavr.plugins import load_file


def list_datasets() -> None:
    """Say which data sets are at hand, and where."""
    table = Table()
    table.add_column("data set", no_wrap=True)
    table.add_column("where", overflow="fold")
    for name in datasets():
        table.add_row(name, where(name) or "not at hand (`fedadavr data show` says how to get it)")
    Console().print(table)


def show(
    dataset: str = "mnist-5k",
    partition: str = "lq-1",
    clients: int | None = None,
    seed: int = 42,
    out: Path | None = None,
    load: str | None = None,
) -> None:
    """Draw who holds what, and tell a few numbers.

    Args:
        dataset: The data set.
        partition: iid, iid-noniid, dirichlet, lq-1, lq-2, lq-3 or natural.
        clients: How many clients (default: the paper's; natural: as many as there are).
        seed: Seed of the partition.
        out: The picture (default: DATASET-PARTITION.png here).
        load: A Python file to import first, with a data set of your own.
    """
    if load is not None:
        load_file(load)
    federation = federate(load_dataset(dataset), partition, clients, seed)
    counts = class_counts(federation)
    sizes = counts.sum(axis=0)
    held = (counts > 0).sum(axis=0)
    tests = np.array([len(part) for part in federation.test_parts])
    out = out or Path(f"{dataset}-{partition}.png")
    title = f"{dataset} {partition}: {federation.clients} clients, seed {seed}"
    draw(counts, title, out)
    about = "held-out clients" if federation.held_out else "test shares of the same clients"
    Console().print(
        f"{title}\n"
        f"examples a client: {sizes.min()} to {sizes.max()}, median {np.median(sizes):.0f}, "
        f"in all {sizes.sum()}\n"
        f"classes a client: {held.min()} to {held.max()}, mean {held.mean():.1f} "
        f"of {federation.classes}\n"
        f"{len(tests)} {about}: {tests.min()} to {tests.max()} examples, in all {tests.sum()}\n"
        f"picture: {out}",
        soft_wrap=True,
        highlight=False,
    )


def class_counts(federation: Federation) -> npt.NDArray[np.int64]:
    """How many examples of each class (rows) each client (columns) trains on."""
    labels = federation.train.labels.numpy()
    columns = [
        np.bincount(labels[part], minlength=federation.classes) for part in federation.train_parts
    ]
    return np.stack(columns, axis=1)


def draw(counts: npt.NDArray[np.int64], title: str, path: Path) -> None:
    """Classes by clients, darker where there is more; below, how much each client has."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(10, 5), sharex=True, height_ratios=[3, 1], layout="constrained"
    )
    shown: Any = np.ma.masked_equal(counts, 0)
    picture = top.imshow(shown, aspect="auto", cmap="viridis_r", interpolation="nearest", vmin=0)
    top.set(title=title, ylabel="class")
    if len(counts) <= 12:
        top.set_yticks(range(len(counts)))
    figure.colorbar(picture, ax=top, label="examples")
    bottom.bar(np.arange(counts.shape[1]), counts.sum(axis=0), width=1.0, color="#46788f")
    bottom.set(xlabel="client", ylabel="examples", xlim=(-0.5, counts.shape[1] - 0.5))
    figure.savefig(path, dpi=120)
    plt.close(figure)
