"""A real deployment with TLS and registered keys: what it survives, and whom it refuses.

The tests are steps of one story, in order; `make deployment-test` runs them, in some minutes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedadavr.memory.verify import check
from fedadavr.stores.lmdb import LmdbStore
from tests.flower_processes import Deployment, kill
from tests.redis_servers import wait_for

pytestmark = pytest.mark.deployment
STEPS = {"a": 0.1, "b": 0.2, "c": 0.4}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    for program in ("openssl", "ssh-keygen"):
        if shutil.which(program) is None:
            pytest.skip(f"NOT TESTED: a deployment needs {program}")
    made = Deployment(tmp_path_factory.mktemp("deployment"))
    try:
        for client, step in STEPS.items():
            made.make_key(f"key-{client}")
            made.start_node(f"key-{client}", client, step)
        yield made
    finally:
        made.stop()


def remembered(deployment: Deployment) -> dict[str, tuple[int, int]]:
    """Each client's last round and its node; the store is sound."""
    with LmdbStore(deployment.folder / "memory", read_only=True) as store:
        assert check(store)[0] == []
        return {c: (r.round, r.owner) for c, r in store.items()}  # type: ignore[union-attr]


def hold(deployment: Deployment, client: str) -> Path:
    """Let a client's training wait; the file says when it does."""
    (deployment.folder / f"hold-{client}").touch()
    holding = deployment.folder / f"holding-{client}"
    holding.unlink(missing_ok=True)
    return holding


def release(deployment: Deployment, client: str) -> None:
    (deployment.folder / f"hold-{client}").unlink()


def test_rounds_complete(deployment: Deployment) -> None:
    """All three take part, are remembered, and are bound to their nodes."""
    result = deployment.run(2)
    assert [m["failed"] + m["rejected"] for m in result["metrics"].values()] == [0, 0]
    kept = remembered(deployment)
    assert {c: round for c, (round, _) in kept.items()} == {"a": 2, "b": 2, "c": 2}
    assert len({node for _, node in kept.values()} - {0}) == 3


def test_a_node_killed_in_a_round_costs_its_reply_only(deployment: Deployment) -> None:
    """The round goes on without it, and what is remembered of it still counts."""
    holding = hold(deployment, "b")
    process = deployment.begin_run(4)
    wait_for(holding.exists, "the round", 90)
    kill(deployment.nodes["key-b"])
    release(deployment, "b")
    result = deployment.finish(process, 240)
    assert list(result["metrics"]) == ["1", "2", "3", "4"]  # a new `flwr run` goes on
    assert result["metrics"]["3"]["failed"] == 1
    kept = remembered(deployment)
    assert {c: round for c, (round, _) in kept.items()} == {"a": 4, "b": 2, "c": 4}


def test_restarted_with_its_key_it_is_the_same_client(deployment: Deployment) -> None:
    """Same client, same node."""
    before = remembered(deployment)["b"]
    deployment.keep_starting("key-b", "b", STEPS["b"])
    result = deployment.run(5)
    assert result["metrics"]["5"]["failed"] == 0
    assert remembered(deployment)["b"] == (5, before[1])


def test_the_superlink_killed_in_a_round(deployment: Deployment) -> None:
    """Restarted on its database, and the app run again: on from the last committed round."""
    holding = hold(deployment, "a")
    process = deployment.begin_run(7)
    wait_for(holding.exists, "the round", 90)
    assert deployment.superlink is not None
    kill(deployment.superlink)
    # Its ServerApp outlives it, and holds the store: as after a crash of the machine, it goes, too.
    os.kill(int((deployment.folder / "memory" / "server.lock").read_text()), signal.SIGKILL)
    kill(process)
    release(deployment, "a")
    assert {round for round, _ in remembered(deployment).values()} == {5}
    deployment.start_superlink()
    result = deployment.run(7, 240)
    assert list(result["metrics"]) == [str(round) for round in range(1, 8)]
    assert {c: round for c, (round, _) in remembered(deployment).items()} == dict.fromkeys("abc", 7)


def test_strangers_get_nowhere(deployment: Deployment) -> None:
    """Neither a key that is not registered, nor a registered one with another's client id."""
    before = remembered(deployment)
    deployment.make_key("stranger", register=False)
    deployment.start_node("stranger", "d", 9.0)
    deployment.make_key("impostor")
    kill(deployment.nodes["key-a"])  # the real one is not even there
    deployment.start_node("impostor", "a", 9.0)
    for rounds in (8, 9, 10):  # until it is connected
        result = deployment.run(rounds, 300)
        if result["refused"]:
            break
    kept = remembered(deployment)
    assert kept["a"] == before["a"]
    assert set(kept) == {"a", "b", "c"}
    assert len(result["refused"]) == 1
    assert result["refused"][0] not in [node for _, node in kept.values()]
    assert deployment.nodes["stranger"].poll() is not None


def test_a_list_of_keys_says_who_is_who(deployment: Deployment) -> None:
    """By the fingerprints of the keys that the nodes were let in with; the others are refused."""
    kept = remembered(deployment)
    names = {}
    for key, client in (("key-b", "clinic-b"), ("key-c", "clinic-c")):
        words = ["ssh-keygen", "-lf", f"{key}.pub"]
        told = subprocess.run(words, cwd=deployment.folder, check=True, capture_output=True)
        names[told.stdout.decode().split()[1]] = client
    path = deployment.folder / "clients.toml"
    path.write_text("".join(f'"{key}" = "{client}"\n' for key, client in names.items()))
    done = max(round for round, _ in kept.values())
    result = deployment.run(done + 1, 300, clients=str(path))
    assert result["metrics"][str(done + 1)]["failed"] == 0
    now = remembered(deployment)
    assert {c for c, (round, _) in now.items() if round == done + 1} == {"clinic-b", "clinic-c"}
    assert not {kept["b"][1], kept["c"][1]} & set(result["refused"])
