"""Every table and figure of the paper that can be run, as lists of experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.records import RunRecord, run_id
from fedadavr.paper import numbers
from fedadavr.paper.protocol import RATE, RATES, SEEDS, TUNING_SEED

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
class TableRow:
    """An algorithm of a table, with its settings; of several candidates one is chosen."""

    label: str
    candidates: tuple[dict[str, Any], ...]

    @property
    def free(self) -> bool:
        """Whether it leaves the client's rate open."""
        return len(self.candidates) == 1 and "client_lr" not in self.candidates[0]

    @staticmethod
    def of(label: str, **settings: Any) -> TableRow:
        """A row without a choice."""
        return TableRow(label, (settings,))


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
    rows: Callable[[str], list[TableRow]]
    """The rows for a partition."""
    common: tuple[tuple[str, Any], ...] = ()
    """Settings of all its runs that differ from the paper's protocol."""
    targets: tuple[int, ...] = ()
    """Accuracies in percent whose first rounds it tells, on its hardest partition."""

    beginning: bool = False
    """Whether it is only a beginning, which nothing follows from."""
    ours: bool = False
    """Whether it is an experiment of our own, of which the paper says nothing."""
    seconds: tuple[float, float] | None = None
    """As in `SECONDS`, where it differs."""
    store: str | None = None
    """lmdb: a run's memory and checkpoints would not fit into RAM, so it has a store of its own."""
    commit_every: int | None = None
    """With a store: commit every so many rounds."""

    @property
    def told(self) -> str:
        """What one should get, as a sentence."""
        own = self.beginning or self.ours
        return f"{self.expect}." if own else f"By the paper: {self.expect}."

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
        return base.updated(
            **candidate, seed=TUNING_SEED, evaluate_every=base.rounds or 1
        ).resolved()

    def experiments(
        self,
        records: Iterable[RunRecord],
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

    def cells(self, records: Iterable[RunRecord]) -> dict[str, dict[str, Experiment | None]]:
        """The settings of every cell, by label and partition; None where no choice can be made."""
        known = {record.id: record for record in records}
        table: dict[str, dict[str, Experiment | None]] = {}
        for partition in self.partitions:
            for row in self.rows(partition):
                chosen = self._choose(partition, row, known)
                table.setdefault(row.label, {})[partition] = (
                    None if chosen is None else self.base(partition).updated(**chosen)
                )
        return table

    def _choose(
        self, partition: str, row: TableRow, known: dict[str, RunRecord]
    ) -> dict[str, Any] | None:
        """The candidate with the highest accuracy on the tuning seed; the first of equals."""
        if len(row.candidates) == 1:
            return row.candidates[0]
        best, found = None, -1.0
        for candidate in row.candidates:
            record = known.get(run_id(self._tuning(partition, candidate)))
            if record is None:
                return None
            if (record.final_accuracy or 0.0) > found:
                best, found = candidate, record.final_accuracy or 0.0
        return best

    def minutes(self, seeds: int, workers: int, client_lrs: int = 1) -> float:
        """How long it takes here, all of it, about."""
        train, evaluate = self.seconds or SECONDS[self.dataset]
        total = 0.0
        for partition in self.partitions:
            base = self.base(partition)
            rounds, window = base.rounds or 0, base.average_last or 0
            every = window + (rounds - window) // base.evaluate_every
            fraction = min(1.0, (base.evaluate_examples or 1e9) / EVALUATED[self.dataset])
            for row in self.rows(partition):
                own = base.updated(**row.candidates[0])
                epochs = (own.local_epochs or 1) / (base.local_epochs or 1)
                everyone = base.clients or 0 if own.algorithm == "mifa" else 0  # in round 1
                trained = rounds * own.clients_per_round + everyone
                one = trained * epochs * train / 5
                runs = seeds * (client_lrs if row.free else 1)
                total += runs * (one + every * evaluate * fraction)
                if len(row.candidates) > 1:
                    total += len(row.candidates) * (one + window * evaluate * fraction)
        return total / workers / 60


def optimizer_rows(dataset: str) -> list[TableRow]:
    """The 33 rows of an optimizer table."""
    rows = []
    for row in numbers.accuracy(dataset):
        settings: dict[str, Any] = {"algorithm": row.algorithm, "server_lr": row.server_lr}
        if row.optimizer is not None:
            settings["optimizer"] = row.optimizer
        name = " ".join(filter(None, [row.algorithm, row.optimizer, f"{row.server_lr:g}"]))
        rows.append(TableRow.of(name, **settings))
    return rows


def baseline_rows(dataset: str, partition: str, search: bool) -> list[TableRow]:
    """The nine baselines, FedAdaVR as the paper found it best, and FedAdaVR+.

    With `search` everyone's client rate is chosen among three; of the tuned FedOpt the server's
    rate, with the client's at 0.01.
    """

    def searched(label: str, **settings: Any) -> TableRow:
        if not search:
            return TableRow.of(label, **settings)
        return TableRow(label, tuple(settings | {"client_lr": rate} for rate in RATES))

    rows = [searched(name, algorithm=name) for name in BASELINES if name != "fedvarp"]
    server_lr = numbers.best(dataset, partition, "fedvarp")[0].server_lr
    rows.append(searched("fedvarp", algorithm="fedvarp", server_lr=server_lr))
    for name in FEDOPT:
        rows.append(TableRow.of(f"{name}, tau 1e-9", algorithm=name, tau=1e-9))
        tuned = tuple({"algorithm": name, "server_lr": rate} for rate in TUNED)
        if search:
            rows.append(TableRow(f"{name}, tuned", tuned))
        elif name != "fedyogi":  # whose own rate that is
            rows.append(TableRow.of(f"{name}, server rate 0.01", algorithm=name, server_lr=0.01))
    for name in ("fedadavr", "fedadavr-quant"):
        (_, optimizer, server_lr), _ = numbers.best(dataset, partition, name)
        best = {"algorithm": name, "optimizer": optimizer, "server_lr": server_lr}
        rows.append(searched(f"{name}, the paper's best", **best))
    rows.append(searched("fedadavr-plus", algorithm="fedadavr-plus", server_lr=0.005))
    return rows


def ablation_rows(_: str) -> list[TableRow]:
    """FedAdaVR, and either half of it."""
    both = {"optimizer": "adagrad", "server_lr": 0.01}
    return [
        TableRow.of("fedadavr", algorithm="fedadavr", **both),
        TableRow.of("no memory (NoVR)", algorithm="fedadavr-novr", **both),
        TableRow.of(
            "no optimizer (NoOpt), server rate 0.01", algorithm="fedadavr-noopt", server_lr=0.01
        ),
        TableRow.of(
            "no optimizer (NoOpt), server rate 1", algorithm="fedadavr-noopt", server_lr=1.0
        ),
    ]


def precision_rows(_: str) -> list[TableRow]:
    """The four ways to store the memory."""
    return [
        TableRow.of(codec, algorithm="fedadavr-quant", codec=codec, optimizer="adagrad",
               server_lr=0.001, client_lr=0.001)
        for codec in ("fp32", "fp16", "int8", "int4")
    ]  # fmt: skip


def participation_rows(_: str) -> list[TableRow]:
    """More clients per round, and more local work."""
    both = {"algorithm": "fedadavr", "optimizer": "adam", "server_lr": 0.005}
    rows = [
        TableRow.of(f"{count} clients per round, 1 epoch", **both, clients_per_round=count)
        for count in (2, 5, 10, 25)
    ]
    return rows + [
        TableRow.of(f"5 clients per round, {epochs} epochs", **both, local_epochs=epochs)
        for epochs in (2, 5)
    ]


def beginning_rows(dataset: str, partition: str) -> list[TableRow]:
    """Four algorithms, to have begun."""
    rows = [TableRow.of(name, algorithm=name) for name in ("fedavg", "fedvarp")]
    for name in ("fedadavr", "fedadavr-quant"):
        (_, optimizer, server_lr), _ = numbers.best(dataset, partition, name)
        rows.append(TableRow.of(name, algorithm=name, optimizer=optimizer, server_lr=server_lr))
    return rows


def column_rows(dataset: str, partition: str) -> list[TableRow]:
    """One column of an optimizer table, with three optimizers at the paper's best rates."""
    table = {row: cells[partition] for row, cells in numbers.accuracy(dataset).items()}
    rows = [TableRow.of(name, algorithm=name) for name in ("fedavg", "fedyogi")]
    server_lr = numbers.best(dataset, partition, "fedvarp")[0].server_lr
    rows.append(TableRow.of("fedvarp", algorithm="fedvarp", server_lr=server_lr))
    for optimizer in ("adam", "yogi", "lamb"):
        mine = [row for row in table if row[:2] == ("fedadavr", optimizer)]
        server_lr = max(mine, key=table.__getitem__).server_lr
        rows.append(TableRow.of(f"fedadavr {optimizer} {server_lr:g}", algorithm="fedadavr",
                           optimizer=optimizer, server_lr=server_lr))  # fmt: skip
    (name, own, server_lr), _ = numbers.best(dataset, partition, "fedadavr-quant")
    rows.append(TableRow.of(f"{name} {own} {server_lr:g} int4", algorithm=name, optimizer=own,
                       server_lr=server_lr, codec="int4"))  # fmt: skip
    rows.append(TableRow.of("fedadavr-plus", algorithm="fedadavr-plus", server_lr=0.005))
    return rows


FMNIST_BEST: dict[str, dict[str, tuple[str | None, float]]] = {
    "iid": {"fedvarp": (None, 1.0), "fedadavr": ("adabelief", 0.005),
            "fedadavr-quant": ("adam", 0.005)},
    "iid-noniid": {"fedvarp": (None, 1.0), "fedadavr": ("yogi", 0.005),
                   "fedadavr-quant": ("adabelief", 0.005)},
    "dirichlet": {"fedvarp": (None, 1.0), "fedadavr": ("adabelief", 0.005),
                  "fedadavr-quant": ("adabelief", 0.01)},
    "lq-1": {"fedvarp": (None, 0.1), "fedadavr": ("yogi", 0.005),
             "fedadavr-quant": ("adagrad", 0.01)},
    "lq-2": {"fedvarp": (None, 1.0), "fedadavr": ("yogi", 0.01),
             "fedadavr-quant": ("yogi", 0.005)},
    "lq-3": {"fedvarp": (None, 1.0), "fedadavr": ("yogi", 0.005),
             "fedadavr-quant": ("adam", 0.005)},
}  # fmt: skip
"""The best rows of our own Fashion-MNIST table on seed 42: optimizer and server rate."""


def best_rows(partition: str) -> list[TableRow]:
    """Fashion-MNIST: each algorithm's best settings in our own table."""
    rows = []
    for name, (optimizer, server_lr) in FMNIST_BEST[partition].items():
        settings: dict[str, Any] = {"algorithm": name, "server_lr": server_lr}
        if optimizer is not None:
            settings["optimizer"] = optimizer
        rows.append(TableRow.of(f"{name}, the best on seed 42", **settings))
    return rows


def small_cnn_rows(_: str) -> list[TableRow]:
    """Seven algorithms, each with the best of three client rates on the tuning seed."""
    adam = {"optimizer": "adam", "server_lr": 0.005}
    settings: dict[str, dict[str, Any]] = {
        "fedavg": {}, "scaffold": {}, "fedyogi": {}, "fedvarp": {"server_lr": 1.0},
        "fedadavr": adam, "fedadavr-quant": adam | {"codec": "int4"}, "fedadavr-plus": adam,
    }  # fmt: skip
    return [
        TableRow(name, tuple({"algorithm": name, **own, "client_lr": rate} for rate in RATES))
        for name, own in settings.items()
    ]


def letters_rows(dataset: str, partition: str) -> list[TableRow]:
    """Shakespeare: five algorithms, FedAdaVR as the paper found it best, FedAdaVR+ alike."""
    rows = [TableRow.of(name, algorithm=name) for name in ("fedavg", "fedadagrad")]
    server_lr = numbers.best(dataset, partition, "fedvarp")[0].server_lr
    rows.append(TableRow.of("fedvarp", algorithm="fedvarp", server_lr=server_lr))
    (_, optimizer, server_lr), _ = numbers.best(dataset, partition, "fedadavr")
    for name in ("fedadavr", "fedadavr-plus"):
        rows.append(TableRow.of(name, algorithm=name, optimizer=optimizer, server_lr=server_lr))
    return rows


def untyped_rows(search: bool) -> list[TableRow]:
    """FedAdaVR and FedAdaVR+ as they are, and two whose average of the models is served likewise.

    With `search` the clients' rates are chosen.
    """
    rows = {f"{name}, averaged": {"algorithm": name, "averaging": True}
            for name in ("fedavg", "fedyogi")}  # fmt: skip
    for name in ("fedadavr", "fedadavr-plus"):
        rows[f"{name}, nothing typed"] = {"algorithm": name}
    rates: list[dict[str, Any]] = [{"client_lr": rate} for rate in RATES] if search else [{}]
    return [TableRow(name, tuple(own | rate for rate in rates)) for name, own in rows.items()]


def untyped(preset: Preset, shows: str) -> Preset:
    """The same protocol, with nothing typed but the algorithm's name."""
    search = "client_lr" in preset.searched()
    return replace(
        preset, name=f"{preset.name}-untyped", shows=shows, ours=True,
        expect="FedAdaVR+ at most 1.5 points below the best, here and in that table",
        rows=lambda _: untyped_rows(search),
    )  # fmt: skip


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
        "mnist-participation", "MNIST: more clients per round, more local steps",
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

    column = Preset(
        "cifar10-iid", "CIFAR-10, ResNet-18: the iid column, eight algorithms",
        "FedAdaVR 70.8 (adam), 72.0 (yogi) and 71.2 % (lamb), FedVARP 69.0 %", "cifar10", ("iid",),
        lambda p: column_rows("cifar10", p), (("evaluate_every", 10),), seconds=(14.0, 7.0),
        store="lmdb", commit_every=5,
    )  # fmt: skip
    yield column
    yield untyped(column, "CIFAR-10, ResNet-18, iid: nothing typed but the name")
    yield Preset(
        "fmnist-best", "Fashion-MNIST: each algorithm's best settings on seed 42, on other seeds",
        "No figure of the paper, but whether the best of a table stays the best", "fmnist",
        tuple(numbers.partitions("fmnist")), best_rows, ours=True,
    )  # fmt: skip
    cnn = Preset(
        "cifar10-cnn", "CIFAR-10 with NIID-Bench's small CNN, client rates chosen on seed 41",
        "The paper has none: a model small enough for seeds", "cifar10", ("dirichlet", "lq-2"),
        small_cnn_rows,
        (("model", "simple-cnn"), ("rounds", 200), ("average_last", 20), ("evaluate_every", 10)),
        ours=True, seconds=(0.6, 0.9),
    )  # fmt: skip
    yield cnn
    yield untyped(cnn, "CIFAR-10 with the small CNN: nothing typed but the name")
    letters = Preset(
        "shakespeare-best", "Shakespeare: five algorithms at the paper's best settings",
        "FedAdaVR 50.6, FedVARP 50.3 %", "shakespeare", ("natural",),
        lambda p: letters_rows("shakespeare", p),
        (("evaluate_every", 10), ("evaluate_examples", 20_000)), seconds=(40.0, 60.0),
    )  # fmt: skip
    yield letters
    yield untyped(letters, "Shakespeare: nothing typed but the name")


PRESETS = {preset.name: preset for preset in _presets()}
