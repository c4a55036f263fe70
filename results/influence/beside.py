"""One server step of two source trees, side by side in one process.

    python results/influence/beside.py BEFORE/src NOW/src [ROUNDS] [CASE ...]

times `bench server`'s steps (every codec and optimizer, and FedAdaVR+; a case is int8-adam or plus)
in turn, by the processor's time of all threads, since on a shared machine the clock tells more of
the neighbors. It prints the median of the ratios, and whether the models are the same to the bit.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

CASES = [f"{codec}-{optimizer}" for codec in ("fp32", "fp16", "int8", "int4")
         for optimizer in ("sgd", "adagrad", "adam", "adabelief", "yogi", "lamb")]  # fmt: skip


def ours() -> list[str]:
    """The package's modules that are loaded."""
    return [name for name in sys.modules if name.partition(".")[0] == "fedadavr"]


def load(source: str) -> dict[str, Any]:
    """The modules of one tree."""
    for name in ours():
        del sys.modules[name]
    sys.path.insert(0, source)
    importlib.import_module("fedadavr.bench.server")
    sys.path.pop(0)
    return {name: sys.modules[name] for name in ours()}


def use(modules: dict[str, Any]) -> None:
    """Have one tree's modules be those that are imported from."""
    for name in ours():
        del sys.modules[name]
    sys.modules.update(modules)


def step_of(modules: dict[str, Any], case: str) -> tuple[Callable[[], Any], Any]:
    """A step of the case, and where its model goes."""
    use(modules)
    bench = modules["fedadavr.bench.server"]
    layout = bench.resnet18_layout()
    w, updates = bench.replies(layout)
    codec, optimizer = ("int8", "adam") if case == "plus" else case.split("-")
    kind = bench.FedAdaVRPlus if case == "plus" else bench.FedAdaVR
    server = kind(layout, codec=codec, optimizer=optimizer, server_lr=0.01)
    if case == "plus":
        bench.fill_centers(server, w)
    out = np.empty_like(w)
    return partial(server.step, w, updates, out=out), out


def main(before: str, now: str, rounds: str = "15", *cases: str) -> None:
    """Time each case."""
    trees = [load(before), load(now)]
    for case in cases or [*CASES, "plus"]:
        steps = [step_of(modules, case) for modules in trees]
        seconds: list[list[float]] = [[], []]
        for round in range(-2, int(rounds)):  # the first two compile, and warm up
            for k in (0, 1) if round % 2 else (1, 0):
                use(trees[k])
                began = time.process_time()
                steps[k][0]()
                if round >= 0:
                    seconds[k].append(time.process_time() - began)
        ratio = statistics.median(b / a for a, b in zip(*seconds, strict=True))
        same = np.array_equal(steps[0][1], steps[1][1])
        ms = [1000 * statistics.median(values) for values in seconds]
        print(f"{case}: {ms[0]:.1f} ms, {ms[1]:.1f} ms, ratio {ratio:.3f}, same bits: {same}")


if __name__ == "__main__":
    main(*sys.argv[1:])
