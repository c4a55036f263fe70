"""Who holds what, as numbers and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedadavr.data.federation import Federation


def class_counts(federation: Federation) -> npt.NDArray[np.int64]:
    """How many examples of each class (rows) each client (columns) trains on."""
    labels = federation.train.labels.numpy()
    columns = [
        np.bincount(labels[part], minlength=federation.classes) for part in federation.train_parts
    ]
    return np.stack(columns, axis=1)


def draw(counts: npt.NDArray[np.int64], title: str, path: Path) -> None:
    """Classes by clients, darker where there is more; below, how much each client has."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(10, 5), sharex=True, height_ratios=[3, 1], layout="constrained"
    )
    shown: Any = np.ma.masked_equal(counts, 0)
    picture = top.imshow(shown, aspect="auto", cmap="viridis_r", interpolation="nearest", vmin=0)
    top.set(title=title, ylabel="class")
    if len(counts) <= 12:
        top.set_yticks(range(len(counts)))
    figure.colorbar(picture, ax=top, label="examples")
    bottom.bar(np.arange(counts.shape[1]), counts.sum(axis=0), width=1.0, color="#46788f")
    bottom.set(xlabel="client", ylabel="examples", xlim=(-0.5, counts.shape[1] - 0.5))
    figure.savefig(path, dpi=120)
    plt.close(figure)
