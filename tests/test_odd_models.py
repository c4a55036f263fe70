"""Models of one's own that are written in odd ways train with fast paths as they do without."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fedadavr.clients import FlatModel, LocalSGD
from fedadavr.data import Arrays
from fedadavr.models import build
from fedadavr.models.fast import Plain
from tests.test_fast import Small

SGD = LocalSGD(0.05, 0.9, epochs=1, batch_size=5)


def pictures(n: int) -> Tensor:
    """Inputs of `Small`."""
    return torch.randn(n, 2, 10, 6)


def letters(n: int) -> Tensor:
    """Inputs of a model of letters."""
    return torch.randint(0, 20, (n, 7))


def trained(model: FlatModel, x: Tensor, y: Tensor, sgd: LocalSGD = SGD,
            correction: Tensor | None = None) -> tuple[Tensor, float]:  # fmt: skip
    """The weights after a client's training, and the loss."""
    start = model.w.clone()
    rng = np.random.default_rng(0)
    loss, _ = model.train(start, Arrays(x, y), torch.arange(len(x)), sgd, rng, correction)
    return model.w.clone(), loss


def is_fast(model: FlatModel, x: Tensor) -> bool:
    """Whether these inputs take more than autograd on the module."""
    return type(model.path(x)) is not Plain


class Odd(nn.Module):
    """Two layers of `Small`'s, which are fast; what comes between is somebody's own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 8, 3, 2, 1, bias=False)
        self.norm = nn.GroupNorm(2, 8)
        self.fc = nn.Linear(8 * 15, 3)

    def body(self, x: Tensor) -> Tensor:
        """The known layers."""
        return F.relu(self.norm(self.conv(x)))

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.fc(self.body(x).flatten(1))


class DropsInTraining(Odd):
    """A dropout that an `if` hides from whoever looks at the model while it is evaluated."""

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = self.body(x)
        if self.training:
            x = F.dropout(x, 0.5)
        return self.fc(x.flatten(1))


class ParameterNamedMean(Odd):
    """A parameter that has the name of a function."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.ones(1, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return super().forward(x) * self.mean


class MeanByKeyword(Odd):
    """Functions that are called by keyword."""

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = torch.mean(input=self.body(x), dim=(2, 3), keepdim=True)
        return self.fc(x.expand(-1, -1, 5, 3).flatten(1))


class PoolsBySize(Odd):
    """A window whose size is computed."""

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = self.body(x)
        x = F.max_pool2d(x, kernel_size=x.shape[-1])
        return self.fc(x.flatten(1).repeat(1, 15))


class PlainWeight(Odd):
    """A layer whose weight is not a parameter."""

    def __init__(self) -> None:
        super().__init__()
        weight = self.conv.weight.detach().clone()
        del self.conv.weight
        self.conv.weight = weight


class SeenByAnAlias(Odd):
    """An in-place ReLU that changes what somebody else looks at, through another name."""

    def __init__(self) -> None:
        super().__init__()
        self.same, self.relu = nn.Identity(), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = self.norm(self.conv(x))
        return self.fc((self.relu(self.same(x)) + x).flatten(1))


class Gap(nn.Module):
    """A kernel whose outer taps meet data, and whose middle ones never do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 8, 3, 2, 2, bias=False)
        self.fc = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return self.fc(self.conv(x).flatten(1))


class ByKeyword(nn.Module):
    """An embedding that is called by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.fc = nn.Embedding(20, 4), nn.Linear(6, 20)
        self.gru = nn.GRU(4, 6, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        states, _ = self.gru(self.embedding(input=x))
        return self.fc(states[:, -1])


def lenet_with_dropout() -> nn.Module:
    """The house's own network, changed after it was built."""
    module = build("lenet5", 10, 1)
    layers = dict(module.named_children())
    module.fc1 = nn.Sequential(layers["fc1"], nn.Dropout(0.5))
    return module


ODD: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor]]] = {
    "dropout in training only": (DropsInTraining, pictures),
    "a parameter named mean": (ParameterNamedMean, pictures),
    "mean by keyword": (MeanByKeyword, pictures),
    "a computed window": (PoolsBySize, pictures),
    "a weight that is no parameter": (PlainWeight, pictures),
    "an alias": (SeenByAnAlias, pictures),
    "a gap between taps": (Gap, lambda n: torch.randn(n, 2, 1, 1)),
    "an embedding by keyword": (ByKeyword, letters),
    "a changed LeNet-5": (lenet_with_dropout, lambda n: torch.randn(n, 1, 28, 28)),
    "channels last": (Small, lambda n: pictures(n).to(memory_format=torch.channels_last)),
    "inputs that lie across": (Small, lambda n: torch.randn(n, 10, 6, 2).permute(0, 3, 1, 2)),
    "letters that lie across": (
        lambda: build("gru", 20, 1), lambda n: torch.randint(0, 20, (7, n)).T,
    ),
}  # fmt: skip


@pytest.mark.parametrize("evaluated_first", [False, True])
@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("name", ODD)
def test_odd_models_train_as_without(name: str, corrected: bool, evaluated_first: bool) -> None:
    """Whether a path is taken or not, weights, loss and draws are autograd's."""
    make, inputs = ODD[name]
    torch.manual_seed(3)
    one = make()
    two = copy.deepcopy(one)
    x = inputs(10)
    y = torch.arange(10) % 3
    found = []
    for model in (FlatModel(one), FlatModel(two, fast=False)):
        torch.manual_seed(1)
        if evaluated_first:
            model.evaluate(model.w.clone(), Arrays(x, y), torch.arange(10))
        shift = 0.01 * torch.ones_like(model.w) if corrected else None
        found.append((*trained(model, x, y, correction=shift), torch.rand(())))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-3, atol=1e-5)
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-4)
    assert found[0][2] == found[1][2]


def test_the_process_that_looks_for_a_path_draws_the_same_numbers() -> None:
    """Or a client with dropout would train otherwise in a run that was resumed."""
    torch.manual_seed(0)
    one = nn.Sequential(nn.Flatten(), nn.Linear(120, 9), nn.Dropout(0.5), nn.Linear(9, 3))
    x, y = pictures(10), torch.arange(10) % 3
    fresh, used = FlatModel(copy.deepcopy(one)), FlatModel(one)
    before = used.w.clone()
    used.path(x)
    assert torch.equal(used.w, before)
    found = []
    for model in (fresh, used):
        torch.manual_seed(1)
        found.append(trained(model, x, y)[0])
    assert torch.equal(*found)


def parameter_hook(module: nn.Module) -> None:
    """Somebody halves a gradient."""
    next(module.parameters()).register_hook(lambda g: g / 2)


def accumulate_hook(module: nn.Module) -> None:
    """Somebody looks at a gradient."""
    next(module.parameters()).register_post_accumulate_grad_hook(lambda p: None)


def forward_hook(module: nn.Module) -> None:
    """Somebody changes an output."""
    next(module.children()).register_forward_hook(lambda *a: a[-1] * 2)


def freezing(module: nn.Module) -> None:
    """A layer is no longer trained."""
    next(module.parameters()).requires_grad_(False)


@pytest.mark.parametrize("change", [parameter_hook, accumulate_hook, forward_hook, freezing])
def test_a_module_that_is_changed_after_its_first_use(change: Callable[[nn.Module], None]) -> None:
    """A hook or a frozen layer counts from then on."""
    torch.manual_seed(0)
    model, x = FlatModel(Small()), pictures(4)
    assert is_fast(model, x)
    change(model.module)
    assert not is_fast(model, x)


@contextmanager
def watched_by_all() -> Iterator[None]:
    """A hook on every module there is."""
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def doubles() -> Iterator[None]:
    """New tensors are float64."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "around", [watched_by_all, doubles, lambda: torch.autocast("cpu", torch.bfloat16)]
)
def test_what_stands_around_a_model_counts(
    around: Callable[[], AbstractContextManager[object]],
) -> None:
    """Global hooks, autocast and another default type are autograd's, and only while they last."""
    model, x = FlatModel(Small()), pictures(4)
    for context, fast in ((nullcontext(), True), (around(), False), (nullcontext(), True)):
        with context:
            assert is_fast(model, x) == fast


def test_a_path_is_found_whatever_the_first_data_are() -> None:
    """It is tried on inputs of its own: one client's broken pictures decide nothing."""
    assert is_fast(FlatModel(Small()), torch.full((2, 2, 10, 6), torch.nan))


def test_evaluation_of_nobody_and_without_gradients() -> None:
    """No examples have no scores; what was built for evaluation trains afterwards."""
    torch.manual_seed(0)
    x, y = pictures(10), torch.arange(10) % 3
    one, two = Small(), Small()
    two.load_state_dict(one.state_dict())
    model, plain = FlatModel(one), FlatModel(two, fast=False)
    losses, right = model.evaluate(model.w.clone(), Arrays(x, y), torch.arange(0))
    assert len(losses) == len(right) == 0
    with torch.inference_mode():
        model.evaluate(model.w.clone(), Arrays(x, y), torch.arange(10))
    torch.testing.assert_close(trained(model, x, y)[0], trained(plain, x, y)[0],
                               rtol=1e-3, atol=1e-5)  # fmt: skip


def test_targets_that_are_shares_are_left_to_autograd() -> None:
    """Soft labels: the fast paths know classes only."""
    torch.manual_seed(0)
    one, two = Small(), Small()
    two.load_state_dict(one.state_dict())
    x, y = pictures(10), torch.rand(10, 3).softmax(1)
    found = [trained(m, x, y)[0] for m in (FlatModel(one), FlatModel(two, fast=False))]
    assert torch.equal(*found)


def test_a_path_is_not_copied() -> None:
    """Its buffers are views of one vector, and a copy would train the original."""
    model = FlatModel(Small())
    with pytest.raises(TypeError, match="FlatModel"):
        copy.deepcopy(model.path(pictures(2)))


def test_so_many_shapes_are_remembered() -> None:
    """Inputs of ever new sizes do not fill the memory."""
    model = FlatModel(build("gru", 20, 1))
    for length in range(1, 40):
        model.path(torch.zeros(2, length, dtype=torch.long))
    assert len(model._paths) <= 8
