"""The regrets and the choice of STUDY.md, from the records as far as they are.

python choose.py                          tables of all parts, and the choice
python choose.py --words --all            the candidates, for `fedadavr sweep --algorithms`
python choose.py --words --best 3 --parts core
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.records import read

HERE = Path(__file__).parent
CHOOSING = ("core", "axes")
CHANCE = 10.0  # what a run counts with that diverged
TIE = 0.5  # points of the largest regret

_PLAIN = ("1.0", "0.3", "0.5", "0.7", "1.3", "1.6")
_ADAPTIVE = (
    "optimizer=adam,server-lr=0.01", "optimizer=adam,server-lr=0.003",
    "optimizer=adam,server-lr=learned", "optimizer=yogi,beta2=0.99,eps=0.001,server-lr=0.01",
    "optimizer=yogi,beta2=0.99,eps=0.001,server-lr=learned",
    "optimizer=adam,eps=0.001,server-lr=learned",
)  # fmt: skip
CANDIDATES: dict[str, tuple[str, ...]] = {
    "fedavg": tuple(f"fedavg:server-lr={rate}" for rate in _PLAIN),
    "fedvarp": tuple(f"fedvarp:server-lr={rate}" for rate in _PLAIN),
    "fedyogi": tuple(
        f"fedyogi:server-lr={rate}"
        for rate in ("0.01", "0.003", "0.03", "learned", "0.003,tau=1e-08", "learned,tau=1e-08")
    ),
    "fedadavr": tuple(f"fedadavr:{words}" for words in _ADAPTIVE),
    "fedadavr-plus": tuple(f"fedadavr-plus:{words}" for words in _ADAPTIVE),
}
"""By algorithm; the first is today's default."""

Figures = dict[str, dict[str, float]]
"""By candidate and cell."""


def words_of(experiment: Experiment) -> str | None:
    """The candidate that a run is of; None if it is of none."""
    told = experiment.settings
    for words in CANDIDATES.get(experiment.algorithm, ()):
        plain = Experiment.of(dataset="mnist", clients=10).with_algorithm(words).resolved()
        if plain.settings == told:
            return words
    return None


def figures(parts: tuple[str, ...]) -> Figures:
    """The mean over seeds in each cell."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    paths = [path for part in parts if (path := HERE / part / "records.jsonl").exists()]
    names: dict[Any, str | None] = {}
    for record in read(paths) if paths else []:
        e = record.experiment
        words = names.setdefault((e.algorithm, e.settings), words_of(e))
        if words is not None:
            cell = f"{e.dataset} {e.partition} {e.clients}/{e.clients_per_round} {e.rounds} rounds"
            cell += f" {e.client_lr:g} {e.availability}"
            accuracy = CHANCE if record.failure else record.final_accuracy
            found[words][cell].append(CHANCE if accuracy is None else accuracy)
    return {words: {c: mean(x) for c, x in cells.items()} for words, cells in found.items()}


def regrets(found: Figures) -> Figures:
    """The best of any candidate in a cell, minus a candidate's own."""
    best: dict[str, float] = defaultdict(float)
    for cells in found.values():
        for cell, value in cells.items():
            best[cell] = max(best[cell], value)
    return {words: {c: best[c] - x for c, x in cells.items()} for words, cells in found.items()}


def ranked(name: str, regret: Figures) -> list[str]:
    """An algorithm's candidates in the cells that all that are left have, the best first.

    The smallest largest regret; among those within `TIE` of it, the smallest mean.
    """
    own = {words: regret[words] for words in CANDIDATES[name] if regret.get(words)}
    most = max((len(cells) for cells in own.values()), default=0)
    left = {words: cells for words, cells in own.items() if len(cells) == most}
    order: list[str] = []
    while left:
        least = min(max(cells.values()) for cells in left.values())
        near = [words for words, cells in left.items() if max(cells.values()) <= least + TIE]
        first = min(near, key=lambda words: mean(left[words].values()))
        order.append(first)
        del left[first]
    return order


def show(parts: tuple[str, ...]) -> None:
    """Each candidate's largest and mean regret, and where it is largest."""
    regret = regrets(figures(parts))
    print(
        f"\n## {', '.join(parts)}\n\n| candidate | cells | largest | where | mean |\n|" + "---|" * 5
    )
    for name in CANDIDATES:
        for words in ranked(name, regret):
            cells = regret[words]
            worst = max(cells, key=lambda cell: cells[cell])
            print(f"| {words} | {len(cells)} | {cells[worst]:.1f} | {worst} "
                  f"| {mean(cells.values()):.1f} |")  # fmt: skip


def main() -> None:
    """Print words or tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--best", type=int, default=1)
    parser.add_argument("--parts", nargs="*", default=CHOOSING)
    parser.add_argument("--and-default", action="store_true")
    told = parser.parse_args()
    parts = tuple(told.parts)
    if not told.words:
        for group in (CHOOSING, ("fmnist",), ("cifar10",)):
            show(group)
        regret = regrets(figures(CHOOSING))
        print(json.dumps({name: (ranked(name, regret) or [None])[0] for name in CANDIDATES}))
        return
    if told.all:
        print(*(words for each in CANDIDATES.values() for words in each))
        return
    regret = regrets(figures(parts))
    chosen: list[str] = []
    for name, own in CANDIDATES.items():
        best = ranked(name, regret)[: told.best]
        if not best:
            raise SystemExit(f"{name} has no records in {', '.join(parts)}: run these parts first")
        chosen += [
            words for words in own if words in best or (told.and_default and words == own[0])
        ]
    print(*chosen)


if __name__ == "__main__":
    main()
