"""The RAM of a round with many replies, ours and beside it that of Flower's FedAvg.

Every round runs in a process of its own, under Flower's loop and with Flower's way to wait for
replies; only the nodes are made up: a reply is made when it is pulled, and not before. The parent
looks at the process's RAM every few milliseconds, and takes what the replies add to it.

    python -m fedadavr.bench.cohorts MODEL NAME CODEC REPLIES FOLDER
"""

from __future__ import annotations

import itertools
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg as FlowerFedAvg
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.inmemory_grid import InMemoryGrid

from fedadavr.bench.server import resnet18_layout
from fedadavr.flower import FedAdaVR, FedAvg
from fedadavr.vector import Layout

LENET5 = {
    "conv1.weight": (6, 1, 5, 5), "conv1.bias": (6,), "conv2.weight": (16, 6, 5, 5),
    "conv2.bias": (16,), "fc1.weight": (120, 400), "fc1.bias": (120,), "fc2.weight": (84, 120),
    "fc2.bias": (84,), "fc3.weight": (10, 84), "fc3.bias": (10,),
}  # fmt: skip
MODELS: dict[str, Callable[[], Layout]] = {
    "lenet5": lambda: Layout(LENET5),
    "resnet18": resnet18_layout,
}
MOST = {"resnet18": 100}  # replies of it; they are 45 MB each
NAMES = ("flower-fedavg", "fedavg", "fedadavr")
LOOK = 0.005  # seconds between two looks at a process
PARTS = ("RssAnon", "RssFile")


@dataclass(frozen=True)
class CohortRow:
    """A round's RAM above that of the process before it, at its peak, and its time."""

    model: str
    name: str
    replies: int
    replies_mb: float
    own_mb: float  # anonymous memory
    file_mb: float  # pages of files, which the system can drop
    both_mb: float
    ms: float  # to collect, aggregate and commit, without making the replies


class PulledNodes(Grid):
    """Nodes that reply when their replies are pulled."""

    send_and_receive: Any = InMemoryGrid.send_and_receive
    pull_interval = 0.1

    def __init__(self, replies: int) -> None:
        self.replies = replies
        self.began = self.making = 0.0  # when training was sent; seconds spent on making replies
        self._sent: dict[str, Message] = {}
        self._numbers = itertools.count(1)

    def get_node_ids(self) -> Iterable[int]:
        """The nodes."""
        return range(2, 2 + self.replies)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Take messages, as a SuperLink does."""
        ids, messages = [], list(messages)
        if messages and messages[0].metadata.message_type == "train":
            self.began, self.making = time.perf_counter(), 0.0
        for message in messages:
            ids.append(str(next(self._numbers)))
            message.metadata.__dict__["_message_id"] = ids[-1]
            self._sent[ids[-1]] = message
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Make the replies to these messages."""
        began = time.perf_counter()
        replies = [self._reply(self._sent.pop(key)) for key in list(message_ids)]
        self.making += time.perf_counter() - began
        return replies

    def _reply(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        if message.metadata.message_type != "train":  # who are you?
            return Message(content=RecordDict(), reply_to=message)
        arrays = ArrayRecord()
        for name, array in message.content.array_records["arrays"].items():
            arrays[name] = Array(array.numpy() + np.float32(node) / 1e5)
        metrics = MetricRecord({"num-examples": 100})
        return Message(content=RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    def set_run(self, run: Any) -> None:
        """There is none."""

    @property
    def run(self) -> Any:
        """There is none."""
        return None

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """It is not asked for."""
        raise NotImplementedError


def measure(
    numbers: Sequence[int],
    models: Sequence[str],
    codec: str,
    repeats: int,
    tell: Callable[[str], None],
) -> list[CohortRow]:
    """A row for each model, strategy and number of replies; they take turns.

    Parameters
    ----------
    numbers : Sequence[int]
        Of replies; those that a model is too large for are omitted.
    models : Sequence[str]
        lenet5, resnet18.
    codec : str
        How FedAdaVR's memory is stored, in an LMDB of its own.
    repeats : int
        How often each is measured; the median counts.
    tell : Callable[[str], None]
        Told what is being done.
    """
    if not numbers or min(numbers) < 2 or repeats < 1:
        raise ValueError("--replies must be whole numbers from 2 up, and --rounds at least 1")
    cases = [
        (model, name, number)
        for model in models
        for number in numbers
        if number <= MOST.get(model, number)
        for name in NAMES
    ]
    found: dict[Any, list[CohortRow]] = {case: [] for case in cases}
    for turn in range(repeats):
        for model, name, number in cases:
            tell(f"{model}, {number:,} replies, {name} ({turn + 1} of {repeats})")
            found[model, name, number].append(_measured(model, name, codec, number))
    return [_median(rows) for rows in found.values()]


def _median(rows: list[CohortRow]) -> CohortRow:
    """The rows' median, figure by figure."""
    first = rows[0]
    figures = {
        name: float(np.median([getattr(row, name) for row in rows]))
        for name in ("own_mb", "file_mb", "both_mb", "ms")
    }
    return CohortRow(first.model, first.name, first.replies, first.replies_mb, **figures)


def _measured(model: str, name: str, codec: str, number: int) -> CohortRow:
    """One round in a process of its own, watched from here."""
    with tempfile.TemporaryDirectory(prefix="fedadavr-bench-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, model, name, codec, str(number), folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline() != "ready\n":
                raise ValueError(f"the process for {name} with {number} replies did not start")
            before = _held(process.pid)
            peak, both = dict(before), sum(before.values())
            process.stdin.write("go\n")
            process.stdin.flush()
            while process.poll() is None:
                now = _held(process.pid)
                if now:
                    peak = {part: max(peak[part], now[part]) for part in PARTS}
                    both = max(both, sum(now.values()))
                time.sleep(LOOK)
            if process.returncode:
                raise ValueError(
                    f"the process for {name} with {number} replies died "
                    f"({process.returncode}): perhaps the RAM is full"
                )
            ms = json.loads(process.stdout.readline())
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
    own, file = (peak[part] - before[part] for part in PARTS)
    size = 4 * MODELS[model]().size * number / 1e6
    above = both - sum(before.values())
    return CohortRow(model, name, number, size, own, file, above, ms)


def _held(process: int) -> dict[str, float]:
    """What a process has in RAM, in MB: its own, and pages of files; empty when it is over."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except FileNotFoundError:
        raise ValueError("bench flower --replies needs Linux, which tells the RAM") from None
    except ProcessLookupError:
        return {}
    about = dict(line.split(":", 1) for line in lines)
    return {part: int(about[part].split()[0]) * 1024 / 1e6 for part in PARTS if part in about}


def _strategy(name: str, codec: str, replies: int, folder: str) -> Any:
    given: dict[str, Any] = {
        "fraction_evaluate": 0.0, "min_train_nodes": 2, "min_available_nodes": replies,
    }  # fmt: skip
    if name == "flower-fedavg":
        return FlowerFedAvg(**given)
    if name == "fedavg":
        return FedAvg(**given)
    return FedAdaVR(**given, codec=codec, store=f"lmdb:{folder}/store")


def _one_round(model: str, name: str, codec: str, replies: int, folder: str) -> None:
    """What a process does: a round of two replies, then, when it is told, the one that counts."""
    for package in ("flwr", "fedadavr"):
        logging.getLogger(package).setLevel(logging.ERROR)
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    tempfile.tempdir = folder
    layout = MODELS[model]()
    w = np.random.default_rng(0).normal(0, 0.1, layout.size).astype(np.float32)
    first = ArrayRecord({key: Array(tensor) for key, tensor in layout.split(w).items()})
    small = ArrayRecord({"x": Array(np.ones(5000, np.float32))})
    _strategy(name, codec, 2, f"{folder}/first").start(PulledNodes(2), small, 1)  # it compiles
    grid = PulledNodes(replies)
    strategy = _strategy(name, codec, replies, folder)
    print("ready", flush=True)
    sys.stdin.readline()
    strategy.start(grid, first, 1)
    print(json.dumps(1e3 * (time.perf_counter() - grid.began - grid.making)), flush=True)


if __name__ == "__main__":
    _one_round(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
