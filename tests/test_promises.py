"""The promises of the design that concern the core, by their numbers."""

from __future__ import annotations

import copy
import logging
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout, Rejected, Update, algorithm, kernels
from fedadavr.algorithms import algorithm_names
from fedadavr.codecs import CODECS
from fedadavr.memory import ClientMemory
from fedadavr.memory.population import Population
from fedadavr.memory.vectors import difference

LAYOUT = Layout({"a": (5, 3), "b": (4,)})
ALGORITHMS = algorithm_names()  # before another test brings its own


def some_updates(w: Any, clients: str = "abc", seed: int = 0) -> list[Update]:
    rng = np.random.default_rng(seed)
    return [
        Update(c, w - rng.normal(size=w.size).astype(np.float32), 3 + k, 2 + k)
        for k, c in enumerate(clients)
    ]


def snapshot(server: Any) -> Any:
    """All state, the stored bytes included, as something that can be compared."""
    records = {}
    if server.memory is not None:
        for client, record in server.memory.records():
            records[client] = (record.weight, record.round, record.data.tobytes())
    return flat(server.state_dict()), records


def flat(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: flat(value) for key, value in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state


@pytest.mark.parametrize("codec", CODECS)
def test_promise_1_the_total_is_the_sum_of_what_is_stored(codec: str) -> None:
    """After 100,000 random updates the running total is still what a re-sum gives."""
    layout = Layout({"x": (6,), "y": (3,)})
    server = algorithm("fedadavr-noopt", layout, codec=codec, population=50, server_lr=1e-6)
    rng = np.random.default_rng(0)
    w = layout.zeros()
    moves = rng.normal(size=(1000, 20, layout.size)).astype(np.float32)
    for t in range(5000):
        chosen = rng.choice(50, 20, replace=False)
        sizes = rng.integers(1, 100, 20).tolist()
        server.step(
            w, [Update(str(i), moves[t % 1000, k], sizes[k]) for k, i in enumerate(chosen)], out=w
        )
    assert server.memory is not None
    total, again = server.memory.total, server.memory.resum()
    assert np.abs(total - again).max() <= 1e-11 * np.abs(again).max()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("act", ["forget", "leave"])
def test_promise_1_holds_after_a_client_is_taken_out(codec: str, act: str) -> None:
    """Taking clients out one by one, the total agrees with a re-sum to 1e-6, and ends at zero."""
    server = algorithm("fedadavr", LAYOUT, codec=codec)
    w = server.step(LAYOUT.zeros(), some_updates(LAYOUT.zeros(), "abcdef"))
    memory = server.memory
    assert isinstance(memory, ClientMemory)
    for left, client in enumerate("fedcba"[::1]):
        getattr(memory, act)(client)
        np.testing.assert_allclose(memory.total, memory.resum(), atol=1e-6)
        assert client not in memory
        assert memory.count == (6 if act == "forget" else 5 - left)
        assert not memory.update_of(client).any()
    assert not memory.total.any()
    server.step(w, some_updates(w))


BAD: dict[str, tuple[Any, str]] = {
    "wrong length": (lambda u: {"weights": u.weights[:-1]}, "a flat vector of 19 numbers"),
    "wrong dtype": (lambda u: {"weights": u.weights.astype(float)}, "must be float32, got float64"),
    "not an array": (lambda u: {"weights": u.weights.tolist()}, "must be a NumPy array, got list"),
    "NaN": (lambda u: {"weights": u.weights * np.float32(np.nan)}, "hold NaN or infinity"),
    "infinity": (
        lambda u: {"weights": np.where(np.arange(19) == 18, np.inf, u.weights).astype("f4")},
        "hold NaN or infinity",
    ),
    "overflow": (lambda u: {"weights": np.full(19, 3e38, np.float32)}, "above max_norm 50"),
    "too long": (lambda u: {"weights": u.weights + 100}, "above max_norm 50"),
    "no examples": (lambda u: {"examples": 0}, "must be at least 1, got 0"),
    "negative examples": (lambda u: {"examples": -3}, "must be at least 1, got -3"),
    "a fraction below zero": (
        lambda u: {"examples": -2.5},
        "must be a finite number above 0, got -2.5",
    ),
    "id not a string": (lambda u: {"client": 17}, "must be a string, got int"),
    "came twice": (lambda u: {"client": "a"}, "came twice in one round"),
    "steps": (lambda u: {"steps": 0}, "local steps must be a whole number above 0, got 0"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("name", algorithm_names())
def test_promise_3_a_rejected_update_changes_nothing(name: str, case: str) -> None:
    """One clear sentence that names the client; no bit of the state moves, nor the model."""
    server = algorithm(name, LAYOUT, max_norm=50.0)
    w = server.step(LAYOUT.zeros(), some_updates(LAYOUT.zeros()))
    good = some_updates(w, "abz", seed=1)
    change, message = BAD[case]
    bad: dict[str, Any] = {"client": "z", "weights": good[2].weights, "examples": 5, "steps": 3}
    bad |= change(good[2])
    before, w_before, other = snapshot(server), w.copy(), copy.deepcopy(server)
    with pytest.raises(Rejected, match=message) as caught:
        server.step(w, [*good[:2], Update(**bad)], out=w)
    assert list(caught.value.reasons) == [str(bad["client"])]
    assert snapshot(server) == before
    np.testing.assert_array_equal(w, w_before)
    # The rest of the round goes on as if the bad reply had never come.
    np.testing.assert_array_equal(server.step(w, good[:2]), other.step(w, good[:2]))


@pytest.mark.parametrize("population", [None, 5, {"a": 3, "z": 9}])
def test_a_direction_that_fails_changes_nothing(
    population: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's own algorithm has a mistake in it: the population is as it was."""
    server = algorithm("fedadavr", LAYOUT, population=population)
    w = server.step(LAYOUT.zeros(), some_updates(LAYOUT.zeros(), "ab"))
    assert server.memory is not None
    server.memory.leave("b")
    before = snapshot(server)
    with monkeypatch.context() as patch:
        patch.setattr(type(server), "direction", lambda self, cohort: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            server.step(w, some_updates(w, "abyz"))
    assert snapshot(server) == before
    server.step(w, some_updates(w, "abyz"))


def test_an_out_that_cannot_be_written_is_refused() -> None:
    """Read-only or strided: one sentence, and nothing has changed."""
    server, w = algorithm("fedadavr", LAYOUT), LAYOUT.zeros()
    before = snapshot(server)
    frozen = w.copy()
    frozen.flags.writeable = False
    for out in (frozen, np.zeros(2 * w.size, np.float32)[::2]):
        with pytest.raises(ValueError, match="out must be contiguous and writable"):
            server.step(w, some_updates(w), out=out)
    assert snapshot(server) == before
    np.testing.assert_array_equal(  # as a model, both are fine
        server.step(frozen, some_updates(w)), algorithm("fedadavr", LAYOUT).step(w, some_updates(w))
    )


def test_leaving_twice_is_leaving_once() -> None:
    """And a client that has left can be forgotten, so that no name is kept for ever."""
    server = algorithm("fedadavr", LAYOUT, population=10)
    server.step(LAYOUT.zeros(), some_updates(LAYOUT.zeros(), "abc"))
    memory = server.memory
    assert memory is not None
    for client in ("a", "a", "unseen", "unseen"):
        memory.leave(client)
    assert memory.count == 8
    memory.forget("a")
    assert memory.count == 8
    assert "a" not in str(memory.state_dict()["population"]["left"])
    with pytest.raises(ValueError, match="client 'nobody' is not in the population"):
        memory.forget("nobody")
    with pytest.raises(ValueError, match="join: client 'x': the number of examples"):
        memory.join("x", -5)


def test_who_is_not_seen_yet_has_the_mean_size() -> None:
    """Of the seen; before anybody is seen, of those whose sizes were told."""
    population = Population({"a": 10, "b": 30})
    for client in ("c", "d", "e"):
        population.join(client)
    assert (population.count, population.size) == (5, 40 + 3 * 20)
    population.join("c", 50)  # it tells its size later
    assert (population.count, population.size) == (5, 90 + 2 * 30)
    population.see("a", None, 40.0)
    assert (population.count, population.size) == (5, 40 + 30 + 50 + 2 * 40)


def test_scaffold_sends_the_mean_control_less_the_clients_own() -> None:
    """The mean is over all of the population: who was not seen counts, with a control of zero."""
    server: Any = algorithm("scaffold", LAYOUT, population=10)
    w = LAYOUT.zeros()
    for seed in (1, 2):
        w = server.step(w, some_updates(w, "abc", seed))
    controls = {client: server.memory.update_of(client) for client in "abc"}
    mean = sum(c.astype(float) for c in controls.values()) / 10
    for client in "abc":
        np.testing.assert_allclose(
            server.correction(client), mean - controls[client], rtol=1e-5, atol=1e-6
        )
    np.testing.assert_allclose(server.correction("new"), mean, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("examples", [2**63 - 1, 2**63])
def test_examples_fit_63_bits(examples: int) -> None:
    """As a record's header has them."""
    server = algorithm("fedvarp", LAYOUT, max_examples=2**64)
    updates = [Update("a", LAYOUT.zeros(), examples)]
    if examples < 2**63:
        server.step(LAYOUT.zeros(), updates)
    else:
        with pytest.raises(Rejected, match=r"must be less than 2\^63"):
            server.step(LAYOUT.zeros(), updates)


def test_an_update_is_the_way_from_the_model_over_the_rate() -> None:
    """g_i = (w - w_i) / client_lr, in one piece or in tensors; a difference has a rate below 0."""
    w, reply = np.array([[1, 2, 3, 4], [0.5, 2, 1, 8]], np.float32)
    for whole in (reply, [reply[:1], reply[1:]]):
        np.testing.assert_array_equal(difference(w, whole, np.float32(4)), (w - reply) * 4)
        np.testing.assert_array_equal(difference(w, whole, np.float32(-4)), reply * 4)


def test_a_client_of_no_cluster_is_rejected() -> None:
    """A client that the mapping does not name costs only itself."""
    server = algorithm("cluster-fedvarp", LAYOUT, clusters={"a": 0})
    with pytest.raises(Rejected, match="client 'b': it is in none of the clusters given"):
        server.step(LAYOUT.zeros(), some_updates(LAYOUT.zeros(), "ab"))


@pytest.mark.parametrize("name", ["scaffold", "fednova"])
def test_missing_steps_are_rejected(name: str) -> None:
    """An algorithm that needs the number of local steps says so."""
    w = LAYOUT.zeros()
    with pytest.raises(Rejected, match=f"{name} needs the number of local steps"):
        algorithm(name, LAYOUT).step(w, [Update("a", w, 1)])


@pytest.mark.parametrize("name", algorithm_names())
def test_an_empty_cohort_skips_the_round(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody came: the model and the state stay, and the log says so."""
    server = algorithm(name, LAYOUT)
    w = server.step(LAYOUT.zeros(), some_updates(LAYOUT.zeros()))
    before = snapshot(server)
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(server.step(w, []), w)
    assert snapshot(server) == before
    assert "round 2 has no updates: skipped" in caplog.text


def test_a_model_that_is_not_finite_is_named() -> None:
    """When the model itself has diverged, the clients are not blamed."""
    w = np.full(LAYOUT.size, np.nan, np.float32)
    with pytest.raises(ValueError, match="the model holds NaN or infinity"):
        algorithm("fedavg", LAYOUT).step(w, some_updates(LAYOUT.zeros()))


@pytest.mark.parametrize("rate", [-0.1, 0.0, float("nan"), float("inf")])
@pytest.mark.parametrize("which", ["server_lr", "client_lr"])
def test_a_bad_rate_is_refused(which: str, rate: float) -> None:
    """When the server is built."""
    for name in ALGORITHMS:
        with pytest.raises(ValueError, match=f"{which} must be a finite number above 0"):
            algorithm(name, LAYOUT, **{which: rate})


def test_unknown_names_are_answered_with_what_there_is() -> None:
    """The nearest name, and the list."""
    with pytest.raises(
        ValueError, match=r"'fedadvr' \(did you mean 'fedadavr'\?\); there are: fed"
    ):
        algorithm("fedadvr", LAYOUT)
    with pytest.raises(ValueError, match=r"unknown setting of mifa 'warm_up' \(did you mean 'warm"):
        algorithm("mifa", LAYOUT, warm_up="all")
    with pytest.raises(ValueError, match=r"unknown codec 'int9' \(did you mean 'int"):
        algorithm("fedadavr", LAYOUT, codec="int9")
    with pytest.raises(ValueError, match="unknown optimizer 'adamw'"):
        algorithm("fedadavr", LAYOUT, optimizer="adamw")
    for name, setting in (("fedadavr", "weighting"), ("fedvarp", "weighting"), ("mifa", "warmup")):
        with pytest.raises(ValueError, match=f"{setting} must be .* got 'none'"):
            algorithm(name, LAYOUT, **{setting: "none"})


def test_a_population_too_small_grows_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The number given is a floor."""
    server = algorithm("fedadavr", LAYOUT, population=2)
    with caplog.at_level(logging.WARNING):
        server.step(LAYOUT.zeros(), some_updates(LAYOUT.zeros()))
    assert server.memory is not None
    assert server.memory.count == 3
    assert "it grows to 3" in caplog.text


@pytest.mark.parametrize("population", [0, -5, 2.5, True, {"a": 0}, {"a": 1.5}, {17: 120}])
def test_a_bad_population_is_refused(population: Any) -> None:
    """A number below one, something that is no number, sizes below one."""
    with pytest.raises((ValueError, TypeError), match="population"):
        algorithm("fedadavr", LAYOUT, population=population)


@pytest.mark.parametrize("name", algorithm_names())
def test_state_round_trips_exactly(name: str) -> None:
    """A server that takes over state and records goes on to the bit, and owns what it took."""
    server = algorithm(name, LAYOUT)
    w = LAYOUT.zeros()
    for t in range(3):
        w = server.step(w, some_updates(w, "abc"[t:] + "xyz"[:t], seed=t))
    state, twin = server.state_dict(), algorithm(name, LAYOUT)
    twin.load_state_dict(state)
    assert flat(twin.state_dict()) == flat(state)
    if server.memory is not None:
        assert twin.memory is not None
        twin.memory.store.commit({c: copy.deepcopy(r) for c, r in server.memory.records()})
    last = some_updates(w, "axq", seed=7)
    np.testing.assert_array_equal(twin.step(w, last), server.step(w, last))
    assert snapshot(twin) == snapshot(server)
    assert flat(state) != flat(server.state_dict())  # it was a copy, not a view


def test_a_state_without_its_records_is_noticed() -> None:
    """The total of clients whose records are not there would silently be wrong."""
    server, twin = algorithm("fedvarp", LAYOUT), algorithm("fedvarp", LAYOUT)
    w = server.step(LAYOUT.zeros(), some_updates(LAYOUT.zeros()))
    twin.load_state_dict(server.state_dict())
    with pytest.raises(RuntimeError, match="remembers 3 clients, the store holds 0"):
        twin.step(w, some_updates(w))


def test_a_state_of_another_kind_is_refused() -> None:
    """Another layout, algorithm, optimizer or codec: one sentence, and nothing changes."""
    server = algorithm("fedadavr", LAYOUT)
    server.step(LAYOUT.zeros(), some_updates(LAYOUT.zeros()))
    state = server.state_dict()
    for other, message in (
        (algorithm("fedadavr", Layout({"a": (19,)})), "of layout"),
        (algorithm("fedvarp", LAYOUT), "of algorithm 'fedadavr', this server has 'fedvarp'"),
        (algorithm("fedadavr", LAYOUT, optimizer="yogi"), "of optimizer 'adam', this is 'yogi'"),
        (algorithm("fedadavr", LAYOUT, codec="int4"), "codec 'fp32', this one 'int4'"),
    ):
        before = snapshot(other)
        with pytest.raises(ValueError, match=message):
            other.load_state_dict(state)
        assert snapshot(other) == before


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("optimizer", ["adam", "lamb"])
def test_promise_5_bits_do_not_depend_on_threads(codec: str, optimizer: str) -> None:
    """One, two or eight kernel threads: the same model, moments, total and stored bytes."""
    layout = Layout({"a": (400_000,), "b": (13, 777), "c": (5,)})
    rng = np.random.default_rng(0)
    start = rng.normal(size=layout.size).astype(np.float32)
    rounds = [
        [(c, rng.normal(size=layout.size).astype(np.float32)) for c in clients]
        for clients in ("ab", "bc", "ca")
    ]
    threads, results = kernels.threads(), []
    try:
        for number in (1, 2, 8):
            kernels.set_threads(number)
            server = algorithm("fedadavr", layout, codec=codec, optimizer=optimizer)
            w = start
            for updates in rounds:
                w = server.step(w, [Update(c, w + x, 4) for c, x in updates])
            results.append((w.tobytes(), snapshot(server)))
    finally:
        kernels.set_threads(threads)
    assert results[0] == results[1] == results[2]


def test_in_place_gives_the_same_bits() -> None:
    """`out` may be the model itself."""
    for name in ALGORITHMS:
        one, two = algorithm(name, LAYOUT), algorithm(name, LAYOUT)
        w = LAYOUT.zeros() + 1
        for t in range(3):
            updates = some_updates(w, seed=t)
            expected = one.step(w, updates)
            two.step(w, updates, out=w)
            np.testing.assert_array_equal(w, expected, err_msg=name)


def test_a_large_model_agrees_with_the_reference() -> None:
    """Many blocks and threads, groups of clients, and a record that leans on the total."""
    from tests.test_algorithms import CASES, REMEMBERING, reference_options, reference_server

    layout = Layout({"a": (300_000,), "b": (33, 77), "c": (1,)})
    rng = np.random.default_rng(5)
    for name, extra in CASES:
        memory = {"codec": "int8"} if name in REMEMBERING else {}
        rate = {"server_lr": 0.01} if name in ("fedadavr", "fedadavr-quant") else {}
        server = algorithm(name, layout, **extra, **memory, **rate)
        ref = reference_server(name, layout, server, **memory)
        w = rng.normal(size=layout.size).astype(np.float32)
        for clients in ("013", "1245"):
            updates = [
                Update(f"client-{c}", w - rng.normal(size=w.size).astype(np.float32), 2 + int(c), 3)
                for c in clients
            ]
            expected = ref.step(name, w, updates, **reference_options(extra))
            w = server.step(w, updates)
            # Where a gradient is nearly zero, an adaptive step is decided by its last bit.
            off = ~np.isclose(w, expected, rtol=1e-4, atol=1e-4)
            assert off.sum() <= 5, name
            np.testing.assert_allclose(w, expected, atol=0.02, err_msg=name)
