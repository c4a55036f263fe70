"""The optimizers against other people's: PyTorch, optax, Flower; and the paper's by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedadavr import Layout, Update, algorithm
from fedadavr.optimizers import OPTIMIZERS, Optimizer
from tests import reference

LAYOUT = Layout({"a": (50, 61), "b": (7,), "c": (3000,)})


def gradients(steps: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=LAYOUT.size).astype(np.float32) for _ in range(steps)]


def start() -> Any:
    return np.random.default_rng(9).normal(size=LAYOUT.size).astype(np.float32)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_agrees_with_the_papers_appendix(name: str, weight_decay: float) -> None:
    """Thirty steps over several blocks and tensors, against the float64 reference."""
    for trust_ratio in ("tensor", "global") if name == "lamb" else ("tensor",):
        ours = Optimizer(name, LAYOUT, lr=0.02, weight_decay=weight_decay, trust_ratio=trust_ratio)
        theirs = reference.Optimizer(
            name, LAYOUT.shapes, 0.02, ours.beta1, ours.beta2, ours.eps, weight_decay, trust_ratio
        )
        w = expected = start()
        for G in gradients(30):
            expected = theirs.step(expected, G)
            w = ours.step(w, G)
        np.testing.assert_allclose(w, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_adam_and_adagrad_are_pytorchs(weight_decay: float) -> None:
    """torch.optim has the same two formulas."""
    torch = pytest.importorskip("torch")
    for name, cls in (("adam", torch.optim.Adam), ("adagrad", torch.optim.Adagrad)):
        eps = 1e-8
        parameter = torch.nn.Parameter(torch.from_numpy(start()))
        theirs = cls([parameter], lr=0.02, eps=eps, weight_decay=weight_decay)
        ours, w = Optimizer(name, LAYOUT, lr=0.02, weight_decay=weight_decay), start()
        for G in gradients(20):
            parameter.grad = torch.from_numpy(G.copy())
            theirs.step()
            w = ours.step(w, G)
        np.testing.assert_allclose(w, parameter.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["adam", "yogi", "adabelief"])
def test_optax_has_the_same_formulas(name: str) -> None:
    """With optax's extras off: initial accumulator and eps_root zero."""
    optax = pytest.importorskip("optax", reason="optax is not installed: run `make crosscheck`")
    extras: dict[str, dict[str, float]] = {
        "adam": {},
        "yogi": {"initial_accumulator_value": 0.0, "eps_root": 0.0},
        "adabelief": {"eps_root": 0.0},
    }
    scale = {
        "adam": optax.scale_by_adam,
        "yogi": optax.scale_by_yogi,
        "adabelief": optax.scale_by_belief,
    }[name]
    theirs = optax.chain(scale(b1=0.9, b2=0.999, eps=1e-8, **extras[name]), optax.scale(-0.02))
    ours, w, expected = Optimizer(name, LAYOUT, lr=0.02), start(), start()
    state = theirs.init(expected)
    for G in gradients(20):
        change, state = theirs.update(G, state, expected)
        expected = np.asarray(optax.apply_updates(expected, change))
        w = ours.step(w, G)
    np.testing.assert_allclose(w, expected, rtol=1e-4, atol=3e-5)


@pytest.mark.parametrize(
    ("name", "settings", "flowers"),
    [
        ("FedAdagrad", {}, {}),
        ("FedAdam", {}, {}),
        ("FedYogi", {}, {}),
        ("FedAvgM", {}, {"server_momentum": 0.9}),
        ("FedAvgM", {"server_momentum": 0.5, "server_lr": 0.3},
         {"server_momentum": 0.5, "server_learning_rate": 0.3}),
        ("FedAvgM", {"server_momentum": 0.0}, {}),
    ],
)  # fmt: skip
def test_fedopt_is_flowers(name: str, settings: Any, flowers: Any) -> None:
    """Our three of FedOpt and FedAvgM against Flower's own classes, over twelve rounds."""
    pytest.importorskip("flwr")
    from flwr.app import Array, ArrayRecord, Message, Metadata, MetricRecord, RecordDict
    from flwr.serverapp import strategy

    theirs = getattr(strategy, name)(**flowers)
    ours = algorithm(name.lower(), LAYOUT, **settings)
    rng, w = np.random.default_rng(3), start()
    expected = w.astype(np.float64)
    for t in range(1, 13):
        updates = [
            Update(str(i), w - 0.1 * rng.normal(size=w.size).astype(np.float32), 10 + i)
            for i in range(4)
        ]
        moves = [u.weights - w for u in updates]  # each from its own side's model
        replies = []
        for u, move in zip(updates, moves, strict=True):
            arrays = {k: Array(v.copy()) for k, v in LAYOUT.split(expected + move).items()}
            content = RecordDict({
                "arrays": ArrayRecord(arrays),
                "metrics": MetricRecord({"num-examples": u.examples}),
            })  # fmt: skip
            metadata = Metadata(
                run_id=1, message_id="", src_node_id=2, dst_node_id=1, reply_to_message_id="",
                group_id="", created_at=0.0, ttl=60.0, message_type="train",
            )  # fmt: skip
            replies.append(Message(content=content, metadata=metadata))  # type: ignore[call-overload]
        current = {k: v.copy() for k, v in LAYOUT.split(expected).items()}
        theirs.current_arrays = current
        if name == "FedAvgM":  # there they are Flower's, which FedOpt's would not add up
            theirs.current_arrays = ArrayRecord({k: Array(v) for k, v in current.items()})
        arrays, _ = theirs.aggregate_train(t, replies)
        expected = np.concatenate([arrays[k].numpy().ravel() for k in LAYOUT.shapes])
        w = ours.step(w, updates)
        np.testing.assert_allclose(w, expected, rtol=2e-4, atol=2e-4)


def test_lamb_by_hand() -> None:
    """The first step of LAMB has direction sign(G), so each tensor moves by lr |w| / sqrt(size)."""
    layout = Layout({"a": (2,), "b": (1,)})
    w = np.array([3.0, 4.0, 0.0], np.float32)
    G = np.array([0.5, -2.0, 1.0], np.float32)
    moved = w - Optimizer("lamb", layout, lr=0.1).step(w, G)
    ratio = 5 / np.sqrt(2)
    np.testing.assert_allclose(moved, [0.1 * ratio, -0.1 * ratio, 0.1], rtol=1e-5)
    moved = w - Optimizer("lamb", layout, lr=0.1, trust_ratio="global").step(w, G)
    np.testing.assert_allclose(np.abs(moved), 0.1 * 5 / np.sqrt(3), rtol=1e-5)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"lr": -0.1}, "server_lr must be a finite number above 0, got -0.1"),
        ({"lr": float("nan")}, "server_lr must be a finite number above 0, got nan"),
        ({"beta1": 1.0}, r"beta1 must lie in \[0, 1\), got 1.0"),
        ({"eps": 0.0}, "eps must be a finite number above 0"),
        ({"weight_decay": -1.0}, "weight_decay must be a finite number from 0 up"),
        ({"trust_ratio": "layer"}, "trust_ratio must be 'tensor' or 'global', got 'layer'"),
    ],
)
def test_bad_settings_are_refused(bad: dict[str, Any], message: str) -> None:
    """One sentence that names the setting and the value."""
    with pytest.raises(ValueError, match=message):
        Optimizer("adam", LAYOUT, **bad)


def test_unknown_optimizer_names_the_nearest() -> None:
    """A typing error is answered with the name that was meant."""
    with pytest.raises(ValueError, match=r"unknown optimizer 'adma' \(did you mean 'adam'\?\)"):
        Optimizer("adma", LAYOUT)
