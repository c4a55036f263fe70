"""The model and the data."""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

from fedadavr.data import Federation, federate, load
from fedadavr.models import build
from fedadavr.sampling import ORDER


def model(seed: int) -> nn.Module:
    """LeNet-5."""
    return build("lenet5", 10, seed)


@cache
def federation(partition: str, clients: int, seed: int) -> Federation:
    """All clients' data; a real client would read only its own."""
    return federate(load("mnist-5k"), partition, clients, seed)


def batches(data: Federation, client: int, round: int, config: Any) -> Any:
    """A client's batches in a round, in an order that only depends on seed, round and client."""
    rng = np.random.default_rng([int(config["seed"]), round, ORDER, client])
    part = torch.from_numpy(data.train_parts[client])
    x, y = data.train.inputs(part), data.train.targets(part)
    for _ in range(int(config["local-epochs"])):
        for batch in torch.from_numpy(rng.permutation(len(part))).split(int(config["batch-size"])):
            yield x[batch], y[batch]


@torch.inference_mode()
def evaluate(net: nn.Module) -> tuple[float, float]:
    """Loss and accuracy on all test examples."""
    test = load("mnist-5k").test
    everything = torch.arange(len(test))
    scores, targets = net.eval()(test.inputs(everything)), test.targets(everything)
    loss = nn.functional.cross_entropy(scores, targets)
    return float(loss), float((scores.argmax(1) == targets).float().mean())
