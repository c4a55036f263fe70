"""The paper's theorem against runs: its constants, its conditions, its bound, the error's parts."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedadavr.cli import main
from fedadavr.experiments.theorem import (
    Constants,
    bound,
    floor,
    gamma,
    largest_rates,
    printed_conditions,
    silent_conditions,
)
from fedadavr.experiments.theory import Doubles, NoisyQuadratic, check, split

PROBLEM = NoisyQuadratic(clients=12, per_round=3, dimension=6)
ROUNDS = 150


@pytest.fixture(scope="module")
def constants() -> Constants:
    """Of the small problem, with Adagrad's epsilon 1."""
    return PROBLEM.constants(ROUNDS, 1.0)


def client_gradients(w: Doubles) -> Doubles:
    """By central differences of each client's function, which is exact for a quadratic."""

    def values(at: Doubles) -> Doubles:
        return (PROBLEM.curvatures * (at - PROBLEM.centers) ** 2).sum(axis=1) / 2

    axes = np.eye(PROBLEM.dimension)
    return np.stack([(values(w + e) - values(w - e)) / 2 for e in axes], axis=1)


def test_the_constants_are_those_of_the_functions(constants: Constants) -> None:
    """L, f(w0) - f*, the optimum by differences; G and sigma_g bound what the ball holds."""
    rng = np.random.default_rng(5)
    optimum, start = PROBLEM.optimum(), PROBLEM.start().astype(np.float64)
    np.testing.assert_allclose(client_gradients(optimum).mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(client_gradients(start).mean(axis=0), PROBLEM.gradient(start))
    assert math.isclose(np.linalg.norm(start - optimum), PROBLEM.distance, rel_tol=1e-6)
    assert math.isclose(constants.gap, PROBLEM.gradient(start) @ (start - optimum) / 2)
    steepest, largest, furthest = 0.0, 0.0, 0.0
    for _ in range(300):
        a, b = rng.normal(size=(2, PROBLEM.dimension))
        a, b = (optimum + PROBLEM.distance * x / np.linalg.norm(x) for x in (a, b))
        at_a, at_b = client_gradients(a), client_gradients(b)
        change = np.linalg.norm(at_a - at_b, axis=1).max() / np.linalg.norm(a - b)
        steepest = max(steepest, float(change))
        largest = max(largest, float(np.linalg.norm(at_a, axis=1).max()))
        furthest = max(furthest, float(np.linalg.norm(at_a - at_a.mean(axis=0), axis=1).max()))
    assert 0.8 * constants.L < steepest <= constants.L
    assert 0.7 * constants.G < largest <= constants.G
    assert 0.5 * constants.sigma_g < furthest <= constants.sigma_g


def test_the_noise_has_the_variance_it_says_and_its_key() -> None:
    """sigma^2 in all; a client's first step has the same noise whatever steps follow."""
    drawn = np.concatenate([PROBLEM.noise(3, t) for t in range(100)])
    assert math.isclose((drawn**2).sum(axis=2).mean(), PROBLEM.sigma**2, rel_tol=0.05)
    one = replace(PROBLEM, local_steps=1)
    np.testing.assert_array_equal(PROBLEM.noise(3, 7)[0], one.noise(3, 7)[0])
    assert not np.array_equal(PROBLEM.noise(3, 7), PROBLEM.noise(4, 7))


def test_conditions_are_flagged_both_ways(constants: Constants) -> None:
    """All hold at the largest rates admitted; just above, the one that binds does not."""
    client_lr, server_lr = largest_rates(constants)
    assert all(c.holds for c in printed_conditions(constants, client_lr, server_lr))
    for rates in ((client_lr * 1.001, server_lr), (client_lr, server_lr * 1.001)):
        assert [c.holds for c in printed_conditions(constants, *rates)].count(False) == 1
    with_one_step = replace(constants, local_steps=1)
    assert all(c.holds for c in printed_conditions(with_one_step, 1e-9, 1e-9))


def test_what_the_proof_needs_besides_can_hold_and_can_fail(constants: Constants) -> None:
    """Gamma >= 1/4 needs eta_s >= eps/2; with L small and eps small enough all of it holds."""
    held = {c.text: c.holds for c in silent_conditions(constants, *largest_rates(constants))}
    assert not held["Gamma >= 1/4"]
    flat = replace(constants, L=0.1, epsilon=0.5, per_round=12, local_steps=1)
    client_lr = largest_rates(flat)[0]
    assert all(c.holds for c in silent_conditions(flat, client_lr, 0.3))
    assert gamma(flat, client_lr, 0.3) == pytest.approx(0.3)


def test_the_bound_is_the_printed_one() -> None:
    """Against the theorem's formula, worked out by hand in round numbers."""
    c = Constants(
        L=2.0, mu=1.0, sigma=3.0, sigma_g=5.0, G=7.0, gap=11.0, first=4.0, clients=10, per_round=2,
        local_steps=3, rounds=100, epsilon=0.5,
    )  # fmt: skip
    found = bound(c, 0.1, 0.2)
    assert math.isclose(c.A, 1 + 4 * 8 / 18)
    assert found.start == pytest.approx(0.44)
    assert found.drift == pytest.approx(4 * (4 * 0.01 * 4 * 6) * 25)
    assert found.noise == pytest.approx(4 * (0.01 * 4 * 2 + 0.2 / 6 + 0.2) * 9)
    assert found.rest == pytest.approx(4 * 0.4 * 0.01 * 9 * 4 * 49)
    assert found.total == pytest.approx(found.start + found.drift + found.noise + found.rest)


def test_the_theorem_fails_in_one_round_where_l_is_above_two() -> None:
    """f = 3 w^2/2 at w = 1, T = 1: the left side is 9 whatever is done; the right side is 6."""
    c = Constants(
        L=3.0, mu=3.0, sigma=0.0, sigma_g=0.0, G=3.0, gap=1.5, first=3.0, clients=1, per_round=1,
        local_steps=1, rounds=1, epsilon=1.0,
    )  # fmt: skip
    rates = (1e-3, 1e-3)
    assert all(condition.holds for condition in printed_conditions(c, *rates))
    assert bound(c, *rates).total == pytest.approx(6.0, abs=1e-6)
    assert c.first**2 == 9.0


def test_measured_is_over_the_bound_at_admitted_rates() -> None:
    """As the floor says it must be; and under it once the first term has the step's real rate."""
    exact = replace(PROBLEM, sigma=0.0)
    c = exact.constants(ROUNDS, 1.0)
    found = check(exact, c, *largest_rates(c), rates="largest admitted", seeds=2)
    assert found.measured is not None
    assert found.ratio is not None
    assert found.ratio > 20
    assert floor(c) <= found.measured <= found.bound.rescaled
    assert floor(c) > found.bound.total


def test_measured_is_over_the_bound_where_all_that_the_proof_needs_holds() -> None:
    """So it is not only the rates: Lemma 6 takes eta_c r for the mean gradient."""
    exact = replace(PROBLEM, per_round=12, sigma=0.0, scale=0.05)
    c = exact.constants(ROUNDS, 1.0)
    found = check(exact, c, 1e-4, 0.6, rates="given", seeds=1)
    assert all(condition.holds for condition in (*found.printed, *found.silent))
    assert found.ratio is not None
    assert found.ratio > 2


def test_rates_too_small_for_float32_are_not_measured() -> None:
    """With the experiments' epsilon of 1e-8 the admitted rate leaves no trace in a model."""
    c = PROBLEM.constants(10, 1e-8)
    assert check(PROBLEM, c, *largest_rates(c), rates="", seeds=1).measured is None


def test_participation_error_vanishes_with_memory_and_not_for_fedavg() -> None:
    """Below a thousandth of FedAvg's with plain steps; a fiftieth with Adam, which is slower."""
    near = replace(PROBLEM, distance=2.0)
    parts = {
        name: split(near, name, rounds, 1)
        for name, rounds in (
            ("fedavg", 300), ("fedvarp", 300), ("fedadavr, sgd", 300), ("fedadavr, adam", 600),
        )
    }  # fmt: skip
    fedavg = parts["fedavg"].participation
    assert fedavg > 0.1
    assert abs(parts["fedvarp"].participation) < 1e-3 * fedavg
    assert abs(parts["fedadavr, sgd"].participation) < 1e-3 * fedavg
    assert abs(parts["fedadavr, adam"].participation) < 0.02 * fedavg
    for part in parts.values():
        assert part.drift > 0
    assert parts["fedvarp"].stochastic > 0


def test_without_different_curvatures_local_steps_do_not_drift() -> None:
    """The fixed point is then the optimum: what is called drift is drift."""
    alike = replace(PROBLEM, spread=0.0, distance=2.0)
    assert abs(split(alike, "fedvarp", 300, 1).drift) < 1e-6


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables, or JSON; and the picture."""
    words = ["theory", "--clients", "6", "--per-round", "2", "--rounds", "20", "--seeds", "1"]
    main([*words, "--json", "--out", str(tmp_path / "theory.png")])
    found = json.loads(capsys.readouterr().out)
    assert [each["rates"] for each in found["checks"]] == ["given", "largest admitted"]
    assert all(condition["holds"] for condition in found["checks"][1]["printed"])
    assert len(found["splits"]) == 4
    assert (tmp_path / "theory.png").read_bytes().startswith(b"\x89PNG")
    main([*words, "--sigma", "0", "--no-split"])
    shown = capsys.readouterr().out
    assert "measured min / bound" in shown
    assert "At no rates that the theorem admits" in shown
    assert "participation" not in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--per-round", "60"], "per_round is 60, but there are only 50 clients"),
        (["--rounds", "0"], "rounds must be a whole number from 1 up, got 0"),
        (["--epsilon", "0"], "epsilon must be a finite number above 0, got 0.0"),
        (["--sigma", "-1"], "sigma must be a finite number from 0 up, got -1.0"),
        (["--spread", "1"], r"spread must lie in [0, 1), got 1.0"),
        (["--server-lr", "nan"], "server_lr must be a finite number above 0, got nan"),
        (["--client-lr", "0"], "client_lr must be a finite number above 0, got 0.0"),
        (["--seeds", "0"], "seeds must be a whole number from 1 up, got 0"),
        (["--local-steps", "0"], "local_steps must be a whole number from 1 up, got 0"),
    ],
)
def test_bad_settings_get_a_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is run."""
    with pytest.raises(SystemExit):
        main(["theory", *words])
    assert sentence in capsys.readouterr().err
