"""Fast paths compute what the plain modules do, and step aside where they might not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fedadavr.clients import FlatModel, LocalSGD
from fedadavr.data import Arrays
from fedadavr.models import build
from fedadavr.models.fast import Path, Plain, direct, recurrent, winograd
from fedadavr.models.fast.convolution import TapProducts, taps_of
from fedadavr.models.fast.normalization import Normalization
from fedadavr.models.fast.pooling import MaxPooling
from fedadavr.models.fast.products import Product
from fedadavr.models.fast.program import PLANES, ROWS, Bound, Decay, Kind, Layer, Piece, Value
from fedadavr.models.fast.rewriting import Rewritten

CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor], int]] = {
    "resnet18": (lambda: build("resnet18", 10, 1), lambda n: torch.randn(n, 3, 32, 32), 10),
    "gru": (lambda: build("gru", 80, 1), lambda n: torch.randint(0, 80, (n, 80)), 80),
    "lenet5": (lambda: build("lenet5", 10, 1), lambda n: torch.randn(n, 1, 28, 28), 10),
    "simple-cnn": (lambda: build("simple-cnn", 10, 1), lambda n: torch.randn(n, 3, 32, 32), 10),
    "cnn": (lambda: build("cnn", 10, 1), lambda n: torch.randn(n, 3, 32, 32), 10),
    "small": (lambda: Small(), lambda n: torch.randn(n, 2, 10, 6), 3),
    "transformed first": (
        lambda: nn.Sequential(nn.Conv2d(32, 32, 3, 1, 1, bias=False), *ending(32 * 16)),
        lambda n: torch.randn(n, 32, 4, 4), 3,
    ),
    "products first": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1, bias=False), *ending(8 * 6)),
        lambda n: torch.randn(n, 3, 2, 3), 3,
    ),
    "few channels": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 7, (3, 2), padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(7, 5, (2, 4), padding=1, bias=False), nn.MaxPool2d(2, 2), nn.ReLU(),
            *ending(45),
        ),
        lambda n: torch.randn(n, 1, 11, 14), 3,
    ),
    "normalized first": (
        lambda: nn.Sequential(nn.GroupNorm(1, 4), nn.AdaptiveAvgPool2d(1), *ending(4)),
        lambda n: torch.randn(n, 4, 5, 3), 3,
    ),
}  # fmt: skip


def ending(features: int) -> list[nn.Module]:
    """The last layers of a small model."""
    return [nn.Flatten(), nn.ReLU(), nn.Linear(features, 3)]


class Small(nn.Module):
    """Every layer that is known, in odd shapes, and every way to write ReLU and addition."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 32, 3, 1, 1), nn.GroupNorm(4, 32), nn.ReLU())
        self.pool = nn.MaxPool2d(2, 2, 1)
        self.conv0 = nn.Conv2d(32, 32, 3, 1, 1, bias=False)
        self.conv1 = nn.Conv2d(32, 12, (3, 5), (2, 1), (1, 2), bias=False)
        self.norm1 = nn.GroupNorm(3, 12)
        self.conv2 = nn.Conv2d(12, 12, 3, 2, 2, bias=False)
        self.norm2 = nn.GroupNorm(1, 12)
        self.around = nn.Conv2d(12, 12, 1, 1, bias=False)
        self.norm3 = nn.GroupNorm(2, 12)
        self.fc1 = nn.Linear(12, 9)
        self.fc2 = nn.Linear(108, 9, bias=False)
        self.fc3 = nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = self.pool(self.stem(x))
        x = torch.relu(self.norm1(self.conv1(self.conv0(x) + x)))
        y = self.norm2(self.conv2(x))
        z = torch.add(self.norm3(self.around(y)), y).relu()
        parts = self.fc1(F.relu(z).mean((2, 3))), self.fc2(torch.flatten(z, 1))
        return self.fc3(F.relu(parts[0] + parts[1]))


class Guessing(nn.Module):
    """The next of thirty letters, from the last state of a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 5)
        self.gru = nn.GRU(5, 13, batch_first=True)
        self.fc = nn.Linear(13, 30)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        _, last = self.gru(self.embedding(x))
        return self.fc(last[0])


def both(name: str) -> tuple[FlatModel, FlatModel]:
    """The model with fast paths and without."""
    make = CASES[name][0]
    torch.manual_seed(5)
    one, two = make(), make()
    two.load_state_dict(one.state_dict())
    return FlatModel(one), FlatModel(two, fast=False)


def gradient_of(model: FlatModel, x: Tensor, y: Tensor) -> tuple[float, Tensor]:
    """A batch's loss and gradient, in the order of the model."""
    path = model.path(x)
    path.read(model.w)
    loss = float(path.differentiate(x, y))
    before = path.w.clone()
    path.w.copy_(path.gradient)
    full = torch.zeros_like(model.w)
    path.write(full)
    path.w.copy_(before)
    return loss, full if path.w is not model.w else path.gradient.clone()


def is_fast(path: Path) -> bool:
    """Whether it is more than autograd on the module."""
    return type(path) is not Plain


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_are_the_plain_modules(name: str) -> None:
    """To rounding, for batches of several sizes, one after the other."""
    fast, plain = both(name)
    _, inputs, classes = CASES[name]
    torch.manual_seed(0)
    for n in (5, 8, 1, 8):
        x, y = inputs(n), torch.randint(0, classes, (n,))
        assert is_fast(fast.path(x))
        assert not is_fast(plain.path(x))
        fast.path(x).read(fast.w)
        torch.testing.assert_close(
            fast.path(x).scores(x), plain.path(x).scores(x), rtol=1e-5, atol=5e-6
        )
        (loss, g), (expected, h) = gradient_of(fast, x, y), gradient_of(plain, x, y)
        assert loss == pytest.approx(expected, rel=1e-5)
        at = 0
        for part, p in plain.module.named_parameters():
            ours, theirs = g[at : at + p.numel()], h[at : at + p.numel()]
            at += p.numel()
            assert float((ours - theirs).norm()) <= 2e-5 * float(theirs.norm()) + 1e-7, part


@pytest.mark.parametrize("own", [False, True])
def test_a_gru_by_our_own_products_and_the_librarys(
    own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a width and length that fill no block, and with what is left of the last gradient."""
    monkeypatch.setattr(recurrent, "OWN", own)
    torch.manual_seed(3)
    one, two = Guessing(), Guessing()
    two.load_state_dict(one.state_dict())
    fast, plain = FlatModel(one), FlatModel(two, fast=False)
    for n in (7, 1, 7):
        x, y = torch.randint(0, 30, (n, 19)), torch.randint(0, 30, (n,))
        assert is_fast(fast.path(x))
        fast.path(x).read(fast.w)
        torch.testing.assert_close(fast.path(x).scores(x), plain.path(x).scores(x))
        (loss, g), (expected, h) = gradient_of(fast, x, y), gradient_of(plain, x, y)
        assert loss == pytest.approx(expected, rel=1e-5)
        torch.testing.assert_close(g, h)
    data = Arrays(torch.randint(0, 30, (20, 19)), torch.randint(0, 30, (20,)))
    start, local_sgd = plain.w.clone(), LocalSGD(0.1, 0.9, epochs=3, batch_size=6)
    for m in (fast, plain):
        m.train(start, data, torch.arange(20), local_sgd, np.random.default_rng(0))
    moved = float((plain.w - start).norm())
    assert float((fast.w - plain.w).norm()) < 1e-3 * moved


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("corrected", [False, True])
def test_several_steps_are_the_plain_modules(name: str, corrected: bool) -> None:
    """Local training with momentum and a proximal term; a correction may move every coordinate."""
    fast, plain = both(name)
    _, inputs, classes = CASES[name]
    torch.manual_seed(0)
    data = Arrays(inputs(9), torch.randint(0, classes, (9,)))
    local_sgd = LocalSGD(0.01, 0.9, epochs=2, batch_size=5, proximal_mu=0.1)
    correction = 0.01 * torch.randn(plain.w.shape) if corrected else None
    start = plain.w.clone()
    losses = [
        m.train(start, data, torch.arange(9), local_sgd, np.random.default_rng(0), correction)[0]
        for m in (fast, plain)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    moved = float((plain.w - start).norm())
    assert moved > 0
    assert float((fast.w - plain.w).norm()) < 1e-3 * moved


@pytest.mark.parametrize("name", ["resnet18", "gru", "small", "cnn"])
def test_the_bits_do_not_depend_on_what_came_before(name: str) -> None:
    """A worker that has seen other batches trains a client to the same bits."""
    fresh, used = both(name)[0], both(name)[0]
    _, inputs, classes = CASES[name]
    torch.manual_seed(0)
    data = Arrays(inputs(16), torch.randint(0, classes, (16,)))
    start, local_sgd = fresh.w.clone(), LocalSGD(0.01, 0.9, epochs=1, batch_size=6)
    for k in (3, 16, 7):
        used.train(start, data, torch.arange(k), local_sgd, np.random.default_rng(k))
        used.evaluate(start, data, torch.arange(k))
    for m in (fresh, used):
        m.train(start, data, torch.arange(16), local_sgd, np.random.default_rng(0))
    assert torch.equal(fresh.w, used.w)


def test_a_correction_that_fits_the_path_is_taken_along() -> None:
    """What is zero where the path has no coordinates keeps the path; anything else does not."""
    fast, _ = both("resnet18")
    x = torch.randn(2, 3, 32, 32)
    path = fast.path(x)
    path.w.copy_(torch.rand_like(path.w) + 1)
    fits = torch.zeros_like(fast.w)
    path.write(fits)
    part = path.part(fits)
    assert part is not None
    assert torch.equal(part, path.w)
    other = fits.clone()
    other[torch.nonzero(fits == 0)[-1]] = 1.0
    assert path.part(other) is None


def test_coordinates_that_meet_no_data_are_left_alone() -> None:
    """ResNet-18 on 32x32: 6.9 of 11.2 million never move, and plain autograd says zero, too."""
    fast, plain = both("resnet18")
    x, y = torch.randn(3, 3, 32, 32), torch.arange(3)
    plain.path(x).differentiate(x, y)
    path = fast.path(x)
    path.w.fill_(1.0)
    in_play = torch.zeros_like(fast.w)
    path.write(in_play)
    assert int(in_play.sum()) == path.w.numel() == 4_234_826
    assert not plain.gradient[in_play == 0].any()
    data, start = Arrays(x, y), fast.w.clone()
    fast.train(start, data, torch.arange(3), LocalSGD(0.1, 0.9, 1, 3), np.random.default_rng(0))
    changed = fast.w != start
    assert changed.any()
    assert not changed[in_play == 0].any()


def passed(
    layer: Layer, x: Tensor, weights: list[Tensor], g: Tensor, lies: str, added: bool = False
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """A layer's output, its input's gradient and its parameters', all as PyTorch lays them.

    What was in the gradients before counts by half; with `added`, the input's has been begun.
    """
    n, turn = len(x), lies == ROWS
    source, out = Value(Kind(tuple(x.shape[1:]), lies), n), Value(Kind(tuple(g.shape[1:]), lies), n)
    gradients = [torch.ones_like(w) for w in weights]
    bound = Bound(n, [source], [added], [True], out, weights, gradients, Decay(0.5), True)
    source.data.copy_(x.permute(2, 3, 0, 1) if turn else x)
    step = layer.step(bound)
    step.forward()
    out.gradient.copy_(g.permute(2, 3, 0, 1) if turn else g)
    source.gradient.fill_(1.0 if added else np.nan)
    step.backward()
    found = [t.permute(2, 3, 0, 1) if turn else t for t in (out.data, source.gradient)]
    return found[0], found[1] - (1.0 if added else 0.0), [k - 0.5 for k in gradients]


def taps_last(weight: Tensor, rows: slice, columns: slice) -> Tensor:
    """A kernel as layers in rows keep it."""
    return weight[:, :, rows, columns].permute(2, 3, 1, 0).contiguous()


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(
    ("size", "stride", "padding", "height", "width"),
    [(3, 1, 1, 1, 1), (3, 1, 1, 2, 2), (3, 2, 1, 2, 2), (3, 2, 1, 4, 4), (5, 1, 2, 1, 3),
     (1, 2, 0, 4, 3), (3, 3, 2, 4, 5), (4, 2, 3, 2, 3), (3, 1, 1, 3, 3), (2, 1, 0, 3, 2)],
)  # fmt: skip
def test_convolutions_by_products(
    size: int, stride: int, padding: int, height: int, width: int, added: bool
) -> None:
    """Any size, stride and padding: values, and both gradients; taps without data have none."""
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 4, size, stride, padding, bias=False)
    taps = taps_of(conv, height, width)
    assert taps is not None
    z = torch.randn(6, 3, height, width, requires_grad=True)
    expected = conv(z)
    g = torch.randn(expected.shape)
    expected.backward(g)
    assert conv.weight.grad is not None
    assert z.grad is not None
    layer = TapProducts(Piece(slice(0, 0), ()), taps)
    weight = taps_last(conv.weight.detach(), taps.rows, taps.columns)
    out, g_x, (g_w,) = passed(layer, z.detach(), [weight], g, ROWS, added)
    torch.testing.assert_close(out, expected.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(g_x, z.grad, rtol=1e-5, atol=1e-5)
    kept = taps_last(conv.weight.grad, taps.rows, taps.columns)
    torch.testing.assert_close(g_w, kept, rtol=1e-5, atol=1e-5)
    dropped = conv.weight.grad.clone()
    dropped[:, :, taps.rows, taps.columns] = 0
    assert not dropped.any()


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(64, 128, 384), (1, 1, 1), (8, 300, 70), (13, 7, 64), (2, 129, 1)],
)
def test_products_by_our_own_kernel_and_the_librarys(
    rows: int, depth: int, columns: int, across: bool, own: bool
) -> None:
    """In whole numbers, which are exact: however the factors lie, and added to what was there."""
    torch.manual_seed(0)
    a = torch.randint(-9, 10, (depth, rows) if across else (rows, depth)).float()
    b = torch.randint(-9, 10, (columns, depth) if across else (depth, columns)).float()
    a, b = (a.t(), b.t()) if across else (a, b)
    out = torch.full((rows, columns), np.nan)
    product = Product(a, b, out, own)
    product()
    assert torch.equal(out, a @ b)
    product(0.5)
    assert torch.equal(out, 1.5 * (a @ b))


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("across", [False, True])
def test_many_products_at_once(across: bool, own: bool) -> None:
    """One pair of matrices after the other, each where it lies."""
    torch.manual_seed(0)
    a, b = torch.randint(-9, 10, (5, 18, 33)).float(), torch.randint(-9, 10, (5, 33, 97)).float()
    if across:
        a, b = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (a, b))
    out = torch.full((5, 18, 97), np.nan)
    product = Product(a, b, out, own)
    product()
    product(2.0)
    assert torch.equal(out, 3.0 * (a @ b))


def test_a_row_of_our_own_product_does_not_depend_on_the_others() -> None:
    """So that a client's bits are the same whatever else a worker has in its batch."""
    torch.manual_seed(0)
    a, b = torch.randn(23, 150), torch.randn(150, 90)
    whole = torch.empty(23, 90)
    Product(a, b, whole, own=True)()
    for i in range(23):
        part = torch.empty(i + 1, 90)
        Product(a[: i + 1], b, part, own=True)()
        assert torch.equal(part, whole[: i + 1])


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(("height", "width"), [(4, 4), (8, 8), (2, 6), (4, 8), (6, 10)])
@pytest.mark.parametrize("images", [1, 7])
def test_convolutions_by_winograd(
    height: int, width: int, images: int, added: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows of 2x2 and of 4x4, several images at a time and one: values and both gradients."""
    torch.manual_seed(0)
    conv = nn.Conv2d(32, 48, 3, 1, 1, bias=False)
    assert winograd.fits(conv, height, width)
    z = torch.randn(images, 32, height, width, requires_grad=True)
    expected = conv(z)
    g = torch.randn(expected.shape)
    expected.backward(g)
    assert conv.weight.grad is not None
    assert z.grad is not None
    every = slice(0, 3)
    weight = taps_last(conv.weight.detach(), every, every)
    for cache in (winograd.CACHE, 100_000, 1):
        monkeypatch.setattr(winograd, "CACHE", cache)
        layer = winograd.Winograd(Piece(slice(0, 0), ()))
        out, g_x, (g_w,) = passed(layer, z.detach(), [weight], g, ROWS, added)
        for found, right in ((out, expected.detach()), (g_x, z.grad),
                             (g_w, taps_last(conv.weight.grad, every, every))):  # fmt: skip
            assert float((found - right).norm()) < 2e-6 * float(right.norm())


def test_winograd_is_as_exact_as_the_plain_sum_where_it_counts() -> None:
    """In a layer 7e-7 are lost with 4x4 windows; other points would lose twice as much."""
    torch.manual_seed(0)
    conv = nn.Conv2d(64, 64, 3, 1, 1, bias=False)
    x = torch.relu(torch.randn(20, 64, 8, 8))
    right = conv.double()(x.double()).detach()
    weight = taps_last(conv.weight.detach().float(), slice(0, 3), slice(0, 3))
    layer = winograd.Winograd(Piece(slice(0, 0), ()))
    out, _, _ = passed(layer, x, [weight], torch.zeros(right.shape), ROWS)
    assert float((out - right).norm()) < 1.2e-6 * float(right.norm())


def test_what_a_library_computes_best_is_left_to_it() -> None:
    """Many positions, groups, dilation, other paddings, biases and subclasses."""

    class Own(nn.Conv2d):
        pass

    assert taps_of(nn.Conv2d(3, 4, 3, padding=1, bias=False), 8, 8) is None
    assert not winograd.fits(nn.Conv2d(64, 64, 3, padding=1, bias=False), 16, 16)
    assert not winograd.fits(nn.Conv2d(64, 64, 3, padding=1, bias=False), 5, 8)
    assert not winograd.fits(nn.Conv2d(64, 64, 3, 2, padding=1, bias=False), 8, 8)
    for conv in (
        nn.Conv2d(64, 64, 3, padding=1, groups=2, bias=False),
        nn.Conv2d(64, 64, 3, padding=2, dilation=2, bias=False),
        nn.Conv2d(64, 64, 3, padding="same", bias=False),
        nn.Conv2d(64, 64, 3, padding=1, padding_mode="circular", bias=False),
        nn.Conv2d(64, 64, 3, padding=1),
        Own(64, 64, 3, padding=1, bias=False),
    ):
        assert taps_of(conv, 2, 2) is None
        assert not winograd.fits(conv, 4, 4)
    for conv in (
        nn.Conv2d(3, 33, 3),
        nn.Conv2d(33, 3, 3),
        nn.Conv2d(4, 4, 3, groups=2),
        nn.Conv2d(4, 4, 3, dilation=2),
        nn.Conv2d(4, 4, 3, stride=2),
        nn.Conv2d(4, 4, 3, padding="same"),
        nn.Conv2d(4, 4, 3, padding=(1, 0)),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"),
    ):
        assert not direct.fits(conv, 8, 8)
    assert not direct.fits(nn.Conv2d(3, 8, 5), 5, 28)  # one row of outputs: nothing to pool


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(
    ("size", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (3, 1, 1), (4, 3, 2)]
)
def test_max_pooling_is_pytorchs(size: int, stride: int, padding: int, added: bool) -> None:
    """Values and gradients with ties; infinities and NaN pass through."""
    torch.manual_seed(0)
    pool = nn.MaxPool2d(size, stride, padding)
    layer = MaxPooling.of(pool)
    assert layer is not None
    x = torch.randint(-2, 3, (3, 2, 9, 8)).float()
    x[0, 0, :4] = -np.inf
    z = x.clone().requires_grad_()
    expected = pool(z)
    g = torch.randn(expected.shape)
    expected.backward(g)
    assert z.grad is not None
    out, g_x, _ = passed(layer, x, [], g, PLANES, added)
    torch.testing.assert_close(out, expected.detach(), rtol=0, atol=0)
    torch.testing.assert_close(g_x, z.grad)
    x[1, 1, 3, 3] = np.nan
    out, _, _ = passed(layer, x, [], g, PLANES)
    torch.testing.assert_close(out, pool(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "padding", "height", "width"),
    [(1, 6, (5, 5), 2, 28, 28), (3, 16, (3, 3), 1, 9, 7), (6, 4, (1, 1), 0, 2, 2),
     (2, 13, (4, 2), 3, 5, 40), (5, 1, (2, 3), 0, 3, 4), (32, 32, (3, 3), 1, 4, 4)],
)  # fmt: skip
def test_convolutions_with_few_channels(
    channels: int, outputs: int, kernel: tuple[int, int], padding: int, height: int, width: int,
    bias: bool, added: bool,
) -> None:  # fmt: skip
    """With the pooling and ReLU after it: in whole numbers, which are exact, to the last bit."""
    torch.manual_seed(0)
    conv = nn.Conv2d(channels, outputs, kernel, padding=padding, bias=bias)
    assert direct.fits(conv, height, width)
    for p in conv.parameters():
        p.data = torch.randint(-2, 3, p.shape).float()  # ties are frequent, zeros as well
    z = torch.randint(-2, 3, (3, channels, height, width)).float().requires_grad_()
    expected = F.relu(F.max_pool2d(conv(z), 2))
    g = torch.randint(-9, 10, expected.shape).float()
    expected.backward(g)
    assert z.grad is not None
    nowhere = Piece(slice(0, 0), ())
    layer = direct.PooledConvolution(nowhere, nowhere if bias else None, padding)
    weights = [p.detach() for p in conv.parameters()]
    out, g_x, found = passed(layer, z.detach(), weights, g, PLANES, added)
    assert torch.equal(out, expected.detach())
    assert torch.equal(g_x, z.grad)
    for k, p in zip(found, conv.parameters(), strict=True):
        assert p.grad is not None
        assert torch.equal(k, p.grad)
    x = z.detach().clone()
    x[1, 0, height // 2, width // 2] = np.nan
    out, _, _ = passed(layer, x, weights, g, PLANES)
    right = F.relu(F.max_pool2d(conv(x), 2)).detach()
    torch.testing.assert_close(out, right, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("lies", [PLANES, ROWS])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("added", [False, True])
def test_normalization_is_pytorchs(lies: str, relu: bool, added: bool) -> None:
    """Values and all gradients, however the features lie."""
    torch.manual_seed(0)
    norm = nn.GroupNorm(3, 12)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    z = (torch.randn(5, 12, 3, 4) + 3).requires_grad_()
    expected = F.relu(norm(z)) if relu else norm(z)
    g = torch.randn(expected.shape)
    expected.backward(g)
    assert z.grad is not None
    nowhere = Piece(slice(0, 0), ())
    layer = Normalization(nowhere, nowhere, 3, norm.eps, relu)
    weights = [norm.weight.detach(), norm.bias.detach()]
    out, g_x, found = passed(layer, z.detach(), weights, g, lies, added)
    torch.testing.assert_close(out, expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(g_x, z.grad, rtol=1e-4, atol=1e-5)
    for k, p in zip(found, norm.parameters(), strict=True):
        assert p.grad is not None
        torch.testing.assert_close(k, p.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["resnet18", "gru", "cnn"])
def test_nan_is_not_hidden(name: str) -> None:
    """A model that has left the finite numbers must be seen to have."""
    fast, _ = both(name)
    x, y = CASES[name][1](4), torch.arange(4)
    fast.path(x).read(fast.w)
    fast.path(x).w.fill_(np.nan)
    assert bool(fast.path(x).scores(x).isnan().all())
    assert np.isnan(float(fast.path(x).differentiate(x, y)))


class Twice(nn.Module):
    """A layer that is used twice: its gradients add up."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(1, 2)
        self.fc = nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = F.relu(self.norm(self.conv(x)))
        return self.fc(F.relu(self.norm(self.conv(x))).mean((2, 3)))


class Branching(Twice):
    """What it computes depends on the data."""

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        if x.sum() > 0:
            x = -x
        return super().forward(x)


class Dropping(Twice):
    """It draws."""

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        return super().forward(F.dropout(x, 0.5, self.training))


def frozen() -> nn.Module:
    """A model with a layer that is not trained."""
    module = Small()
    module.fc3.weight.requires_grad_(False)
    return module


def hooked() -> nn.Module:
    """A model that somebody looks at."""
    module = Small()
    module.norm2.register_forward_hook(lambda *_: None)
    return module


def tied() -> nn.Module:
    """A model with one weight in two places."""
    module = Small()
    module.norm3.weight = module.norm1.weight
    return module


@pytest.mark.parametrize("make", [Branching, Dropping, frozen, hooked, tied])
def test_what_is_not_known_is_left_to_autograd(make: Callable[[], nn.Module]) -> None:
    """Branches, draws, frozen layers, hooks and shared weights."""
    assert not is_fast(FlatModel(make()).path(torch.randn(2, 2, 10, 6)))


def test_a_layer_used_twice_is_not_rewritten() -> None:
    """Its gradient is the sum of two."""
    torch.manual_seed(0)
    module = Twice()
    model, x, y = FlatModel(module), torch.randn(4, 2, 2, 2), torch.arange(4) % 3
    path = model.path(x)
    assert not is_fast(path)
    path.differentiate(x, y)
    found = model.gradient.clone()
    F.cross_entropy(module(x), y).backward()
    torch.testing.assert_close(model.gradient, 2 * found)


def test_a_gru_whose_states_are_all_used_is_left_to_autograd() -> None:
    """The fast one gives the last state only."""

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(9, 4)
            self.gru = nn.GRU(4, 6, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            states, _ = self.gru(self.embedding(x))
            return states.mean(1)

    assert not is_fast(FlatModel(Whole()).path(torch.randint(0, 9, (2, 5))))


def test_a_path_that_disagrees_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every path is tried against the module before it is taken."""
    monkeypatch.setattr(Rewritten, "scores", lambda self, x: torch.zeros(len(x), 3))
    assert not is_fast(FlatModel(Small()).path(torch.randn(2, 2, 10, 6)))
