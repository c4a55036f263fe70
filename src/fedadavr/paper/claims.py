"""The paper's claims, held against the records: what holds here, what does not, with figures.

Two figures differ if their means are further apart than the larger of their deviations over seeds.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fedadavr.experiments.records import Record
from fedadavr.paper import numbers
from fedadavr.paper.presets import BASELINES, NAMES, PRESETS
from fedadavr.paper.results import Results, figures
from fedadavr.report.blocks import Cell, Row, Table

Figure = tuple[float, float]
OURS = "fedadavr, the paper's best"


class Verdict(NamedTuple):
    """A claim, whether it holds here, and the figures that say so."""

    claim: str
    holds: str
    figures: str


def compare(ours: Figure, theirs: Figure) -> int:
    """1 if ours is higher by more than either's deviation, -1 if theirs is, 0 otherwise."""
    gap = ours[0] - theirs[0]
    margin = max(ours[1], theirs[1])
    return 1 if gap > margin else -1 if gap < -margin else 0


def _say(figure: Figure) -> str:
    return f"{figure[0]:.1f} ± {figure[1]:.1f}"


def _tally(signs: list[int]) -> str:
    """Holds, holds in part, or not, from single comparisons."""
    if all(sign > 0 for sign in signs):
        return "holds"
    return "does not hold" if not any(sign > 0 for sign in signs) else "holds in part"


def claims(results: Results) -> Table:
    """All claims that there are records for."""
    rows = [
        Row((verdict.claim,), (Cell(verdict.holds), Cell(verdict.figures)))
        for check in (above_baselines, every_optimizer, quantization, server_rates, ablation,
                      fewer_rounds, participation, plus)
        for verdict in check(results)
    ]  # fmt: skip
    return Table(
        "The paper's claims, here", ("claim", "here", "figures"), tuple(rows),
        "Two figures differ if their means are further apart than the larger of their deviations "
        "over seeds; a run that diverged counts as 0 %. With a single seed every gap counts, and "
        "says little.",
    )  # fmt: skip


def _datasets(results: Results, kind: str) -> Iterator[tuple[str, dict[str, dict[str, Figure]]]]:
    """For each data set: the figures of a preset, by label and partition."""
    for dataset in NAMES:
        rows = results.cells(f"{dataset}-{kind}") if f"{dataset}-{kind}" in PRESETS else {}
        if rows:
            yield (
                dataset,
                {
                    label: {p: figure for p, runs in row.items() if (figure := figures(runs))}
                    for label, row in rows.items()
                },
            )


def _best(rows: dict[str, dict[str, Figure]], partition: str) -> tuple[str, Figure] | None:
    found = [(name, row[partition]) for name, row in rows.items() if partition in row]
    return max(found, key=lambda pair: pair[1][0]) if found else None


def above_baselines(results: Results) -> Iterator[Verdict]:
    """FedAdaVR, at the setting the paper found best, above each partition's best baseline."""
    for dataset, rows in _datasets(results, "baselines"):
        for claim, rivals in (
            ("FedAdaVR is above all nine baselines as the paper ran them", set(BASELINES)),
            ("FedAdaVR is above all baselines, FedOpt tuned",
             {name for name in rows if not name.startswith("fedadavr")}),
        ):  # fmt: skip
            others = {name: row for name, row in rows.items() if name in rivals}
            signs, told = [], []
            for partition, ours in rows.get(OURS, {}).items():
                rival = _best(others, partition)
                if rival is not None and _complete(rows, partition):
                    signs.append(compare(ours, rival[1]))
                    word = {1: "above", 0: "about as", -1: "below"}[signs[-1]]
                    told.append(f"{partition} {_say(ours)}, {word} {rival[0]} {_say(rival[1])}")
            if told:
                yield Verdict(f"{NAMES[dataset]}: {claim}", _tally(signs), "; ".join(told))


def _complete(rows: dict[str, dict[str, Figure]], partition: str) -> bool:
    """Whether all nine baselines have figures: half a comparison proves nothing."""
    return all(partition in rows.get(name, {}) for name in BASELINES)


def every_optimizer(results: Results) -> Iterator[Verdict]:
    """Each optimizer, at its best rate, above the best of the nine baselines."""
    baselines = dict(_datasets(results, "baselines"))
    for dataset, rows in _datasets(results, "optimizers"):
        rivals = {n: r for n, r in baselines.get(dataset, {}).items() if n in BASELINES}
        signs: list[int] = []
        below: list[str] = []
        for partition in numbers.partitions(dataset):
            rival = _best(rivals, partition) if _complete(rivals, partition) else None
            for optimizer in ("adabelief", "adam", "adagrad", "lamb", "yogi"):
                mine = {n: r for n, r in rows.items() if n.startswith(f"fedadavr {optimizer}")}
                best = _best(mine, partition)
                if best is None or rival is None:
                    continue
                signs.append(compare(best[1], rival[1]))
                if signs[-1] < 1:
                    below.append(f"{optimizer} on {partition} ({_say(best[1])})")
        if signs:
            above = sum(sign > 0 for sign in signs)
            told = f"above in {above} of {len(signs)}; not: {', '.join(below) or 'none'}"
            claim = "with every optimizer FedAdaVR is above every baseline"
            yield Verdict(f"{NAMES[dataset]}: {claim}", _tally(signs), told)


def quantization(results: Results) -> Iterator[Verdict]:
    """FedAdaVR-Quant against FedAdaVR, cell by cell; and the four precisions."""
    for dataset, rows in _datasets(results, "optimizers"):
        gaps, signs = [], []
        for name, row in rows.items():
            twin = rows.get(name.replace("fedadavr ", "fedadavr-quant ", 1), {})
            for partition, figure in row.items():
                if name.startswith("fedadavr ") and partition in twin:
                    gaps.append(twin[partition][0] - figure[0])
                    signs.append(compare(twin[partition], figure))
        if gaps:
            told = (
                f"fp16 minus fp32 over {len(gaps)} cells: {statistics.fmean(gaps):+.2f} points on "
                f"average, from {min(gaps):+.1f} to {max(gaps):+.1f}; lower in {signs.count(-1)}, "
                f"higher in {signs.count(1)} by more than a deviation"
            )
            holds = "holds" if signs.count(-1) <= len(signs) // 20 else "holds in part"
            yield Verdict(f"{NAMES[dataset]}: quantization to fp16 costs nothing", holds, told)
    for dataset, rows in _datasets(results, "precisions"):
        full = rows.get("fp32", {}).get("lq-1")
        if full:
            others = {n: r["lq-1"] for n, r in rows.items() if n != "fp32" and "lq-1" in r}
            signs = [compare(figure, full) for figure in others.values()]
            told = ", ".join(f"{name} {_say(f)}" for name, f in {"fp32": full, **others}.items())
            holds = "does not hold" if -1 in signs else "holds"
            claim = "fp16, int8 and int4 are as good as fp32"
            yield Verdict(f"{NAMES[dataset]} lq-1: {claim}", holds, told)


def server_rates(results: Results) -> Iterator[Verdict]:
    """How far the three server rates of one optimizer are apart."""
    for dataset, rows in _datasets(results, "optimizers"):
        spreads = []
        for optimizer in ("adabelief", "adam", "adagrad", "lamb", "yogi"):
            mine = [r for n, r in rows.items() if n.startswith(f"fedadavr {optimizer}")]
            for partition in numbers.partitions(dataset):
                found = [row[partition][0] for row in mine if partition in row]
                if len(found) == 3:
                    spreads.append(max(found) - min(found))
        if spreads:
            wide = sum(spread > 5 for spread in spreads)
            told = (
                f"best minus worst of three rates: median {statistics.median(spreads):.1f} points,"
                f" more than 5 in {wide} of {len(spreads)}"
            )
            holds = "holds" if wide <= len(spreads) // 10 else "does not hold"
            yield Verdict(f"{NAMES[dataset]}: server rates differ marginally", holds, told)


def unrest(runs: tuple[Record, ...]) -> float:
    """How far the accuracy swings from round to round, in the averaging window of a run."""
    swings = []
    for run in runs:
        window = int(run.settings["average_last"])
        if run.failure is None:
            swings.append(float(np.std(run.accuracy[-window:])))
    return statistics.fmean(swings) if swings else float("nan")


def ablation(results: Results) -> Iterator[Verdict]:
    """NoVR unstable, NoOpt slow."""
    for dataset in NAMES:
        name = f"{dataset}-ablation"
        rows = results.cells(name) if name in PRESETS else {}
        told = {
            label: (f, unrest(row["lq-1"])) for label, row in rows.items()
            if (f := figures(row["lq-1"]))
        }  # fmt: skip
        if "fedadavr" not in told:
            continue
        full, swing = told["fedadavr"]
        where = f"{NAMES[dataset]} lq-1"
        novr = told.get("no memory (NoVR)")
        if novr:
            signs = [compare(full, novr[0])]
            yield Verdict(f"{where}: without memory it is unstable", _tally(signs), (
                f"FedAdaVR {_say(full)}, swinging by {swing:.1f} points from round to round; NoVR "
                f"{_say(novr[0])}, swinging by {novr[1]:.1f}"))  # fmt: skip
        slow = {n: v for n, v in told.items() if n.startswith("no optimizer")}
        if slow:
            signs = [compare(full, v[0]) for v in slow.values()]
            yield Verdict(f"{where}: without optimizer it is slow", _tally(signs), (
                f"FedAdaVR {_say(full)}; "
                + "; ".join(f"{n} {_say(v[0])}" for n, v in slow.items())))  # fmt: skip


def fewer_rounds(results: Results) -> Iterator[Verdict]:
    """Rounds to a target, FedAdaVR against the quickest of the nine baselines."""
    for dataset in NAMES:
        preset = PRESETS[f"{dataset}-baselines"]
        rows = results.cells(preset.name)
        ours = rows.get(OURS, {}).get("lq-1", ())
        signs, told = [], []
        complete = all(rows.get(name, {}).get("lq-1") for name in BASELINES)
        for target in preset.targets if ours and complete else ():
            mine = rounds_to(ours, target)
            others = {
                n: r for n in BASELINES if (r := rounds_to(rows.get(n, {}).get("lq-1", ()), target))
            }
            rival = min(others.items(), key=lambda pair: pair[1], default=None)
            if rival is None and mine is None:
                continue
            if rival is None or mine is None:
                signs.append(1 if rival is None else -1)
            else:
                signs.append(1 if mine < rival[1] else -1)
            say = f"{mine:.0f}" if mine else "never"
            other = f"{rival[0]} {rival[1]:.0f}" if rival else "no baseline"
            told.append(f"{target} %: {say}, {other}")
        if told:
            claim = "FedAdaVR takes fewer rounds to every target than any baseline"
            yield Verdict(f"{NAMES[dataset]} lq-1: {claim}", _tally(signs), "; ".join(told))


def rounds_to(runs: tuple[Record, ...], target: float) -> float | None:
    """The mean of the first evaluated rounds; None unless every seed reaches the target."""
    found = [run.rounds_to(target) for run in runs]
    known = [round for round in found if round is not None]
    return statistics.fmean(known) if known and len(known) == len(found) else None


def participation(results: Results) -> Iterator[Verdict]:
    """More clients a round, and more local steps."""
    rows = {
        label: {p: f for p, runs in row.items() if (f := figures(runs))}
        for label, row in results.cells("mnist-participation").items()
    }
    for claim, few, many in (
        ("more clients a round help", "2 clients a round, 1 epoch", "25 clients a round, 1 epoch"),
        ("more than one local epoch helps", "5 clients a round, 1 epoch",
         "5 clients a round, 5 epochs"),
    ):  # fmt: skip
        signs, told = [], []
        for partition, figure in rows.get(few, {}).items():
            if partition in rows.get(many, {}):
                signs.append(compare(rows[many][partition], figure))
                told.append(f"{partition} {_say(figure)} to {_say(rows[many][partition])}")
        if told:
            yield Verdict(f"MNIST: {claim}", _tally(signs), f"{few} to {many}: {'; '.join(told)}")


def plus(results: Results) -> Iterator[Verdict]:
    """FedAdaVR+, which is not the paper's, against FedAdaVR and against the baselines."""
    for dataset, rows in _datasets(results, "baselines"):
        others = {name: row for name, row in rows.items() if name != "fedadavr-plus"}
        signs, told = [], []
        for partition, ours in rows.get("fedadavr-plus", {}).items():
            rival = _best(others, partition)
            if rival and _complete(rows, partition):
                signs.append(compare(ours, rival[1]))
                told.append(f"{partition} {_say(ours)}, next {rival[0]} {_say(rival[1])}")
        if told:
            claim = "FedAdaVR+ is above everything else (ours, not the paper's)"
            yield Verdict(f"{NAMES[dataset]}: {claim}", _tally(signs), "; ".join(told))
