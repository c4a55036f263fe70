"""Who was there over time, as numbers and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from fedadavr.availability.base import Availability, Clients, Dropout

AWAY, SILENT, THERE = 0, 1, 2
Raster = npt.NDArray[np.int8]
COLORS = ("#f3f4f6", "#d9a441", "#2f6f8f")


def raster(availability: Availability, dropout: Dropout, clients: Clients, rounds: int) -> Raster:
    """Clients by rounds: away, there but not going to answer, or there."""
    found = np.zeros((clients.number, rounds), np.int8)
    for k in range(rounds):
        there = availability.there(k + 1, clients)
        found[there, k] = SILENT
        found[there & dropout.answers(k + 1, clients), k] = THERE
    return found


def told(found: Raster) -> str:
    """The picture in a sentence or two."""
    present = found != AWAY
    per_round, share = present.sum(axis=0), present.mean(axis=1)
    words = [
        f"of {len(found)} clients {per_round.mean():.1f} are there in a round, in the mean "
        f"({per_round.min()} to {per_round.max()})",
        f"a client is there in {100 * share.min():.0f} to {100 * share.max():.0f} % of the rounds, "
        f"median {100 * np.median(share):.0f} %",
    ]
    never, empty = int((share == 0).sum()), int((per_round == 0).sum())
    words += ["1 never comes" if never == 1 else f"{never} never come"] if never else []
    words += [f"nobody is there in {empty} of the rounds"] if empty else []
    if (found == SILENT).any():
        words.append(
            f"{100 * (found == SILENT).sum() / present.sum():.0f} % of those there would not answer"
        )
    return "; ".join(words)


def draw(found: Raster, title: str, out: Path | IO[bytes]) -> None:
    """A line for each client, who comes most on top; below, how many; beside it, how often."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    number, rounds = found.shape
    present = found != AWAY
    share = present.mean(axis=1)
    order = np.argsort(-share, kind="stable")
    figure, axes = plt.subplots(
        2, 2, figsize=(10, 5.6), layout="constrained", height_ratios=[3, 1], width_ratios=[3, 1]
    )
    (lines, often), (many, corner) = axes
    shown = found[order]
    lines.imshow(shown, aspect="auto", interpolation="nearest", cmap=ListedColormap(COLORS),
                 vmin=AWAY, vmax=THERE, extent=(0.5, rounds + 0.5, number, 0))  # fmt: skip
    lines.set(ylabel="clients, the most frequent first")
    lines.set_title(title, loc="left", fontsize=10, parse_math=False, wrap=True)
    numbers = np.arange(1, rounds + 1)
    many.fill_between(numbers, present.sum(axis=0), step="mid", color=COLORS[THERE], alpha=0.3,
                      linewidth=0)  # fmt: skip
    many.step(numbers, present.sum(axis=0), where="mid", color=COLORS[THERE], linewidth=1)
    many.set(xlabel="round", ylabel="there", xlim=(0.5, rounds + 0.5), ylim=(0, None))
    often.hist(100 * share, bins=np.linspace(0, 100, 21).tolist(), color=COLORS[THERE])
    for axis in (lines.xaxis, many.xaxis, often.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    often.set(xlabel="there in % of the rounds", ylabel="clients", xlim=(0, 100))
    corner.set_axis_off()
    names = {THERE: "there", SILENT: "there, would not answer", AWAY: "away"}
    keys = [Patch(facecolor=COLORS[kind], edgecolor="#9aa0a6", label=name)
            for kind, name in names.items() if (found == kind).any()]  # fmt: skip
    corner.legend(handles=keys, loc="center", frameon=False, fontsize=9)
    figure.savefig(out, dpi=120, format="png")
    plt.close(figure)
