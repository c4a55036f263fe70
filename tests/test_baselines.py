"""What the baselines of docs/baselines.md promise beside the formulas that the reference has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout, Rejected, Update, algorithm
from fedadavr.memory.maintenance import forget, repair
from fedadavr.memory.overview import overview
from fedadavr.memory.verify import check
from fedadavr.stores import open_store
from tests.test_promises import snapshot

LAYOUT = Layout({"a": (5, 3), "b": (4,)})


def replies(w: Any, clients: str, seed: int = 0, steps: int = 2) -> list[Update]:
    rng = np.random.default_rng(seed)
    return [Update(c, w - rng.normal(size=w.size).astype(np.float32), 5, steps) for c in clients]


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("fedavgm", {"server_momentum": 1.0}, r"server_momentum must lie in \[0, 1\), got 1.0"),
        ("fedstale", {"beta": 1.5}, r"beta must lie in \[0, 1\], got 1.5"),
        ("fedexp", {"eps": 0.0}, "eps must be a finite number above 0, got 0.0"),
        ("fedau", {"cutoff": 0}, "cutoff must be a whole number from 1 up, got 0"),
        ("feddyn", {"alpha": 0.0}, "alpha must be a finite number above 0, got 0.0"),
        ("fedcm", {"alpha": 0.0}, r"alpha must lie in \(0, 1\], got 0.0"),
        ("ghbm", {"tau": 0}, "tau must be a whole number from 1 up, got 0"),
        ("ghbm", {"beta": 1.0}, r"beta must lie in \[0, 1\), got 1.0"),
        ("fedcm", {"client_momentum": 1.0}, "client_momentum must lie in"),
    ],
)
def test_a_wrong_setting_is_one_sentence(name: str, settings: Any, sentence: str) -> None:
    """That names it and says what it may be."""
    with pytest.raises(ValueError, match=sentence):
        algorithm(name, LAYOUT, **settings)


@pytest.mark.parametrize(
    ("name", "settings", "same", "as_"),
    [
        ("fedavgm", {"server_momentum": 0.0}, "fedavg", {}),
        ("fedstale", {"beta": 1.0, "codec": "int8"}, "fedvarp", {"codec": "int8"}),
        ("fedstale", {"beta": 0.0}, "fedavg", {}),  # whose clients are of one size here
        ("ghbm", {}, "fedavg", {}),
        ("fedcm", {"alpha": 1.0}, "fedavg", {}),
        ("fedau", {"cutoff": 1}, "fedavg", {"server_lr": 3 / 6}),  # all intervals one: |S|/N
    ],
)
def test_at_the_end_of_their_range_they_are_something_simpler(
    name: str, settings: Any, same: str, as_: Any
) -> None:
    """The server's step, to rounding."""
    known = {"population": 6} if name in ("fedstale", "fedau") else {}
    mine: Any = algorithm(name, LAYOUT, **settings, **known)
    theirs = algorithm(same, LAYOUT, **as_, **(known if same == "fedvarp" else {}))
    w = LAYOUT.zeros()
    for t, cohort in enumerate(("abc", "cde", "aef", "bdf")):
        expected = theirs.step(w, replies(w, cohort, t))
        w = mine.step(w, replies(w, cohort, t))
        np.testing.assert_allclose(w, expected, rtol=1e-5, atol=1e-6)
    if name == "fedcm":
        assert mine.needs.gradient_scale == 1
        assert not mine.correction("a").any()


def test_fedexp_steps_further_the_more_updates_differ() -> None:
    """Of n updates at right angles the mean has 1/n of their square: eta_g is n/2, at least 1."""
    layout = Layout({"x": (8,)})
    w = layout.zeros()
    for n, eta in ((1, 1.0), (2, 1.0), (4, 2.0), (8, 4.0)):
        server = algorithm("fedexp", layout, eps=1e-9)
        updates = [Update(str(k), -np.eye(8, dtype=np.float32)[k], 5) for k in range(n)]
        moved = w - server.step(w, updates)
        np.testing.assert_allclose(moved, np.where(np.arange(8) < n, eta / n, 0), rtol=1e-5)
        assert server.report() == {"extrapolation": pytest.approx(eta, rel=1e-5)}


def test_momentum_stays_finite_whatever_it_sums() -> None:
    """Updates near the end of float32, round upon round, with nothing clipped."""
    server = algorithm("fedavgm", LAYOUT, clip=0.0, server_lr=1e-3)
    w = LAYOUT.zeros()
    for _ in range(30):
        w = server.step(w, [Update("a", w - np.float32(2e37), 5)])
        assert np.isfinite(w).all()
        assert np.isfinite(server.server_optimizer.m).all()


def test_feddyns_h_is_the_authors_recursion() -> None:
    """h <- h - alpha (1/N) sum_S (w_i - w) is the mean of the h_i; what clients get is -h_i."""
    server: Any = algorithm("feddyn", LAYOUT, alpha=0.3, population=10, client_lr=0.1)
    w, h, own = LAYOUT.zeros(), np.zeros(LAYOUT.size), dict.fromkeys("abc", np.zeros(LAYOUT.size))
    for t, cohort in enumerate(("ab", "bc", "abc")):
        updates = replies(w, cohort, t)
        for u in updates:
            h = h - 0.3 / 10 * (np.asarray(u.weights, float) - w)
            own[u.client] = own[u.client] - 0.3 * (np.asarray(u.weights, float) - w)
        expected = np.mean([u.weights for u in updates], axis=0, dtype=float) - h / 0.3
        w = server.step(w, updates)
        np.testing.assert_allclose(w, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(server.memory.mean(), h, rtol=1e-4, atol=1e-6)
    for client, mine in own.items():
        np.testing.assert_allclose(server.correction(client), -mine, rtol=1e-4, atol=1e-6)


def test_fedau_knows_after_a_restart_who_came_how_often(tmp_path: Path) -> None:
    """Its counters are in the store, which `verify` finds sound; who is forgotten begins anew."""
    address = f"lmdb:{tmp_path / 'store'}"

    def weight_of(client: str) -> float:
        """By which that client alone would count now, times N."""
        with open_store(address) as store:  # type: ignore[union-attr]
            server = algorithm("fedau", LAYOUT, store=store, population=10)
            w, _ = server.restore() or (LAYOUT.zeros(), {})
            (update,) = replies(w, client)
            return 10 * float(np.mean((w - server.step(w, [update])) / (w - update.weights)))

    w: Any = LAYOUT.zeros()
    for round, cohort in enumerate(("ab", "a", "a", "ac", "a", "ab"), 1):
        with open_store(address) as store:  # type: ignore[union-attr]
            server = algorithm("fedau", LAYOUT, store=store, population=10)
            w, _ = server.restore() or (w, {})
            w = server.step(w, replies(w, cohort, round))
            server.commit(w, round=round)
    assert [weight_of(c) for c in "abcz"] == pytest.approx([1.0, 3.0, 4.0, 1.0], rel=1e-3)
    with open_store(address) as store:  # type: ignore[union-attr]
        assert check(store)[0] == []
        assert overview(store, 0).clients == 3
        forget(store, ["b"])
    assert weight_of("b") == pytest.approx(1.0, rel=1e-3)


def test_past_gradients_that_do_not_fit_are_refused() -> None:
    """Another tau, something not finite, or none: one sentence, and nothing changes."""
    server = algorithm("ghbm", LAYOUT, tau=3)
    server.step(LAYOUT.zeros(), replies(LAYOUT.zeros(), "ab"))
    state = server.state_dict()
    twin = algorithm("ghbm", LAYOUT, tau=4)
    before = snapshot(twin)
    for past, sentence in (
        (state["past"], r"have shape \(3, 19\) and type float32, this server's \(4, 19\)"),
        (np.full((4, 19), np.nan, np.float32), "hold NaN or infinity"),
        (None, "the state lacks past"),
    ):
        with pytest.raises(ValueError, match=sentence):
            twin.load_state_dict(state | {"past": past})
        assert snapshot(twin) == before


def test_what_is_not_finite_in_a_store_is_named_and_mended(tmp_path: Path) -> None:
    """Past gradients and a momentum without a second moment, as the moments of others."""
    with open_store(f"lmdb:{tmp_path / 'store'}") as store:  # type: ignore[union-attr]
        server: Any = algorithm("ghbm", LAYOUT, store=store)
        w = server.step(LAYOUT.zeros(), replies(LAYOUT.zeros(), "ab"))
        server.server_optimizer.m[3] = server.past.vectors[0, :2] = np.nan
        server.commit(w)
        assert check(store)[0] == [
            "the optimizer's first moment holds NaN or infinity",
            "what past rounds stepped by holds NaN or infinity",
        ]
        assert repair(store) == (
            ["1 of 19 moments were not finite: they begin anew",
             "2 numbers of past rounds' steps are zero now"], [],
        )  # fmt: skip
        server.restore()
        assert not server.past.vectors[0, :2].any()


@pytest.mark.parametrize("name", ["fedcm", "ghbm"])
def test_momentum_at_clients_needs_their_steps(name: str) -> None:
    """By which the mean update is divided."""
    w = LAYOUT.zeros()
    with pytest.raises(Rejected, match=f"{name} needs the number of local steps"):
        algorithm(name, LAYOUT).step(w, [Update("a", w, 1)])
