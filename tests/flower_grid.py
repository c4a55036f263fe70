"""A federation in this process: Flower's own ClientApps and messages, without a network.

    python -m tests.flower_grid STORE ROUNDS COMMIT_EVERY THREADS SIZE [SIGNAL ROUND DELAY]

trains in the main thread as a ServerApp does, with Flower's way to end on SIGTERM. It says every
round, and goes on from what the store holds; each reply is drawn from its round alone. If told, it
sends itself a signal so many seconds after a round's last reply, which is in the server's step.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    Context,
    Error,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.inmemory_grid import InMemoryGrid

from fedadavr import kernels
from fedadavr.flower import FedAdaVR, answer_identity
from fedadavr.flower.errors import RAISED

Train = Callable[[Message, Context], RecordDict]


def be_a_serverapp() -> None:
    """Messages can be made in this process from now on."""
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1


class LocalGrid(Grid):
    """Nodes are client apps, by node id; `clients` are their ids, or their nodes' configs."""

    def __init__(self, app: ClientApp, clients: Mapping[int, Any]) -> None:
        be_a_serverapp()
        self.app, self.clients = app, dict(clients)
        self.keys: dict[int, bytes] = {}
        self.questions = 0
        self._numbers = itertools.count(1)

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.clients)

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [NodeInfo(node_id=n, public_key=self.keys.get(n, b"")) for n in self.get_node_ids()]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return [reply for message in messages for reply in self.answer(message)]

    def answer(self, message: Message) -> list[Message]:
        """What comes back; a test may have something else come back."""
        self.questions += message.metadata.message_type.startswith("query")
        message.metadata.__dict__["_message_id"] = str(next(self._numbers))
        return self.reply(message)

    def reply(self, message: Message) -> list[Message]:
        """What the node's app replies to a message that was sent."""
        node = message.metadata.dst_node_id
        if node not in self.clients:
            return []
        try:
            return [self.app(message, self.context(node))]
        except Exception as error:
            why = Error(RAISED, f"{type(error).__name__}: {error}")
            return [Message(why, reply_to=message)]

    def context(self, node: int) -> Context:
        """What a node's app is told beside the message."""
        told = self.clients[node]
        config = told if isinstance(told, dict) else {} if told is None else {"client-id": told}
        return Context(1, node, config, RecordDict(), {})


class PolledGrid(LocalGrid):
    """The same with pushing and pulling, and Flower's own loop for that; nodes work when pulled."""

    send_and_receive: Any = InMemoryGrid.send_and_receive
    pull_interval = 0.001

    def __init__(self, app: ClientApp, clients: Mapping[int, Any]) -> None:
        super().__init__(app, clients)
        self.sent: dict[str, Message] = {}
        self.most = 0  # replies to training that were pulled at once

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            ids.append(str(next(self._numbers)))
            message.metadata.__dict__["_message_id"] = ids[-1]
            self.sent[ids[-1]] = message
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        asked = [self.sent.pop(key) for key in message_ids if key in self.sent]
        replies = [reply for message in asked for reply in self.reply(message)]
        if any(message.metadata.message_type == "train" for message in asked):
            self.most = max(self.most, len(replies))
        return replies


def app_that(train: Train, evaluate: Train | None = None) -> ClientApp:
    """A client app whose training answers with this; it tells its client's id."""
    app = answer_identity(ClientApp())

    @app.train()
    def on_train(message: Message, context: Context) -> Message:
        return Message(content=train(message, context), reply_to=message)

    @app.evaluate()
    def on_evaluate(message: Message, context: Context) -> Message:
        content = RecordDict() if evaluate is None else evaluate(message, context)
        return Message(content=content, reply_to=message)

    return app


def drawn(message: Message, context: Context) -> RecordDict:
    """A reply that depends on the round, the client and the model, and on nothing else."""
    config = message.content.config_records["config"]
    rng = np.random.default_rng([int(config["server-round"]), int(context.node_id)])  # type: ignore[arg-type]
    arrays = {
        name: Array(array.numpy() - rng.random(array.shape, np.float32) / 8)
        for name, array in message.content.array_records["arrays"].items()
    }
    metrics = MetricRecord({"num-examples": int(rng.integers(1, 50)), "loss": float(rng.random())})
    return RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})


def federation(clients: int = 6, train: Train = drawn) -> LocalGrid:
    """A grid of some clients, named by numbers."""
    return LocalGrid(app_that(train), {100 + k: str(k) for k in range(clients)})


def first_model(size: int) -> ArrayRecord:
    return ArrayRecord({"x": Array(np.zeros(size, np.float32)), "y": Array(np.ones(3, np.float32))})


def strategy_on(store: str | None, **settings: Any) -> FedAdaVR:
    """Three of six clients in a round; nobody evaluates."""
    given: dict[str, Any] = {
        "codec": "int8", "fraction_train": 0.5, "fraction_evaluate": 0.0, "min_available_nodes": 6,
        "store": store, "server_lr": 0.1,
    }  # fmt: skip
    return FedAdaVR(**(given | settings))


def evaluate(round: int, arrays: ArrayRecord) -> MetricRecord | None:
    print(round, flush=True)
    return None


def _leave(number: int, frame: Any) -> None:
    sys.exit(0)  # as Flower's handler does, wherever the main thread happens to be


class Signalled(LocalGrid):
    """Sends this process a signal, some time after the last reply of a round."""

    def __init__(self, number: str, round: str, delay: str) -> None:
        super().__init__(app_that(drawn), federation().clients)
        self._trains, self._delay, self._number = int(round), float(delay), int(number)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        messages = list(messages)
        replies = super().send_and_receive(messages, timeout=timeout)
        self._trains -= any(m.metadata.message_type == "train" for m in messages)
        if not self._trains:
            threading.Timer(self._delay, os.kill, (os.getpid(), self._number)).start()
        return replies


if __name__ == "__main__":
    address, rounds, every, threads, size, *told = sys.argv[1:]
    signal.signal(signal.SIGTERM, _leave)
    kernels.set_threads(int(threads))
    strategy_on(address, commit_every=int(every)).start(
        Signalled(*told) if told else federation(), first_model(int(size)), int(rounds),
        evaluate_fn=evaluate,
    )  # fmt: skip
