"""Promise 2: after `kill -9` at any moment a run goes on to the bits of one never interrupted."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedadavr.memory.verify import check
from fedadavr.stores import open_store
from fedadavr.stores.persistent import PersistentStore
from tests.rounds import digest, play, server_on
from tests.seeds import new_rng

CHILD = ["-u", "-m", "tests.rounds"]
ROOT = Path(__file__).parent.parent


def killed_again_and_again(address: str, kills: int, every: int, key: Path | None) -> None:
    """Kill a child at random moments after it has opened the store, and check what is left."""
    rng = new_rng()
    rounds = 100_000  # more than can be made before the last kill
    words = [sys.executable, *CHILD, address, str(rounds), str(every), *([str(key)] if key else [])]
    reached = 0
    for kill in range(kills):
        child = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        said: list[int] = []
        if rng.random() < 0.9:  # else before or while the first round is made
            said = [int(child.stdout.readline()) for _ in range(rng.randint(1, 6))]
        time.sleep(rng.uniform(0, 0.03))  # anywhere in a round
        child.kill()
        said += [int(line) for line in child.stdout if line.endswith("\n")]
        child.wait()
        with open_store(address, key) as store:  # type: ignore[union-attr]
            assert isinstance(store, PersistentStore)
            state = store.state()
            done = 0 if state is None else state["extra"]["round"]
            assert done >= max(said, default=reached), "a round was lost that was said to be kept"
            assert done >= reached
            if state is not None:
                assert check(store)[0] == [], f"after kill {kill}"
            reached = done
    assert reached > kills, "the kills came before anything was done"
    last = reached + 5
    with open_store(address, key) as store:  # type: ignore[union-attr]
        server = server_on(store)
        final = digest(server, play(server, last, every))
    whole = server_on(None)
    assert final == digest(whole, play(whole, last, every))


@pytest.mark.parametrize("every", [1, 3])
def test_a_killed_server_loses_no_round(every: int, address: str) -> None:
    """Twenty kills for each store, half of them with a commit every third round."""
    killed_again_and_again(address, 10, every, None)


def test_a_killed_server_with_encrypted_records(tmp_path: Path) -> None:
    """The same with a key."""
    key = tmp_path / "key"
    key.write_bytes(b"\7" * 32)
    key.chmod(0o600)
    killed_again_and_again(f"lmdb:{tmp_path / 's'}", 5, 1, key)


@pytest.mark.slow
def test_two_hundred_kills(address: str) -> None:
    """Two hundred for each store; `make crash` runs it."""
    killed_again_and_again(address, 200, 1, None)
