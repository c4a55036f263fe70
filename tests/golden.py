"""Golden figures: server steps on synthetic replies, of every algorithm, codec and optimizer.

    python -m tests.golden        # writes tests/golden.json anew

They were made before the redesign of version 0.2 and hold its results to those of version 0.1: to
the bit, except where sums are reordered by the compiler (LAMB's norms, cosines and products of
FedAdaVR+, lengths of clipped updates, FedExP's rate), there to 1e-6.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from fedadavr import Layout, Update, algorithm

PLACE = Path(__file__).parent / "golden.json"
LAYOUT = Layout({"conv": (9, 5, 3, 3), "scalar": (), "dense": (61, 83), "bias": (83,)})
LARGE = Layout({"dense": (1031, 1021), "bias": (1021,)})  # so large that cosines are sketched
ROUNDS, CLIENTS, COHORT = 6, 11, 4

OPTIMIZERS = ("sgd", "adagrad", "adam", "adabelief", "yogi", "lamb")
CODECS = ("fp32", "fp16", "int8", "int4")
Case = tuple[str, dict[str, Any]]
CASES: dict[str, Case] = {
    "fedavg": ("fedavg", {}),
    "fedavg rates": ("fedavg", {"server_lr": 0.5, "client_lr": 0.3}),
    "fedavg share": ("fedavg", {"max_share": 0.4}),
    "fedprox": ("fedprox", {}),
    "scaffold": ("scaffold", {"client_momentum": 0.9, "client_lr": 0.05}),
    "scaffold int8": ("scaffold", {"codec": "int8", "population": 20}),
    "fedau": ("fedau", {"population": 20, "cutoff": 2}),
    "fedcm": ("fedcm", {"client_momentum": 0.9, "client_lr": 0.05}),
    "ghbm": ("ghbm", {"client_lr": 0.05, "tau": 3}),
    "feddyn": ("feddyn", {"population": 20, "client_lr": 0.05}),
    "fednova": ("fednova", {"client_momentum": 0.9}),
    "fedavgm": ("fedavgm", {"client_lr": 0.3}),
    "fedexp": ("fedexp", {"client_lr": 0.3}),
    "fedadagrad": ("fedadagrad", {}),
    "fedadam": ("fedadam", {}),
    "fedyogi": ("fedyogi", {"tau": 1e-9}),
    "mifa": ("mifa", {}),
    "mifa zeros": ("mifa", {"warmup": "zeros", "population": 20}),
    "mifa seen": ("mifa", {"warmup": "seen", "client_lr": 0.1}),
    "fedvarp": ("fedvarp", {"population": 20}),
    "fedvarp examples": ("fedvarp", {"weighting": "examples", "codec": "int4"}),
    "fedstale": ("fedstale", {"population": 20, "codec": "int8"}),
    "cluster-fedvarp": ("cluster-fedvarp", {"clusters": 3}),
    "fedadavr-novr": ("fedadavr-novr", {"weight_decay": 0.01}),
    "fedadavr-noopt": ("fedadavr-noopt", {"server_lr": 0.7}),
    "fedadavr population": ("fedadavr", {"weighting": "population", "population": 20}),
    "fedadavr ht": ("fedadavr", {"weighting": "ht", "population": 20, "prune_after": 3}),
    "fedadavr clipped": ("fedadavr", {"clip": 1.0}),
    "fedadavr-quant": ("fedadavr-quant", {}),
    "fedadavr-plus": ("fedadavr-plus", {}),
    "fedadavr-plus int8": ("fedadavr-plus", {"codec": "int8", "centers": 3, "client_lr": 0.1}),
    "fedadavr-plus own": ("fedadavr-plus", {"memories": "own"}),
    "fedadavr-plus centers": ("fedadavr-plus", {"memories": "centers", "sampler": "kinds"}),
    "fedadavr-plus fixed": ("fedadavr-plus", {"trust": 0.6, "optimizer": "lamb"}),
    "fedadavr-plus large": ("fedadavr-plus", {"codec": "int4"}),
    "fedadavr lamb global": ("fedadavr", {"optimizer": "lamb", "trust_ratio": "global"}),
}
CASES |= {
    f"fedadavr {optimizer} {codec}": (
        "fedadavr", {"optimizer": optimizer, "codec": codec, "client_lr": 0.1, "server_lr": 0.02})
    for optimizer in OPTIMIZERS for codec in CODECS
}  # fmt: skip


def exact(case: str) -> bool:
    """Whether every bit is determined; if not, no sum depends on it beyond 1e-6."""
    return not any(word in case for word in ("lamb", "plus", "clipped", "fedexp"))


def arrays(case: str) -> dict[str, Any]:
    """The model after every round, then what the server keeps."""
    name, settings = CASES[case]
    layout = LARGE if case.endswith("large") else LAYOUT
    if name in ("fedadavr", "fedadavr-quant", "fedadavr-plus"):  # else it would be learned
        settings = {"server_lr": 0.01} | settings
    server: Any = algorithm(name, layout, **settings)
    start = np.random.default_rng(1)
    w = start.normal(0, 0.1, layout.size).astype(np.float32)
    kinds = start.normal(0, 1, (3, layout.size)).astype(np.float32)
    found = {}
    for round in range(1, (3 if layout is LARGE else ROUNDS) + 1):
        rng = np.random.default_rng([2, round])
        cohort = rng.choice(CLIENTS, COHORT, replace=False)
        updates = [
            Update(
                f"client {c}",
                w - 0.01 * (kinds[c % 3] + rng.normal(0, 1, layout.size).astype(np.float32)),
                int(rng.integers(1, 50)), int(rng.integers(1, 9)),
            )
            for c in cohort
        ]  # fmt: skip
        w = server.step(w, updates)
        found[f"model {round}"] = w
        if round == 4 and server.memory is not None and name != "cluster-fedvarp":
            server.memory.forget(f"client {cohort[0]}")
    return found | kept(server)


def kept(server: Any) -> dict[str, Any]:
    """The moments, the memory's total and what it reads as, the centers, the trust."""
    found = {"m": server.server_optimizer.m, "v": server.server_optimizer.v}
    if server.memory is not None:
        found["total"] = server.memory.total
        for client, record in sorted(server.memory.records()):
            found[f"of {client}"] = server.memory.codec.decode(server.layout, record.data)
    if hasattr(server, "past"):
        found["past"] = server.past.vectors
    if server.vectors is not None:
        found["centers"] = server.vectors.vectors[: len(server.vectors)]
    if hasattr(server, "learner"):
        found["trust"] = server.learner.alpha
    return found


def figures(case: str) -> dict[str, Any]:
    """What is written down of a case: digests, or some numbers of each array."""
    if exact(case):
        return {name: hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()[:16]
                for name, x in arrays(case).items()}  # fmt: skip
    return {name: sample(x) for name, x in arrays(case).items()}


def sample(x: Any) -> list[float]:
    """The length of an array, and some of its numbers."""
    flat = np.asarray(x, np.float64).ravel()
    step = max(1, len(flat) // 8)
    return [float(np.linalg.norm(flat)), *flat[::step].tolist()]


if __name__ == "__main__":
    PLACE.write_text(json.dumps({case: figures(case) for case in CASES}, indent=0) + "\n")
