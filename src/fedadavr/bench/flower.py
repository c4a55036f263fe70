"""The whole of `aggregate_train`, beside Flower's own strategies.

Five ResNet-18 replies, as they come from the network: reading them, the step and the memory, and
the new model's bytes are all in the time. The durable commit is timed apart.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg
from flwr.supercore.task_identity import TaskIdentity

from fedadavr.bench.server import CLIENTS, replies, resnet18_layout, side_by_side
from fedadavr.flower import FedAdaVR

NODES = range(2, 2 + CLIENTS)


@dataclass(frozen=True)
class FlowerTiming:
    """How long one strategy's aggregation takes."""

    name: str
    codec: str
    ms: float


class Nodes:
    """Stands for the network: it knows who is there, and nothing is sent."""

    def get_node_ids(self) -> Iterable[int]:
        """The nodes."""
        return NODES


def measure(
    codec: str, rounds: int, tell: Callable[[str], None]
) -> tuple[list[FlowerTiming], float, int]:
    """The timings, the milliseconds that a durable commit adds, and the model's size.

    Parameters
    ----------
    codec : str
        How the memory is stored.
    rounds : int
        How many times each is called; medians count.
    tell : Callable[[str], None]
        Told what is being done.
    """
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = (
        1  # as in a ServerApp's process
    )
    layout = resnet18_layout()
    w, updates = replies(layout)
    first, *sent = (
        ArrayRecord({name: Array(t) for name, t in layout.split(x).items()})
        for x in (w, *(np.asarray(u.weights) for u in updates))
    )
    with tempfile.TemporaryDirectory() as folder:
        durable = strategy(first, codec, f"lmdb:{folder}/store")
        ours = strategy(first, codec, None)
        fedavg, fedadam = FedAvg(), FedAdam()
        fedadam.current_arrays = {name: t.copy() for name, t in layout.split(w).items()}
        plain = answers(ours, sent)
        works: dict[str, Callable[[], Any]] = {
            "fedadavr": lambda: ours.aggregate_train(1, plain),
            "flower-fedavg": lambda: fedavg.aggregate_train(1, plain),
            "flower-fedadam": lambda: fedadam.aggregate_train(1, plain),
        }
        tell("aggregating")
        ms = side_by_side(works, rounds)
        answered = answers(durable, sent)
        tell("committing")
        commits = side_by_side(
            {"with": lambda: durable.aggregate_train(1, answered),
             "without": lambda: ours.aggregate_train(1, plain)}, 5,
        )  # fmt: skip
        durable.close()
    rows = [
        FlowerTiming(name, codec if name == "fedadavr" else "", value) for name, value in ms.items()
    ]
    return rows, commits["with"] - commits["without"], layout.size


def strategy(arrays: ArrayRecord, codec: str, store: str | None) -> FedAdaVR:
    """Our strategy in a round whose clients train now."""
    made = FedAdaVR(codec=codec, optimizer="adam", server_lr=0.01, store=store)
    made.identities.clients = {node: str(node) for node in NODES}
    made.configure_train(1, arrays, ConfigRecord(), Nodes())  # type: ignore[arg-type]
    return made


def answers(made: FedAdaVR, sent: list[ArrayRecord]) -> list[Message]:
    """What the clients of the round reply."""
    messages = []
    for k, (question, arrays) in enumerate(zip(made.asked, sent, strict=True)):
        question.metadata.__dict__["_message_id"] = str(k)  # as the grid does when it sends
        metrics = MetricRecord({"num-examples": 100})
        content = RecordDict({"arrays": arrays, "metrics": metrics})
        messages.append(Message(content=content, reply_to=question))
    return messages
