"""Stochastic rounding: right in the mean, keyed, and every promise of the memory still holds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout, Update, algorithm, kernels
from fedadavr.codecs import CODECS
from fedadavr.stores import RamStore

LAYOUT = Layout({"odd": (7,), "matrix": (50, 90), "bias": (), "long": (2100,)})
ABLE = [name for name, codec in CODECS.items() if codec.stochastic]
CLIENTS = [f"c{k}" for k in range(6)]


def server(codec: str, seed: int | None, **more: Any) -> Any:
    """One that remembers, and takes plain steps."""
    return algorithm(
        "fedvarp",
        LAYOUT,
        codec=codec,
        rounding_seed=seed,
        population=6,
        client_lr=1.0,
        **more,
    )


def replies(rng: np.random.Generator, w: Any, clients: list[str]) -> list[Update]:
    """Models that lie around w."""
    return [Update(c, w - rng.normal(size=LAYOUT.size).astype(np.float32), 10) for c in clients]


def top(codec: str) -> int:
    """The largest integer that it stores."""
    return {"int8": 127, "int8-block": 127, "int4": 7, "int4-block": 7}[codec]


def test_which_codecs_round_at_random() -> None:
    """Those whose levels are evenly spaced."""
    assert sorted(ABLE) == ["int4", "int4-block", "int8", "int8-block"]


@pytest.mark.parametrize("codec", ABLE)
def test_it_is_right_in_the_mean_and_never_further_than_a_step(codec: str) -> None:
    """Over 400 seeds; to the nearest, the mean would be as far off as a single one."""
    w, rng = np.zeros(LAYOUT.size, np.float32), np.random.default_rng(5)
    reply = replies(rng, w, ["a"])
    sent = (w - reply[0].weights).astype(np.float64)
    mean, errors = np.zeros(LAYOUT.size), []
    for seed in range(400):
        mine = server(codec, seed)
        mine.step(w, reply)
        stored = mine.memory.update_of("a").astype(np.float64)
        mean += stored / 400
        errors.append(np.abs(stored - sent).max())
    nearest = server(codec, None)
    nearest.step(w, reply)
    once = np.sqrt(np.square(nearest.memory.update_of("a") - sent).mean())
    off = np.sqrt(np.square(mean - sent).mean())
    # One is off by a step / sqrt(6) in the mean of squares, 400 by a twentieth of it.
    assert off < 0.12 * once
    assert max(errors) <= 1.01 * np.abs(sent).max() / top(codec)


@pytest.mark.parametrize("codec", ABLE)
def test_values_that_can_be_stored_are_stored(codec: str) -> None:
    """Zeros above all: whole multiples of the scale are not moved by any noise."""
    w = np.full(LAYOUT.size, 128.0, np.float32)  # beside which the update is short
    whole = np.random.default_rng(1).integers(-3, 4, LAYOUT.size).astype(np.float32)
    for begin, end in pairwise(LAYOUT.offsets):
        whole[begin:end:64] = top(codec)  # so that every scale is 1
    mine = server(codec, 3)
    mine.step(w, [Update("a", w - whole, 10)])
    np.testing.assert_array_equal(mine.memory.update_of("a"), whole)


@pytest.mark.parametrize("codec", ABLE)
def test_the_total_is_the_sum_of_what_is_stored(codec: str) -> None:
    """However it was rounded; also after a client is forgotten."""
    rng, mine = np.random.default_rng(2), server(codec, 9)
    w = rng.normal(size=LAYOUT.size).astype(np.float32)
    for _ in range(8):
        who = sorted(rng.choice(CLIENTS, 3, replace=False).tolist())
        w = mine.step(w, replies(rng, w, who))
    mine.memory.forget("c1")
    total = sum(mine.memory.update_of(c).astype(np.float64) for c in CLIENTS)
    np.testing.assert_allclose(mine.memory.total, total, atol=1e-9)


@pytest.mark.parametrize("codec", ABLE)
def test_seed_round_and_client_are_the_key_and_nothing_else_is(codec: str) -> None:
    """Not the order, not the threads, not who else comes."""
    w, rng = np.zeros(LAYOUT.size, np.float32), np.random.default_rng(5)
    both = replies(rng, w, ["a", "b"])

    def stored(seed: int, updates: list[Update], threads: int = 1, rounds: int = 1) -> Any:
        mine = server(codec, seed)
        before = kernels.threads()
        kernels.set_threads(threads)
        try:
            for _ in range(rounds):
                mine.step(w, updates)
        finally:
            kernels.set_threads(before)
        return mine.memory.update_of("a")

    one = stored(0, both)
    np.testing.assert_array_equal(one, stored(0, both[::-1]))
    np.testing.assert_array_equal(one, stored(0, both, threads=2))
    np.testing.assert_array_equal(one, stored(0, both[:1]))
    renamed = [Update("b", both[0].weights, 10)]
    other = server(codec, 0)
    other.step(w, renamed)
    for different in (stored(1, both), stored(0, both, rounds=2), other.memory.update_of("b")):
        assert (one != different).mean() > 0.2


@pytest.mark.parametrize("codec", ABLE)
def test_a_resume_is_exact(codec: str) -> None:
    """The noise of a round does not depend on whether the server was started anew before it."""
    w0 = np.zeros(LAYOUT.size, np.float32)
    whole, first = server(codec, 4, store=RamStore()), server(codec, 4, store=RamStore())
    rng = np.random.default_rng(7)
    cohorts = [replies(rng, w0, ["c0", "c1", "c2"][k % 2 :]) for k in range(4)]
    w = w0
    for cohort in cohorts:
        w = whole.step(w, cohort)
    x = w0
    for cohort in cohorts[:2]:
        x = first.step(x, cohort)
    second = server(codec, 4, store=first.memory.store)
    second.load_state_dict(first.state_dict())
    for cohort in cohorts[2:]:
        x = second.step(x, cohort)
    np.testing.assert_array_equal(x, w)


@pytest.mark.parametrize(
    ("codec", "seed", "says"),
    [
        ("rot4", 1, "the codec rot4 does not round at random: take one of int4, int4-block, int8"),
        ("fp32", 1, "the codec fp32 does not round at random"),
        ("int8", -1, r"rounding_seed must be a whole number from 0 up, below 2\*\*63, got -1"),
        pytest.param(
            "int8",
            10**5000,
            r"whole number from 0 up, below 2\*\*63, got one of 16610 bits",
            id="huge",
        ),
        ("int8", True, "rounding_seed must be a whole number or none, got True"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(codec: str, seed: Any, says: str) -> None:
    """Which names the codecs that can."""
    with pytest.raises(ValueError, match=says):
        server(codec, seed)


def test_any_client_id_will_do() -> None:
    """One that is no valid Unicode gets noise of its own, and the server goes on."""
    mine = server("int8", 1)
    rng, w = np.random.default_rng(4), np.zeros(LAYOUT.size, np.float32)
    for _ in range(2):
        w = mine.step(w, replies(rng, w, ["\ud800", "\udfff", "b"]))
    keys = mine.memory.noise_keys(["\ud800", "\udfff", "b"])
    assert len(set(keys.tolist())) == 3


def test_without_own_memory_there_is_nothing_to_round() -> None:
    """FedAdaVR+ that remembers kinds alone takes the seed as it takes the codec: unused."""
    mine = algorithm("fedadavr-plus", LAYOUT, memories="centers", codec="int8", rounding_seed=1)
    w = np.zeros(LAYOUT.size, np.float32)
    mine.step(w, replies(np.random.default_rng(4), w, CLIENTS))
