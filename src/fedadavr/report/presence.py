"""Who was there in the runs of a report: a picture for each way of being there."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from fedadavr.experiments.presence import is_full, picture_of, title_of
from fedadavr.experiments.records import RunRecord
from fedadavr.report.elements import Picture, Section, Text
from fedadavr.report.grouping import Group


def presence_sections(group: Group) -> list[Section]:
    """Pictures of those runs of a data set in which not everybody was there and answered."""
    kinds: dict[str, list[RunRecord]] = {}
    for column in group.columns:
        for record in group.of_column(column):
            if not is_full(record.experiment):
                shown = title_of(record.experiment)
                kinds.setdefault(f"{group.dataset}: who was there, {shown}", []).append(record)
    return [_section(title, records) for title, records in kinds.items()]


def _section(title: str, records: Sequence[RunRecord]) -> Section:
    """The picture of the run with the lowest seed, or why there is none."""
    first = min(records, key=lambda record: record.experiment.seed)
    told = [words for words in [_told(records)] if words]
    try:
        png, words = picture_of(first.experiment)
    except (ValueError, OSError) as error:
        return Text(title, (*told, f"The picture cannot be drawn here: {error}."))
    run = f"{first.experiment.partition}, seed {first.experiment.seed}"
    shown = f"The picture is of {run}: {words}."
    return Picture(title, png, " ".join([*told, shown]), first.command())


def _told(records: Sequence[RunRecord]) -> str:
    """How many there were in a round, in the mean over the runs."""
    figures = [
        statistics.mean(known)
        for name in ("there", "asked", "answered")
        if (known := [value for r in records if (value := getattr(r, name)) is not None])
    ]
    if len(figures) < 3:
        return ""
    there, asked, answered = figures
    return (
        f"In a round, in the mean, {there:.1f} clients were there, {asked:.1f} were asked and "
        f"{answered:.1f} answered."
    )
