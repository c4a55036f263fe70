"""Fifty of the thousand faults of `make torture`, from a seed that is printed."""

from __future__ import annotations

import pytest

from tests.rounds import play, server_on
from tests.seeds import NAME, new_rng, new_seed
from tests.torture import torture


def test_fifty_faults() -> None:
    """Kills, signals, full disks, a Redis that goes away, spoilt bytes, rewinds: all is kept."""
    play(server_on(None), 2)  # the kernels are compiled before anything is killed
    assert torture(50, new_seed()).total() == 50


def test_a_seed_that_was_printed_draws_the_same_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills, signals and faults come from one seed, which a failed test shows."""
    monkeypatch.delenv(NAME, raising=False)
    first = new_rng().random()
    name, _, seed = capsys.readouterr().out.split()[0].partition("=")
    monkeypatch.setenv(name, seed)
    assert [new_rng().random(), new_rng().random()] == [first, first]
