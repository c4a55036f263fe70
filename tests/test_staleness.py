"""`staleness_half_life`: total = sum_j weight_j 2^(-age_j/h) decode(y_j), whatever happens."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout, Update, algorithm
from fedadavr.memory import ClientMemory, maintenance
from fedadavr.memory.convert import copy_all
from fedadavr.memory.verify import check
from tests.rounds import opened, play, server_on
from tests.test_algorithms import reference_server

LAYOUT = Layout({"a": (9, 7), "b": (5,)})
FADING = [
    ("fedadavr", {"weighting": "cohort"}), ("fedadavr", {"weighting": "population"}),
    ("fedadavr", {"weighting": "ht"}), ("fedadavr-noopt", {}), ("fedvarp", {}),
    ("fedvarp", {"weighting": "examples"}), ("fedstale", {}), ("mifa", {"warmup": "zeros"}),
]  # fmt: skip


def replies(w: Any, round: int, clients: Any) -> list[Update]:
    rng = np.random.default_rng([7, round])
    return [
        Update(f"c{c}", w - rng.normal(size=w.size).astype(np.float32), int(rng.integers(1, 30)))
        for c in clients
    ]


def by_hand(memory: ClientMemory, half: float) -> Any:
    """The promise, word by word."""
    total = np.zeros_like(memory.total)
    for client, record in memory.records():
        age = memory.round - record.round
        total += record.weight * 2.0 ** (-age / half) * memory.update_of(client).astype(np.float64)
    return total


def assert_kept(memory: ClientMemory, half: float) -> None:
    scale = 1 + np.abs(memory.total).max()
    assert np.abs(memory.total - by_hand(memory, half)).max() < 1e-9 * scale
    assert np.abs(memory.total - memory.resum()).max() < 1e-9 * scale


@pytest.mark.parametrize(("name", "extra"), FADING, ids=str)
@pytest.mark.parametrize("half", [0.5, 3.0])
def test_agrees_with_the_reference(name: str, extra: dict[str, Any], half: float) -> None:
    """What is not renewed fades, in both places where it enters; sizes change meanwhile."""
    rate = {"server_lr": 0.01} if name == "fedadavr" else {}
    settings: dict[str, Any] = {"population": 9, "staleness_half_life": half, "clip": 0.0, **rate}
    server: Any = algorithm(name, LAYOUT, **settings, **extra)
    ref = reference_server(name, LAYOUT, server, population=9, half_life=half)
    rng = np.random.default_rng(3)
    w = rng.normal(size=LAYOUT.size).astype(np.float32)
    for round in range(1, 13):
        updates = replies(w, round, rng.choice(9, 3, replace=False))
        expected = ref.step(name, w, updates, **extra)
        w = server.step(w, updates)
        np.testing.assert_allclose(w, expected, rtol=2e-4, atol=2e-4)
        assert_kept(server.memory, half)
        if round == 6:
            server.memory.forget(updates[0].client)
            ref.forget(updates[0].client)
            assert_kept(server.memory, half)


@pytest.mark.parametrize("half", [None, 2.0])
def test_no_bias_is_added(half: float | None) -> None:
    """Over all cohorts that may come, the mean step is that of full participation."""
    settings: dict[str, Any] = {"staleness_half_life": half, "population": 5, "server_lr": 1.0}

    def after(cohort: Any) -> Any:
        server: Any = algorithm("fedadavr-noopt", LAYOUT, clip=0.0, **settings)
        w = LAYOUT.zeros()
        for round, clients in enumerate([(0, 1), (2, 3), (0, 4), (1,)], 1):
            server.step(w, [Update(f"c{c}", u.weights, 10) for c, u in
                            zip(clients, replies(w, round, clients), strict=True)])  # fmt: skip
        new = {c: Update(f"c{c}", u.weights, 10) for c, u in
               zip(range(5), replies(w, 99, range(5)), strict=True)}  # fmt: skip
        return server.step(w, [new[c] for c in cohort]), new

    pairs = list(combinations(range(5), 2))
    mean = np.mean([after(pair)[0] for pair in pairs], axis=0)
    full = np.mean([u.weights for u in after((0,))[1].values()], axis=0)
    np.testing.assert_allclose(mean, full, atol=1e-5)


@pytest.mark.parametrize("codec", ["int8", "nf4", "rot2"])
def test_kept_through_everything(codec: str, address: str, tmp_path: Path) -> None:
    """Rounds, pruning, forgetting, resuming, verify, repair, convert to another codec."""
    settings: dict[str, Any] = {"staleness_half_life": 2.5}
    straight = play(server_on(None, codec, **settings), 14)
    for upto in (5, 9, 14):
        with opened(address) as store:
            server = server_on(store, codec, **settings)
            w = play(server, upto)
            assert_kept(server.memory, 2.5)
            assert check(store)[0] == []
    np.testing.assert_array_equal(w, straight)
    with opened(address) as store:
        client = next(iter(dict(store.items())))
        maintenance.forget(store, [client])
        assert check(store)[0] == []
        memory, state = ClientMemory.stored(store)
        assert memory is not None
        state["server"]["memory"]["total"][:] = 1.0
        store.commit({}, state)
        assert "the total differs" in check(store)[0][0]
        done, left = maintenance.repair(store)
        assert any("off by" in sentence for sentence in done)
        assert left == []
        copy_all(store, f"lmdb:{tmp_path / 'new'}", "int4-block", None)
    with opened(f"lmdb:{tmp_path / 'new'}") as store:
        assert check(store)[0] == []
        server = server_on(store, "int4-block", **settings)
        play(server, 17)
        assert_kept(server.memory, 2.5)
        with pytest.raises(ValueError, match=r"staleness_half_life 2\.5, this one None"):
            server_on(store, "int4-block").restore()


def test_fedadavr_plus_learns_from_what_counts() -> None:
    """Trust is learned from the faded memory; a fade of nearly nothing changes nearly nothing."""
    runs = {}
    for half in (None, 1e9, 1.0):
        server: Any = algorithm("fedadavr-plus", LAYOUT, population=9, staleness_half_life=half)
        w = LAYOUT.zeros()
        for round in range(1, 9):
            w = server.step(w, replies(w, round, [(round + k) % 6 for k in range(3)]))
        runs[half] = (w, np.array(server.learner.alpha))
        assert_kept(server.memory, half or np.inf)
    np.testing.assert_allclose(runs[None][0], runs[1e9][0], atol=1e-5)
    np.testing.assert_allclose(runs[None][1], runs[1e9][1], atol=1e-5)
    assert np.abs(runs[None][0] - runs[1.0][0]).max() > 1e-4


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "soon", True])
def test_a_wrong_half_life_is_said(value: Any) -> None:
    """One sentence."""
    with pytest.raises((ValueError, TypeError), match="staleness_half_life must be a"):
        algorithm("fedadavr", LAYOUT, staleness_half_life=value)


def test_only_where_the_memory_is_a_correction() -> None:
    """SCAFFOLD's and FedDyn's are sums that clients rely on: they have no such setting."""
    for name in ("scaffold", "feddyn", "cluster-fedvarp", "fedavg"):
        with pytest.raises((ValueError, TypeError), match="staleness_half_life"):
            algorithm(name, LAYOUT, staleness_half_life=3.0)


@pytest.mark.parametrize(("half", "size"), [(1.0, 0.01), (0.03, 1.0), (5.0, 36_000.0)])
def test_what_has_faded_is_not_called_broken(half: float, size: float, tmp_path: Path) -> None:
    """After many rounds nearly all of the total is one client's, which is what was asked for."""
    with opened(f"lmdb:{tmp_path / 'store'}") as store:
        server = algorithm("fedadavr", LAYOUT, store=store, staleness_half_life=half, clip=0.0)
        w = LAYOUT.zeros()
        for round in range(1, 130):
            news = np.random.default_rng(round).normal(0, size, w.size).astype(np.float32)
            server.step(w, [Update("B" if round == 1 else "A", w - news, 10)])
            if round % 9 == 0:
                server.commit(w, round=round)
                assert check(store)[0] == []


def test_a_record_that_leaves_no_digits_is_named_though_it_fades(tmp_path: Path) -> None:
    """As without a half-life."""
    with opened(f"lmdb:{tmp_path / 'store'}") as store:
        server = algorithm("fedvarp", LAYOUT, store=store, staleness_half_life=50.0, clip=0.0)
        w = LAYOUT.zeros()
        updates = [Update("huge", w - np.float32(1e15), 10), Update("small", w - np.float32(1), 10)]
        server.step(w, updates)
        server.commit(w, round=1)
        assert "client 'huge': its record is so large" in check(store)[0][0]
