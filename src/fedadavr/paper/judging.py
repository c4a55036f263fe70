"""How two figures are compared, and what many comparisons come to.

Two figures differ if their means are further apart than the larger of their deviations over seeds;
"above all" is against the one with the highest mean. Precisions share everything but rounding, so
there it is the differences within each seed that count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedadavr.experiments.records import RunRecord
from fedadavr.paper.results import Cells, Figure, accuracy, seed_of
from fedadavr.report.elements import Holds

ALONE = 1.0
"""Points, or rounds, that two figures of a single seed differ by at least."""
NOTHING = 0.5
"""Points of accuracy that are called nothing where precisions are compared."""
Figures = dict[str, dict[str, Figure]]  # by label and partition
WORDS = {1: "above", 0: "about as", -1: "below"}


def compare(ours: Figure, theirs: Figure) -> int:
    """1 if ours is higher by more than either's deviation, -1 if theirs is, 0 otherwise.

    A single seed has no deviation: there it takes more than a point.
    """
    gap = ours.mean - theirs.mean
    margin = max(ours.deviation, theirs.deviation, ALONE if len(ours.seeds) == 1 else 0.0)
    return 1 if gap > margin else -1 if gap < -margin else 0


def change(ours: Sequence[RunRecord], theirs: Sequence[RunRecord]) -> Figure:
    """Ours minus theirs, seed by seed; both have the same seeds, in the same order."""
    gaps = [(a.final_accuracy or 0) - (b.final_accuracy or 0)
            for a, b in zip(ours, theirs, strict=True)]  # fmt: skip
    return Figure.of(gaps, map(seed_of, ours))


def differs(gap: Figure) -> int:
    """1 or -1 if a change is more than half a point and more than its deviation, 0 otherwise."""
    margin = max(NOTHING, gap.deviation)
    return 1 if gap.mean > margin else -1 if gap.mean < -margin else 0


def tally(signs: Sequence[int]) -> Holds:
    """Holds, holds in part, or not, from single comparisons."""
    if all(sign > 0 for sign in signs):
        return "holds"
    return "does not hold" if not any(sign > 0 for sign in signs) else "holds in part"


def figures(cells: Cells) -> Figures:
    """The accuracy of each row and partition, where there are runs."""
    return {
        label: {p: found for p, runs in row.items() if (found := accuracy(runs))}
        for label, row in cells.items()
    }


def best(rows: Figures, names: Iterable[str], partition: str) -> tuple[str, Figure]:
    """The highest of some rows."""
    return max(((n, rows[n][partition]) for n in names), key=lambda pair: pair[1].mean)


def seeds_of(cells: Cells) -> frozenset[int]:
    """The seeds of a complete table, where all cells have the same."""
    runs = next((runs for row in cells.values() for runs in row.values()), ())
    return frozenset(map(seed_of, runs))
