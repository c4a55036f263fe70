"""A rate that is learned: the rule against a float64 twin, its bound, its state, its settings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedadavr import Layout, Update, algorithm, kernels
from fedadavr.algorithms import algorithm_names
from fedadavr.algorithms.registry import user_settings
from fedadavr.algorithms.replies import Rejected
from fedadavr.cli import main
from fedadavr.experiments import records
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.grid import grid
from fedadavr.experiments.quadratic import Quadratic
from fedadavr.experiments.records import run_id
from fedadavr.optimizers import OPTIMIZERS, Optimizer
from fedadavr.report.elements import Picture
from fedadavr.report.standard import standard_page
from tests import reference
from tests.rounds import LAYOUT, digest, one_round, opened, server_on

LEARNING = [name for name in sorted(OPTIMIZERS) if "v" in OPTIMIZERS.find(name).moments]
SERVERS = [name for name in algorithm_names() if "server_lr_start" in user_settings(name)]


def first_model(layout: Layout = LAYOUT) -> Any:
    return np.random.default_rng(9).normal(0, 0.3, layout.size).astype(np.float32)


@pytest.mark.parametrize("name", LEARNING)
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(5, 3000), min_size=1, max_size=3),
    length=st.sampled_from([0.0, 0.01, 1.0]),
    phases=st.lists(st.sampled_from([1.0, 0.3, 0.0, -1.0]), min_size=2, max_size=4),
    start=st.sampled_from([None, 1e-4, 10.0]),
    weight_decay=st.sampled_from([0.0, 0.05]),
)
def test_agrees_with_its_twin(
    name: str, seed: int, sizes: Any, length: float, phases: Any, start: Any, weight_decay: float
) -> None:
    """Rounds that go on, wander or turn back: the rate is the twin's, and so is the model."""
    layout = Layout({str(k): (size,) for k, size in enumerate(sizes)})
    ours = Optimizer(name, layout, lr="learned", lr_start=start, weight_decay=weight_decay)
    theirs = reference.Optimizer(
        name, layout.shapes, np.inf if start is None else start, ours.beta1, ours.beta2, ours.eps,
        weight_decay, learned=True,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    w = (length * rng.normal(size=layout.size)).astype(np.float32)
    if name == "lamb" and not length:
        w += 1.0  # a ratio of lengths that are zero is none
    expected, way = w.astype(np.float64), rng.normal(size=layout.size)
    for phase in phases:
        for turn in range(6):
            sign = (-1) ** turn if phase < 0 else 1
            G = abs(phase) * sign * way + 0.5 * rng.normal(size=layout.size)
            w = ours.step(w, G.astype(np.float32))
            expected = theirs.step(expected, G)
            assert ours.learned is not None
            assert ours.learned.rate == pytest.approx(theirs.lr, rel=2e-3)
    np.testing.assert_allclose(w, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize("name", LEARNING)
def test_rates_rise_while_rounds_agree_and_fall_when_they_turn(name: str) -> None:
    """From far too small up, from there down again; each rate acts in the round after."""
    optimizer, w = Optimizer(name, LAYOUT, lr="learned", lr_start=1e-5), first_model()
    way = np.random.default_rng(1).normal(size=w.size).astype(np.float32)
    rates: list[Any] = []
    for round in range(27):
        w = optimizer.step(w, way if round < 20 else -way)
        assert optimizer.learned is not None
        rates.append((optimizer.learned.used, optimizer.learned.rate))
    assert [used for used, _ in rates[1:]] == [found for _, found in rates[:-1]]
    used = [rate for rate, _ in rates]
    assert used[0] == 1e-5
    assert used[20] > 100 * used[0]
    assert used[26] < 0.5 * used[20]


@pytest.mark.parametrize("name", LEARNING)
def test_no_step_is_longer_than_a_tenth_of_the_model(name: str) -> None:
    """A first rate of a million is bounded, whatever comes; later steps follow their bound."""
    optimizer, w = Optimizer(name, LAYOUT, lr="learned", lr_start=1e6), first_model()
    for G in np.random.default_rng(2).normal(size=(12, w.size)).astype(np.float32):
        before, w = w, optimizer.step(w, G)
        # The bound is the round's before: FedYogi's direction grows while its moments begin.
        assert np.linalg.norm(w - before) < 0.3 * np.linalg.norm(before)
    plain = Optimizer(name, LAYOUT, lr="learned")
    again = Optimizer(name, LAYOUT, lr="learned", lr_start=1e6)
    G = np.ones(w.size, np.float32)
    assert plain.step(first_model(), G).tobytes() == again.step(first_model(), G).tobytes()


def test_a_model_of_zeros_learns() -> None:
    """Its length is no measure, that of the gradient is: it is near within some steps."""
    optimizer, w = Optimizer("adam", LAYOUT, lr="learned"), np.zeros(LAYOUT.size, np.float32)
    goal = np.random.default_rng(3).normal(size=w.size).astype(np.float32)
    for _ in range(60):
        w = optimizer.step(w, 0.2 * (w - goal))
    assert np.linalg.norm(w - goal) < 0.1 * np.linalg.norm(goal)


@pytest.mark.parametrize("optimizer", ["adam", "yogi", "adagrad"])
@pytest.mark.parametrize("start", [1e-4, None, 100.0])
def test_any_start_comes_near_the_optimum(optimizer: str, start: Any) -> None:
    """Where the answer is known, starts six decades apart end where the fixed default does."""
    problem = Quadratic()
    common = {"population": problem.clients, "optimizer": optimizer}
    learned = problem.solve("fedadavr", 600, server_lr="learned", server_lr_start=start, **common)
    assert np.mean(learned[-60:]) < 0.02 * learned[0]


def test_any_number_of_threads_gives_the_same_bits() -> None:
    """The sums are made block by block: rates and models do not depend on who made them."""
    layout = Layout({"a": (700, 701), "b": (13,)})
    found = []
    before = kernels.threads()
    try:
        for threads in (1, 3):
            kernels.set_threads(threads)
            server = algorithm("fedadavr-plus", layout, server_lr="learned", population=9)
            w = first_model(layout)
            for round in range(4):
                rng = np.random.default_rng(round)
                w = server.step(w, [
                    Update(str(c), w - rng.normal(0, 0.1, w.size).astype(np.float32), 5)
                    for c in rng.choice(9, 3, replace=False)
                ])  # fmt: skip
            found.append((digest(server, w), server.report()["server_lr"]))
    finally:
        kernels.set_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", SERVERS)
def test_a_run_that_is_continued_is_the_same_to_the_bit(name: str, tmp_path: Path) -> None:
    """The rate and what it is learned from are part of the commit."""
    told = {"server_lr": "learned"}
    if name == "fedadavr":
        told["optimizer"] = "adagrad"  # which keeps a first moment for the rate alone
    remembers = "codec" in user_settings(name)

    def server_in(store: Any) -> Any:
        return server_on(store, name=name, **told) if remembers else algorithm(
            name, LAYOUT, store=store, **told
        )  # fmt: skip

    w, server = first_model(), server_in(None)
    rates = []
    for round in range(1, 9):
        w = one_round(server, w, round)
        rates.append(server.report()["server_lr"])
    again = first_model()
    for round in range(1, 9):  # each in a process of its own, as it were
        with opened(f"lmdb:{tmp_path / 'store'}") as store:
            part = server_in(store)
            restored = part.restore()
            again = one_round(part, again if restored is None else restored[0], round)
            part.commit(again)
            found = digest(part, again)
            noted = [note["server_lr"] for note in store.rounds().values()]
    assert found == digest(server, w)
    assert noted == rates
    assert len(set(rates)) == 7  # before the second there is nothing to agree with


@pytest.mark.parametrize("optimizer", ["adam", "adagrad"])
def test_states_of_fixed_rates_are_readable(optimizer: str) -> None:
    """Fixed to learned begins to learn from there; learned to fixed has the fixed rate."""
    fixed = algorithm("fedadavr-novr", LAYOUT, optimizer=optimizer, server_lr=0.25)
    w = one_round(fixed, one_round(fixed, first_model(), 1), 2)
    state = fixed.state_dict()
    assert "learned" not in state["optimizer"]  # as versions before wrote and read it
    told = {"optimizer": optimizer, "server_lr": "learned", "server_lr_start": 1e-3}
    learning = algorithm("fedadavr-novr", LAYOUT, **told)
    learning.load_state_dict(state)
    w = one_round(learning, w, 3)
    assert learning.report()["server_lr"] == 1e-3
    fixed.load_state_dict(learning.state_dict())
    assert (fixed.round, fixed.server_optimizer.lr, fixed.report()) == (3, 0.25, {})
    one_round(fixed, w, 4)


@pytest.mark.parametrize(
    "wrong", [{"rate": float("nan"), "agreement": 0.0}, {"rate": -1.0, "agreement": 0.0},
              {"rate": 0.1, "agreement": 7.0}]
)  # fmt: skip
def test_a_damaged_rate_is_refused(wrong: Any) -> None:
    """One sentence, and nothing was changed."""
    server = algorithm("fedadavr", LAYOUT, server_lr="learned")
    w = one_round(server, first_model(), 1)
    state = server.state_dict()
    state["optimizer"]["learned"] = wrong
    before = digest(server, w)
    with pytest.raises(ValueError, match=r"the state's learned rate is .*; nothing was chang"):
        server.load_state_dict(state)
    assert digest(server, w) == before


def test_a_refused_round_leaves_the_rate() -> None:
    """A reply that is not finite costs only itself."""
    server = algorithm("fedyogi", LAYOUT, server_lr="learned")
    w = one_round(server, first_model(), 1)
    before = digest(server, w)
    with pytest.raises(Rejected):
        server.step(w, [Update("x", np.full_like(w, np.nan), 1)])
    assert digest(server, w) == before
    server.step(w, [])
    assert digest(server, w) == before


def test_gradients_of_zero_and_huge_ones_leave_a_rate() -> None:
    """No cosine, or one beyond float32: the rate stays a number that float32 holds."""
    for name in LEARNING:
        optimizer, w = Optimizer(name, LAYOUT, lr="learned"), first_model()
        for factor in (0.0, 0.0, 1e17, 1e-30, 0.0, 1.0):
            w = optimizer.step(w, np.full(w.size, factor, np.float32))
            assert optimizer.learned is not None
            assert optimizer.learned.rate is not None
            assert 1e-12 <= optimizer.learned.rate <= 1e12
            assert np.isfinite(w).all()


@pytest.mark.parametrize("name", ["fedadavr", "fedadavr-quant", "fedadavr-plus"])
def test_a_rate_that_nobody_tells_is_learned(name: str) -> None:
    """With an optimizer that adapts; a plain step has its own unit. A run's config says which."""
    for optimizer, rate in (("adam", "learned"), ("lamb", "learned"), ("sgd", 1.0)):
        server = algorithm(name, LAYOUT, optimizer=optimizer)
        assert (server.server_optimizer.learned is not None) == (rate == "learned")
        told = Experiment.of(algorithm=name, optimizer=optimizer).resolved().settings
        assert (told["server_lr"], told["averaging"]) == (rate, rate == "learned")
        beta2 = 0.99 if name == "fedadavr-plus" and rate == "learned" else 0.999
        assert (server.server_optimizer.beta2, told["beta2"]) == (beta2, beta2)
    assert algorithm(name, LAYOUT, beta2=0.9).server_optimizer.beta2 == 0.9
    assert algorithm(name, LAYOUT, server_lr=0.01).server_optimizer.beta2 == 0.999
    start = algorithm(name, LAYOUT, server_lr_start=1e-3).server_optimizer.learned
    assert start is not None
    assert start.start == 1e-3


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"server_lr": "learned", "optimizer": "sgd"}, "and 'sgd' does not: give it a number"),
        ({"server_lr": "learned", "optimizer": "momentum"}, "and 'momentum' does not: give it a"),
        ({"server_lr_start": 0.1, "server_lr": 0.2},
         "server_lr_start goes with server_lr='learned', got 0.1 with 0.2"),
        ({"server_lr": "learned", "server_lr_start": 0.0},
         "server_lr_start must be a finite number above 0, got 0.0"),
        ({"server_lr": "lerned"}, "server_lr must be a number or 'learned' or none, got 'lerned'"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused(told: Any, message: str) -> None:
    """One sentence that names the setting and what to do."""
    with pytest.raises(ValueError, match=message):
        algorithm("fedadavr", LAYOUT, **told)


def test_who_can_learn_a_rate() -> None:
    """All with an adaptive optimizer; the others refuse the word by their field's type."""
    assert set(SERVERS) == {"fedadavr", "fedadavr-quant", "fedadavr-plus", "fedadavr-novr",
                            "fedadagrad", "fedadam", "fedyogi"}  # fmt: skip
    with pytest.raises(ValueError, match="fedavg: server_lr must be a number or none"):
        algorithm("fedavg", LAYOUT, server_lr="learned")


def test_settings_as_they_are_typed_and_kept() -> None:
    """NAME:key=value, TOML and the name of a run; runs with fixed rates keep their names."""
    base = Experiment.of(dataset="mnist-5k")
    spec = "fedyogi:server-lr=learned,server-lr-start=0.01"
    typed = base.with_algorithm(spec).resolved()
    assert (typed.get("server_lr"), typed.get("server_lr_start")) == ("learned", 0.01)
    assert Experiment.from_toml(typed.to_toml()) == typed
    others = ["fedyogi:server-lr=learned", "fedyogi", "fedyogi:server-lr=0.1"]
    names = {run_id(base.with_algorithm(other)) for other in (spec, *others)}
    assert len(names) == 4
    # As before there was such a setting, whose default none is not part of a name.
    plain = base.with_algorithm("fedyogi").resolved()
    without = {k: v for k, v in plain.flat().items() if k != "server_lr_start"}
    assert run_id(without) == run_id(plain)


def test_grids_have_it_beside_numbers() -> None:
    """An axis of a sweep, each value a run of its own."""
    axes = ("algorithm=fedadam,fedadavr", "server-lr=learned,0.01")
    runs = grid(Experiment.of(dataset="mnist-5k"), axes)
    assert [run.get("server_lr") for run in runs] == ["learned", 0.01, "learned", 0.01]
    assert len({run_id(run) for run in runs}) == 4


def test_a_run_tells_the_rate_of_every_round(tmp_path: Path) -> None:
    """On the command line: in every line of its figures, and on its page as a curve."""
    small = ["--dataset", "mnist-5k", "--clients", "50", "--clients-per-round", "3",
             "--rounds", "4", "--evaluate-examples", "200"]  # fmt: skip
    out = tmp_path / "run"
    learn = ["--algorithm", "fedadavr-plus", "--server-lr", "learned"]
    main(["run", *small, *learn, "--out", str(out)])
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert len({row["server_lr"] for row in rows}) == 3  # the first two are alike
    shown = standard_page(records.read([out]))
    (picture,) = (section for section in shown.sections if isinstance(section, Picture))
    assert picture.title == "mnist-5k: the learned server rate"
    assert f"from {rows[0]['server_lr']:.2g} over at most" in picture.note
    fixed = [replace(record, rates=None) for record in records.read([out])]
    assert not any(isinstance(s, Picture) for s in standard_page(fixed).sections)


def test_a_flower_strategy_goes_on_with_its_rate(tmp_path: Path) -> None:
    """In two halves on a store, the second told nothing: the rates are those of one run."""
    pytest.importorskip("flwr")
    from fedadavr.flower import FedAdaVR
    from tests import flower_grid

    def rates(strategy: Any, rounds: int) -> list[float]:
        result = strategy.start(flower_grid.federation(), flower_grid.first_model(50), rounds)
        told = result.train_metrics_clientapp
        return [told[round]["server_lr"] for round in sorted(told)]

    url = f"lmdb:{tmp_path / 'store'}"
    whole = rates(flower_grid.strategy_on(None, server_lr="learned"), 6)
    half = rates(flower_grid.strategy_on(url, server_lr="learned"), 3)
    again = FedAdaVR(
        fraction_train=0.5, fraction_evaluate=0.0, min_available_nodes=6, store=url
    )  # fmt: skip
    assert half == whole[:3]
    assert rates(again, 6) == whole
    assert len(set(whole)) == 5  # the first two are alike


@pytest.mark.parametrize("constant", [255.0, 1.7e9])
@pytest.mark.parametrize("name", ["fedadavr", "fedadavr-plus"])
def test_what_nobody_moves_does_not_count(name: str, constant: float) -> None:
    """A frozen layer, or a constant among the weights: the others step as they would without."""
    layout, beside = Layout({"a": (30, 40)}), Layout({"a": (30, 40), "mean": (7,)})
    rng = np.random.default_rng(0)
    w = rng.normal(0, 0.1, layout.size).astype(np.float32)
    still = np.full(7, constant, np.float32)
    one, two = algorithm(name, layout), algorithm(name, beside)
    models = [w, np.concatenate([w, still])]
    for round in range(8):
        moves = rng.normal(0, 0.01, (5, layout.size)).astype(np.float32) + np.float32(0.003)
        wide = np.concatenate([moves, np.zeros((5, 7), np.float32)], axis=1)
        for k, (server, move) in enumerate(((one, moves), (two, wide))):
            cohort = [Update(str((round + c) % 9), models[k] - m, 10) for c, m in enumerate(move)]
            models[k] = server.step(models[k], cohort)
    np.testing.assert_allclose(models[1][:-7], models[0], rtol=1e-5, atol=1e-7)
    assert (models[1][-7:] == still).all()
    rates = [server.server_optimizer.learned.used for server in (one, two)]  # type: ignore[union-attr]
    assert rates[1] == pytest.approx(rates[0], rel=1e-6)
