"""README.md's tables, from `records.jsonl`, judged by the rule of STUDY.md.

python results/memory/table.py > results/memory/README.md
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from run import (
    ALGORITHMS,
    CODECS,
    FEWER,
    FULL,
    LINES,
    MORE_CODECS,
    MORE_SEEDS,
    OLD,
    PARTITIONS,
    PRESENCE,
    ROUNDED,
    SEEDS,
    lines,
)  # fmt: skip

SETTING, ALL = -0.5, -0.2  # points against fp32: in one setting, and in the mean over all
CHANCE = 50  # percent: a run that ends below learned nothing, or lost it
SETTINGS = [(data, partition, algorithm) for data in ("mnist-5k", "fmnist")
            for partition in PARTITIONS for algorithm in ALGORITHMS]  # fmt: skip


def of(records: list[dict[str, Any]], **wanted: Any) -> dict[int, dict[str, Any]]:
    """The runs of a case by seed."""
    return {r["seed"]: r for r in records if all(r.get(k) == v for k, v in wanted.items())}


def codecs(records: list[dict[str, Any]]) -> None:
    """Bits against accuracy and the error of the total."""
    print("| codec | bits | with zstd | error of a record | of the total | accuracy minus fp32's, "
          "mean | worst setting | loses nothing |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
    totals: dict[str, dict[Any, float]] = {}
    for codec in (*CODECS, *MORE_CODECS):
        gaps, found = {}, []
        for setting in SETTINGS:
            place = dict(zip(("dataset", "partition", "algorithm"), setting, strict=True))
            mine = of(records, study="codecs", codec=codec, **place)
            full = of(records, study="codecs", codec="fp32", **place)
            both = [seed for seed in SEEDS if seed in mine and seed in full]
            if both:
                gaps[setting] = statistics.mean(
                    mine[s]["accuracy"] - full[s]["accuracy"] for s in both
                )
                found += [mine[s] for s in both]
                totals.setdefault(codec, {})[setting] = statistics.mean(
                    mine[s]["error_total"] for s in both
                )
        if not found:
            continue
        mean = {k: statistics.mean(r[k] for r in found)
                for k in ("bits", "bits_zstd", "error_record", "error_total")}  # fmt: skip
        good = sum(gap >= SETTING for gap in gaps.values())
        average = statistics.mean(gaps.values())
        whole = len(found) == len(SETTINGS) * len(SEEDS)
        verdict = "yes" if good >= len(SETTINGS) - 1 and average >= ALL else "no"
        told = verdict if whole else f"not decided: {len(found)} runs"
        print(f"| {codec} | {mean['bits']:.2f} | {mean['bits_zstd']:.2f} | "
              f"{mean['error_record']:.2g} | {mean['error_total']:.2g} | {average:+.2f} | "
              f"{min(gaps.values()):+.2f} | {told} |")  # fmt: skip
    print()
    for codec in ("int4-block", "nf4", "rot4"):
        shared = [s for s in totals.get(codec, {}) if s in totals.get("int4", {})]
        if shared:
            ratio = statistics.median(totals["int4"][s] / totals[codec][s] for s in shared)
            print(f"- int4's error of the total over {codec}'s: {ratio:.1f} times "
                  f"({len(shared)} of {len(SETTINGS)} settings)")  # fmt: skip


def staleness(records: list[dict[str, Any]]) -> None:
    """What fading and forgetting do."""
    print("\n| partition | algorithm | who is there | "
          + " | ".join(", ".join(f"{k} {v:g}" for k, v in old.items()) or "neither" for old in OLD)
          + " |\n|---|---|---|" + "---|" * len(OLD))  # fmt: skip
    for partition in PARTITIONS:
        for algorithm in ALGORITHMS:
            for presence in PRESENCE:
                cells, base = [], None
                for old in OLD:
                    absent = dict.fromkeys(("staleness_half_life", "prune_after"))
                    runs = of(records, study="staleness", partition=partition, algorithm=algorithm,
                              availability=presence, **(absent | old))  # fmt: skip
                    values = [r["accuracy"] for r in runs.values()]
                    if len(values) < len(SEEDS):
                        cells.append("not run")
                        continue
                    mean, spread = statistics.mean(values), statistics.stdev(values)
                    base = base or (mean, spread)
                    off = mean - base[0]
                    beyond = abs(off) > spread and abs(off) > base[1] and old
                    verdict = "" if not beyond else " (helps)" if off > 0 else " (hurts)"
                    cells.append(f"{mean:.1f} ± {spread:.1f}{verdict}")
                print(f"| {partition} | {algorithm} | {presence} | {' | '.join(cells)} |")


def by_setting(records: list[dict[str, Any]]) -> None:
    """The accuracies themselves."""
    print("\n## In each setting\n\nAccuracy, mean and standard deviation over three seeds. Where a "
          f"run ended below {CHANCE} %, as one of FedAdaVR's did with most codecs, it says how "
          "many, and the mean is of the others.\n")  # fmt: skip
    names = (*CODECS, *MORE_CODECS)
    print("| data | partition | algorithm | " + " | ".join(names) + " |")
    print("|---|---|---|" + "---|" * len(names))
    for data, partition, algorithm in SETTINGS:
        cells = []
        for codec in names:
            runs = of(records, study="codecs", codec=codec, dataset=data, partition=partition,
                      algorithm=algorithm)  # fmt: skip
            values = [r["accuracy"] for r in runs.values()]
            good = [value for value in values if value >= CHANCE]
            below = f", {len(values) - len(good)} below" if len(good) < len(values) else ""
            cells.append(f"{statistics.mean(good):.1f} ± {statistics.stdev(good):.1f}{below}"
                         if len(good) > 1 else "–")  # fmt: skip
        print(f"| {data} | {partition} | {algorithm} | {' | '.join(cells)} |")


def rounding(records: list[dict[str, Any]]) -> None:
    """To the nearest, and at random."""
    print("\n## Rounded at random\n\n`mnist-5k`, medians over the two partitions, the two "
          "algorithms and three seeds.\n\n| codec | error of a record | at random | of the total | "
          "at random | accuracy | at random |\n|---|---|---|---|---|---|---|")  # fmt: skip
    for codec in ROUNDED:
        cells = []
        for fact in ("error_record", "error_total", "accuracy"):
            for study in ("codecs", "rounding"):
                wanted = (study, "mnist-5k", codec)
                values = [r[fact] for r in records
                          if (r["study"], r["dataset"], r["codec"]) == wanted]  # fmt: skip
                cells.append(f"{statistics.median(values):{'.1f' if fact == 'accuracy' else '.2g'}}"
                             if values else "not run")  # fmt: skip
        print(f"| {codec} | {' | '.join(cells)} |")


def below(values: list[float], others: list[float]) -> float:
    """How likely values as low as these are, if they are like the others: Mann and Whitney's p.

    By the normal approximation, one-sided, ties counted half.
    """
    n, m = len(values), len(others)
    wins = sum((v > o) + (v == o) / 2 for v in values for o in others)
    spread = (n * m * (n + m + 1) / 12) ** 0.5
    return statistics.NormalDist().cdf((wins + 0.5 - n * m / 2) / spread)


def more_seeds(records: list[dict[str, Any]]) -> None:
    """Ten seeds, by the rule of part 6."""
    runs = [r for r in records if r["study"] == "seeds"]
    print("\n## With ten more seeds\n\n`mnist-5k`, seeds 45 to 54, by the rule of part 6: median "
          "accuracy, minus that of full precision (fp32 and fp16 together), p of being below it; "
          f"runs that ended below {CHANCE} %.\n")  # fmt: skip
    places = [(p, a) for p in PARTITIONS for a in ALGORITHMS]
    print("| codec | bits | " + " | ".join(f"{p}, {a}" for p, a in places)
          + " | mean difference | loses nothing |\n|---|---|"
          + "---|" * (len(places) + 2))  # fmt: skip
    for codecs_ in (FULL, *((codec,) for codec in FEWER)):
        cells, gaps, loses, whole = [], [], False, True
        for partition, algorithm in places:
            place = (partition, algorithm)
            here = [r for r in runs if (r["partition"], r["algorithm"]) == place]
            full = [r["accuracy"] for r in here if r["codec"] in FULL]
            mine = [r["accuracy"] for r in here if r["codec"] in codecs_]
            whole &= len(mine) == len(codecs_) * len(MORE_SEEDS)
            if not mine:
                continue
            median = statistics.median(mine)
            gap, p = median - statistics.median(full), below(mine, full)
            gaps.append(gap)
            loses |= gap < SETTING and p < 0.05
            low = sum(value < CHANCE for value in mine)
            cells.append(f"{median:.1f}" + (f" ({gap:+.1f}, p {p:.2f})" if codecs_ != FULL else "")
                         + (f", {low} of {len(mine)} below" if low else ""))  # fmt: skip
        if not gaps:
            continue
        bits = statistics.mean(r["bits"] for r in runs if r["codec"] == codecs_[0])
        mean = statistics.mean(gaps)
        told = "no" if loses or mean < SETTING else "yes"
        told = told if whole else "not decided: not all was run"
        print(f"| {' and '.join(codecs_)} | {bits:.2f} | {' | '.join(cells)} | "
              + (f"{mean:+.2f} | {told} |" if codecs_ != FULL else "| |"))  # fmt: skip


def main() -> None:
    """Print all of it."""
    records = lines(Path(sys.argv[1]) if len(sys.argv) > 1 else LINES)
    print("# How few bits, and how old\n\nWhat was measured by [the study](STUDY.md), judged by "
          f"its rules; {len(records)} runs, LeNet-5, 300 rounds each. `python "
          "results/memory/table.py > results/memory/README.md` makes this page, `picture.py` the "
          "picture.\n")  # fmt: skip
    print(LINES.with_name("findings.md").read_text())
    print("![Bits per parameter against accuracy, and against the error of the total](bits.png)"
          "\n\nMedians over all runs; the lines are the middle half of them.\n")  # fmt: skip
    print("## Three seeds, eight settings\n\nBy the rule of part 2.\n")
    codecs(records)
    more_seeds(records)
    by_setting(records)
    rounding(records)
    print("\n## What is old\n\n`mnist-5k`, fp32, three seeds, by the rule of part 4.")
    staleness(records)


if __name__ == "__main__":
    main()
