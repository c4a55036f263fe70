"""README.md's tables, from `records.jsonl`, judged by the rule of STUDY.md.

python results/memory/table.py > results/memory/README.md
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from run import ALGORITHMS, CODECS, LINES, MORE_CODECS, OLD, PARTITIONS, PRESENCE, SEEDS, lines

SETTING, ALL = -0.5, -0.2  # points against fp32: in one setting, and in the mean over all
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


def main() -> None:
    """Print all of it."""
    records = lines(Path(sys.argv[1]) if len(sys.argv) > 1 else LINES)
    print("# How few bits, and how old\n\nWhat was measured by [the study](STUDY.md), judged by "
          "its rule; "
          "`python results/memory/table.py` makes this page.\n")  # fmt: skip
    codecs(records)
    staleness(records)


if __name__ == "__main__":
    main()
