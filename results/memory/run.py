"""The runs of STUDY.md, each once; a line of `records.jsonl` for each. See there.

FEDADAVR_DATA=... python results/memory/run.py [--part 1/2] [--only codecs] [--data mnist-5k]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedadavr.clients import LocalSGD, layout_of
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.run import make_federation
from fedadavr.models import build
from fedadavr.simulation import Engine
from fedadavr.stores import compression
from fedadavr.stores.record_format import SIZE

HERE = Path(__file__).parent
LINES = HERE / "records.jsonl"
SEEDS = (42, 43, 44)
ROUNDS, LAST = 300, 30
ALGORITHMS = ("fedadavr", "fedadavr-plus")
PARTITIONS = ("lq-1", "lq-2")
CODECS = ("fp32", "int8", "int4", "int4-block", "nf4", "rot4", "rot3", "rot2", "rot1")
MORE_CODECS = ("fp16", "int8-block")
OLD: tuple[dict[str, Any], ...] = (
    {}, {"staleness_half_life": 5.0}, {"staleness_half_life": 20.0}, {"staleness_half_life": 60.0},
    {"prune_after": 20}, {"prune_after": 60},
)  # fmt: skip
PRESENCE = ("uniform", "independent:each=label")
ROUNDED = ("int8", "int4", "int8-block", "int4-block")
MORE_SEEDS = tuple(range(45, 55))
PARTS = ("codecs", "staleness", "rounding", "seeds")
FULL = ("fp32", "fp16")
FEWER = ("int8", "int4", "rot3", "rot2", "rot1")


def cases() -> Iterator[dict[str, Any]]:
    """All runs, those of a seed together."""
    for seed in SEEDS:
        for data in ("mnist-5k", "fmnist"):
            for partition in PARTITIONS:
                for algorithm in ALGORITHMS:
                    for codec in CODECS + (MORE_CODECS if data == "mnist-5k" else ()):
                        yield {"study": "codecs", "dataset": data, "partition": partition,
                               "algorithm": algorithm, "codec": codec, "seed": seed}  # fmt: skip
        for partition in PARTITIONS:
            for algorithm in ALGORITHMS:
                for presence in PRESENCE:
                    for old in OLD:
                        yield {"study": "staleness", "dataset": "mnist-5k", "partition": partition,
                               "algorithm": algorithm, "codec": "fp32", "seed": seed,
                               "availability": presence, **old}  # fmt: skip
                for codec in ROUNDED:
                    yield {"study": "rounding", "dataset": "mnist-5k", "partition": partition,
                           "algorithm": algorithm, "codec": codec, "seed": seed,
                           "rounding_seed": seed}  # fmt: skip
    for seed in MORE_SEEDS:
        for partition in PARTITIONS:
            for algorithm in ALGORITHMS:
                for codec in FULL + FEWER:
                    yield {"study": "seeds", "dataset": "mnist-5k", "partition": partition,
                           "algorithm": algorithm, "codec": codec, "seed": seed}  # fmt: skip


class Shadow:
    """What the clients sent last, in full: what the total and the records are held against."""

    def __init__(self, server: Any) -> None:
        self.server, self.sent = server, {}
        plain = server.step

        def step(w: Any, updates: Any, *, out: Any = None) -> Any:
            updates = list(updates)
            news = {u.client: (w - u.weights) / np.float32(server.client_lr) for u in updates}
            after = plain(w, updates, out=out)
            self.sent |= news
            return after

        server.step = step

    def of_total(self) -> float:
        """The relative squared error of the total."""
        memory, exact = self.server.memory, np.zeros_like(self.server.memory.total)
        for client, record in memory.records():
            exact += memory.share(record) * self.sent[client].astype(np.float64)
        return float(np.square(memory.total - exact).sum() / np.square(exact).sum())

    def of_records(self) -> float:
        """That of a record, the mean over the clients."""
        memory = self.server.memory
        return float(np.mean([
            np.square((memory.read(r) - self.sent[c]).astype(np.float64)).sum()
            / np.square(self.sent[c].astype(np.float64)).sum()
            for c, r in memory.records()
        ]))  # fmt: skip


def made(case: dict[str, Any], rounds: int = ROUNDS) -> dict[str, Any]:
    """One run."""
    began = time.time()
    settings = {name: value for name, value in case.items() if name != "study"}
    experiment = Experiment.of(
        clients=100, server_lr=0.005, local_epochs=1, rounds=rounds, **settings
    ).resolved()
    federation = make_federation(experiment)
    module = build("lenet5", 10, experiment.seed)
    sizes = {str(k): len(part) for k, part in enumerate(federation.train_parts)}
    server: Any = experiment.server(layout_of(module), sizes)
    shadow = Shadow(server)
    local = LocalSGD(experiment.client_lr, experiment.momentum, 1, experiment.batch_size)
    last, accuracy, errors = min(LAST, rounds), [], []
    with Engine(
        server, module, federation, local, seed=experiment.seed, clients_per_round=5,
        availability=experiment.availability, evaluate_clients=experiment.evaluate_clients,
    ) as engine:  # fmt: skip
        for number, every in ((rounds - last, None), (last, 1)):
            for report in engine.rounds(number, evaluate_every=every):
                if every:
                    accuracy.append(report.evaluation.accuracy)
                if report.round % LAST == 0 and report.round > rounds - 4 * LAST:
                    errors.append(shadow.of_total())
    d, memory = server.layout.size, server.memory
    size = SIZE + int(memory.offsets[-1])
    small = [SIZE + min(len(compression.pack(r.data)), r.data.nbytes) for _, r in memory.records()]
    visits = sum(1 for _ in memory.records())
    return case | {
        "accuracy": float(np.mean(accuracy)), "bits": 8 * size / d,
        "bits_zstd": 8 * float(np.mean(small)) / d,
        "error_total": float(np.mean(errors)) if errors else shadow.of_total(),
        "error_record": shadow.of_records(), "clients": visits, "rounds": rounds,
        "seconds": round(time.time() - began, 1),
    }  # fmt: skip


def key_of(case: dict[str, Any]) -> str:
    """What tells a case from all others."""
    given = ("study", "dataset", "partition", "algorithm", "codec", "seed", "availability",
             "staleness_half_life", "prune_after", "rounding_seed")  # fmt: skip
    return json.dumps({name: case[name] for name in given if name in case})


def lines(path: Path = LINES) -> list[dict[str, Any]]:
    """What was measured so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="1/1", help="as 1/2: the first of two processes")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--data", choices=("mnist-5k", "fmnist"), help="one of the data sets")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="fewer: to try it, elsewhere")
    parser.add_argument("--most", type=int, help="end after so many runs")
    parser.add_argument("--out", type=Path, default=LINES, help="where the lines go")
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    if asked.rounds != ROUNDS and asked.out == LINES:
        parser.error("--rounds is for trying it: name another file with --out")
    count = 0
    for place, case in enumerate(cases()):
        others = (
            asked.only not in (None, case["study"]),
            asked.data not in (None, case["dataset"]),
        )
        if place % parts != part - 1 or any(others):
            continue
        if key_of(case) in {key_of(line) for line in lines(asked.out)}:
            continue
        if asked.most is not None and count >= asked.most:
            break
        line = made(case, asked.rounds)
        with asked.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        count += 1
        print(f"{place + 1}: {key_of(case)} {line['accuracy']:.2f} %, {line['seconds']} s")


if __name__ == "__main__":
    main()
