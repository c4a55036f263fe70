"""`bits.png`: bits per parameter against accuracy and against the error of the total.

python results/memory/picture.py [RECORDS [PICTURE]]
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(0, str(Path(__file__).parent))
from run import CODECS, LINES, MORE_CODECS, lines
from table import SETTINGS, of


def main() -> None:
    """A point for each codec, the mean over all settings that have it; hollow: with zstd."""
    words = sys.argv[1:]
    records = lines(Path(words[0]) if words else LINES)
    out = Path(words[1]) if len(words) > 1 else LINES.with_name("bits.png")
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for place, codec in enumerate((*CODECS, *MORE_CODECS)):
        gaps, errors, bits, small = [], [], [], []
        for setting in SETTINGS:
            words_of = dict(zip(("dataset", "partition", "algorithm"), setting, strict=True))
            mine = of(records, study="codecs", codec=codec, **words_of)
            full = of(records, study="codecs", codec="fp32", **words_of)
            for seed in mine.keys() & full.keys():
                gaps.append(mine[seed]["accuracy"] - full[seed]["accuracy"])
                errors.append(mine[seed]["error_total"])
                bits.append(mine[seed]["bits"])
                small.append(mine[seed]["bits_zstd"])
        if not gaps:
            continue
        color = plt.get_cmap("tab20")(place)
        for axes, values in ((left, gaps), (right, errors)):
            y = statistics.mean(values)
            axes.plot(statistics.mean(bits), y, "o", color=color, label=codec)
            axes.plot(statistics.mean(small), y, "o", color=color, fillstyle="none")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("bits per parameter, headers and scales included; hollow: with zstd")
        axes.grid(alpha=0.3)
    left.axhline(-0.5, color="gray", linestyle=":")
    left.set_ylabel("accuracy minus fp32's, points")
    right.set_yscale("log")
    right.set_ylabel("relative squared error of the total")
    right.legend(fontsize=8, ncols=2)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main()
