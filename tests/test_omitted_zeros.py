"""Codecs that rotate leave out what was zero in every update so far, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout, Update, algorithm
from fedadavr.codecs import CODECS
from fedadavr.memory.convert import copy_all
from fedadavr.memory.verify import check
from fedadavr.stores import open_store

LAYOUT = Layout({"a": (3000,), "b": (70,), "c": (5,)})
DEAD = np.arange(LAYOUT.size) % 9 != 4  # as the taps of a kernel that only its middle meets data
LATE = np.arange(LAYOUT.size) % 9 == 5  # these come alive in round 3
OMITTING = [name for name in CODECS if CODECS[name].omits_zeros]


def replies(w: Any, round: int, clients: Any) -> list[Update]:
    out = []
    for client in clients:
        g = np.random.default_rng([round, client]).normal(size=LAYOUT.size).astype(np.float32)
        g[DEAD & ~(LATE & (round >= 3))] = 0
        out.append(Update(f"c{client}", w - g, examples=10 + client, steps=3))
    return out


def played(server: Any, w: Any, rounds: range) -> Any:
    for round in rounds:
        w = server.step(w, replies(w, round, [round % 4, 4 + round % 3]))
    return w


def test_rot_is_what_omits() -> None:
    """The others keep a zero as it is."""
    assert OMITTING == ["rot4", "rot3", "rot2", "rot1"]


@pytest.mark.parametrize("codec", OMITTING)
def test_what_is_zero_for_everybody_stays_zero(codec: str) -> None:
    """In what is remembered, in the total, and in the model, which Adam would move by any noise."""
    server: Any = algorithm("fedadavr", LAYOUT, codec=codec, server_lr=0.1)
    w = played(server, LAYOUT.zeros(), range(1, 3))
    assert not w[DEAD].any()
    assert not server.memory.total[DEAD].any()
    assert not server.memory.update_of("c1")[DEAD].any()
    assert (server.memory.update_of("c1")[~DEAD] != 0).mean() > 0.5


@pytest.mark.parametrize("codec", OMITTING)
def test_what_comes_alive_changes_no_older_record(codec: str) -> None:
    """A record is read by the coordinates that were there in its own round."""
    server: Any = algorithm("fedadavr", LAYOUT, codec=codec, server_lr=0.1)
    w = played(server, LAYOUT.zeros(), range(1, 3))
    before = server.memory.update_of("c1")
    server.step(w, replies(w, 3, [3, 6]))
    np.testing.assert_array_equal(server.memory.update_of("c1"), before)
    assert (server.memory.update_of("c3")[LATE] != 0).any()
    assert not server.memory.update_of("c3")[DEAD & ~LATE].any()
    scale = np.abs(server.memory.total).max()
    assert np.abs(server.memory.total - server.memory.resum()).max() < 1e-12 * scale


def test_a_rejected_round_brings_nothing_to_life() -> None:
    """Promise 3, for the support, too."""
    server: Any = algorithm("fedadavr", LAYOUT, codec="rot2", max_norm=1000.0)
    w = played(server, LAYOUT.zeros(), range(1, 3))
    before = server.memory.born.copy()
    bad = [Update("c1", np.full_like(w, 1e6), examples=11, steps=3)]
    with pytest.raises(ValueError, match="max_norm"):
        server.step(w, [*bad, *replies(w, 3, [2])])
    np.testing.assert_array_equal(server.memory.born, before)


def test_order_and_resume_change_no_bit(tmp_path: Path) -> None:
    """A server that is killed and goes on from its store ends with the same bits."""
    straight: Any = algorithm("fedadavr", LAYOUT, codec="rot3", server_lr=0.1)
    expected = played(straight, LAYOUT.zeros(), range(1, 7))
    w: Any = LAYOUT.zeros()
    for round in range(1, 7):
        with open_store(f"lmdb:{tmp_path / 's'}") as store:  # type: ignore[union-attr]
            server: Any = algorithm("fedadavr", LAYOUT, codec="rot3", server_lr=0.1, store=store)
            if round > 1:
                w, _ = server.restore()
            w = server.step(w, replies(w, round, [4 + round % 3, round % 4]))  # the other order
            server.commit(w)
            assert check(store)[0] == []
    np.testing.assert_array_equal(w, expected)
    np.testing.assert_array_equal(server.memory.total, straight.memory.total)


@pytest.mark.parametrize(("codec", "to"), [("fp32", "rot4"), ("rot4", "rot2"), ("rot2", "int8")])
def test_a_store_is_converted_with_its_zeros(codec: str, to: str, tmp_path: Path) -> None:
    """Also to and from a codec that omits them; then forgetting and going on."""
    with open_store(f"lmdb:{tmp_path / 'old'}") as store:  # type: ignore[union-attr]
        server: Any = algorithm("fedadavr", LAYOUT, codec=codec, store=store, server_lr=0.1)
        server.commit(played(server, LAYOUT.zeros(), range(1, 6)))
        first = server.memory.update_of("c1")
        copy_all(store, f"lmdb:{tmp_path / 'new'}", to, None)
    with open_store(f"lmdb:{tmp_path / 'new'}") as store:  # type: ignore[union-attr]
        assert check(store)[0] == []
        twin: Any = algorithm("fedadavr", LAYOUT, codec=to, store=store, server_lr=0.1)
        w, _ = twin.restore()
        assert not twin.memory.total[DEAD & ~LATE].any()
        error = np.square(twin.memory.update_of("c1") - first).sum()
        assert error < (0.2 if to == "rot2" else 0.02) * np.square(first).sum()
        twin.memory.forget("c1")
        w = played(twin, w, range(6, 8))
        twin.commit(w)
        assert check(store)[0] == []


def test_memory_of_a_group_omits_zeros_too() -> None:
    """Where clients share a record, and where a record leans on the total."""
    for name, more in (("cluster-fedvarp", {"clusters": 2}), ("scaffold", {})):
        server: Any = algorithm(name, LAYOUT, codec="rot4", **more)
        w = played(server, LAYOUT.zeros(), range(1, 7))
        assert not w[DEAD & ~LATE].any()
        scale = np.abs(server.memory.total).max()
        assert np.abs(server.memory.total - server.memory.resum()).max() < 1e-12 * scale
