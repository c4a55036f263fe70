"""The records of one round's cohort."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedadavr.memory.population import Undo
from fedadavr.stores.store import Record

Floats = npt.NDArray[np.float64]


@dataclass
class CohortRecords:
    """The records that a round reads and writes, laid out for the kernels.

    `old` and `new` are addresses. A client never seen has a record of zeros with scale zero, so
    it decodes to zero whatever the codec.
    """

    clients: Sequence[str]
    records: list[Record | None]
    before: Floats
    old: npt.NDArray[np.int64]
    old_scale: npt.NDArray[np.float32]
    buffers: list[npt.NDArray[np.uint8]]
    new: npt.NDArray[np.int64]
    new_scale: npt.NDArray[np.float32]
    when: npt.NDArray[np.int64]  # the rounds of the old records, 0 for a client never seen
    undo: list[Undo] = field(default_factory=list)
    expired: dict[str, Record] = field(default_factory=dict)
    labels: list[int] = field(default_factory=list)

    @classmethod
    def blank(cls, clients: Sequence[str]) -> CohortRecords:
        """Those of a server that remembers nothing."""
        nowhere, scale = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)
        none: list[Record | None] = [None] * len(clients)
        return cls(clients, none, np.zeros(len(clients)), nowhere, scale, [], nowhere, scale,
                   nowhere)  # fmt: skip
