"""FedAdaVR+: the reference, its limits, what it estimates, and the promises with centers."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout, Update, algorithm, kernels
from fedadavr.algorithms.fedadavr_plus import FedAdaVRPlus
from fedadavr.algorithms.trust import Trust, smallest_variance
from fedadavr.kernels import Sketch
from fedadavr.memory.kinds import Kinds
from fedadavr.memory.verify import check
from fedadavr.stores import open_store
from tests import reference
from tests.rounds import digest
from tests.test_algorithms import reference_server
from tests.test_promises import snapshot

LAYOUT = Layout({"a": (30, 9), "b": (11,)})


def kinds_of_updates(seed: int, kinds: int = 4, noise: float = 0.5) -> Any:
    """Clients of a few kinds: client c moves the model along direction c mod kinds, with noise."""
    rng = np.random.default_rng(seed)
    along = rng.normal(size=(kinds, LAYOUT.size))

    def updates(w: Any, cohort: Any) -> list[Update]:
        moves = {c: along[c % kinds] + noise * rng.normal(size=w.size) for c in cohort}
        return [
            Update(f"{c:02d}", (w - move).astype("f4"), int(rng.integers(1, 30)))
            for c, move in moves.items()
        ]

    return updates


def play(server: Any, rounds: int, seed: int = 0, clients: int = 24) -> Any:
    updates, rng, w = kinds_of_updates(seed), np.random.default_rng(seed), LAYOUT.zeros()
    for _ in range(rounds):
        w = server.step(w, updates(w, rng.choice(clients, 5, replace=False)))
    return w


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("memories", ["own,centers", "centers", "own"])
@pytest.mark.parametrize("codec", ["fp32", "int4"])
def test_agrees_with_the_reference(seed: int, memories: str, codec: str) -> None:
    """Model, centers, kinds, shares and trust, with clients that are forgotten on the way."""
    draw = np.random.default_rng(seed)
    settings: dict[str, Any] = {
        "centers": int(draw.integers(1, 6)), "center_rate": float(draw.choice([0.3, 0.5, 1.0])),
        "client_lr": float(draw.choice([1.0, 0.1])), "population": (None, 30)[seed % 2],
    }  # fmt: skip
    optimizer = str(draw.choice(["sgd", "adam", "yogi"]))
    server = algorithm("fedadavr-plus", LAYOUT, memories=memories, codec=codec, server_lr=0.01,
                       optimizer=optimizer, **settings)  # fmt: skip
    assert isinstance(server, FedAdaVRPlus)
    names = memories.split(",")
    ref = reference_server("", LAYOUT, server, codec=codec, population=settings["population"])
    ref.clip = reference.Clip(server.clip)
    updates, w = kinds_of_updates(seed), LAYOUT.zeros()
    for round in range(12):
        cohort = draw.choice(24, int(draw.integers(1, 6)), replace=False)
        replies = updates(w, cohort)
        options = {"centers": settings["centers"], "rate": settings["center_rate"]}
        expected = ref.step("fedadavr-plus", w, replies, memories=names, **options)
        w = server.step(w, replies)
        np.testing.assert_allclose(w, expected, rtol=1e-3, atol=1e-3)
        if "centers" in names:
            assert server.vectors is not None
            np.testing.assert_allclose(
                server.vectors.vectors[: len(server.vectors)], ref.c, rtol=1e-4, atol=1e-4
            )
            kinds = {q: sum(ref.n[j] for j in ref.n if ref.kind[j] == q) for q in range(len(ref.c))}
            assert {k - 1: v for k, v in server.memory.label_weight.items() if v} == {
                q: v for q, v in kinds.items() if v
            }
        # The reference looks for the trust on a grid of 1/400; then both go on with the same.
        np.testing.assert_allclose(server.learner.alpha, ref.alpha[: len(names)], atol=0.004)
        ref.alpha = server.learner.alpha
        if round % 4 == 3:
            gone = next(iter(ref.n))
            server.memory.forget(gone)
            ref.forget(gone)


@pytest.mark.parametrize("codec", ["fp32", "int8"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "lamb"])
def test_full_trust_in_own_memory_is_fedadavr(codec: str, optimizer: str) -> None:
    """Bit for bit; and no trust is FedAdaVR without its memory."""
    common = {"optimizer": optimizer, "server_lr": 0.01}
    paper = play(algorithm("fedadavr", LAYOUT, codec=codec, population=24, **common), 20)
    plus = algorithm("fedadavr-plus", LAYOUT, codec=codec, population=24, memories="own", trust=1.0,
                     **common)  # fmt: skip
    np.testing.assert_array_equal(play(plus, 20), paper)
    novr = play(algorithm("fedadavr-novr", LAYOUT, **common), 20)
    for memories in ("own", "centers", "own,centers"):
        none = algorithm("fedadavr-plus", LAYOUT, codec=codec, memories=memories, trust=0.0,
                         **common)  # fmt: skip
        np.testing.assert_array_equal(play(none, 20), novr)


def test_variances_that_are_only_rounding_do_not_end_a_run() -> None:
    """Updates that are all alike leave products without a meaning; trust stays in its range."""
    noise = np.array([[0.19, -0.1, -0.1], [-0.1, -0.1, -0.1], [-0.1, -0.1, -0.1]])
    for products in (noise, np.zeros((3, 3)), np.full((3, 3), 1e-320), -noise):
        alpha = smallest_variance(products)
        assert ((alpha >= 0) & (alpha <= 1)).all()


def test_with_kinds_told_it_is_unbiased() -> None:
    """Over all cohorts of two among six, the mean of r is the full update, whatever the trust.

    The kinds are told by updates that are nothing but their kind; all clients are known, of equal
    size, and the centers have gone stale.
    """
    rng = np.random.default_rng(0)
    along = rng.normal(size=(3, LAYOUT.size)).astype(np.float32)
    moved = along + 0.3 * rng.normal(size=along.shape).astype(np.float32)
    clients = range(6)
    w = LAYOUT.zeros()
    for alpha in ([1.0, 0.0], [0.0, 1.0], [0.3, 0.6]):
        steps = []
        for cohort in combinations(clients, 2):
            server = algorithm("fedadavr-plus", LAYOUT, optimizer="sgd", server_lr=1.0)
            assert isinstance(server, FedAdaVRPlus)
            server.step(w, [Update(str(c), w - along[c % 3], 10) for c in clients])
            server.learner.alpha = np.array(alpha)
            steps.append(-server.step(w, [Update(str(c), w - moved[c % 3], 10) for c in cohort]))
        np.testing.assert_allclose(np.mean(steps, axis=0), moved.mean(axis=0), atol=1e-5)


def test_kinds_are_found_and_trusted() -> None:
    """Four directions, four centers of equal shares; the trust in them is nearly full."""
    server = algorithm("fedadavr-plus", LAYOUT, population=24, server_lr=1e-6)
    assert isinstance(server, FedAdaVRPlus)
    play(server, 40)
    told = server.report()
    assert len(told["shares"]) == 4
    assert min(told["shares"]) > 0.15
    assert told["trust"]["centers"] > 0.5
    assert sum(told["trust"].values()) > 0.75
    assert server.vectors is not None
    alike = server.vectors.alike()
    assert (alike - np.eye(4) < 0.3).all()


def test_a_memory_that_does_not_fit_is_not_trusted() -> None:
    """Updates that have nothing to do with what was remembered: the trust stays low."""
    server = algorithm("fedadavr-plus", LAYOUT, population=24, server_lr=1e-6)
    rng, w = np.random.default_rng(0), LAYOUT.zeros()
    for _ in range(30):
        cohort = rng.choice(24, 5, replace=False)
        w = server.step(w, [
            Update(str(c), (w - rng.normal(size=w.size)).astype("f4"), 10) for c in cohort
        ])  # fmt: skip
    assert server.report()["trust"]["own"] < 0.15


def test_one_center() -> None:
    """K = 1: everybody is of the one kind, whatever the similarity, and it works."""
    server = algorithm("fedadavr-plus", LAYOUT, centers=1, population=24)
    w = play(server, 20)
    assert np.isfinite(w).all()
    assert server.report()["shares"] == [1.0]


def test_a_client_that_changes_kind() -> None:
    """Its weight goes with it, from the one share to the other, also when its size changes."""
    w, other = LAYOUT.zeros(), LAYOUT.zeros()
    w[0], other[1] = 0.0, 1.0
    one = LAYOUT.zeros()
    one[0] = 1.0
    server = algorithm("fedadavr-plus", LAYOUT, server_lr=1e-9, optimizer="sgd")
    server.step(w, [Update("a", w - one, 10), Update("b", w - other, 30)])
    assert server.report()["shares"] == [0.25, 0.75]
    server.step(w, [Update("a", w - other, 20)])
    assert server.report()["shares"] == [0.0, 1.0]
    server.step(w, [Update("a", w - one, 30)])
    assert server.report()["shares"] == [0.5, 0.5]
    server.memory.forget("b")  # type: ignore[union-attr]
    server.step(w, [Update("a", w - one, 30)])
    assert server.report()["shares"] == [1.0, 0.0]


def test_the_sketch_agrees_with_all_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noisy updates of eight kinds, cosines of 0.6 to 0.8: nearly always the same center."""
    layout = Layout({"a": (200, 300), "b": (70_001,), "c": (33,)})
    rng = np.random.default_rng(0)
    along = rng.normal(size=(8, layout.size)).astype(np.float32)
    w = np.zeros(layout.size, np.float32)
    servers = []
    for limit in (layout.size, 0):
        monkeypatch.setattr("fedadavr.memory.kinds.EXACT", limit)
        servers.append(algorithm("fedadavr-plus", layout, memories="centers", server_lr=1e-9))
    same = total = 0
    for _ in range(40):
        cohort = rng.choice(50, 5, replace=False)
        replies = [
            Update(str(c), w - along[c % 8] - 0.8 * rng.normal(size=w.size).astype("f4"), 10)
            for c in cohort
        ]
        kinds = []
        for server in servers:
            server.step(w, replies)
            found = server.memory._find([str(c) for c in sorted(map(str, cohort))])  # type: ignore[union-attr]
            kinds.append([record.label for record in found if record])
        same += sum(a == b for a, b in zip(*kinds, strict=True))
        total += len(cohort)
    assert same / total >= 0.99, f"{same} of {total}"


def test_threads_do_not_change_a_bit() -> None:
    """Promise 5, with centers and sketches."""
    layout = Layout({"a": (1200, 1000), "b": (999,)})
    results = []
    before = kernels.threads()
    try:
        for threads in (1, 2, 5):
            kernels.set_threads(threads)
            server = algorithm("fedadavr-plus", layout, codec="int8")
            rng, w = np.random.default_rng(3), layout.zeros()
            for _ in range(3):
                replies = rng.normal(size=(4, layout.size)).astype(np.float32)
                w = server.step(w, [Update(str(c), x, 5) for c, x in enumerate(replies)])
            results.append(digest(server, w))
    finally:
        kernels.set_threads(before)
    assert len(set(results)) == 1


@pytest.mark.parametrize("memories", ["own,centers", "centers"])
def test_it_lives_in_a_store(address: str, memories: str) -> None:
    """Promises 1 and 2: centers, trust and kinds come back to the bit; verify knows them."""

    def made(store: Any) -> Any:
        return algorithm("fedadavr-plus", LAYOUT, memories=memories, codec="int4", store=store,
                         population=24, prune_after=9)  # fmt: skip

    def rounds(server: Any, first: int, last: int, w: Any) -> Any:
        for t in range(first, last + 1):
            rng = np.random.default_rng(t)
            w = server.step(w, kinds_of_updates(7)(w, rng.choice(24, 5, replace=False)))
        return w

    ram = made(None)
    expected = digest(ram, rounds(ram, 1, 14, LAYOUT.zeros()))
    w: Any = LAYOUT.zeros()
    for first, last in ((1, 6), (7, 14)):
        with open_store(address) as store:  # type: ignore[union-attr]
            server = made(store)
            kept = server.restore()
            w = rounds(server, first, last, w if kept is None else kept[0])
            server.commit(w)
            assert check(store)[0] == []
            final = digest(server, w)
    assert final == expected


def test_centers_only_keep_nothing_of_a_client(tmp_path: Path) -> None:
    """But an integer and a weight: a record is its header."""
    with open_store(f"lmdb:{tmp_path / 's'}") as store:  # type: ignore[union-attr]
        server = algorithm("fedadavr-plus", LAYOUT, memories="centers", store=store)
        server.commit(play(server, 5))
        assert server.memory.nbytes == 0  # type: ignore[union-attr]
        assert all(len(record.data) == 0 for _, record in store.items())  # type: ignore[union-attr]


def test_the_sampler_covers_the_kinds() -> None:
    """Most of a cohort comes from the kinds not seen for longest, each client once."""
    server = algorithm("fedadavr-plus", LAYOUT, population=24, sampler="kinds", server_lr=1e-6)
    assert isinstance(server, FedAdaVRPlus)
    everyone = [f"{c:02d}" for c in range(24)]
    updates, w = kinds_of_updates(0), LAYOUT.zeros()
    for round in range(1, 30):
        cohort = server.sample(5, round, everyone, 5)
        assert len(set(cohort)) == 5
        if round > 12:
            assert len({int(c) % 4 for c in cohort}) == 4
        w = server.step(w, updates(w, map(int, cohort)))
    assert server.sample(5, 30, everyone, 5) == server.sample(5, 30, everyone, 5)


def test_large_cohorts_come_from_all_kinds() -> None:
    """Four fifths of the cohort, going round the kinds, also when there are few of them."""
    server = algorithm("fedadavr-plus", LAYOUT, population=60, sampler="kinds", server_lr=1e-6)
    everyone = [f"{c:02d}" for c in range(60)]
    w = LAYOUT.zeros()
    # Three rare kinds of three clients each; all the others are of one.
    along = np.random.default_rng(0).normal(size=(4, LAYOUT.size)).astype("f4")
    kinds = {c: 1 + int(c) // 3 if int(c) < 9 else 0 for c in everyone}
    server.step(w, [Update(c, w - along[kinds[c]], 10) for c in everyone])
    cohort = server.sample(1, 2, everyone, 20)
    assert sum(kinds[c] > 0 for c in cohort) == 9
    assert len(set(cohort)) == 20


def test_sampling_by_kinds_does_not_pull_the_model() -> None:
    """A rare kind that always comes counts by its share of the population, not of the cohort."""
    along = np.random.default_rng(0).normal(size=(2, LAYOUT.size)).astype(np.float32)
    w = LAYOUT.zeros()
    server = algorithm("fedadavr-plus", LAYOUT, sampler="kinds", optimizer="sgd", server_lr=1.0,
                       trust=0.0)  # fmt: skip
    everyone = [Update(str(c), w - along[0 if c else 1], 10) for c in range(10)]
    server.step(w, everyone)
    step = -server.step(w, everyone[:2])  # one of the nine, and the one
    np.testing.assert_allclose(step, 0.9 * along[0] + 0.1 * along[1], atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"memories": "mine"}, "memories must be own, centers or own"),
        ({"memories": ()}, "memories must be own, centers or own"),
        ({"centers": 0}, "centers must be a whole number from 1 up"),
        ({"center_similarity": 1.5}, "center_similarity is a cosine"),
        ({"center_rate": 0.0}, "center_rate must be a finite number above 0"),
        ({"center_rate": 1.5}, "center_rate must not be above 1"),
        ({"trust": 1.5}, "trust must be 'learned' or from 0 to 1"),
        ({"trust": "much"}, "trust must be a number or 'learned'"),
        ({"trust_decay": 1.0}, "trust_decay must lie in"),
        ({"sampler": "best"}, "sampler must be 'uniform' or 'kinds'"),
        ({"sampler": "kinds", "memories": "own"}, "needs the memory of centers"),
    ],
)
def test_a_bad_setting_is_refused(settings: Any, sentence: str) -> None:
    """One sentence."""
    with pytest.raises(ValueError, match=sentence):
        algorithm("fedadavr-plus", LAYOUT, **settings)


def test_a_state_of_other_memories_is_refused() -> None:
    """And nothing changes."""
    server = algorithm("fedadavr-plus", LAYOUT)
    play(server, 3)
    for settings in ({"memories": "own"}, {"centers": 1}):
        other = algorithm("fedadavr-plus", LAYOUT, **settings)
        before = snapshot(other)
        with pytest.raises(ValueError, match="the state"):
            other.load_state_dict(server.state_dict())
        assert snapshot(other) == before


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_trust_is_the_best_there_is(count: int) -> None:
    """Against a search of the whole cube, also where the optimum lies on its border."""
    rng = np.random.default_rng(count)
    for _ in range(30):
        factor = rng.normal(size=(count + 1, count + 1))
        products = factor @ factor.T
        found = smallest_variance(products)
        grid = np.linspace(0, 1, 41)
        points = np.stack(np.meshgrid(*[grid] * count), axis=-1).reshape(-1, count)
        inner = products[1:, 1:] + 1e-3 * np.mean(np.diag(products[1:, 1:])) * np.eye(count)

        def value(alpha: Any, inner: Any = inner, products: Any = products) -> float:
            return float(alpha @ inner @ alpha - 2 * alpha @ products[1:, 0])

        assert (found >= 0).all()
        assert (found <= 1).all()
        assert value(found) <= min(map(value, points)) + 1e-9


def test_trust_does_not_learn_from_one_reply() -> None:
    """Fewer than two replies leave what was learned as it is; no spread teaches nothing."""
    trust = Trust(1, None, 0.9)
    trust.learn(np.array([[2.0, 1.0], [1.0, 1.0]]))
    before = trust.alpha.copy()
    assert before > 0.9
    trust.learn(np.zeros((2, 2)))
    np.testing.assert_array_equal(trust.alpha, before)
    server: Any = algorithm("fedadavr-plus", LAYOUT)
    play(server, 4)
    products = server.learner.products.copy()
    server.step(LAYOUT.zeros(), [Update("x", LAYOUT.zeros() + 1, 3)])
    np.testing.assert_array_equal(server.learner.products, products)


def test_the_kinds_of_an_update_of_zeros() -> None:
    """It has no direction: it joins the first kind instead of opening one of its own."""
    kinds = Kinds(LAYOUT, 3, 0.5, 0.5)
    w = LAYOUT.zeros()
    first = kinds.assign(w, [w + 1, w], np.ones(2, np.float32), Sketch())
    assert first.of.tolist() == [0, 0]
    assert first.push.tolist() == [1.0, 0.0]  # and does not shrink it


@pytest.mark.parametrize("name", ["fedadavr", "fedvarp", "scaffold", "fedadavr-plus"])
def test_keeping_nothing_is_not_a_codec_to_choose(name: str) -> None:
    """It would be a memory that remembers nothing."""
    with pytest.raises(ValueError, match="unknown codec 'none'"):
        algorithm(name, LAYOUT, codec="none")
