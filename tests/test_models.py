"""The models are what they say, and their fast paths compute the same."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from fedadavr.bench.round import OldLeNet5
from fedadavr.bench.server import resnet18_layout
from fedadavr.clients import FlatModel, LocalSGD, layout_of
from fedadavr.data import Arrays
from fedadavr.models import LeNet5, build
from fedadavr.models.pooling import pool_relu


@pytest.mark.parametrize(
    ("name", "classes", "parameters", "shape"),
    [
        ("lenet5", 10, 61_706, (3, 1, 28, 28)),
        ("cnn", 10, 2_156_490, (3, 3, 32, 32)),
        ("simple-cnn", 10, 62_006, (3, 3, 32, 32)),
        ("resnet18", 10, 11_181_642, (3, 3, 32, 32)),
        ("resnet18-cifar", 10, 11_173_962, (3, 3, 32, 32)),
        ("gru", 80, 80 * 8 + 3 * 128 * (8 + 128 + 2) + 129 * 80, (3, 80)),
    ],
)
def test_sizes_and_outputs(
    name: str, classes: int, parameters: int, shape: tuple[int, ...]
) -> None:
    """The number of parameters, and scores for every class."""
    module = build(name, classes, seed=0)
    assert sum(p.numel() for p in module.parameters()) == parameters
    x = torch.zeros(shape, dtype=torch.long) if name == "gru" else torch.randn(shape)
    assert module(x).shape == (3, classes)


def test_the_bench_has_the_models_size() -> None:
    """The layout that the server bench uses is as large as the model is."""
    assert resnet18_layout().size == layout_of(build("resnet18", 10, 0)).size


def test_lenet5_computes_what_plain_pytorch_does() -> None:
    """Scores to the bit or nearly, gradients to rounding, with and without gradients."""
    ours, plain = build("lenet5", 10, 3), OldLeNet5()
    plain.load_state_dict(ours.state_dict())
    x, y = torch.randn(20, 1, 28, 28), torch.arange(20) % 10
    for module in (ours, plain):
        F.cross_entropy(module(x), y).backward()
    for p, q in zip(ours.parameters(), plain.parameters(), strict=True):
        assert p.grad is not None
        assert q.grad is not None
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-6)
    with torch.inference_mode():
        torch.testing.assert_close(ours(x), plain(x))


@pytest.mark.parametrize("shape", [(3, 2, 4, 6), (20, 6, 28, 28), (1, 1, 2, 2)])
def test_pool_relu_is_pytorchs(shape: tuple[int, ...]) -> None:
    """Values and gradients, with ties, zeros and negatives among them."""
    torch.manual_seed(0)
    x = torch.randint(-3, 4, shape).float()
    one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, expected = pool_relu(one), F.relu(F.max_pool2d(two, 2))
    torch.testing.assert_close(out, expected, rtol=0, atol=0)
    g = torch.randn(out.shape)
    out.backward(g)
    expected.backward(g)
    assert one.grad is not None
    torch.testing.assert_close(one.grad, two.grad, rtol=0, atol=0)
    with torch.inference_mode():
        torch.testing.assert_close(pool_relu(x), expected, rtol=0, atol=0)


def test_the_seed_gives_the_first_weights() -> None:
    """The same seed, the same weights; and PyTorch's own generator is left alone."""
    state = torch.get_rng_state()
    one, same, other = (build("lenet5", 10, seed) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), state)
    first, second, third = (m.state_dict()["fc1.weight"] for m in (one, same, other))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_batch_normalization_is_refused() -> None:
    """Running statistics are no parameters, and skewed clients spoil them."""
    with pytest.raises(ValueError, match=r"state that is not trained \(1.running_mean\)"):
        FlatModel(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))


@pytest.mark.parametrize("mu", [0.0, 0.1])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_local_training_is_plain_sgd(
    mu: float, momentum: float, corrected: bool, scale: float
) -> None:
    """Against torch.optim.SGD, whose gradient is scaled, then a proximal term and a correction."""
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
    data = Arrays(torch.randn(50, 3), torch.arange(50) % 4)
    model = FlatModel(module)
    start = model.w.clone()
    correction = torch.randn(start.shape) if corrected else None
    local_sgd = LocalSGD(0.05, momentum, 2, batch_size=8, proximal_mu=mu, gradient_scale=scale)
    part = torch.arange(5, 45)
    loss, steps = model.train(start, data, part, local_sgd, np.random.default_rng(3), correction)
    result = model.w.clone()

    model.w.copy_(start)
    rng = np.random.default_rng(3)
    parameters = list(module.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=momentum)
    shifts = None if correction is None else correction.split([p.numel() for p in parameters])
    anchors = [p.detach().clone() for p in parameters]
    total = 0.0
    for _ in range(2):
        for batch in part[torch.from_numpy(rng.permutation(40))].split(8):
            optimizer.zero_grad(set_to_none=False)
            error = F.cross_entropy(module(data.x[batch]), data.labels[batch])
            error.backward()
            total += float(error.detach()) * len(batch)
            for k, p in enumerate(parameters):
                assert p.grad is not None
                p.grad *= scale
                p.grad += mu * (p.detach() - anchors[k])
                if shifts is not None:
                    p.grad += shifts[k].view(p.shape)
            optimizer.step()
    torch.testing.assert_close(result, model.w, rtol=1e-5, atol=1e-6)
    assert loss == pytest.approx(total / 80, rel=1e-5)
    assert steps == 10


def test_lenet5s_gradient_written_out_is_autograds() -> None:
    """To the bit, whatever the batch's size, and after a larger and a smaller batch."""
    model = FlatModel(build("lenet5", 7, 3))
    plain = FlatModel(build("lenet5", 7, 3), fast=False)
    torch.manual_seed(0)
    sizes = [20, 7, 1, 20, 33, 20]
    data = Arrays(torch.randn(sum(sizes), 1, 28, 28), torch.arange(sum(sizes)) % 7)
    for part in torch.arange(sum(sizes)).split(sizes):
        losses = [
            m.train(m.w.clone(), data, part, LocalSGD(0.1, 0.9, 2, 33), np.random.default_rng(1))
            for m in (model, plain)
        ]
        assert losses[0] == losses[1]
        assert torch.equal(model.w, plain.w)
        assert torch.equal(model.gradient, plain.gradient)


def test_a_gradient_written_out_is_for_that_network_only() -> None:
    """A subclass that computes something else, or frozen layers, are left to autograd."""

    class Half(LeNet5):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) / 2

    frozen = build("lenet5", 10, 3)
    for p in frozen.conv1.parameters():  # type: ignore[union-attr]
        p.requires_grad_(False)
    x, y = torch.randn(4, 1, 28, 28), torch.arange(4)
    for module in (Half(), frozen):
        model, plain = FlatModel(module), FlatModel(copy.deepcopy(module), fast=False)
        assert model.path(x).differentiate(x, y) == plain.path(x).differentiate(x, y)
        assert torch.equal(model.gradient, plain.gradient)
