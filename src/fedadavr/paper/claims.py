"""The paper's claims, held against the records: what holds here, what does not, with figures.

Half a comparison proves nothing: there is no verdict before all cells of a table were run, and it
is over the seeds that all of them have. What is said of data that take days is in `hard_claims`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import numpy as np

from fedadavr.experiments.records import RunRecord
from fedadavr.paper import numbers
from fedadavr.paper.hard_claims import hard_claims
from fedadavr.paper.judging import (
    NOTHING,
    WORDS,
    best,
    change,
    compare,
    differs,
    figures,
    seeds_of,
    tally,
)
from fedadavr.paper.presets import BASELINES, NAMES, PRESETS
from fedadavr.paper.results import Cells, Figure, Results, accuracy, figure
from fedadavr.report.elements import Claim, Claims, Holds

OURS = "fedadavr, the paper's best"
OPTIMIZERS = ("adabelief", "adam", "adagrad", "lamb", "yogi")


def claims(results: Results) -> Claims:
    """All claims that there are records for, and those about data that take days."""
    checks = (above_baselines, every_optimizer, quantization, precisions, server_rates, ablation,
              fewer_rounds, participation, plus, best_again, hard_claims)  # fmt: skip
    return Claims(
        "The paper's claims, here",
        tuple(claim for check in checks for claim in check(results)),
        "Two figures differ if their means are further apart than the larger of their deviations "
        "over seeds; above all is against the one with the highest mean; a run that diverged "
        "counts as 0 %. Precisions are compared within each seed, and differ if by more than half "
        "a point and more than the differences' deviation. Figures of a single seed differ if by "
        "more than a point, which still says little. A claim stands here once every cell of its "
        "tables was run, and is over the seeds that all of them have; one about CIFAR-10 or "
        "Shakespeare once every run that was begun is finished.",
    )


def _datasets(results: Results, kind: str) -> Iterator[tuple[str, Cells]]:
    """For each data set whose preset of that kind is complete: its runs."""
    for dataset in NAMES:
        name = f"{dataset}-{kind}"
        cells = results.complete(name) if name in PRESETS else {}
        if cells:
            yield dataset, cells


def above_baselines(results: Results) -> Iterator[Claim]:
    """FedAdaVR, at the setting the paper found best, against each partition's best baseline."""
    for dataset, cells in _datasets(results, "baselines"):
        rows = figures(cells)
        others = [name for name in rows if not name.startswith("fedadavr")]
        searched = "client_lr" in PRESETS[f"{dataset}-baselines"].searched()
        rates = "client rates chosen on seed 41" if searched else "all at client rate 0.01"
        for claim, rivals in (
            (f"FedAdaVR is above all nine baselines at their defaults ({rates})", BASELINES),
            ("FedAdaVR is above all baselines, FedOpt at other rates included", others),
        ):
            signs, told = [], []
            for partition, ours in rows[OURS].items():
                name, rival = best(rows, rivals, partition)
                signs.append(compare(ours, rival))
                told.append(f"{partition} {ours}, {WORDS[signs[-1]]} {name} {rival}")
            yield Claim(f"{NAMES[dataset]}: {claim}", tally(signs), tuple(told))


def every_optimizer(results: Results) -> Iterator[Claim]:
    """Each optimizer, at its best rate, above the best of the nine baselines."""
    for dataset, cells in _datasets(results, "optimizers"):
        rivals = results.complete(f"{dataset}-baselines", seeds_of(cells))
        if not rivals:
            continue
        theirs = figures(rivals)
        rows = figures(results.complete(f"{dataset}-optimizers", seeds_of(rivals)))
        signs: list[int] = []
        counts: list[str] = []
        for optimizer in OPTIMIZERS:
            mine = [name for name in rows if name.startswith(f"fedadavr {optimizer} ")]
            own = [
                compare(best(rows, mine, p)[1], best(theirs, BASELINES, p)[1])
                for p in numbers.partitions(dataset)
            ]
            signs += own
            counts.append(f"{optimizer} {own.count(1)}, {own.count(0)}, {own.count(-1)}")
        searched = "client_lr" in PRESETS[f"{dataset}-baselines"].searched()
        told = (
            "partitions where it is above the best baseline, about as good, below: "
            f"{'; '.join(counts)}. Each at the best of its three server rates on these same seeds, "
            "which favors it" + (", but at client rate 0.01, where the baselines chose theirs, "
            "which favors them" if searched else "")
        )  # fmt: skip
        claim = "with every optimizer FedAdaVR is above every baseline"
        yield Claim(f"{NAMES[dataset]}: {claim}", tally(signs), (told,))


def quantization(results: Results) -> Iterator[Claim]:
    """FedAdaVR-Quant against FedAdaVR, cell by cell."""
    for dataset, cells in _datasets(results, "optimizers"):
        gaps = [
            change(cells[name.replace("fedadavr ", "fedadavr-quant ", 1)][partition], runs)
            for name, row in cells.items()
            if name.startswith("fedadavr ")
            for partition, runs in row.items()
        ]
        means, signs = [gap.mean for gap in gaps], list(map(differs, gaps))
        lower, higher, mean = signs.count(-1), signs.count(1), statistics.fmean(means)
        told = (
            f"fp16 minus fp32 over {len(gaps)} cells: {mean:+.2f} points on average, from "
            f"{min(means):+.1f} to {max(means):+.1f}; lower in {lower}, higher in {higher}"
        )
        holds: Holds = "holds in part"
        if mean > -NOTHING and lower - higher <= len(gaps) // 20:
            holds = "holds"
        elif mean <= -NOTHING and lower > len(gaps) // 3:
            holds = "does not hold"
        yield Claim(f"{NAMES[dataset]}: quantization to fp16 costs nothing", holds, (told,))


def precisions(results: Results) -> Iterator[Claim]:
    """The four ways to store the memory."""
    for dataset, cells in _datasets(results, "precisions"):
        runs = {name: row["lq-1"] for name, row in cells.items()}
        gaps = {n: change(runs[n], runs["fp32"]) for n in ("fp16", "int8", "int4")}
        told = [f"fp32 {accuracy(runs['fp32'])}", "from it with the same seed:"]
        told += [f"{name} {gap:+}" for name, gap in gaps.items()]
        holds = tally([1 if differs(gap) >= 0 else -1 for gap in gaps.values()])
        claim = "fp16, int8 and int4 are as good as fp32"
        yield Claim(f"{NAMES[dataset]} lq-1: {claim}", holds, tuple(told))


def server_rates(results: Results) -> Iterator[Claim]:
    """How far the three server rates of one optimizer are apart."""
    for dataset, cells in _datasets(results, "optimizers"):
        rows, spreads = figures(cells), []
        for optimizer in OPTIMIZERS:
            mine = [r for n, r in rows.items() if n.startswith(f"fedadavr {optimizer} ")]
            for partition in numbers.partitions(dataset):
                found = [row[partition].mean for row in mine]
                spreads.append(max(found) - min(found))
        wide = sum(spread > 5 for spread in spreads)
        told = (
            f"best minus worst of three rates: median {statistics.median(spreads):.1f} points,"
            f" more than 5 in {wide} of {len(spreads)}"
        )
        holds: Holds = "holds" if wide <= len(spreads) // 10 else "does not hold"
        yield Claim(f"{NAMES[dataset]}: server rates differ marginally", holds, (told,))


def swing(run: RunRecord) -> float:
    """How far the accuracy swings from round to round, in the averaging window of a run."""
    return float(np.std(run.accuracy[-int(run.settings["average_last"]) :]))


def unrest(runs: Sequence[RunRecord]) -> Figure | None:
    """The swing over the seeds whose runs did not diverge."""
    return figure([run for run in runs if run.failure is None], swing)


def ablation(results: Results) -> Iterator[Claim]:
    """NoVR unstable, NoOpt slow."""
    for dataset, cells in _datasets(results, "ablation"):
        rows = {label: row["lq-1"] for label, row in cells.items()}
        found = {label: row["lq-1"] for label, row in figures(cells).items()}
        where, full, novr = f"{NAMES[dataset]} lq-1", found["fedadavr"], "no memory (NoVR)"
        calm, restless = unrest(rows["fedadavr"]), unrest(rows[novr])
        if calm and restless:
            told = f"swing from round to round: FedAdaVR {calm}, NoVR {restless} points"
            signs = [compare(restless, calm)]
            yield Claim(f"{where}: without memory it is unstable", tally(signs), (told,))
        told = f"FedAdaVR {full}, NoVR {found[novr]}"
        signs = [compare(full, found[novr])]
        yield Claim(f"{where}: without memory it is worse", tally(signs), (told,))
        target = {"fmnist": 50, "cifar10": 30}[dataset]
        ours = rounds_to(rows["fedadavr"], target)
        for name in found:
            if name.startswith("no optimizer"):
                theirs = rounds_to(rows[name], target)
                told = (
                    f"{target} % after {ours or 'never in every seed'} rounds, without optimizer "
                    f"{theirs or 'never in every seed'}; in the end {full}, and {found[name]}"
                )
                slow = theirs is None if ours is None or theirs is None else (
                    compare(theirs, ours) > 0)  # fmt: skip
                claim = f"{name.removeprefix('no optimizer (NoOpt), ')}: without optimizer slow"
                holds: Holds = "holds" if ours and slow else "does not hold"
                yield Claim(f"{where}, {claim}", holds, (told,))


def rounds_to(runs: Sequence[RunRecord], target: float) -> Figure | None:
    """The first evaluated rounds; None unless every seed reaches the target."""
    if any(run.rounds_to(target) is None for run in runs):
        return None
    return figure(runs, lambda run: float(run.rounds_to(target) or 0))


def fewer_rounds(results: Results) -> Iterator[Claim]:
    """Rounds to a target, FedAdaVR against the quickest of the nine baselines."""
    for dataset, cells in _datasets(results, "baselines"):
        preset = PRESETS[f"{dataset}-baselines"]
        rows = {label: row.get("lq-1", ()) for label, row in cells.items()}
        signs, told = [], []
        for target in preset.targets:
            mine = rounds_to(rows[OURS], target)
            others = {n: f for n in BASELINES if (f := rounds_to(rows[n], target))}
            rival = min(others.items(), key=lambda pair: pair[1].mean, default=None)
            if mine is None and rival is None:
                told.append(f"{target} %: nobody in every seed")
                continue
            if mine is None or rival is None:
                signs.append(1 if rival is None else -1)
            else:
                signs.append(compare(rival[1], mine))
            say = f"{mine}" if mine else "not in every seed"
            other = f"{rival[0]} {rival[1]}" if rival else "no baseline"
            told.append(f"{target} %: {say}, {other}")
        if signs:
            claim = "FedAdaVR takes fewer rounds to every target than any baseline"
            yield Claim(f"{NAMES[dataset]} lq-1: {claim}", tally(signs), tuple(told))


def participation(results: Results) -> Iterator[Claim]:
    """More clients per round, and more local steps."""
    rows = figures(results.complete("mnist-participation"))
    for claim, few, many in (
        ("more clients per round help", "2 clients per round, 1 epoch",
         "25 clients per round, 1 epoch"),
        ("more than one local epoch helps", "5 clients per round, 1 epoch",
         "5 clients per round, 5 epochs"),
    ):  # fmt: skip
        signs, told = [], []
        for partition, found in rows.get(few, {}).items():
            more = rows[many][partition]
            signs.append(compare(more, found))
            told.append(f"{partition} {found} to {more}")
        if told:
            yield Claim(f"MNIST: {claim}", tally(signs), (f"{few} to {many}:", *told))


def plus(results: Results) -> Iterator[Claim]:
    """FedAdaVR+, which is not the paper's, against the best of all others."""
    for dataset, cells in _datasets(results, "baselines"):
        rows = figures(cells)
        others = [name for name in rows if name != "fedadavr-plus"]
        signs, told = [], []
        for partition, ours in rows["fedadavr-plus"].items():
            name, rival = best(rows, others, partition)
            signs.append(compare(ours, rival))
            told.append(f"{partition} {ours}, next {name} {rival}")
        claim = "FedAdaVR+ is above everything else (ours, not the paper's)"
        yield Claim(f"{NAMES[dataset]}: {claim}", tally(signs), tuple(told))


def best_again(results: Results) -> Iterator[Claim]:
    """FedAdaVR's best settings of our own table, on seeds that they were not chosen on."""
    cells = results.complete("fmnist-best")
    fresh = seeds_of(cells) - {42} if cells else frozenset()
    rivals = results.complete("fmnist-baselines", fresh)
    if not fresh or not rivals:
        return
    mine, theirs = figures(results.complete("fmnist-best", seeds_of(rivals))), figures(rivals)
    signs, told = [], []
    for partition, ours in mine["fedadavr, the best on seed 42"].items():
        name, rival = best(theirs, BASELINES, partition)
        signs.append(compare(ours, rival))
        told.append(f"{partition} {ours}, {WORDS[signs[-1]]} {name} {rival}")
    claim = "FedAdaVR at the best settings of seed 42 is above all nine baselines on other seeds"
    yield Claim(f"Fashion-MNIST: {claim}", tally(signs), tuple(told))
