"""The clients' metrics, averaged such that no single client can spoil the round's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
from flwr.app import MetricRecord, RecordDict

MOST_KEYS = 1000  # metrics of one client
MOST_WEIGHT = 1e9  # of one of fewer than three clients
BEYOND = 1000.0  # times the median, where a weight or a value is not believed any more
ALONE = 100.0  # times the largest of all others', where a value of one of three or more is not
COUNT = "num-"  # how the names of counts begin, whose tails are honestly heavy

Aggregate = Callable[[list[RecordDict], str], MetricRecord | None]
Value = float | list[float]
Row = dict[str, Value]  # a client's metrics
Shape = tuple[bool, int]  # whether it is a list, and its length: the smaller, the simpler


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


def checked(metrics: Any, source: str) -> Any:
    """What a user's function gave; raises `TypeError` if it is no mapping, as a float is none."""
    if metrics is not None and not isinstance(metrics, Mapping):
        raise TypeError(
            f"{source} must give a MetricRecord or None, and gave a {type(metrics).__name__}: "
            "write MetricRecord({'loss': loss})"
        )
    return metrics


def numbers(metrics: Mapping[Any, Any]) -> dict[str, Any]:
    """The metrics that a `MetricRecord` takes, those of NumPy and PyTorch as plain numbers."""
    if isinstance(metrics, MetricRecord):
        return dict(metrics)
    found: dict[str, Any] = {}
    for name, value in metrics.items():
        plain = value.tolist() if hasattr(value, "tolist") else value
        try:
            MetricRecord({name: int(plain) if isinstance(plain, bool) else plain})
        except (TypeError, ValueError):
            continue  # it is the user's, and stays in the result
        found[name] = int(plain) if isinstance(plain, bool) else plain
    return found


def aggregate(
    contents: Mapping[str, RecordDict],
    weighted_by: str,
    function: Aggregate,
    note: Callable[[str, str], None],
) -> MetricRecord | None:
    """What the function makes of the metrics that can be believed; None where there are none.

    Believed are: a weight and values that are finite and at most a thousand times the clients'
    median (or than one); metrics that most of the clients have, as a number or a list as most
    have them; and, of three or more, values up to a hundred times the largest of all others' (or
    up to one, as a rate may be; up to 100 where all others' are zero; counts as they are).
    `average` is given whatever is left of a client's metrics; any other function, which may count
    on all of them being there, only the clients that have them all, and metrics of which none is
    finite, too. Who is left out is told to `note`, with the reason.
    """
    rows: dict[str, Row] = {}
    for client, content in contents.items():
        try:
            rows[client] = _read(content, weighted_by)
        except (TypeError, ValueError, OverflowError) as error:
            note(client, str(error))
    weights = {client: _peak(row[weighted_by]) for client, row in rows.items()}
    typical = _lower_median(weights.values())
    most = BEYOND * typical if len(rows) > 2 else MOST_WEIGHT  # of two, who is to be believed?
    for client in [c for c in rows if weights[c] > most]:
        del rows[client]
        note(client, f"its {weighted_by} is {weights[client]:g}, the median {typical:g}")
    wrong: dict[str, dict[str, str]] = {client: {} for client in rows}  # client -> metric -> why
    common, unknown = _common(rows)
    for key in common:
        for client, why in _odd({client: row.get(key) for client, row in rows.items()},
                                count=key == weighted_by or key.startswith(COUNT)):  # fmt: skip
            wrong[client][key] = why
    names = Counter(next(iter(contents[client].metric_records)) for client in rows)
    usual = min(names, key=lambda name: (-names[name], name), default="")
    kept: list[RecordDict] = []
    for client in rows:
        if wrong[client]:
            key, why = next(iter(wrong[client].items()))
            note(client, f"its metric {_short(key)} {why}")
            if function is not average:
                continue
        good = set(common) - wrong[client].keys()
        if function is not average:
            good |= unknown
        kept.append(_record(contents[client], good, weighted_by, usual))
    return function(kept, weighted_by) if kept else None


def _read(content: RecordDict, weighted_by: str) -> Row:
    """A client's metrics as floats, those that are numbers; the weight must be one."""
    records = list(content.metric_records.values())
    if len(records) != 1:
        raise ValueError(f"it must hold one MetricRecord, and holds {len(records)}")
    if len(records[0]) > MOST_KEYS:
        raise ValueError(f"it has {len(records[0])} metrics, more than {MOST_KEYS}")
    row: Row = {}
    for key, value in records[0].items():
        values = value if isinstance(value, list) else [value]
        if all(isinstance(v, (int, float, np.number)) for v in values):
            floats = [_float(v) for v in values]
            row[key] = floats if isinstance(value, list) else floats[0]
    weight = row.get(weighted_by)
    if not isinstance(weight, float) or not 0 < weight < math.inf:
        raise ValueError(f"it must hold one MetricRecord with {weighted_by!r}, a number above 0")
    return row


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _common(rows: Mapping[str, Row]) -> tuple[list[str], set[str]]:
    """The metrics that most clients have; apart, those of which none is finite."""
    having = Counter(key for row in rows.values() for key in row)
    finite = {key for row in rows.values() for key in row if math.isfinite(_peak(row[key]))}
    most = [key for key, number in having.items() if 2 * number > len(rows)]
    return [key for key in most if key in finite], set(most) - finite


def _odd(values: Mapping[str, Value | None], *, count: bool) -> Iterator[tuple[str, str]]:
    """The clients whose value of one metric is not believed, and why not."""
    finite = {client: value for client, value in values.items()
              if value is not None and math.isfinite(_peak(value))}  # fmt: skip
    shapes = Counter(_shape(value) for value in finite.values())
    usual = min(shapes, key=lambda shape: (-shapes[shape], shape))
    peaks = {client: _peak(v) for client, v in finite.items() if _shape(v) == usual}
    most = BEYOND * max(1.0, _lower_median(peaks.values()))
    near = {client: peak for client, peak in peaks.items() if peak <= most}
    if len(near) > 2 and not count:
        second, first = sorted(near.values())[-2:]
        if first > (max(1.0, ALONE * second) if second else ALONE):
            most = second
    for client, value in values.items():
        if value is None or client not in finite:
            yield client, "is missing or not finite"
        elif client not in peaks:
            yield client, f"is {_told(_shape(value))}, others' {_told(usual)}"
        elif peaks[client] > most:
            others = max(peak for peak in peaks.values() if peak <= most)
            yield client, f"is out of all measure: {peaks[client]:g}, others' {others:g} at most"


def _peak(value: Value) -> float:
    """The largest magnitude; NaN where there is one."""
    return abs(value) if isinstance(value, float) else float(np.abs(value).max(initial=0.0))


def _shape(value: Value) -> Shape:
    return (True, len(value)) if isinstance(value, list) else (False, 1)


def _told(shape: Shape) -> str:
    return f"a list of {shape[1]}" if shape[0] else "a number"


def _record(content: RecordDict, good: set[str], weighted_by: str, usual: str) -> RecordDict:
    """A client's content with only these of its metrics, under the name that most have."""
    ((name, before),) = content.metric_records.items()
    metrics = {key: value for key, value in before.items() if key in good}
    slim = RecordDict({usual: MetricRecord({**metrics, weighted_by: before[weighted_by]})})
    for other in content:
        if other not in (name, usual):
            slim[other] = content[other]
    return slim


def _lower_median(values: Collection[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2] if values else 0.0


def _short(key: str) -> str:
    return repr(key if len(key) <= 40 else f"{key[:37]}...")
