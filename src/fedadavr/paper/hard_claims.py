"""Claims about CIFAR-10 and Shakespeare, whose runs take days: written before there were any.

They have a verdict once every run that was begun is finished, all algorithms, at the full number
of rounds; before that the line says how far the runs are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fedadavr.paper.judging import WORDS, best, change, compare, differs, figures, seeds_of, tally
from fedadavr.paper.presets import PRESETS
from fedadavr.paper.results import Cells, Results, of_paper
from fedadavr.report.elements import Claim

Judged = tuple[list[int], list[str]]
"""A sign for each comparison, and a line of figures for each."""
PLUS = "FedAdaVR+ is above everything else (ours, not the paper's)"
REGRET = 1.5
"""Points that a default may be below the best settings of any algorithm."""


class HardClaim(NamedTuple):
    """A claim about a preset, and how it is judged once that is complete."""

    preset: str
    text: str
    judge: Callable[[Cells], Judged]


def above(mine: str, *rivals: str) -> Callable[[Cells], Judged]:
    """Ours, with each of its optimizers, against the best of the rivals on every partition.

    Without rivals: against the best of all others.
    """

    def judge(cells: Cells) -> Judged:
        rows = figures(cells)
        ours = [label for label in rows if label == mine or label.startswith(f"{mine} ")]
        others = rivals or [label for label in rows if label not in ours]
        signs, told = [], []
        for label in ours:
            for partition, own in rows[label].items():
                name, rival = best(rows, others, partition)
                signs.append(compare(own, rival))
                paper = of_paper(cells[label][partition][0].experiment)
                beside = "" if paper is None else f" (paper {paper:.1f})"
                word = WORDS[signs[-1]]
                told.append(f"{partition} {label} {own}{beside}, {word} {name} {rival}")
        return signs, told

    return judge


def nothing_lost(quantized: str, whole: str) -> Callable[[Cells], Judged]:
    """A memory in int4 against one in fp32, with the same seed."""

    def judge(cells: Cells) -> Judged:
        (few,) = (label for label in cells if label.startswith(quantized))
        signs, told = [], []
        for partition, runs in cells[few].items():
            full = cells[whole][partition]
            gap = change(runs, full)
            signs.append(1 if differs(gap) >= 0 else -1)
            rates = [run[0].experiment.client_lr for run in (runs, full)]
            other = "" if rates[0] == rates[1] else (
                f", at client rates {rates[0]:g} and {rates[1]:g}")  # fmt: skip
            told.append(f"{partition}: {few} minus {whole}, seed by seed, {gap:+}{other}")
        return signs, told

    return judge


HARD = (
    HardClaim("cifar10-iid", "CIFAR-10 iid: with Adam, Yogi and LAMB FedAdaVR is above FedAvg, "
              "FedYogi and FedVARP", above("fedadavr", "fedavg", "fedyogi", "fedvarp")),
    HardClaim("cifar10-iid", "CIFAR-10 iid: with Adam, Yogi and LAMB FedAdaVR is above FedVARP",
              above("fedadavr", "fedvarp")),
    HardClaim("cifar10-iid", "CIFAR-10 iid: quantization to int4 costs nothing",
              nothing_lost("fedadavr-quant", "fedadavr lamb 0.01")),
    HardClaim("cifar10-iid", f"CIFAR-10 iid: {PLUS}", above("fedadavr-plus")),
    HardClaim("cifar10-cnn", "CIFAR-10, small CNN: FedAdaVR is above FedAvg, SCAFFOLD, FedYogi "
              "and FedVARP (client rates chosen on seed 41)",
              above("fedadavr", "fedavg", "scaffold", "fedyogi", "fedvarp")),
    HardClaim("cifar10-cnn", "CIFAR-10, small CNN: quantization to int4 costs nothing",
              nothing_lost("fedadavr-quant", "fedadavr")),
    HardClaim("cifar10-cnn", f"CIFAR-10, small CNN: {PLUS}", above("fedadavr-plus")),
    HardClaim("shakespeare-best", "Shakespeare: FedAdaVR is above FedAvg, FedAdagrad and FedVARP",
              above("fedadavr", "fedavg", "fedadagrad", "fedvarp")),
    HardClaim("shakespeare-best", f"Shakespeare: {PLUS}", above("fedadavr-plus")),
)  # fmt: skip


UNTYPED = {
    "cifar10-iid": "CIFAR-10 iid",
    "cifar10-cnn": "CIFAR-10, small CNN",
    "shakespeare-best": "Shakespeare",
}


def hard_claims(results: Results) -> Iterator[Claim]:
    """All of them, with a verdict where it may be made."""
    for claim in HARD:
        if claim.preset not in results.presets:
            continue
        standing = results.standing(claim.preset)
        if not standing.planned:
            yield Claim(claim.text, "not run")
        elif standing.finished < standing.planned:
            yield Claim(claim.text, "not decided", why=str(standing))
        else:
            signs, told = claim.judge(results.complete(claim.preset))
            yield Claim(claim.text, tally(signs), tuple(told))
    for preset, where in UNTYPED.items():
        yield from _untyped(results, preset, where)


def _untyped(results: Results, preset: str, where: str) -> Iterator[Claim]:
    """FedAdaVR+ with nothing typed, against the best row of both tables."""
    both = preset, f"{preset}-untyped"
    if not set(both) <= set(results.presets):
        return
    text = (
        f"{where}: with nothing typed FedAdaVR+ is at most {REGRET:g} points below the best (ours, "
        "not the paper's)"
    )
    standings = [results.standing(name) for name in both]
    if not all(standing.planned for standing in standings):
        yield Claim(text, "not run")
        return
    for standing in standings:
        if standing.finished < standing.planned:
            yield Claim(text, "not decided", why=str(standing))
            return
    seeds = frozenset.intersection(*(seeds_of(results.complete(name)) for name in both))
    if not seeds:
        yield Claim(text, "not decided", why="the tables have no seed in common")
        return
    rows = {k: v for name in both for k, v in figures(results.complete(name, seeds)).items()}
    ours = "fedadavr-plus, nothing typed"
    others = [label for label in rows if label != ours]
    signs, told = [], []
    for partition in PRESETS[preset].partitions:
        own, (name, rival) = rows[ours][partition], best(rows, others, partition)
        signs.append(1 if own.mean >= rival.mean - REGRET else -1)
        told.append(f"{partition} {own}, the best is {name} {rival}")
    yield Claim(text, tally(signs), tuple(told))
