"""Bounded influence touches no honest reply: recorded runs, made again, have the same figures.

    FEDADAVR_DATA=... python results/influence/check.py [--part 1/2] [--demo]

reruns seed 42 of each MNIST setting of the paper's optimizer table and of the baselines (295 runs
of some seven seconds), compares every recorded figure, and counts the replies that were clipped or
rejected. It goes on where it was stopped: each run is a line of `check.jsonl` beside this file.
With `--part 1/2` and `--part 2/2` two processes share the work. `--demo` makes the 15 runs of
`make demo` instead, each with clipping and without.

The records were made on a machine with AVX2. Wider instructions sum in another order, so they are
not used here; then the figures are the same to the bit, as they are written.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ |= {
    "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "",
}  # fmt: skip

from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.folder import RunFolder
from fedadavr.experiments.records import RunRecord, from_rows, read_lines
from fedadavr.experiments.run import RunOptions, run
from fedadavr.simulation import Diverged

HERE = Path(__file__).parent
LINES = HERE / "check.jsonl"
TABLES = ("mnist-optimizers", "mnist-baselines")
FIGURES = ("rounds", "accuracy", "loss", "final_accuracy", "final_loss", "worst_decile",
           "memory_bytes")  # fmt: skip


def recorded() -> list[RunRecord]:
    """The runs of seed 42 in an order that mixes them, so that a part is like the whole."""
    found = {
        record.id: record
        for table in TABLES
        for record in read_lines(HERE.parent / "paper" / table / "records.jsonl")
        if record.settings["seed"] == 42
    }
    return [found[name] for name in sorted(found)]


def made(experiment: Experiment) -> tuple[RunRecord, int, int]:
    """A run's record, and how many of its replies were clipped and rejected."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        memory, failure = 0, None
        try:
            memory = run(experiment, RunOptions(), folder, keep_last=False).memory_bytes
        except Diverged as error:
            failure = str(error)
        rows = RunFolder(folder).rows()
    record = replace(from_rows(experiment.resolved(), rows, memory), failure=failure)
    return record, *(sum(row.get(k, 0) for row in rows) for k in ("clipped", "rejected"))


def differences(one: RunRecord, other: RunRecord) -> list[str]:
    """The figures in which two records differ."""
    return [name for name in FIGURES if getattr(one, name) != getattr(other, name)]


def table(part: int, parts: int) -> Iterator[dict[str, Any]]:
    """One line for each recorded run that has none yet."""
    done = {line["id"] for line in lines()}
    for place, before in enumerate(recorded()):
        if place % parts != part or before.id in done:
            continue
        now, clipped, rejected = made(before.experiment)
        yield {
            "id": before.id, "algorithm": before.settings["algorithm"],
            "partition": before.settings["partition"], "differ": differences(before, now),
            "clipped": clipped, "rejected": rejected, "failure": [before.failure, now.failure],
        }  # fmt: skip


def demo() -> Iterator[dict[str, Any]]:
    """The runs of `make demo`, with clipping and without."""
    own: dict[str, dict[str, Any]] = {
        "fedavg": {}, "fedvarp": {}, "fedadavr-novr": {"server_lr": 0.005},
        "fedadavr": {"server_lr": 0.005}, "fedadavr-quant": {"server_lr": 0.005, "codec": "int4"},
    }  # fmt: skip
    for name, settings in own.items():
        for seed in (42, 43, 44):
            experiment = Experiment.of(algorithm=name, seed=seed, evaluate_every=5, **settings)
            now, clipped, rejected = made(experiment)
            off = made(experiment.updated(clip=0.0))[0]
            yield {
                "id": f"demo {name} {seed}", "algorithm": name, "partition": "lq-1",
                "differ": differences(off, now), "clipped": clipped, "rejected": rejected,
                "failure": [off.failure, now.failure],
            }  # fmt: skip


def lines() -> list[dict[str, Any]]:
    """What was found so far."""
    return [json.loads(line) for line in LINES.read_text().splitlines()] if LINES.exists() else []


def main() -> None:
    """Make what is missing, then say what came of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="1/1", help="as 1/2: the first of two processes")
    parser.add_argument("--demo", action="store_true", help="the runs of `make demo` instead")
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    for line in demo() if asked.demo else table(part - 1, parts):
        with LINES.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)
    found = lines()
    of_table = sum(not line["id"].startswith("demo") for line in found)
    print(
        f"{of_table} of {len(recorded())} recorded runs and {len(found) - of_table} of the demo: "
        f"{sum(bool(line['differ']) for line in found)} differ, "
        f"{sum(line['clipped'] for line in found)} replies clipped, "
        f"{sum(line['rejected'] for line in found)} rejected"
    )


if __name__ == "__main__":
    main()
