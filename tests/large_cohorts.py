"""Runs in a process of its own, whose RAM is weighed and whose disk may be full.

    python -m tests.large_cohorts REPLIES SIZE [LIMIT]

makes two rounds with so many replies of so many floats, the second in a round that is measured, and
prints by how many bytes the process's own memory grew at most while replies were pulled and after
the round, and a digest of the model. With a limit no file may grow beyond that many bytes.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict

from fedadavr.flower import FedAvg
from tests.flower_grid import PolledGrid, app_that


def held() -> dict[str, int]:
    """The bytes that this process has in RAM: its own, and pages of files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    about = dict(line.split(":", 1) for line in lines)
    return {name: int(about[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile")}


class Weighed(PolledGrid):
    """Notes how much RAM is in use whenever replies are pulled."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: list[dict[str, int]] = []

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        self.seen.append(held())
        return super().pull_messages(message_ids)


def shifted(message: Message, context: Context) -> RecordDict:
    """A reply that depends on its node alone, made without much ado."""
    arrays = ArrayRecord()
    for name, array in message.content.array_records["arrays"].items():
        arrays[name] = Array(array.numpy() - np.float32(context.node_id % 7) / 8)
    return RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 3})})


def main(replies: int, size: int, limit: int | None = None) -> None:
    grid = Weighed(app_that(shifted), {100 + k: str(k) for k in range(replies)})
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    before: dict[str, int] = {}
    after: dict[str, int] = {}

    def note(round: int, arrays: ArrayRecord) -> None:
        if round == 1:
            grid.seen.clear()
            before.update(held())
        after.update(held())

    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=replies)
    first = ArrayRecord({"x": Array(np.ones(size, np.float32))})
    result = strategy.start(grid, first, 2, evaluate_fn=note)
    digest = hashlib.sha256(result.arrays["x"].data).hexdigest()
    grown = {n: max(x[n] for x in [*grid.seen, after]) - before[n] for n in before}
    print(json.dumps({"grown": grown, "model": digest, "at_once": grid.most}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
