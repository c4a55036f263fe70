"""A client of version 0.1.0 with the server as it is: what travels has not changed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedadavr.flower import FedAdaVR, FedNova, FedProx, Scaffold
from tests.flower_grid import LocalGrid

FILE = Path(__file__).parent / "fixtures" / "client-0.1" / "client_0_1.py"


def old_client() -> Any:
    spec = importlib.util.spec_from_file_location("client_0_1", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def app_of(old: Any, got: set[str]) -> ClientApp:
    """Two steps of SGD towards the client's own point, with the old version's hook.

    `got` is told what the hook has found in the messages.
    """
    app: ClientApp = old.answer_identity(ClientApp())

    @app.train()
    def train(message: Message, context: Context) -> Message:
        model = torch.nn.Linear(3, 1, bias=False)
        sent = message.content.array_records["arrays"]["weight"].numpy()
        model.weight.data = torch.from_numpy(sent.copy())
        sgd = torch.optim.SGD(model.parameters(), 0.1)
        target = float(context.node_config["client-id"])
        with old.Guide(message, model, sgd) as guide:
            got.update({"mu"} if guide._mu else ())
            got.update({"correction"} if guide._correction else ())
            for _ in range(2):
                sgd.zero_grad()
                ((model.weight - target) ** 2).sum().backward()
                sgd.step()
        arrays = ArrayRecord({"weight": Array(model.weight.detach().numpy())})
        metrics = MetricRecord({"num-examples": 4, **guide.metrics})
        return Message(content=RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    return app


@pytest.mark.parametrize(
    ("strategy", "sent"),
    [(FedAdaVR, set()), (FedProx, {"mu"}), (FedNova, set()), (Scaffold, {"correction"})],
)
def test_a_client_of_0_1_trains_with_this_server(strategy: Any, sent: set[str]) -> None:
    """It is known by its id, its steps arrive, and it gets correction and proximal term."""
    got: set[str] = set()
    server = strategy(fraction_evaluate=0.0, min_available_nodes=4, fraction_train=0.5,
                      client_lr=0.1, seed=1)  # fmt: skip
    grid = LocalGrid(app_of(old_client(), got), {100 + k: str(k) for k in range(4)})
    start = ArrayRecord({"weight": Array(np.full((1, 3), 9.0, np.float32))})
    result = server.start(grid, start, 12)
    w = result.arrays["weight"].numpy()
    assert np.abs(w - 1.5).max() < 7.5 - 0.05  # the clients' mean is 1.5, and it began at 9
    assert got == sent
    assert server.server.round == 12
    assert server.server.influence.refused == 0
    if server.server.memory is not None:
        assert {client for client, _ in server.server.memory.records()} == {"0", "1", "2", "3"}
    if server.server.needs.steps:
        assert server.server.influence.steps.known > 0
