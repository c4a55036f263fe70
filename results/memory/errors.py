"""How far each codec is from real updates, and how many bytes they take, as they are and by zstd.

    FEDADAVR_DATA=... python results/memory/errors.py lenet5      # some seconds
    FEDADAVR_DATA=... python results/memory/errors.py resnet18    # some minutes

A run is begun and its replies are kept: Fashion-MNIST LQ-2 with LeNet-5, 60 updates from round 4
on, or CIFAR-10 LQ-2 with ResNet-18, 6 updates from round 2 on. Rotated codecs are measured twice:
with the coordinates that are zero for everybody omitted, as a memory does, and without.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from fedadavr import Layout
from fedadavr.algorithms.base import Algorithm
from fedadavr.codecs import CODECS, Support
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.run import RunOptions, run
from fedadavr.kernels import NEVER

CASES: dict[str, tuple[dict[str, Any], int, int]] = {
    "lenet5": ({"dataset": "fmnist"}, 3, 60),
    "resnet18": ({"dataset": "cifar10", "local_epochs": 1}, 1, 6),
}


class Enough(Exception):
    """There are as many updates as were asked for."""


def updates_of(case: str) -> tuple[Layout, list[Any]]:
    """The first updates of a run, after some rounds."""
    settings, after, number = CASES[case]
    kept: list[Any] = []
    plain, layouts = Algorithm.step, []

    def step(server: Any, w: Any, updates: Any, *, out: Any = None) -> Any:
        updates = list(updates)
        if server.round >= after:
            kept.extend(np.array(w - update.weights) for update in updates)
            layouts.append(server.layout)
        if len(kept) >= number:
            raise Enough
        return plain(server, w, updates, out=out)

    experiment = Experiment.of(
        algorithm="fedadavr", partition="lq-2", server_lr=0.005, evaluate_every=1000, **settings
    )
    Algorithm.step = step  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as place:
            run(experiment, RunOptions(), Path(place) / "run", keep_last=False)
    except Enough:
        pass
    finally:
        Algorithm.step = plain  # type: ignore[method-assign]
    return layouts[0], kept[:number]


def compressed(data: Any) -> tuple[int, float, float]:
    """The bytes by zstd, and the milliseconds there and back."""
    from fedadavr.stores.compression import pack, unpack

    began = time.perf_counter()
    small = pack(data)
    between = time.perf_counter()
    unpack(small)
    return len(small), 1e3 * (between - began), 1e3 * (time.perf_counter() - between)


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=CASES)
    layout, updates = updates_of(parser.parse_args().case)
    whole = np.stack(updates)
    born = np.where((whole != 0).any(axis=0), 1, NEVER).astype(np.int32)
    print(
        f"{len(updates)} updates of {layout.size:,} parameters; {(whole == 0).mean():.1%} of the "
        f"values are zero, {(born == NEVER).mean():.1%} of the coordinates in all of them\n"
    )
    print("| codec | bits | error, mean | worst | bits by zstd | ms | ms back |")
    print("|---|---|---|---|---|---|---|")
    for name, codec in CODECS.items():
        for support in (Support(born, 1), Support(born[:0], 0)):
            errors, sizes = [], []
            for update in updates:
                data = codec.encode(layout, update, support)
                read = codec.decode(layout, data, support).astype(np.float64)
                square = np.square(update.astype(np.float64)).sum()
                errors.append(np.square(read - update).sum() / square)
                sizes.append(compressed(data))
            size, there, back = (statistics.median(x) for x in zip(*sizes, strict=True))
            told = name if codec.omits_zeros or not len(support.born) else ""
            if codec.omits_zeros and not len(support.born):
                told = f"{name}, zeros kept"
            if told:
                print(f"| {told} | {codec.bits_per_value(layout):.2f} | {np.mean(errors):.5f} | "
                      f"{np.max(errors):.5f} | {8 * size / layout.size:.2f} | {there:.1f} | "
                      f"{back:.1f} |")  # fmt: skip


if __name__ == "__main__":
    main()
