"""Flower: nodes that come and go, replies that never come, and a memory that stays sound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedadavr.memory.verify import check
from tests.flower_availability import ComingAndGoing
from tests.flower_grid import app_that, drawn, first_model, strategy_on
from tests.rounds import opened

NODES = {100 + k: str(k) for k in range(20)}


@pytest.mark.parametrize(
    ("who", "lost"),
    [
        ("markov:on=0.1,off=0.4", 0.6),  # with rounds in which no reply comes
        ("independent:p=0.08", "none"),  # often nobody, or one
        ("churn:joining=0.6,leaving=0.6,rounds=10,p=0.5", "deadline:seconds=1,jitter=0.5"),
    ],
)
def test_fedadavr_trains_through_absence_and_its_memory_stays_sound(
    who: str, lost: str | float, tmp_path: Path
) -> None:
    """Twelve rounds are made; the store holds whoever has answered, and its total is their sum."""
    address = f"lmdb:{tmp_path / 'state'}"
    grid = ComingAndGoing(app_that(drawn), NODES, who, lost, seed=5)
    strategy = strategy_on(address, min_available_nodes=1, min_train_nodes=1)
    result = strategy.start(grid, first_model(40), num_rounds=12)
    assert len(grid.told) == 12
    for time, there, asked, answering in grid.told:
        assert there == [100 + k for k in grid.availability.available(time, grid.population)]
        assert set(answering) <= set(asked) <= set(there)
    assert np.isfinite(result.arrays["x"].numpy()).all()
    assert result.arrays["x"].numpy().any()
    with opened(address, read_only=True) as store:
        assert check(store)[0] == []
        assert {client for client, _ in store.items()} == {
            NODES[node] for *_, answering in grid.told for node in answering
        }
    if lost != "none":
        assert any(len(answering) < len(asked) for *_, asked, answering in grid.told)
    if lost == 0.6:
        assert any(asked and not answering for *_, asked, answering in grid.told)
