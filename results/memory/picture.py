"""`bits.png`: bits per parameter against accuracy and against the error of the total.

python results/memory/picture.py [RECORDS [PICTURE]]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).parent))
from run import CODECS, LINES, MORE_CODECS, lines

TICKS = (1, 2, 4, 8, 16, 32)
BLOCKS = ("int8-block", "int4-block", "nf4")
COLORS = {"plain": "tab:blue", "block": "tab:orange", "rot": "tab:green"}
SIDE = {"int4": ("right", 0, 3), "int8": ("right", 0, 3), "rot4": ("center", 0, -11),
        "int4-block": ("left", 7, 5), "nf4": ("left", 7, 0), "int8-block": ("left", 7, 0),
        }  # fmt: skip
"""Where a codec's name stands, and how many points off: so that none covers another."""


def pairs(records: list[dict[str, Any]], codec: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each run with a codec, and that with fp32 in the same setting with the same seed."""
    place = ("study", "dataset", "partition", "algorithm", "seed")
    runs = [r for r in records if r["study"] in ("codecs", "seeds")]
    full = {tuple(r[k] for k in place): r for r in runs if r["codec"] == "fp32"}
    mine = [(r, tuple(r[k] for k in place)) for r in runs if r["codec"] == codec]
    return [(r, full[where]) for r, where in mine if where in full]


def main() -> None:
    """A point for each codec: the median over all runs, the middle half as a line."""
    words = sys.argv[1:]
    records = lines(Path(words[0]) if words else LINES)
    out = Path(words[1]) if len(words) > 1 else LINES.with_name("bits.png")
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for codec in (*CODECS, *MORE_CODECS):
        found = pairs(records, codec)
        if not found:
            continue
        bits, small = (np.mean([mine[k] for mine, _ in found]) for k in ("bits", "bits_zstd"))
        gaps = [mine["accuracy"] - full["accuracy"] for mine, full in found]
        errors = [mine["error_total"] for mine, _ in found]
        group = "rot" if codec.startswith("rot") else "block" if codec in BLOCKS else "plain"
        for axes, values in ((left, gaps), (right, errors)):
            if axes is right and codec == "fp32":
                continue  # none: rounding of float64
            low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
            axes.plot([bits, bits], [low, high], color=COLORS[group], linewidth=1, alpha=0.6)
            axes.plot(bits, middle, "o", color=COLORS[group])
            axes.plot(small, middle, "o", color=COLORS[group], fillstyle="none", markersize=4)
            side, x, y = SIDE.get(codec, ("center", 0, 3))
            axes.annotate(codec, (bits, low if y < 0 else middle if x > 5 else high), (x, y),
                          textcoords="offset points", fontsize=8, ha=side)  # fmt: skip
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(TICKS, [str(tick) for tick in TICKS])
        axes.set_xlabel("bits per parameter, headers and scales included (hollow: with zstd)")
        axes.grid(alpha=0.3)
    left.axhline(0, color="gray", linewidth=1)
    left.set_ylabel("points")
    left.set_title("Accuracy minus fp32's with the same seed", fontsize=10)
    right.set_yscale("log")
    right.set_title("Relative squared error of the total", fontsize=10)
    figure.savefig(out, dpi=130)


if __name__ == "__main__":
    main()
