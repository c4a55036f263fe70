"""The variants of the study of FedAdaVR+: in its limit, each of them is FedAdaVR+ again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout, Update, algorithm
from fedadavr.codecs import codec
from fedadavr.plugins import load_file

load_file(str(Path(__file__).parents[1] / "results" / "fedadavr-plus" / "variants.py"))

TWO = Layout({"a.weight": (20, 7), "a.bias": (11,), "b.weight": (30,), "b.bias": (5,)})
ONE_LAYER = Layout({"a.weight": (20, 7), "a.bias": (11,)})
ONE_TENSOR = Layout({"a.weight": (20, 7)})


def rounds(server: Any, layout: Layout, count: int = 15, noise: float = 0.5) -> Any:
    """The model after rounds of a federation of four kinds, sizes changing, one pruned or two."""
    rng = np.random.default_rng(3)
    along = rng.normal(size=(4, layout.size))
    w = layout.zeros()
    for _ in range(count):
        w = server.step(w, [
            Update(f"{c:02d}", (w - along[c % 4] - noise * rng.normal(size=w.size)).astype("f4"),
                   int(rng.integers(1, 30)))
            for c in rng.choice(24, 5, replace=False)
        ])  # fmt: skip
    return w


def agree(name: str, layout: Layout, settings: dict[str, Any], **limit: Any) -> None:
    """The variant in its limit makes the rounds of FedAdaVR+, up to rounding."""
    common = {"server_lr": 0.01, "population": 24, "client_lr": 0.1, **settings}
    plus: Any = algorithm("fedadavr-plus", layout, **common)
    variant: Any = algorithm(name, layout, **common, **limit)
    expected = rounds(plus, layout)
    np.testing.assert_allclose(rounds(variant, layout), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(variant.learner.alpha, plus.learner.alpha, atol=1e-5)
    assert plus.memory is not None
    assert variant.memory is not None
    np.testing.assert_allclose(variant.memory.weight, plus.memory.weight)
    if name != "plus-offset":
        np.testing.assert_allclose(variant.memory.total, plus.memory.total, rtol=1e-3, atol=1e-1)


SETTINGS: list[dict[str, Any]] = [
    {}, {"optimizer": "sgd", "codec": "int8"}, {"memories": "centers"}, {"memories": "own"},
    {"sampler": "kinds", "prune_after": 6}, {"trust": 0.7, "centers": 3},
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_in_numpy_it_is_the_same_round(settings: dict[str, Any]) -> None:
    """The NumPy round that variants are made from, against the kernels'."""
    agree("plus-plain", TWO, settings)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_trust_per_tensor_of_one_tensor(settings: dict[str, Any]) -> None:
    """And of many, where the trust is the same in all of them."""
    agree("plus-tensor-trust", ONE_TENSOR, settings)
    agree("plus-tensor-trust", TWO, settings | {"trust": 0.4})


@pytest.mark.parametrize("settings", [s for s in SETTINGS if "sampler" not in s], ids=str)
def test_centers_per_layer_of_one_layer(settings: dict[str, Any]) -> None:
    """Weight and bias are one layer: the centers are those of the whole model."""
    agree("plus-layer-centers", ONE_LAYER, settings)


def test_layers_have_their_own_kinds() -> None:
    """Clients that differ in one layer only are told apart there, and are alike in the other."""
    server: Any = algorithm("plus-layer-centers", TWO)
    rng, w = np.random.default_rng(0), TWO.zeros()
    moves = rng.normal(size=(2, TWO.size)).astype("f4")
    moves[1, 151:] = moves[0, 151:]
    for _ in range(3):
        server.step(w, [Update(str(c), w - moves[c % 2], 10) for c in range(4)])
    assert [len(kinds) for _, kinds in server.rooms] == [2, 1]
    assert server.members["1"] == (10, (1, 0))


@pytest.mark.parametrize("settings", [s for s in SETTINGS if "sampler" not in s
                                      and s.get("memories") != "own"], ids=str)  # fmt: skip
def test_with_no_stale_center_nothing_is_replaced(settings: dict[str, Any]) -> None:
    """Then it is FedAdaVR+."""
    agree("plus-replace", TWO, settings)


def test_a_stale_center_makes_room() -> None:
    """For a reply like none, which is then told apart; who was of the old kind is not counted."""
    server: Any = algorithm("plus-replace", TWO, centers=2, optimizer="sgd", server_lr=1e-9)
    along = np.random.default_rng(0).normal(size=(3, TWO.size)).astype("f4")
    w = TWO.zeros()

    def come(*kinds: int) -> None:
        server.step(w, [Update(f"{k}", w - along[k], 10) for k in kinds])

    come(0, 1)
    come(1)
    come(2)  # no center is stale yet: it joins one
    assert server.members["2"][1][0] in (0, 1)
    for _ in range(3):
        come(1)
    come(2)
    kind = server.members["2"][1][0]
    assert kind != server.members["1"][1][0]
    assert "0" not in server.members
    np.testing.assert_allclose(server.vectors.vectors[kind], along[2], rtol=1e-5)
    assert server.report()["shares"] == [0.5, 0.5]


@pytest.mark.parametrize("settings", [s for s in SETTINGS if s.get("memories") != "own"], ids=str)
def test_centers_in_fp32_are_those_there_are(settings: dict[str, Any]) -> None:
    """To the bit; in fp16 and int8 they are what the codec reads."""
    common = {"server_lr": 0.01, "population": 24, **settings}
    plus = rounds(algorithm("fedadavr-plus", TWO, **common), TWO)
    same = rounds(algorithm("plus-fp16-centers", TWO, center_codec="fp32", **common), TWO)
    np.testing.assert_array_equal(same, plus)
    for name in ("fp16", "int8"):
        server: Any = algorithm(f"plus-{name}-centers", TWO, **common)
        near = rounds(server, TWO)
        assert (near != plus).any() or settings.get("trust") == 0
        np.testing.assert_allclose(near, plus, atol=0.05)
        for vector in server.vectors.vectors[: len(server.vectors)]:
            kept = codec(name).decode(TWO, codec(name).encode(TWO, vector))
            np.testing.assert_allclose(kept, vector, rtol=1e-6)


def test_an_offset_that_is_not_trusted() -> None:
    """Is nothing; what is left are the centers."""
    server: Any = algorithm("plus-offset", TWO, server_lr=0.01, population=24)
    server.coefficients = lambda: (0.0, 0.6)
    expected = rounds(
        algorithm("fedadavr-plus", TWO, server_lr=0.01, population=24, memories="centers",
                  trust=0.6), TWO
    )  # fmt: skip
    np.testing.assert_allclose(rounds(server, TWO), expected, rtol=1e-3, atol=1e-4)


def test_an_offset_moves_with_its_center() -> None:
    """All clients move alike: what is predicted of one not seen since moves with its kind."""
    rng, w = np.random.default_rng(0), TWO.zeros()
    along = rng.normal(size=(6, TWO.size)).astype("f4") * 0.3 + np.float32(1)
    server: Any = algorithm("plus-offset", TWO, server_lr=1.0, optimizer="sgd", population=6,
                            center_rate=1.0, trust=1.0)  # fmt: skip
    server.step(w, [Update(str(c), w - along[c], 10) for c in range(6)])
    offsets = np.array([server.memory.update_of(str(c)) for c in range(6)])
    np.testing.assert_allclose(offsets, along - along.mean(axis=0), atol=1e-5)
    step = -server.step(w, [Update("0", w - 2 * along.mean(axis=0) - offsets[0], 10)])
    np.testing.assert_allclose(step, 2 * along.mean(axis=0), atol=1e-4)


@pytest.mark.parametrize("name", ["plus-explore", "plus-shrink", "plus-explore-shrink"])
def test_uniform_cohorts_of_many_clients(name: str) -> None:
    """With a uniform sampler and no trust, kinds and their shares change nothing."""
    agree(name, TWO, {"sampler": "uniform", "trust": 0.0})


def test_shares_are_shrunk_as_far_as_chance_may_explain_them() -> None:
    """Fully where they are equal but for chance, hardly where many clients tell them apart."""
    server: Any = algorithm("plus-shrink", TWO, optimizer="sgd", server_lr=1e-9)
    rng, w = np.random.default_rng(0), TWO.zeros()
    along = rng.normal(size=(2, TWO.size)).astype("f4")
    server.step(w, [Update(str(c), w - along[int(c > 2)], 10) for c in range(6)])
    np.testing.assert_allclose(server.report()["shares"], [0.5, 0.5])
    server.step(w, [Update(str(c), w - along[int(c % 10 == 0)], 10) for c in range(400)])
    shares = np.array(server.report()["shares"])
    np.testing.assert_allclose(shares, [0.9, 0.1], atol=2e-3)
    assert (shares != [0.9, 0.1]).all()
    assert shares.sum() == pytest.approx(1.0)


def test_cohorts_are_uniform_while_kinds_are_being_found() -> None:
    """Then they cover the kinds, as those of FedAdaVR+ do."""
    everyone = [f"{c:02d}" for c in range(60)]
    along = np.random.default_rng(0).normal(size=(4, TWO.size)).astype("f4")
    w = TWO.zeros()

    def met(clients: list[str]) -> tuple[list[str], ...]:
        drawn = []
        for name, sampler in (("plus-explore", "kinds"), ("fedadavr-plus", "uniform"),
                              ("fedadavr-plus", "kinds")):  # fmt: skip
            server = algorithm(name, TWO, sampler=sampler, server_lr=1e-9, population=60)
            server.step(w, [Update(c, w - along[int(c) % 4], 10) for c in clients])
            drawn.append(server.sample(7, 2, everyone, 5))
        return tuple(drawn)

    explored, uniform, _ = met(everyone[:5])  # three kinds were met in one client only
    assert explored == uniform
    explored, _, covered = met(everyone[:20])
    assert explored == covered


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("plus-offset", {"memories": "own"}, "needs both memories"),
        ("plus-layer-centers", {"sampler": "kinds"}, "sampler must be uniform"),
        ("plus-replace", {"sampler": "kinds"}, "uniform cohorts"),
        ("plus-int8-centers", {"memories": "own"}, "needs the memory of centers"),
    ],
)
def test_what_a_variant_cannot_do_is_refused(
    name: str, settings: dict[str, Any], sentence: str
) -> None:
    """One sentence."""
    with pytest.raises(ValueError, match=sentence):
        algorithm(name, TWO, **settings)


def test_a_variant_does_not_go_on_from_a_checkpoint() -> None:
    """It says so, instead of going on without its kinds."""
    server = algorithm("plus-plain", TWO)
    with pytest.raises(ValueError, match="cannot go on"):
        server.load_state_dict(server.state_dict())
