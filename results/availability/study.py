"""The runs of STUDY.md: `study.py choose`, then `study.py table`; both go on where they stopped."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.options import RunOptions
from fedadavr.experiments.records import RECORDS, RunRecord, read_lines
from fedadavr.experiments.sweep import Progress, label, sweep

HERE = Path(__file__).parent
PARTITIONS = ("lq-2", "dirichlet")
AVAILABILITIES = {
    "always there": "uniform",
    "by their labels": "independent:p=0.2,each=label",
    "in bursts": "markov:on=0.02,off=0.08",
    "day and night": "day-night:p=0.2,zone=label",
    "come and gone": "churn:joining=0.4,leaving=0.4,p=0.3",
}
CHOSEN_UNDER = ("always there", "by their labels")
CLIENT_RATES = (0.01, 0.03, 0.1)
CHOICES = {
    "fedavg": ("server-lr", (0.5, 1)),
    "fedyogi": ("server-lr", (0.003, 0.01)),
    "scaffold": ("server-lr", (0.5, 1)),
    "feddyn": ("alpha", (0.01, 0.1)),
    "ghbm": ("beta", (0.5, 0.9)),
    "fedau": ("server-lr", (0.5, 1)),
    "fedvarp": ("server-lr", (0.5, 1)),
    "fedstale": ("beta", (0.5, 0.9)),
    "fedadavr": ("server-lr", (0.003, 0.01)),
    "fedadavr-plus": ("server-lr", (0.003, 0.01)),
}
CHOOSING_SEED, SEEDS = 41, (42, 43, 44)


def base(partition: str, availability: str, seed: int) -> Experiment:
    """What all runs have in common."""
    return Experiment(
        dataset="fmnist-6k", load=str(HERE / "fmnist_6k.py"), partition=partition,
        clients_per_round=10, availability=AVAILABILITIES[availability], seed=seed,
        evaluate_every=10, average_last=10,
    )  # fmt: skip


def specs(algorithm: str) -> list[str]:
    """The six settings that an algorithm may be run with."""
    name, values = CHOICES[algorithm]
    return [
        f"{algorithm}:{name}={value},client-lr={rate}" for value in values for rate in CLIENT_RATES
    ]


def to_choose_from() -> dict[tuple[str, str, str], Experiment]:
    """Every run of the choosing: by partition, spec and availability."""
    return {
        (partition, spec, who): base(partition, who, CHOOSING_SEED).with_algorithm(spec).resolved()
        for who in CHOSEN_UNDER
        for partition in PARTITIONS
        for algorithm in CHOICES
        for spec in specs(algorithm)
    }


def found(folder: str) -> dict[str, RunRecord]:
    """The records of a folder, by their names."""
    path = HERE / folder / RECORDS
    return {record.id: record for record in read_lines(path)} if path.exists() else {}


def scores() -> dict[tuple[str, str], float]:
    """By partition and spec: the mean of the accuracies that it was chosen by; failed is 0."""
    from fedadavr.experiments.records import run_id

    records, points = found("choose"), defaultdict(list)
    for (partition, spec, _), experiment in to_choose_from().items():
        points[partition, spec].append(records[run_id(experiment)].final_accuracy or 0.0)
    return {key: float(np.mean(values)) for key, values in points.items()}


def chosen() -> dict[tuple[str, str], str]:
    """By partition and algorithm: the spec with the best score."""
    score = scores()
    return {
        (partition, algorithm): max(specs(algorithm), key=lambda s: score[partition, s])
        for partition in PARTITIONS
        for algorithm in CHOICES
    }


def table() -> dict[tuple[str, str, str, int], Experiment]:
    """Every run of the table: by algorithm, partition, availability and seed."""
    best = chosen()
    return {
        (algorithm, partition, who, seed): base(partition, who, seed)
        .with_algorithm(best[partition, algorithm])
        .resolved()
        for seed in SEEDS
        for partition in PARTITIONS
        for who in AVAILABILITIES
        for algorithm in CHOICES
    }


def tell(progress: Progress, record: RunRecord | None) -> None:
    """A line per finished run."""
    if record is not None:
        done = progress.kept + len(progress.finished)
        print(f"{done}/{progress.total} {label(record.experiment)} {record.experiment.availability}"
              f" {record.final_accuracy} {progress.left()} left", flush=True)  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Do what is not done yet."""
    stage = arguments[0]
    runs = {"choose": to_choose_from, "table": table}[stage]()
    options = RunOptions(workers=int(arguments[1]) if len(arguments) > 1 else 2)
    progress = sweep(list(runs.values()), options, HERE / stage, tell)
    for failure in progress.failures:
        print("failed:", failure)


if __name__ == "__main__":
    main(sys.argv[1:])
