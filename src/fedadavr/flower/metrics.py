"""The clients' metrics, averaged such that no single client can spoil the round's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import MetricRecord, RecordDict

MOST_KEYS = 1000  # metrics of one client
MOST_WEIGHT = 1e9  # of one of fewer than three clients
BEYOND = 1000.0  # times the median, where a weight or a value is not believed any more

Aggregate = Callable[[list[RecordDict], str], MetricRecord | None]
Row = dict[str, "list[float]"]  # a client's metrics; a single number is a list of one


def average(records: list[RecordDict], weighted_by: str) -> MetricRecord:
    """Each metric's mean over the clients that have it, by their weights."""
    sums: dict[str, Any] = {}
    weights: dict[str, float] = {}
    lists: set[str] = set()
    for record in records:
        metrics = next(iter(record.metric_records.values()))
        weight = float(metrics[weighted_by])  # type: ignore[arg-type]
        for key, value in metrics.items():
            if key == weighted_by:
                continue
            if isinstance(value, list):
                lists.add(key)
            sums[key] = sums.get(key, 0.0) + weight * np.asarray(value, np.float64)
            weights[key] = weights.get(key, 0.0) + weight
    means = {key: np.asarray(total) / weights[key] for key, total in sums.items()}
    return MetricRecord({k: m.tolist() if k in lists else float(m) for k, m in means.items()})


def aggregate(
    contents: Mapping[str, RecordDict],
    weighted_by: str,
    function: Aggregate,
    note: Callable[[str, str], None],
) -> MetricRecord | None:
    """What the function makes of the metrics that can be believed; None where there are none.

    Believed are: a weight and values that are finite and at most a thousand times the clients'
    median (or than one), and metrics that most of the clients have. `average` is given whatever
    is left of a client's metrics; any other function, which may count on all of them being there,
    only the clients that have them all. Who is left out is told to `note`, with the reason.
    """
    rows: dict[str, Row] = {}
    for client, content in contents.items():
        try:
            rows[client] = _read(content, weighted_by)
        except (TypeError, ValueError, OverflowError) as error:
            note(client, str(error))
    typical = _lower_median([row[weighted_by][0] for row in rows.values()])
    most = BEYOND * typical if len(rows) > 2 else MOST_WEIGHT  # of two, who is to be believed?
    for client in [c for c, row in rows.items() if row[weighted_by][0] > most]:
        weight = rows.pop(client)[weighted_by][0]
        note(client, f"its {weighted_by} is {weight:g}, the median {typical:g}")
    shapes = _common(rows)
    kept: list[RecordDict] = []
    for client, row in rows.items():
        good = {key: row[key] for key in shapes if _fits(row.get(key), shapes[key])}
        if len(good) < len(shapes):
            lost = next(key for key in shapes if key not in good)
            note(client, f"its metric {_short(lost)} is missing, not finite, or out of all measure")
            if function is not average:
                continue
        kept.append(_record(contents[client], good, weighted_by))
    return function(kept, weighted_by) if kept else None


def _read(content: RecordDict, weighted_by: str) -> Row:
    """A client's metrics as lists of floats, those that are numbers; the weight must be one."""
    records = list(content.metric_records.values())
    if len(records) != 1:
        raise ValueError(f"it must hold one MetricRecord, and holds {len(records)}")
    if len(records[0]) > MOST_KEYS:
        raise ValueError(f"it has {len(records[0])} metrics, more than {MOST_KEYS}")
    row: Row = {}
    for key, value in records[0].items():
        values = value if isinstance(value, list) else [value]
        if all(isinstance(v, (int, float, np.number)) for v in values):
            row[key] = [_float(v) for v in values]
    weight = row.get(weighted_by, [])
    if len(weight) != 1 or not 0 < weight[0] < math.inf:
        raise ValueError(f"it must hold one MetricRecord with {weighted_by!r}, a number above 0")
    return row


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _common(rows: Mapping[str, Row]) -> dict[str, tuple[int, float]]:
    """The metrics that most clients have; how long most of them are, and how large they may be."""
    having = Counter(key for row in rows.values() for key in row)
    common = {}
    for key in [key for key, number in having.items() if 2 * number > len(rows)]:
        values = [row[key] for row in rows.values() if key in row and np.isfinite(row[key]).all()]
        if values:
            length = Counter(map(len, values)).most_common(1)[0][0]
            peaks = [max(map(abs, v), default=0.0) for v in values if len(v) == length]
            common[key] = length, BEYOND * max(1.0, _lower_median(peaks))
    return common


def _fits(values: Sequence[float] | None, shape: tuple[int, float]) -> bool:
    length, most = shape
    return values is not None and len(values) == length and all(abs(v) <= most for v in values)


def _record(content: RecordDict, good: Row, weighted_by: str) -> RecordDict:
    """A client's content with only these of its metrics."""
    ((name, before),) = content.metric_records.items()
    metrics = {key: value for key, value in before.items() if key in good}
    slim = RecordDict({name: MetricRecord({**metrics, weighted_by: before[weighted_by]})})
    for other in content:
        if other != name:
            slim[other] = content[other]
    return slim


def _lower_median(values: Sequence[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2] if values else 0.0


def _short(key: str) -> str:
    return repr(key if len(key) <= 40 else f"{key[:37]}...")
