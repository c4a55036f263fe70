"""Every table and figure of the paper that can be run, as lists of experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.records import Record, given, run_id
from fedadavr.paper import numbers

RATES = (0.001, 0.01, 0.1)
"""The client rates that the paper searched."""
RATE = 0.01
"""The one that we run where there is no search."""
TUNING_SEED = 41
"""Rates are chosen on this seed, which no reported figure uses."""
SEEDS = (42, 43, 44)
"""One run each; the paper has the first only."""
BASELINES = (
    "fedavg", "fedprox", "scaffold", "fednova", "fedadagrad", "fedadam", "fedyogi", "mifa",
    "fedvarp",
)  # fmt: skip
FEDOPT = ("fedadagrad", "fedadam", "fedyogi")
TUNED = (0.003, 0.01, 0.03)
"""Server rates that the tuned FedOpt algorithms choose from."""

SECONDS = {
    "mnist": (0.11, 0.18), "fmnist": (0.33, 0.19), "cifar10": (62.0, 10.6),
    "shakespeare": (93.0, 270.0),
}  # fmt: skip
"""A round's training and an evaluation in one of two processes: the records' medians, of CIFAR-10
and Shakespeare over ten rounds, evaluated on a part of the examples."""
EVALUATED = {"mnist": 5_000, "fmnist": 5_000, "cifar10": 5_000, "shakespeare": 806_799}
"""The test examples of the clients that an evaluation draws, about."""


@dataclass(frozen=True)
class Row:
    """An algorithm of a table, with its settings; of several candidates one is chosen."""

    label: str
    candidates: tuple[dict[str, Any], ...]

    @property
    def free(self) -> bool:
        """Whether it leaves the client's rate open."""
        return len(self.candidates) == 1 and "client_lr" not in self.candidates[0]

    @staticmethod
    def of(label: str, **settings: Any) -> Row:
        """A row without a choice."""
        return Row(label, (settings,))


@dataclass(frozen=True)
class Preset:
    """A table or figure: what is run for it, and what the paper says comes out."""

    name: str
    shows: str
    """Which table or figure it is."""
    expect: str
    """What one should get, by the paper."""
    dataset: str
    partitions: tuple[str, ...]
    rows: Callable[[str], list[Row]]
    """The rows for a partition."""
    common: tuple[tuple[str, Any], ...] = ()
    """Settings of all its runs that differ from the paper's protocol."""
    targets: tuple[int, ...] = ()
    """Accuracies in percent whose first rounds it tells, on its hardest partition."""

    beginning: bool = False
    """Whether it is only a beginning, which nothing follows from."""

    @property
    def told(self) -> str:
        """What one should get, as a sentence."""
        return f"{self.expect}." if self.beginning else f"By the paper: {self.expect}."

    def base(self, partition: str) -> Experiment:
        """The paper's protocol; evaluated in the averaging window and every fifth round."""
        setup = numbers.setup(self.dataset)
        rounds, window = numbers.rounds(self.dataset, partition)
        protocol: dict[str, Any] = {
            "dataset": self.dataset, "partition": partition, "clients": setup.clients,
            "clients_per_round": setup.clients_per_round, "model": setup.model,
            "rounds": rounds, "average_last": window, "local_epochs": setup.local_epochs,
            "batch_size": setup.batch_size, "momentum": setup.momentum,
            "evaluate_clients": setup.evaluate_clients, "evaluate_every": 5, "client_lr": RATE,
        }  # fmt: skip
        return Experiment(**(protocol | dict(self.common)))

    def choices(self) -> list[Experiment]:
        """What is run first, on the tuning seed, evaluated in the window only."""
        return [
            self._tuning(partition, candidate)
            for partition in self.partitions
            for row in self.rows(partition)
            if len(row.candidates) > 1
            for candidate in row.candidates
        ]

    def _tuning(self, partition: str, candidate: dict[str, Any]) -> Experiment:
        base = self.base(partition)
        return replace(
            base, **candidate, seed=TUNING_SEED, evaluate_every=base.rounds or 1
        ).resolved()

    def experiments(
        self,
        records: Iterable[Record],
        seeds: tuple[int, ...] = SEEDS,
        client_lrs: tuple[float, ...] = (RATE,),
    ) -> list[Experiment]:
        """What is reported, seed by seed; `records` have the runs that choices are made by.

        Rows that leave the client's rate open have each of these.
        """
        cells = self.cells(records)
        return [
            replace(cell, seed=seed, client_lr=rate).resolved()
            for seed in seeds
            for partition in self.partitions
            for row in self.rows(partition)
            if (cell := cells[row.label][partition]) is not None
            for rate in (client_lrs if row.free else (cell.client_lr,))
        ]

    def at_rate(self, client_lr: float) -> dict[str, dict[str, Experiment | None]]:
        """The cells of the rows that leave the client's rate open, at that rate."""
        return {
            label: {p: cell and replace(cell, client_lr=client_lr) for p, cell in row.items()}
            for label, row in self.cells(()).items()
            if label in self.free()
        }

    def free(self) -> set[str]:
        """The rows that leave the client's rate open."""
        return {row.label for row in self.rows(self.partitions[0]) if row.free}

    def searched(self) -> set[str]:
        """The fields that some row chooses."""
        return {
            name
            for partition in self.partitions
            for row in self.rows(partition)
            if len(row.candidates) > 1
            for name in row.candidates[0]
            if len({str(candidate[name]) for candidate in row.candidates}) > 1
        }

    def cells(self, records: Iterable[Record]) -> dict[str, dict[str, Experiment | None]]:
        """The settings of every cell, by label and partition; None where no choice can be made."""
        known = {record.id: record for record in records}
        table: dict[str, dict[str, Experiment | None]] = {}
        for partition in self.partitions:
            for row in self.rows(partition):
                chosen = self._choose(partition, row, known)
                table.setdefault(row.label, {})[partition] = (
                    None if chosen is None else replace(self.base(partition), **chosen)
                )
        return table

    def _choose(self, partition: str, row: Row, known: dict[str, Record]) -> dict[str, Any] | None:
        """The candidate with the highest accuracy on the tuning seed; the first of equals."""
        if len(row.candidates) == 1:
            return row.candidates[0]
        best, found = None, -1.0
        for candidate in row.candidates:
            record = known.get(run_id(given(self._tuning(partition, candidate))))
            if record is None:
                return None
            if (record.final_accuracy or 0.0) > found:
                best, found = candidate, record.final_accuracy or 0.0
        return best

    def minutes(self, seeds: int, workers: int, client_lrs: int = 1) -> float:
        """How long it takes here, all of it, about."""
        train, evaluate = SECONDS[self.dataset]
        total = 0.0
        for partition in self.partitions:
            base = self.base(partition)
            rounds, window = base.rounds or 0, base.average_last or 0
            every = window + (rounds - window) // base.evaluate_every
            fraction = min(1.0, (base.evaluate_examples or 1e9) / EVALUATED[self.dataset])
            for row in self.rows(partition):
                own = replace(base, **row.candidates[0])
                epochs = (own.local_epochs or 1) / (base.local_epochs or 1)
                everyone = base.clients or 0 if own.algorithm == "mifa" else 0  # in round 1
                trained = rounds * own.clients_per_round + everyone
                one = trained * epochs * train / 5
                runs = seeds * (client_lrs if row.free else 1)
                total += runs * (one + every * evaluate * fraction)
                if len(row.candidates) > 1:
                    total += len(row.candidates) * (one + window * evaluate * fraction)
        return total / workers / 60


def optimizer_rows(dataset: str) -> list[Row]:
    """The 33 rows of an optimizer table."""
    rows = []
    for row in numbers.accuracy(dataset):
        settings: dict[str, Any] = {"algorithm": row.algorithm, "server_lr": row.server_lr}
        if row.optimizer is not None:
            settings["optimizer"] = row.optimizer
        name = " ".join(filter(None, [row.algorithm, row.optimizer, f"{row.server_lr:g}"]))
        rows.append(Row.of(name, **settings))
    return rows


def baseline_rows(dataset: str, partition: str, search: bool) -> list[Row]:
    """The nine baselines, FedAdaVR as the paper found it best, and FedAdaVR+.

    With `search` everyone's client rate is chosen among three; of the tuned FedOpt the server's
    rate, with the client's at 0.01.
    """

    def searched(label: str, **settings: Any) -> Row:
        if not search:
            return Row.of(label, **settings)
        return Row(label, tuple(settings | {"client_lr": rate} for rate in RATES))

    rows = [searched(name, algorithm=name) for name in BASELINES if name != "fedvarp"]
    server_lr = numbers.best(dataset, partition, "fedvarp")[0].server_lr
    rows.append(searched("fedvarp", algorithm="fedvarp", server_lr=server_lr))
    for name in FEDOPT:
        rows.append(Row.of(f"{name}, tau 1e-9", algorithm=name, tau=1e-9))
        tuned = tuple({"algorithm": name, "server_lr": rate} for rate in TUNED)
        if search:
            rows.append(Row(f"{name}, tuned", tuned))
        elif name != "fedyogi":  # whose own rate that is
            rows.append(Row.of(f"{name}, server rate 0.01", algorithm=name, server_lr=0.01))
    for name in ("fedadavr", "fedadavr-quant"):
        (_, optimizer, server_lr), _ = numbers.best(dataset, partition, name)
        best = {"algorithm": name, "optimizer": optimizer, "server_lr": server_lr}
        rows.append(searched(f"{name}, the paper's best", **best))
    rows.append(searched("fedadavr-plus", algorithm="fedadavr-plus", server_lr=0.005))
    return rows


def ablation_rows(_: str) -> list[Row]:
    """FedAdaVR, and either half of it."""
    both = {"optimizer": "adagrad", "server_lr": 0.01}
    return [
        Row.of("fedadavr", algorithm="fedadavr", **both),
        Row.of("no memory (NoVR)", algorithm="fedadavr-novr", **both),
        Row.of(
            "no optimizer (NoOpt), server rate 0.01", algorithm="fedadavr-noopt", server_lr=0.01
        ),
        Row.of("no optimizer (NoOpt), server rate 1", algorithm="fedadavr-noopt", server_lr=1.0),
    ]


def precision_rows(_: str) -> list[Row]:
    """The four ways to store the memory."""
    return [
        Row.of(codec, algorithm="fedadavr-quant", codec=codec, optimizer="adagrad",
               server_lr=0.001, client_lr=0.001)
        for codec in ("fp32", "fp16", "int8", "int4")
    ]  # fmt: skip


def participation_rows(_: str) -> list[Row]:
    """More clients a round, and more local work."""
    both = {"algorithm": "fedadavr", "optimizer": "adam", "server_lr": 0.005}
    rows = [
        Row.of(f"{count} clients a round, 1 epoch", **both, clients_per_round=count)
        for count in (2, 5, 10, 25)
    ]
    return rows + [
        Row.of(f"5 clients a round, {epochs} epochs", **both, local_epochs=epochs)
        for epochs in (2, 5)
    ]


def beginning_rows(dataset: str, partition: str) -> list[Row]:
    """Four algorithms, to have begun."""
    rows = [Row.of(name, algorithm=name) for name in ("fedavg", "fedvarp")]
    for name in ("fedadavr", "fedadavr-quant"):
        (_, optimizer, server_lr), _ = numbers.best(dataset, partition, name)
        rows.append(Row.of(name, algorithm=name, optimizer=optimizer, server_lr=server_lr))
    return rows


NAMES = {"mnist": "MNIST", "fmnist": "Fashion-MNIST", "cifar10": "CIFAR-10",
         "shakespeare": "Shakespeare"}  # fmt: skip


def _presets() -> Iterable[Preset]:
    for dataset, name in NAMES.items():
        partitions = tuple(numbers.partitions(dataset))
        table = numbers.accuracy(dataset)
        easy, hard = partitions[0], "lq-1" if "lq-1" in partitions else partitions[0]
        best = {p: numbers.best(dataset, p, "fedadavr") for p in (easy, hard)}
        told = " and ".join(
            f"{accuracy:.1f} % on {p} ({row.optimizer}, {row.server_lr:g})"
            for p, (row, accuracy) in best.items()
        )
        yield Preset(
            f"{dataset}-optimizers", f"{name}: FedVARP, FedAdaVR, FedAdaVR-Quant by server rate",
            f"FedAdaVR at its best {told}; {len(table)} rows", dataset, partitions,
            lambda _, d=dataset: optimizer_rows(d),  # type: ignore[misc]
        )  # fmt: skip
    for dataset, name in NAMES.items():
        partitions = tuple(numbers.partitions(dataset))
        targets = {"mnist": (50, 60, 70, 80), "fmnist": (40, 50, 60, 65),
                   "cifar10": (20, 25, 30, 35, 40, 45)}.get(dataset, ())  # fmt: skip
        yield Preset(
            f"{dataset}-baselines", f"{name}: curves of nine baselines and FedAdaVR",
            "FedAdaVR above all baselines, FedYogi the best of them", dataset, partitions,
            lambda p, d=dataset: baseline_rows(d, p, search=d != "fmnist"),  # type: ignore[misc]
            targets=targets,
        )  # fmt: skip
    for dataset in ("fmnist", "cifar10"):
        yield Preset(
            f"{dataset}-ablation", f"{NAMES[dataset]}, lq-1: without memory, without optimizer",
            "NoVR unstable, NoOpt slow, FedAdaVR best", dataset, ("lq-1",), ablation_rows,
        )  # fmt: skip
        yield Preset(
            f"{dataset}-precisions", f"{NAMES[dataset]}, lq-1: fp32, fp16, int8, int4",
            "no difference", dataset, ("lq-1",), precision_rows,
        )  # fmt: skip
    yield Preset(
        "mnist-participation", "MNIST: more clients a round, more local steps",
        "both help", "mnist", ("lq-1", "lq-2", "dirichlet"), participation_rows,
    )  # fmt: skip
    for dataset, partition in (("cifar10", "lq-1"), ("shakespeare", "natural")):
        examples = {"cifar10": 2_000, "shakespeare": 20_000}[dataset]
        yield Preset(
            f"{dataset}-beginning", f"{NAMES[dataset]}: the first ten rounds of four algorithms",
            "A beginning, no result", dataset, (partition,),
            lambda p, d=dataset: beginning_rows(d, p),  # type: ignore[misc]
            (("rounds", 10), ("average_last", 1), ("evaluate_examples", examples)),
            beginning=True,
        )  # fmt: skip


PRESETS = {preset.name: preset for preset in _presets()}
