"""The regrets and the choice of STUDY.md, from `records.jsonl` as far as it is.

python results/no-knobs/choose.py         the tables of all parts, and the choice
"""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

from run import TRAININGS, Case, lines

CHOOSING = ("core", "finals", "axes")
SERVED = ("last", "averaged")
OURS = ("fedadavr", "fedadavr-plus")
TIE = 0.5  # points of the largest regret

Candidate = tuple[str, str]
"""A training, and which model is served."""
Figures = dict[Candidate, dict[str, float]]
"""By candidate and cell, the mean over the seeds."""


def cell_of(line: Case) -> str:
    """Where a run was made."""
    told = f"{line['dataset']} {line['partition']}, client rate {line['client_lr']:g}"
    told += f", {line['clients_per_round']} of {line['clients']}, {line['rounds']} rounds"
    return told + ("" if line["availability"] == "uniform" else f", {line['availability']}")


def figures(parts: tuple[str, ...]) -> Figures:
    """Of the candidates that have all seeds of all cells which somebody has."""
    found: dict[Candidate, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    runs: set[tuple[str, int]] = set()
    for line in lines():
        if line["part"] in parts:
            runs.add((cell_of(line), line["seed"]))
            for served in SERVED:
                found[line["words"], served][cell_of(line)][line["seed"]] = line[served]
    return {
        candidate: {cell: mean(seeds.values()) for cell, seeds in cells.items()}
        for candidate, cells in found.items()
        if all(seed in cells.get(cell, {}) for cell, seed in runs)
    }


def regrets(found: Figures) -> Figures:
    """The best of any candidate in a cell, minus a candidate's own."""
    best: dict[str, float] = defaultdict(float)
    for cells in found.values():
        for cell, value in cells.items():
            best[cell] = max(best[cell], value)
    return {
        who: {cell: best[cell] - x for cell, x in cells.items()} for who, cells in found.items()
    }


def ranked(name: str, regret: Figures) -> list[Candidate]:
    """An algorithm's candidates, the best first.

    The smallest largest regret; among those within `TIE` of it, the smallest mean.
    """
    left = {who: cells for who, cells in regret.items() if who[0] in TRAININGS[name]}
    order: list[Candidate] = []
    while left:
        least = min(max(cells.values()) for cells in left.values())
        near = [who for who, cells in left.items() if max(cells.values()) <= least + TIE]
        first = min(near, key=lambda who: mean(left[who].values()))
        order.append(first)
        del left[first]
    return order


def finalists() -> list[str]:
    """After the core: of ours the two best trainings and the default, of the others the best."""
    regret, found = regrets(figures(("core",))), []
    for name, own in TRAININGS.items():
        order = list(dict.fromkeys(words for words, _ in ranked(name, regret)))
        if not order:
            raise SystemExit(f"{name} has not all of its core runs: run that part first")
        best = (*order[:2], own[0]) if name in OURS else order[:1]
        found += [words for words in own if words in best]
    return found


def chosen_of(parts: tuple[str, ...], *names: str) -> list[str]:
    """The best training of each algorithm by some parts."""
    regret = regrets(figures(parts))
    return [order[0][0] for name in names if (order := ranked(name, regret))]


def chosen(*names: str) -> list[str]:
    """The training that was chosen of each algorithm; of those without axes, by the rest."""
    found = []
    for name in names or TRAININGS:
        found += chosen_of(CHOOSING, name) or chosen_of(CHOOSING[:2], name)
    return found


def show(title: str, parts: tuple[str, ...]) -> None:
    """Each candidate's largest and mean regret, and where it is largest."""
    found = figures(parts)
    if not found:
        return
    regret = regrets(found)
    number = len(next(iter(found.values())))
    print(f"\n## {title}: {number} cells\n")
    print("| | served | largest regret | where | mean regret | mean |")
    print("|---|---|---|---|---|---|")
    for name in TRAININGS:
        for who in ranked(name, regret):
            cells = regret[who]
            worst = max(cells, key=lambda cell: cells[cell])
            print(f"| {who[0]} | {who[1]} | {cells[worst]:.1f} | {worst} | "
                  f"{mean(cells.values()):.1f} | {mean(found[who].values()):.1f} |")  # fmt: skip


def table(title: str, parts: tuple[str, ...]) -> None:
    """Every figure: cells down, candidates across."""
    found = figures(parts)
    if not found:
        return
    print(f"\n## {title}: accuracy, %\n")
    print("| | " + " | ".join(f"{words}, {served}" for words, served in found) + " |")
    print("|" + "---|" * (len(found) + 1))
    for cell in next(iter(found.values())):
        print(f"| {cell} | " + " | ".join(f"{found[who][cell]:.1f}" for who in found) + " |")


def main() -> None:
    """Print all."""
    show("The core, seed 51, all trainings", ("core",))
    show("Choosing: core, finals, axes", CHOOSING)
    show("Core and finals", CHOOSING[:2])
    regret = regrets(figures(CHOOSING))
    for name, own in TRAININGS.items():
        order = ranked(name, regret)
        if order:
            old, new = regret.get((own[0], "last")), regret[order[0]]
            was = f" (default {max(old.values()):.1f}, {mean(old.values()):.1f})" if old else ""
            print(f"\nchosen of {name}: {order[0][0]}, {order[0][1]}: largest regret "
                  f"{max(new.values()):.1f}, mean {mean(new.values()):.1f}{was}")  # fmt: skip
    show("Fashion-MNIST", ("fmnist",))
    for part in (*CHOOSING[1:], "fmnist", "starts", "paper"):
        table(part, (part,))


if __name__ == "__main__":
    main()
