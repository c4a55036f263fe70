"""`fedadavr data list` and `fedadavr data show`."""

from __future__ import annotations

from pathlib import Path


def list_datasets() -> None:
    """Say which data sets are at hand, and where."""
    from rich.console import Console
    from rich.table import Table

    from fedadavr.data.sources import datasets, where

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
    availability: str = "uniform",
    dropout: str = "none",
    rounds: int = 100,
) -> None:
    """Draw who holds what, and who is there over time, and tell a few numbers.

    Args:
        dataset: The data set.
        partition: iid, iid-noniid, dirichlet, lq-1, lq-2, lq-3 or natural.
        clients: How many clients (default: the paper's; natural: as many as there are).
        seed: Seed of the partition.
        out: The picture (default: DATASET-PARTITION.png here).
        load: A Python file to import first, with a data set of your own.
        availability: Who is there, as for `fedadavr run`; a second picture shows it over time.
        dropout: Replies that never come, as for `fedadavr run`.
        rounds: How many rounds that picture shows.
    """
    import numpy as np
    from rich.console import Console

    from fedadavr.data.federation import federate
    from fedadavr.data.picture import class_counts, draw
    from fedadavr.data.registry import protocol_of
    from fedadavr.data.sources import load as load_dataset
    from fedadavr.experiments.experiment import Experiment
    from fedadavr.experiments.presence import draw as draw_presence
    from fedadavr.experiments.presence import is_full, presence, title_of, told
    from fedadavr.plugins import load_file

    if load is not None:
        load_file(load)
    if rounds < 1:
        raise ValueError(f"--rounds must be at least 1, got {rounds}")
    federation = federate(load_dataset(dataset), partition, clients, seed)
    experiment = Experiment(
        dataset=dataset, partition=partition, clients=federation.clients, seed=seed, rounds=rounds,
        local_epochs=protocol_of(dataset).local_epochs, availability=availability, dropout=dropout,
    ).with_participation()  # fmt: skip
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
        f"examples per client: {sizes.min()} to {sizes.max()}, median {np.median(sizes):.0f}, "
        f"in all {sizes.sum()}\n"
        f"classes per client: {held.min()} to {held.max()}, mean {held.mean():.1f} "
        f"of {federation.classes}\n"
        f"{len(tests)} {about}: {tests.min()} to {tests.max()} examples, in all {tests.sum()}\n"
        f"picture: {out}",
        soft_wrap=True,
        highlight=False,
    )
    if not is_full(experiment):
        found = presence(experiment, federation)
        out = out.with_name(f"{out.stem}-availability.png")
        draw_presence(found, f"{title_of(experiment)}, seed {seed}", out)
        words = f"{title_of(experiment)}, {rounds} rounds: {told(found)}\npicture: {out}"
        Console().print(words, soft_wrap=True, highlight=False)
