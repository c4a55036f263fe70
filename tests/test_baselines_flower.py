"""Baselines that ask something of their clients: under Flower they are what the engine makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from torch import nn

from fedadavr import Update, algorithm, flower
from fedadavr.clients.local import FlatModel, LocalSGD, layout_of
from fedadavr.data.examples import Arrays
from tests.flower_grid import LocalGrid, app_that

CLIENTS, SIZE, STEPS, ROUNDS, RATE, MOMENTUM = 3, 12, 3, 4, 0.1, 0.5


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(4, 3)


def data_of(client: int) -> tuple[Any, Any]:
    """Every client has another class more often."""
    x = torch.from_numpy(np.random.default_rng(client).normal(size=(SIZE, 4)).astype(np.float32))
    return x, torch.tensor([client if k % 2 else k % 3 for k in range(SIZE)])


def train(message: Message, context: Context) -> RecordDict:
    """A loop of PyTorch as it stands in any app, with the hook around it."""
    client, model = context.node_id - 100, net()
    sent = message.content.array_records["arrays"]
    model.load_state_dict({k: torch.from_numpy(a.numpy()) for k, a in sent.items()})
    x, y = data_of(client)
    sgd = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    with flower.ClientHook(message, model, sgd) as hook:
        for _ in range(STEPS):
            sgd.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            sgd.step()
    arrays = {k: Array(p.detach().numpy()) for k, p in model.named_parameters()}
    metrics = MetricRecord({"num-examples": SIZE, **hook.metrics})
    return RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (flower.FedDyn, {"alpha": 0.2}),
        (flower.FedCM, {"alpha": 0.3, "client_momentum": MOMENTUM}),
        (flower.GHBM, {"tau": 2, "client_momentum": MOMENTUM}),
    ],
)
def test_the_strategy_trains_as_the_engine_does(cls: Any, settings: Any) -> None:
    """What clients are sent reaches their gradients, round after round."""
    grid = LocalGrid(app_that(train), {100 + k: str(k) for k in range(CLIENTS)})
    first = ArrayRecord({k: Array(p.detach().numpy()) for k, p in net().named_parameters()})
    strategy = cls(fraction_evaluate=0.0, min_available_nodes=CLIENTS, client_lr=RATE, **settings)
    found = strategy.start(grid, first, ROUNDS).arrays

    model = FlatModel(net())
    layout = layout_of(net())
    server = algorithm(cls.name, layout, client_lr=RATE, **settings)
    needs, w = server.needs, model.w.numpy().copy()
    local_sgd = LocalSGD(RATE, MOMENTUM, STEPS, SIZE, needs.proximal_mu, needs.gradient_scale)
    for _ in range(ROUNDS):
        updates = []
        for client in range(CLIENTS):
            correction = torch.from_numpy(server.correction(str(client)))
            _, steps = model.train(
                torch.from_numpy(w), Arrays(*data_of(client)), torch.arange(SIZE), local_sgd,
                np.random.default_rng(0), correction,
            )  # fmt: skip
            updates.append(Update(str(client), model.w.numpy().copy(), SIZE, steps))
        w = server.step(w, updates)
    assert np.abs(server.correction("0")).max() > 1e-3
    for name, values in layout.split(w).items():
        np.testing.assert_allclose(found[name].numpy(), values, atol=1e-5)
