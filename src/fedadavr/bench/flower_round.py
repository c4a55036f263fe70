"""The paper's MNIST round on Flower's simulation (Ray), a FedAvg app as its tutorials have it."""

from __future__ import annotations

import functools
import logging
import os
import time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch.utils.data import DataLoader, TensorDataset

from fedadavr.bench.round import EVALUATE, EXPERIMENT, TRAIN, OldLeNet5
from fedadavr.data import Federation
from fedadavr.experiments.run import make_federation

client_app = ClientApp()


@functools.cache
def _federation() -> Federation:
    """Once in each of Ray's processes."""
    torch.set_num_threads(1)
    return make_federation(EXPERIMENT.resolved())


def _loader(examples: Any, part: Any, shuffle: bool) -> Any:
    indices = torch.from_numpy(part)
    data = TensorDataset(examples.inputs(indices), examples.targets(indices))
    return DataLoader(data, batch_size=20, shuffle=shuffle)


def _model(message: Message) -> OldLeNet5:
    model = OldLeNet5()
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    return model


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """One local epoch."""
    federation, model = _federation(), _model(message)
    part = federation.train_parts[int(context.node_config["partition-id"])]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for x, y in _loader(federation.train, part, True):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    content = RecordDict({
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(part)}),
    })  # fmt: skip
    return Message(content=content, reply_to=message)


@client_app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Accuracy on the client's own test share."""
    federation, model = _federation(), _model(message)
    part = federation.test_parts[int(context.node_config["partition-id"])]
    right = 0
    with torch.no_grad():
        for x, y in _loader(federation.test, part, False):
            right += int((model(x).argmax(1) == y).sum())
    metrics = MetricRecord({"accuracy": right / len(part), "num-examples": len(part)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)


def ms(rounds: int) -> float:
    """Milliseconds per round, from one evaluation on the server to the next; not the first."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    clients = _federation().clients
    times: list[float] = []
    server_app = ServerApp()

    def note(round: int, arrays: ArrayRecord) -> None:
        times.append(time.perf_counter())

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_train=TRAIN / clients, fraction_evaluate=EVALUATE / clients)
        arrays = ArrayRecord(OldLeNet5().state_dict())
        strategy.start(grid, arrays, num_rounds=rounds + 1, evaluate_fn=note)

    run_simulation(
        server_app,
        client_app,
        clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    return float(np.median(np.diff(times)[1:])) * 1000
