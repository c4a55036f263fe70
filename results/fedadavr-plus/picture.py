"""The picture of docs/fedadavr-plus.md: real updates of MNIST LQ-1, and what is remembered."""

from __future__ import annotations

import sys
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

from fedadavr.clients import LocalSGD, layout_of
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.run import make_federation
from fedadavr.models import build
from fedadavr.simulation import Engine

ROUNDS = 60


def main(out: str) -> None:
    """Sixty rounds, and then the picture."""
    experiment = Experiment.of(
        dataset="mnist", partition="lq-1", algorithm="fedadavr-plus", server_lr=0.005
    )
    federation = make_federation(experiment.resolved())
    module = build("lenet5", 10, 42)
    sizes = {str(k): len(part) for k, part in enumerate(federation.train_parts)}
    server: Any = experiment.resolved().server(layout_of(module), sizes)
    labels = federation.train.labels
    local_sgd = LocalSGD(0.01, 0.9, 1, 20)
    with Engine(server, module, federation, local_sgd, seed=42, clients_per_round=5) as engine:
        for _ in range(ROUNDS):
            engine.finish_training()
    seen = sorted(server.memory.records(), key=lambda item: item[1].round)
    updates = np.array([server.memory.update_of(client) for client, _ in seen])
    ages = np.array([ROUNDS - record.round for _, record in seen])
    classes = np.array([int(labels[federation.train_parts[int(client)][0]]) for client, _ in seen])
    centers = server.kinds.vectors[: len(server.kinds)]
    unit = np.concatenate([updates, centers])
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    _, _, axes = np.linalg.svd(unit - unit.mean(axis=0), full_matrices=False)
    x = (unit - unit.mean(axis=0)) @ axes[:2].T
    own, kinds = x[: len(updates)], x[len(updates) :]
    colors = plt.get_cmap("tab10")(classes)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11, 5), layout="constrained", sharex=True, sharey=True
    )
    fresh = np.clip(1 - ages / ROUNDS, 0.12, 1)
    left.scatter(own[:, 0], own[:, 1], c=colors, alpha=fresh, s=28)
    never = federation.clients - len(seen)
    left.set_title(f"own: {len(seen)} clients, the paler the older; {never} of 500 never seen")
    right.scatter(own[:, 0], own[:, 1], c=colors, alpha=0.12, s=28)
    for k, (px, py) in enumerate(kinds):
        age = ROUNDS - server.kinds.fed[k]
        right.scatter(px, py, marker="*", s=420, color="black", zorder=3)
        right.annotate(
            f"{age}", (px, py), color="white", ha="center", va="center", fontsize=7, zorder=4
        )
    right.set_title(f"centers: {len(kinds)} kinds, and how many rounds ago each was fed")
    for axis in (left, right):
        axis.set(xticks=[], yticks=[])
    figure.suptitle(
        "MNIST, one digit per client, after 60 rounds of five: updates by digit, in two directions"
    )
    figure.savefig(out, dpi=120)


if __name__ == "__main__":
    main(sys.argv[1])
