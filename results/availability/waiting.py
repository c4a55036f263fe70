"""To wait, to wait until a deadline, or not to wait: accuracy at the same simulated time.

    python results/availability/waiting.py          # runs what is not in waiting.jsonl yet
    python results/availability/waiting.py picture  # waiting.png and waiting.md

100 clients of `fmnist_6k.py`, LQ-2, all always there, with log-normal speeds (deviation 1), ten
under way at a time, 2,700 simulated seconds: about 100 rounds that wait for all. Each method has
the six settings of STUDY.md to choose from, on seed 41; reported are seeds 42 to 44. Accuracy is
the mean over the last ten of forty evaluations, which are evenly spread over the time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LINES = HERE / "waiting.jsonl"
SECONDS, EVALUATIONS, LAST = 2700.0, 40, 10
METHODS: dict[str, tuple[str, Any, str]] = {
    "FedAvg, waits for all": ("fedavg", None, "none"),
    "FedAvg, waits 15 s": ("fedavg", None, "deadline:seconds=15"),
    "FedBuff, steps at 5 replies": ("fedbuff", 5, "none"),
    "FedAdaVR+, waits for all": ("fedadavr-plus", None, "none"),
    "FedAdaVR+, waits 15 s": ("fedadavr-plus", None, "deadline:seconds=15"),
    "FedAdaVR+, steps at 5 replies": ("fedadavr-plus", 5, "none"),
}
RATES = {"fedavg": (0.5, 1.0), "fedbuff": (0.5, 1.0), "fedadavr-plus": (0.003, 0.01)}
CLIENT_RATES = (0.01, 0.03, 0.1)
CHOOSING_SEED, SEEDS = 41, (42, 43, 44)

Point = tuple[str, float, float, int]  # method, server rate, client rate, seed


def curve(point: Point) -> dict[str, Any]:
    """One run: the accuracy at each evaluation, and how many steps it made in the time."""
    import torch

    from fedadavr import algorithm
    from fedadavr.clients import LocalSGD, layout_of
    from fedadavr.data import federate, load
    from fedadavr.models import build
    from fedadavr.plugins import load_file
    from fedadavr.simulation import Engine

    torch.set_num_threads(1)
    method, server_lr, client_lr, seed = point
    name, buffer, dropout = METHODS[method]
    load_file(str(HERE / "fmnist_6k.py"))
    federation = federate(load("fmnist-6k"), "lq-2", 100, seed)
    module = build("lenet5", federation.classes, seed)
    sizes = {str(k): len(part) for k, part in enumerate(federation.train_parts)}
    population = {"population": sizes} if name == "fedadavr-plus" else {}
    server = algorithm(name, layout_of(module), client_lr=client_lr, server_lr=server_lr,
                       **population)  # fmt: skip
    accuracy: list[float] = []
    with Engine(server, module, federation, LocalSGD(client_lr, 0.9, 1, 20), seed=seed,
                clients_per_round=10, buffer=buffer, dropout=dropout) as engine:  # fmt: skip
        trained = 0
        while len(accuracy) < EVALUATIONS:
            report = engine.finish_training()
            trained += report.answered
            while (
                len(accuracy) < EVALUATIONS
                and report.clock >= SECONDS * (len(accuracy) + 1) / EVALUATIONS
            ):
                engine.begin_evaluation()
                accuracy.append(round(engine.finish_evaluation().accuracy, 2))
        return {"point": point, "accuracy": accuracy, "steps": engine.round, "trained": trained}


def done() -> dict[Point, dict[str, Any]]:
    """What is recorded."""
    if not LINES.exists():
        return {}
    lines = map(json.loads, LINES.read_text().splitlines())
    return {tuple(line["point"]): line for line in lines}


def final(line: dict[str, Any]) -> float:
    """The mean over the last evaluations."""
    return sum(line["accuracy"][-LAST:]) / LAST


def candidates(method: str) -> Iterator[Point]:
    """The settings to choose from."""
    for rate in RATES[METHODS[method][0]]:
        for client_rate in CLIENT_RATES:
            yield method, rate, client_rate, CHOOSING_SEED


def chosen(method: str, known: dict[Point, dict[str, Any]]) -> list[Point]:
    """The best of them, with the seeds that are reported."""
    _, rate, client_rate, _ = max(candidates(method), key=lambda p: final(known[p]))
    return [(method, rate, client_rate, seed) for seed in SEEDS]


def main() -> None:
    """Choose, then run."""
    for stage in ("choose", "table"):
        known = done()
        points = [
            p
            for m in METHODS
            for p in (candidates(m) if stage == "choose" else chosen(m, known))
            if p not in known
        ]
        with ProcessPoolExecutor(2) as pool:
            for line in pool.map(curve, points):
                with LINES.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(line["point"], final(line), line["steps"], flush=True)


def picture() -> None:
    """Curves by simulated time, and the table."""
    import matplotlib.pyplot as plt
    import numpy as np

    known = done()
    figure, ax = plt.subplots(figsize=(7.5, 4))
    time = SECONDS * np.arange(1, EVALUATIONS + 1) / EVALUATIONS
    styles = {"waits for all": ":", "waits 15 s": "--", "steps at 5 replies": "-"}
    told = ["## To wait, or not to wait", "", "By simulated time, on LQ-2: see `waiting.py`.", "",
            "![Accuracy by simulated time](waiting.png)", "",
            "| | settings | accuracy, % | steps | clients trained |",
            "|---|---|---|---|---|"]  # fmt: skip
    for method in METHODS:
        lines = [known[p] for p in chosen(method, known)]
        mean = np.mean([line["accuracy"] for line in lines], axis=0)
        name, _, how = method.partition(", ")
        color = "#c2571a" if name == "FedAdaVR+" else "#35608d"
        ax.plot(time, mean, styles[how], color=color, label=method)
        ends = [final(line) for line in lines]
        _, rate, client_rate, _ = lines[0]["point"]
        steps, trained = (np.mean([line[k] for line in lines]) for k in ("steps", "trained"))
        told.append(
            f"| {method} | server-lr={rate:g}, client-lr={client_rate:g} | {np.mean(ends):.1f} ± "
            f"{np.std(ends, ddof=1):.1f} | {steps:.0f} | {trained:.0f} |"
        )
    ax.set_xlabel("simulated seconds")
    ax.set_ylabel("accuracy, %")
    ax.grid(alpha=0.3)
    ax.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(HERE / "waiting.png", dpi=130)
    (HERE / "waiting.md").write_text("\n".join(told) + "\n")


if __name__ == "__main__":
    picture() if "picture" in sys.argv[1:] else main()
