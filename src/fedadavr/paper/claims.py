"""The paper's claims, held against the records: what holds here, what does not, with figures.

Two figures differ if their means are further apart than the larger of their deviations over seeds.
Half a comparison proves nothing: there is no verdict before all that it needs was run, with the
same seeds.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fedadavr.experiments.records import Record
from fedadavr.paper import numbers
from fedadavr.paper.presets import BASELINES, NAMES, PRESETS
from fedadavr.paper.results import Figure, Results, accuracy, figure
from fedadavr.report.blocks import Cell, Row, Table

OURS = "fedadavr, the paper's best"
OPTIMIZERS = ("adabelief", "adam", "adagrad", "lamb", "yogi")
Figures = dict[str, dict[str, Figure]]  # by label and partition


class Verdict(NamedTuple):
    """A claim, whether it holds here, and the figures that say so."""

    claim: str
    holds: str
    figures: str


def compare(ours: Figure, theirs: Figure) -> int:
    """1 if ours is higher by more than either's deviation, -1 if theirs is, 0 otherwise."""
    gap = ours.mean - theirs.mean
    margin = max(ours.deviation, theirs.deviation)
    return 1 if gap > margin else -1 if gap < -margin else 0


def _tally(signs: list[int]) -> str:
    """Holds, holds in part, or not, from single comparisons."""
    if all(sign > 0 for sign in signs):
        return "holds"
    return "does not hold" if not any(sign > 0 for sign in signs) else "holds in part"


def claims(results: Results) -> Table:
    """All claims that there are records for."""
    rows = [
        Row((verdict.claim,), (Cell(verdict.holds), Cell(verdict.figures)))
        for check in (above_baselines, every_optimizer, quantization, precisions, server_rates,
                      ablation, fewer_rounds, participation, plus)
        for verdict in check(results)
    ]  # fmt: skip
    return Table(
        "The paper's claims, here", ("claim", "here", "figures"), tuple(rows),
        "Two figures differ if their means are further apart than the larger of their deviations "
        "over seeds; a run that diverged counts as 0 %. With a single seed every gap counts, and "
        "says little. A claim stands here once all runs that it needs are there.",
    )  # fmt: skip


def _figures(results: Results, preset: str) -> Figures:
    return {
        label: {p: found for p, runs in row.items() if (found := accuracy(runs))}
        for label, row in results.cells(preset).items()
    }


def _datasets(results: Results, kind: str) -> Iterator[tuple[str, Figures]]:
    """For each data set: the figures of a preset."""
    for dataset in NAMES:
        name = f"{dataset}-{kind}"
        rows = _figures(results, name) if name in PRESETS else {}
        if rows:
            yield dataset, rows


def _best(rows: Figures, partition: str, seeds: frozenset[int]) -> tuple[str, Figure] | None:
    """The highest of the rows, all of which must have these seeds."""
    found = [(name, row[partition]) for name, row in rows.items() if partition in row]
    if len(found) < len(rows) or any(f.seeds != seeds for _, f in found) or not found:
        return None
    return max(found, key=lambda pair: pair[1].mean)


def above_baselines(results: Results) -> Iterator[Verdict]:
    """FedAdaVR, at the setting the paper found best, above each partition's best baseline."""
    for dataset, rows in _datasets(results, "baselines"):
        others = [name for name in rows if not name.startswith("fedadavr")]
        for claim, rivals in (
            ("FedAdaVR is above all nine baselines as the paper ran them", BASELINES),
            ("FedAdaVR is above all baselines, FedOpt at other rates included", others),
        ):
            if not set(BASELINES) <= set(rows):
                continue
            signs, told = [], []
            for partition, ours in rows.get(OURS, {}).items():
                rival = _best({name: rows[name] for name in rivals}, partition, ours.seeds)
                if rival is not None:
                    signs.append(compare(ours, rival[1]))
                    word = {1: "above", 0: "about as", -1: "below"}[signs[-1]]
                    told.append(f"{partition} {ours}, {word} {rival[0]} {rival[1]}")
            if told:
                yield Verdict(f"{NAMES[dataset]}: {claim}", _tally(signs), "; ".join(told))


def every_optimizer(results: Results) -> Iterator[Verdict]:
    """Each optimizer, at its best rate, above the best of the nine baselines."""
    baselines = dict(_datasets(results, "baselines"))
    for dataset, rows in _datasets(results, "optimizers"):
        rivals = {n: r for n, r in baselines.get(dataset, {}).items() if n in BASELINES}
        signs: list[int] = []
        below: list[str] = []
        for partition in numbers.partitions(dataset):
            for optimizer in OPTIMIZERS:
                mine = {n: r for n, r in rows.items() if n.startswith(f"fedadavr {optimizer}")}
                seeds = next((r[partition].seeds for r in mine.values() if partition in r), None)
                if seeds is None or len(mine) < 3 or len(rivals) < len(BASELINES):
                    continue
                best, rival = _best(mine, partition, seeds), _best(rivals, partition, seeds)
                if best is None or rival is None:
                    continue
                signs.append(compare(best[1], rival[1]))
                if signs[-1] < 1:
                    below.append(f"{optimizer} on {partition} ({best[1]})")
        if signs:
            above = sum(sign > 0 for sign in signs)
            told = (
                f"each at the best of its three server rates on these same seeds, which favors it: "
                f"above in {above} of {len(signs)}; not: {', '.join(below) or 'none'}"
            )
            claim = "with every optimizer FedAdaVR is above every baseline"
            yield Verdict(f"{NAMES[dataset]}: {claim}", _tally(signs), told)


def quantization(results: Results) -> Iterator[Verdict]:
    """FedAdaVR-Quant against FedAdaVR, cell by cell, once all cells are there."""
    for dataset, rows in _datasets(results, "optimizers"):
        gaps, signs = [], []
        for name, row in rows.items():
            twin = rows.get(name.replace("fedadavr ", "fedadavr-quant ", 1), {})
            for partition, found in row.items():
                other = twin.get(partition)
                if name.startswith("fedadavr ") and other and other.seeds == found.seeds:
                    gaps.append(other.mean - found.mean)
                    signs.append(compare(other, found))
        if len(gaps) < 15 * len(numbers.partitions(dataset)):
            continue
        lower, higher, mean = signs.count(-1), signs.count(1), statistics.fmean(gaps)
        told = (
            f"fp16 minus fp32 over {len(gaps)} cells: {mean:+.2f} points on average, from "
            f"{min(gaps):+.1f} to {max(gaps):+.1f}; lower in {lower}, higher in {higher} by more "
            "than a deviation"
        )
        holds = "holds in part"
        if mean > -1 and lower <= max(higher, len(gaps) // 20):
            holds = "holds"
        elif mean < -1 and lower > len(gaps) // 3:
            holds = "does not hold"
        yield Verdict(f"{NAMES[dataset]}: quantization to fp16 costs nothing", holds, told)


def precisions(results: Results) -> Iterator[Verdict]:
    """The four ways to store the memory."""
    for dataset, rows in _datasets(results, "precisions"):
        found = {name: row["lq-1"] for name, row in rows.items() if "lq-1" in row}
        if len(found) < 4 or len({f.seeds for f in found.values()}) > 1:
            continue
        signs = [compare(found[name], found["fp32"]) for name in ("fp16", "int8", "int4")]
        told = ", ".join(f"{name} {f}" for name, f in found.items())
        holds = "does not hold" if -1 in signs else "holds"
        claim = "fp16, int8 and int4 are as good as fp32"
        yield Verdict(f"{NAMES[dataset]} lq-1: {claim}", holds, told)


def server_rates(results: Results) -> Iterator[Verdict]:
    """How far the three server rates of one optimizer are apart."""
    for dataset, rows in _datasets(results, "optimizers"):
        spreads = []
        for optimizer in OPTIMIZERS:
            mine = [r for n, r in rows.items() if n.startswith(f"fedadavr {optimizer}")]
            for partition in numbers.partitions(dataset):
                found = [row[partition].mean for row in mine if partition in row]
                if len(found) == 3:
                    spreads.append(max(found) - min(found))
        if len(spreads) == 5 * len(numbers.partitions(dataset)):
            wide = sum(spread > 5 for spread in spreads)
            told = (
                f"best minus worst of three rates: median {statistics.median(spreads):.1f} points,"
                f" more than 5 in {wide} of {len(spreads)}"
            )
            holds = "holds" if wide <= len(spreads) // 10 else "does not hold"
            yield Verdict(f"{NAMES[dataset]}: server rates differ marginally", holds, told)


def swing(run: Record) -> float:
    """How far the accuracy swings from round to round, in the averaging window of a run."""
    return float(np.std(run.accuracy[-int(run.settings["average_last"]) :]))


def unrest(runs: Sequence[Record]) -> Figure | None:
    """The swing over the seeds whose runs did not diverge."""
    return figure([run for run in runs if run.failure is None], swing)


def ablation(results: Results) -> Iterator[Verdict]:
    """NoVR unstable, NoOpt slow."""
    for dataset in NAMES:
        name = f"{dataset}-ablation"
        cells = results.cells(name) if name in PRESETS else {}
        rows = {label: row["lq-1"] for label, row in cells.items()}
        found = {label: f for label, runs in rows.items() if (f := accuracy(runs))}
        if len(found) < 4 or len({f.seeds for f in found.values()}) > 1:
            continue
        where, full, novr = f"{NAMES[dataset]} lq-1", found["fedadavr"], "no memory (NoVR)"
        calm, restless = unrest(rows["fedadavr"]), unrest(rows[novr])
        if calm and restless:
            told = f"swing from round to round: FedAdaVR {calm}, NoVR {restless} points"
            signs = [compare(restless, calm)]
            yield Verdict(f"{where}: without memory it is unstable", _tally(signs), told)
        told = f"FedAdaVR {full}, NoVR {found[novr]}"
        signs = [compare(full, found[novr])]
        yield Verdict(f"{where}: without memory it is worse", _tally(signs), told)
        slow = {n: f for n, f in found.items() if n.startswith("no optimizer")}
        told = f"FedAdaVR {full}; " + "; ".join(f"{n} {f}" for n, f in slow.items())
        signs = [compare(full, f) for f in slow.values()]
        yield Verdict(f"{where}: without optimizer it is slow", _tally(signs), told)


def rounds_to(runs: Sequence[Record], target: float) -> Figure | None:
    """The first evaluated rounds; None unless every seed reaches the target."""
    if any(run.rounds_to(target) is None for run in runs):
        return None
    return figure(runs, lambda run: float(run.rounds_to(target) or 0))


def fewer_rounds(results: Results) -> Iterator[Verdict]:
    """Rounds to a target, FedAdaVR against the quickest of the nine baselines."""
    for dataset in NAMES:
        preset = PRESETS[f"{dataset}-baselines"]
        rows = {label: row.get("lq-1", ()) for label, row in results.cells(preset.name).items()}
        ours = accuracy(rows.get(OURS, ()))
        theirs = [accuracy(rows.get(name, ())) for name in BASELINES]
        if ours is None or any(f is None or f.seeds != ours.seeds for f in theirs):
            continue
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
            yield Verdict(f"{NAMES[dataset]} lq-1: {claim}", _tally(signs), "; ".join(told))


def participation(results: Results) -> Iterator[Verdict]:
    """More clients a round, and more local steps."""
    rows = _figures(results, "mnist-participation")
    for claim, few, many in (
        ("more clients a round help", "2 clients a round, 1 epoch", "25 clients a round, 1 epoch"),
        ("more than one local epoch helps", "5 clients a round, 1 epoch",
         "5 clients a round, 5 epochs"),
    ):  # fmt: skip
        signs, told = [], []
        for partition, found in rows.get(few, {}).items():
            more = rows.get(many, {}).get(partition)
            if more and more.seeds == found.seeds:
                signs.append(compare(more, found))
                told.append(f"{partition} {found} to {more}")
        if told:
            yield Verdict(f"MNIST: {claim}", _tally(signs), f"{few} to {many}: {'; '.join(told)}")


def plus(results: Results) -> Iterator[Verdict]:
    """FedAdaVR+, which is not the paper's, against FedAdaVR and against the baselines."""
    for dataset, rows in _datasets(results, "baselines"):
        others = {name: row for name, row in rows.items() if name != "fedadavr-plus"}
        if not {*BASELINES, OURS} <= set(others):
            continue
        signs, told = [], []
        for partition, ours in rows.get("fedadavr-plus", {}).items():
            rival = _best(others, partition, ours.seeds)
            if rival:
                signs.append(compare(ours, rival[1]))
                told.append(f"{partition} {ours}, next {rival[0]} {rival[1]}")
        if told:
            claim = "FedAdaVR+ is above everything else (ours, not the paper's)"
            yield Verdict(f"{NAMES[dataset]}: {claim}", _tally(signs), "; ".join(told))
