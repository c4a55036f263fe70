"""The fast algorithms are the reference's: random layouts, cohorts, sizes, joins and departures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedadavr import Layout, Update, algorithm
from fedadavr.algorithms import algorithm_names
from fedadavr.optimizers import OPTIMIZERS
from tests import reference

CLIENTS = [f"client-{i}" for i in range(8)]

EXTRA: dict[str, list[dict[str, Any]]] = {
    "fedavgm": [{}, {"server_momentum": 0.0, "server_lr": 0.5}],
    "fedexp": [{}, {"eps": 1e-6}],
    "feddyn": [{}, {"alpha": 1.0}],
    "fedau": [{"cutoff": 1}, {"cutoff": 2}, {}],
    "fedcm": [{"client_momentum": 0.0}, {"client_momentum": 0.9, "alpha": 0.4}],
    "ghbm": [{"client_momentum": 0.0, "tau": 2}, {"client_momentum": 0.9, "server_lr": 0.5}],
    "mifa": [{"warmup": w} for w in ("all", "zeros", "seen")],
    "fedvarp": [{"weighting": w} for w in ("uniform", "examples")],
    "fedstale": [{}, {"beta": 0.2, "weighting": "examples"}, {"beta": 0.0}],
    "cluster-fedvarp": [{"clusters": 3}, {"clusters": {c: k % 3 for k, c in enumerate(CLIENTS)}}],
    "fednova": [{"client_momentum": m} for m in (0.0, 0.9)],
    "scaffold": [{"client_momentum": m} for m in (0.0, 0.9)],
    "fedadavr": [{"weighting": w} for w in ("cohort", "population", "ht")],
}
CASES = [
    (name, extra)
    for name in algorithm_names()
    if name != "fedadavr-plus"  # a cosine at the threshold may fall on either side: test_plus.py
    for extra in EXTRA.get(name, [{}])
]
REMEMBERING = {
    name for name in algorithm_names() if hasattr(algorithm(name, Layout({"x": (1,)})), "codec")
}

MOVING = ("scaffold", "feddyn")  # a record is the old one and what is added to it


def reference_server(name: str, layout: Layout, server: Any, **chosen: Any) -> reference.Server:
    """The reference with the settings of a server."""
    mine = server.server_optimizer
    optimizer = reference.Optimizer(
        mine.name, layout.shapes, mine.lr, mine.beta1, mine.beta2, mine.eps, mine.weight_decay,
        mine.trust_ratio,
    )  # fmt: skip
    return reference.Server(layout.shapes, optimizer, server.client_lr, **chosen)


def reference_options(extra: dict[str, Any]) -> dict[str, Any]:
    return {"m" if key == "client_momentum" else key: value for key, value in extra.items()}


@pytest.mark.parametrize(("name", "extra"), CASES, ids=lambda x: str(x))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_agrees_with_the_reference(name: str, extra: dict[str, Any], data: Any) -> None:
    """Whatever comes, w and the memory are the reference's to float32 rounding."""
    draw: Callable[..., Any] = data.draw
    shape = st.lists(st.integers(1, 5), max_size=3).map(tuple)
    layout = Layout(dict(enumerate_names(draw(st.lists(shape, min_size=1, max_size=4)))))
    settings_: dict[str, Any] = {"client_lr": draw(st.sampled_from([1.0, 0.01, 3.0])), **extra}
    settings_["clip"] = draw(st.sampled_from([0.0, 3.0, 50.0]))
    memory: dict[str, Any] = {}
    if name in REMEMBERING:
        population = draw(st.sampled_from([None, 3, 12, "sizes"]))
        if population == "sizes":
            population = {c: 1 + 3 * k for k, c in enumerate(CLIENTS[:5])}
        if name == "cluster-fedvarp":  # there it names clients, whose clusters are then counted
            names = CLIENTS if "clusters" in extra and isinstance(extra["clusters"], int) else None
            population = draw(st.sampled_from([None, dict.fromkeys(names, 1)])) if names else None
        default = "fp16" if name == "fedadavr-quant" else "fp32"
        codecs = [default, "fp16", "int8", "int4"]
        memory = {"codec": draw(st.sampled_from(codecs)), "population": population}
    if name == "fedau":  # which remembers when clients came
        memory = {"population": draw(st.sampled_from([None, 3, 12]))}
    if name in ("fedadavr", "fedadavr-novr"):
        settings_["optimizer"] = draw(st.sampled_from(sorted(OPTIMIZERS)))
        settings_["weight_decay"] = draw(st.sampled_from([0.0, 0.1]))
        settings_["trust_ratio"] = draw(st.sampled_from(["tensor", "global"]))
    if name in ("fedadavr", "fedadavr-quant"):
        settings_["server_lr"] = 0.01  # one that is learned has a twin of its own
    server = algorithm(name, layout, **settings_, **memory)
    ref = reference_server(name, layout, server, **memory)
    ref.clip = reference.Clip(server.clip) if server.clip else None
    if name == "cluster-fedvarp" and memory["population"]:
        extra = {"clusters": {c: server.record_of(c) for c in CLIENTS}}
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    w = rng.normal(size=layout.size).astype(np.float32)
    sizes = draw(st.sampled_from([[0.1, 1.0], [0.1, 1.0, 100.0]]))  # the latter: some are clipped
    for _ in range(draw(st.integers(1, 6))):
        if memory and name != "cluster-fedvarp":
            come_and_go(draw, server, ref)
        cohort = draw(st.lists(st.sampled_from(CLIENTS), min_size=1, max_size=5, unique=True))
        updates = [
            Update(
                client=client,
                weights=(w - rng.normal(size=layout.size) * rng.choice(sizes)).astype("f4"),
                examples=int(rng.integers(1, 50)),
                steps=int(rng.integers(1, 9)),
            )
            for client in cohort
        ]
        expected = ref.step(name, w, updates, **reference_options(extra))
        w = server.step(w, updates)
        np.testing.assert_allclose(w, expected, rtol=2e-4, atol=2e-4)
        # One level of the codec where float32 and float64 round to different sides.
        level = {"int8": 1 / 127, "int4": 1 / 7}.get(memory.get("codec", ""), 0)
        if server.needs.correction:
            for client in CLIENTS[:3]:
                sent = ref.correction(name, client, **reference_options(extra))
                largest = max((np.abs(y).max() for y in ref.y.values()), default=0.0)
                np.testing.assert_allclose(
                    server.correction(client), sent, rtol=2e-3, atol=1e-4 + 2 * level * largest
                )
        if server.memory is not None and server.memory.codec.bits:
            for client, y in ref.y.items():
                slack = 1e-4 + (level * np.abs(y).max() if name in MOVING else 0)
                np.testing.assert_allclose(
                    server.memory.update_of(client), y, rtol=2e-3, atol=slack
                )
            scale = 1 + np.abs(server.memory.total).max()
            assert np.abs(server.memory.total - server.memory.resum()).max() < 1e-12 * scale
            if name != "cluster-fedvarp":
                assert server.memory.count == ref.N
                if server.memory.weights == "examples":
                    assert server.memory.weight == pytest.approx(ref.P)


def enumerate_names(shapes: list[tuple[int, ...]]) -> list[tuple[str, tuple[int, ...]]]:
    return [(f"tensor-{k}", shape) for k, shape in enumerate(shapes)]


def come_and_go(draw: Callable[..., Any], server: Any, ref: reference.Server) -> None:
    """Perhaps a client joins, is forgotten, or leaves."""
    act, client = (
        draw(st.sampled_from(["", "", "join", "forget", "leave"])),
        draw(st.sampled_from(CLIENTS)),
    )
    if act == "join":
        size = draw(st.sampled_from([None, 7]))
        server.memory.join(client, size)
        ref.join(client, size)
        return
    known = client in ref.n or client in ref.waiting or client in ref.left
    if act and (known or (act == "leave" and ref.anonymous)):
        getattr(server.memory, act)(client)
        getattr(ref, act)(client)


def test_order_of_arrival_does_not_matter() -> None:
    """The same replies in another order give the same bits."""
    layout = Layout({"a": (40, 70), "b": (9,)})
    rng = np.random.default_rng(0)
    w = rng.normal(size=layout.size).astype(np.float32)
    updates = [
        Update(c, w + rng.normal(size=w.size).astype(np.float32), k + 1, k + 1)
        for k, c in enumerate(CLIENTS)
    ]
    for name in algorithm_names():
        forward, backward = algorithm(name, layout), algorithm(name, layout)
        np.testing.assert_array_equal(
            forward.step(w, updates), backward.step(w, updates[::-1]), err_msg=name
        )


@pytest.mark.parametrize("codec", ["fp32", "int4"])
def test_full_participation_is_fedavg(codec: str) -> None:
    """With everybody there the memory cancels, also when sizes change on the way."""
    layout = Layout({"a": (30, 7), "b": (5,)})
    rng = np.random.default_rng(1)
    ours = algorithm("fedadavr-noopt", layout, server_lr=1.0, codec=codec)
    fedavg = algorithm("fedavg", layout)
    w = rng.normal(size=layout.size).astype(np.float32)
    for _ in range(20):
        updates = [
            Update(c, w + rng.normal(size=w.size).astype(np.float32), int(rng.integers(1, 99)))
            for c in CLIENTS
        ]
        expected = fedavg.step(w, updates)
        w = ours.step(w, updates)
        np.testing.assert_allclose(w, expected, rtol=1e-5, atol=1e-5)


def test_ht_is_unbiased_for_unequal_sizes() -> None:
    """Over all cohorts of two among five, the mean of r is the full update, whatever is stored."""
    from copy import deepcopy
    from itertools import combinations

    layout = Layout({"x": (4, 3)})
    rng = np.random.default_rng(2)
    sizes = {c: 3 * k * k + 1 for k, c in enumerate(CLIENTS[:5])}
    server = algorithm("fedadavr-noopt", layout, weighting="ht", population=sizes)
    w = rng.normal(size=layout.size).astype(np.float32)
    w = server.step(w, [Update(c, rng.normal(size=12).astype("f4"), sizes[c]) for c in CLIENTS[:3]])
    replies = {c: rng.normal(size=12).astype(np.float32) for c in sizes}
    steps = [
        w - deepcopy(server).step(w, [Update(c, replies[c], sizes[c]) for c in pair])
        for pair in combinations(sizes, 2)
    ]
    full = sum(n * (w.astype(float) - replies[c]) for c, n in sizes.items()) / sum(sizes.values())
    np.testing.assert_allclose(np.mean(steps, axis=0, dtype=np.float64), full, atol=1e-6)
    cohort = algorithm("fedadavr-noopt", layout, population=sizes)
    biased = [
        w - deepcopy(cohort).step(w, [Update(c, replies[c], sizes[c]) for c in pair])
        for pair in combinations(sizes, 2)
    ]
    assert np.abs(np.mean(biased, axis=0) - full).max() > 1e-3


def test_client_rate_schedule_keeps_the_memory_right() -> None:
    """What is stored is g, so halving client_lr halves the step that the absent take."""
    layout = Layout({"x": (2,)})
    server = algorithm("mifa", layout, client_lr=0.1)
    w = np.zeros(2, np.float32)
    server.step(w, [Update("a", np.array([-1, 0], np.float32), 1), Update("b", w - 1, 1)])
    server.client_lr = 0.05
    step = w - server.step(w, [Update("a", np.array([-0.5, 0], np.float32), 1)])
    np.testing.assert_allclose(step, [0.5, 0.25], rtol=1e-6)
