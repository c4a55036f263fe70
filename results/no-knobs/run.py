"""The runs of STUDY.md, each once; a line of `records.jsonl` for each.

FEDADAVR_DATA=... python results/no-knobs/run.py core finals axes fmnist starts paper

Stop it at any moment and start it again: what is recorded is not run again. Two processes, one
thread each.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before anything is imported that looks

import numpy as np  # noqa: E402

HERE = Path(__file__).parent
LINES = HERE / "records.jsonl"
SIX = ("lq-1", "lq-2", "lq-3", "dirichlet", "iid-noniid", "iid")
FOUR = ("lq-1", "lq-2", "dirichlet", "iid")
TWO = ("lq-1", "dirichlet")
AXES: tuple[dict[str, Any], ...] = (
    {"clients": 100, "rounds": 50}, {"clients": 1000}, {"clients_per_round": 2},
    {"clients_per_round": 15}, {"rounds": 200}, {"availability": "independent:p=0.2,each=beta"},
)  # fmt: skip
"""One at a time, beside 500 clients, 5 per round, 100 rounds, uniformly there."""
POWER = 8  # of the average, as in fedadavr.memory.average

_PLAIN = ("1.0", "0.3", "0.6", "1.5")
_ADAPTIVE = (
    "optimizer=adam,server-lr=0.01", "optimizer=adam,server-lr=0.003",
    "optimizer=adam,server-lr=learned", "optimizer=adam,beta2=0.99,server-lr=learned",
)  # fmt: skip
TRAININGS: dict[str, tuple[str, ...]] = {
    "fedavg": tuple(f"fedavg:server-lr={rate}" for rate in _PLAIN),
    "fedvarp": tuple(f"fedvarp:server-lr={rate}" for rate in _PLAIN),
    "fedyogi": tuple(f"fedyogi:server-lr={rate}" for rate in ("0.01", "0.003", "0.03", "learned")),
    "fedadavr": tuple(f"fedadavr:{words}" for words in _ADAPTIVE),
    "fedadavr-plus": tuple(f"fedadavr-plus:{words}" for words in _ADAPTIVE),
}
"""By algorithm; the first is what version 0.2 has as its default."""
STARTS = (
    *(f"fedadavr-plus:optimizer=adam,server-lr={rate}" for rate in (0.001, 0.003, 0.01, 0.03)),
    *(f"fedadavr-plus:optimizer=adam,server-lr=learned,server-lr-start={start}"
      for start in ("none", 0.0001, 0.001, 0.01)),
)  # fmt: skip

Case = dict[str, Any]


def case(
    part: str, words: str, partition: str, seed: int, dataset: str = "mnist", **fields: Any
) -> Case:
    """One run."""
    usual = {"clients": 500, "clients_per_round": 5, "rounds": 100, "local_epochs": 1,
             "client_lr": 0.01, "availability": "uniform"}  # fmt: skip
    return (
        {"part": part, "words": words, "dataset": dataset, "partition": partition, "seed": seed}
        | usual
        | fields
    )


def cases(part: str) -> Iterator[Case]:
    """The runs of a part."""
    from choose import OURS, chosen, chosen_of, finalists

    if part in ("core", "finals"):
        every = [words for own in TRAININGS.values() for words in own]
        who, seed = (every, 51) if part == "core" else (finalists(), 52)
        for words in who:
            for partition in FOUR:
                for client_lr in (0.01, 0.1):
                    yield case(part, words, partition, seed, client_lr=client_lr)
    elif part == "axes":
        best = chosen_of(("core", "finals"), "fedyogi", "fedadavr")
        plus = [words for words in finalists() if words in TRAININGS["fedadavr-plus"]]
        for fields in AXES:
            for partition in TWO:
                for words in best + plus:
                    yield case(part, words, partition, 51, **fields)
    elif part == "fmnist":
        for words in dict.fromkeys([*chosen(), *(TRAININGS[name][0] for name in OURS)]):
            for partition in SIX:
                yield case(part, words, partition, 51, "fmnist", local_epochs=3)
    elif part == "starts":
        for partition in SIX:
            for words in STARTS:
                yield case(part, words, partition, 51)
    elif part == "paper":
        for dataset, seeds in (("mnist", (42, 43, 44)), ("fmnist", (42,))):
            for partition in SIX:
                for seed in seeds:
                    for words in chosen("fedadavr-plus"):
                        yield case(
                            part, words, partition, seed, dataset, **protocol(dataset, partition)
                        )
    else:
        raise SystemExit(f"there is no part {part}: core finals axes fmnist starts paper")


def protocol(dataset: str, partition: str) -> dict[str, Any]:
    """The paper's."""
    from fedadavr.paper import numbers

    setup, (rounds, window) = numbers.setup(dataset), numbers.rounds(dataset, partition)
    return {"clients": setup.clients, "clients_per_round": setup.clients_per_round,
            "rounds": rounds, "local_epochs": setup.local_epochs, "window": window}  # fmt: skip


def made(told: Case) -> Case:
    """One run: the accuracy of the last model and of the average, over the last rounds."""
    import torch

    from fedadavr.clients import LocalSGD, layout_of
    from fedadavr.experiments.experiment import Experiment
    from fedadavr.experiments.run import make_federation
    from fedadavr.models import build
    from fedadavr.simulation import Engine
    from fedadavr.simulation.engine import CHUNK, Diverged

    began = time.time()
    torch.set_num_threads(1)
    fields = {
        name: value for name, value in told.items() if name not in ("part", "words", "window")
    }
    experiment = Experiment.of(**fields).with_algorithm(told["words"]).resolved()
    federation = make_federation(experiment)
    module = build("lenet5", 10, experiment.seed)
    sizes = {str(k): len(part) for k, part in enumerate(federation.train_parts)}
    server = experiment.server(layout_of(module), sizes)
    local = LocalSGD(
        experiment.client_lr, experiment.momentum, told["local_epochs"], experiment.batch_size or 20
    )
    window = told.get("window", 10)
    last, averaged, rates, reached, average = [], [], [], 0, None
    try:
        with Engine(
            server, module, federation, local, seed=experiment.seed,
            clients_per_round=told["clients_per_round"], availability=experiment.availability,
            evaluate_clients=experiment.evaluate_clients,
        ) as engine:  # fmt: skip
            model = engine._workers._worker.model  # type: ignore[union-attr]

            def accuracy(w: Any) -> float:
                w = torch.from_numpy(np.asarray(w, np.float32))
                indices = torch.from_numpy(engine._test_indices()[0])
                hits = [
                    model.evaluate(w, federation.test, chunk)[1] for chunk in indices.split(CHUNK)
                ]
                return 100 * float(torch.cat(hits).float().mean())

            for report in engine.rounds(told["rounds"]):
                reached, w = report.round, engine.w.astype(np.float64)
                share = (POWER + 1) / (reached + POWER)
                average = w if average is None else average + share * (w - average)
                rates.append(report.report.get("server_lr"))
                if reached > told["rounds"] - window:
                    last.append(accuracy(w))
                    averaged.append(accuracy(average))
        failure = None
    except Diverged as error:
        failure = str(error)
    return told | {
        "last": float(np.mean(last)) if last and not failure else 10.0,
        "averaged": float(np.mean(averaged)) if averaged and not failure else 10.0,
        "rates": [r and float(f"{r:.3g}") for r in rates[:: max(1, len(rates) // 10)]],
        "failure": failure, "reached": reached, "seconds": round(time.time() - began, 1),
    }  # fmt: skip


def key_of(told: Case) -> str:
    """What tells a case from all others, whatever part it is of."""
    return json.dumps({name: told[name] for name in sorted(told) if name in _GIVEN})


_GIVEN = {"words", "dataset", "partition", "seed", "clients", "clients_per_round", "rounds",
          "local_epochs", "client_lr", "availability", "window"}  # fmt: skip


def lines(path: Path = LINES) -> list[Case]:
    """What was measured so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="+")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    sys.path.insert(0, str(HERE))
    with multiprocessing.get_context("spawn").Pool(asked.workers, os.nice, (19,)) as pool:
        for part in asked.parts:
            done = {key_of(line) for line in lines()}
            left = [told for told in cases(part) if key_of(told) not in done]
            began = time.time()
            for number, line in enumerate(pool.imap_unordered(made, left), 1):
                with LINES.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                spent = (time.time() - began) / 60
                total = spent / number * len(left)
                print(f"{part} {number}/{len(left)}, {spent:.0f} of some {total:.0f} min:",
                      *(line[name] for name in ("words", "dataset", "partition")),
                      f"{line['last']:.1f} {line['averaged']:.1f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
