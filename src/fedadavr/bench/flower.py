"""`fedadavr bench flower`: the whole of `aggregate_train`, beside Flower's own strategies.

Five ResNet-18 replies, as they come from the network: reading them, the step and the memory, and
the new model's bytes are all in the time. The durable commit is timed apart.
"""

from __future__ import annotations

import json as json_format
import logging
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg
from flwr.supercore.task_identity import TaskIdentity
from rich.console import Console
from rich.table import Table

from fedadavr.bench.server import CLIENTS, replies, resnet18_layout, side_by_side
from fedadavr.flower import FedAdaVR

NODES = range(2, 2 + CLIENTS)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    codec: str
    ms: float


class Nodes:
    """Stands for the network: it knows who is there, and nothing is sent."""

    def get_node_ids(self) -> Iterable[int]:
        """The nodes."""
        return NODES


def main(codec: str = "int8", rounds: int = 21, json: bool = False) -> None:
    """Time the aggregation of five ResNet-18 replies, ours and Flower's, in turn.

    Args:
        codec: How the memory is stored: fp32, fp16, int8, int4.
        rounds: How many times each is called; medians count.
        json: One line of JSON.
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
        console = Console(stderr=True)
        with console.status("aggregating"):
            ms = side_by_side(works, rounds)
        answered = answers(durable, sent)
        with console.status("committing"):
            commits = side_by_side(
                {"with": lambda: durable.aggregate_train(1, answered),
                 "without": lambda: ours.aggregate_train(1, plain)}, 5,
            )  # fmt: skip
        durable.close()
    rows = [Row(name, codec if name == "fedadavr" else "", value) for name, value in ms.items()]
    if json:
        print(json_format.dumps([asdict(row) for row in rows]))
        return
    table = Table(title=f"aggregate_train, {CLIENTS} ResNet-18 replies, d = {layout.size:,}")
    for column in ("name", "codec", "ms", "ours / it"):
        table.add_column(column, justify="left" if column in ("name", "codec") else "right")
    for row in rows:
        table.add_row(row.name, row.codec, f"{row.ms:.0f}", f"{ms['fedadavr'] / row.ms:.2f}")
    Console().print(table)
    apart = commits["with"] - commits["without"]
    print(f"a durable commit to LMDB (records, model, moments and total) adds {apart:.0f} ms")


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
