"""The durable stores: what they hold, what they refuse, and what they survive short of a kill."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import lmdb
import numpy as np
import pytest
import redis

from fedadavr import Layout, Rejected, Update, algorithm
from fedadavr.algorithms import algorithm_names
from fedadavr.codecs import CODECS
from fedadavr.memory.verify import check
from fedadavr.stores import Record, StoreError, open_store
from fedadavr.stores.lmdb import LmdbStore
from fedadavr.stores.persistent import PersistentStore
from fedadavr.stores.record_format import SIZE, pack
from fedadavr.stores.redis import RedisStore, _is_dead, _machine
from fedadavr.stores.seal import Seal, WrongKey
from tests.redis_servers import RedisCluster, RedisServer, wait_for
from tests.rounds import CLIENTS, LAYOUT, digest, one_round, play, server_on

ROOT = Path(__file__).parent.parent


def sound(address: str, key: Path | None = None) -> bool:
    """Whether `fedadavr memory verify` finds nothing."""
    with open_store(address, key, read_only=True) as store:  # type: ignore[union-attr]
        assert isinstance(store, PersistentStore)
        return check(store)[0] == []


def verified(address: str) -> bool:
    """The same from a process of its own, as one looks at a store that a server is using."""
    words = ["-c", "from fedadavr.cli import main; main()", "memory", "verify", address]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode == 0


# --- the same as RAM ---


@pytest.mark.parametrize("codec", CODECS)
def test_a_store_gives_the_bits_of_ram(address: str, codec: str) -> None:
    """Rounds, forgotten and pruned clients; committed in ones and threes, reopened on the way."""
    ram = server_on(None, codec)
    expected = digest(ram, play(ram, 25))
    for every, stops in ((1, [4, 11, 25]), (3, [6, 15, 25])):
        place = f"{address}{every}"  # a store of its own
        for rounds in stops:
            with open_store(place) as store:  # type: ignore[union-attr]
                server = server_on(store, codec)
                w = play(server, rounds, every)
                assert check(store)[0] == []
                final = digest(server, w)
        assert final == expected


@pytest.mark.parametrize("name", algorithm_names())
def test_every_algorithm_resumes_from_a_store(name: str, tmp_path: Path) -> None:
    """Model, moments and memory come back to the bit, also where there is no memory."""
    whole = algorithm(name, LAYOUT)
    w = LAYOUT.zeros()
    for round in range(1, 9):
        w = one_round(whole, w, round)
    store: Any
    for rounds in (3, 8):
        with LmdbStore(tmp_path / "store") as store:
            server = algorithm(name, LAYOUT, store=store)
            again, extra = server.restore() or (LAYOUT.zeros(), {"round": 0})
            for round in range(extra["round"] + 1, rounds + 1):
                again = one_round(server, again, round)
            server.commit(again, round=rounds)
            final = digest(server, again)
    assert final == digest(whole, w)


def test_large_arrays_are_cut_and_joined(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model larger than one value of the store comes back whole."""
    monkeypatch.setattr("fedadavr.stores.state_format.CHUNK", 1000)
    ram = server_on(None)
    expected = digest(ram, play(ram, 3))
    for rounds in (2, 3):
        with open_store(address) as store:  # type: ignore[union-attr]
            server = server_on(store)
            final = digest(server, play(server, rounds))
    assert final == expected


def test_names_of_any_kind(address: str) -> None:
    """Client ids are any text: with spaces, colons, globs, and in any script."""
    names = ["a:b", "*", "[x]?", "Zoë 日本", "x" * 500, "0", "\n"]
    w = LAYOUT.zeros()
    with open_store(address) as store:  # type: ignore[union-attr]
        server = algorithm("fedvarp", LAYOUT, store=store)
        server.commit(server.step(w, [Update(n, w + k, k + 1) for k, n in enumerate(names)]))
    with open_store(address) as store:  # type: ignore[union-attr]
        assert sorted(client for client, _ in store.items()) == sorted(names)
        assert len(store) == len(names)
        server = algorithm("fedvarp", LAYOUT, store=store)
        server.restore()
        for k, name in enumerate(names):
            assert (server.memory.update_of(name) == -k).all()  # type: ignore[union-attr]


def test_a_name_too_long_for_lmdb_is_refused(tmp_path: Path) -> None:
    """One sentence, and the round can go on without it."""
    with LmdbStore(tmp_path / "s") as store:
        server = algorithm("fedvarp", LAYOUT, store=store)
        for name, why in (("x" * 512, "1 to 511 bytes"), ("", "1 to 511"), ("\ud800", "Unicode")):
            with pytest.raises(Rejected, match=why) as caught:
                server.step(LAYOUT.zeros(), [Update(name, LAYOUT.zeros(), 1)])
            assert list(caught.value.reasons) == [name]
        assert server.round == 0


@pytest.mark.parametrize("owner", [-5, 2**64])
def test_a_node_that_does_not_fit_is_rejected(owner: int, tmp_path: Path) -> None:
    """Before the round, not at its commit, which could then never be made."""
    with LmdbStore(tmp_path / "s") as store:
        server = algorithm("fedvarp", LAYOUT, store=store)
        with pytest.raises(Rejected, match="must fit 64 bits"):
            server.step(LAYOUT.zeros(), [Update("a", LAYOUT.zeros(), 1, owner=owner)])


# --- one server at a time ---


def test_a_second_server_is_refused(address: str) -> None:
    """In one sentence; a look at the store is not."""
    with open_store(address) as store:  # type: ignore[union-attr]
        play(server_on(store), 2)
        with pytest.raises(StoreError, match="is in use by another server"):
            open_store(address)
        assert verified(address)
    open_store(address).close()


def test_a_redis_server_that_was_overtaken_writes_nothing(redis_server: RedisServer) -> None:
    """Whoever has lost its lease finds out before the manifest moves."""
    address = f"{redis_server.url}?name={uuid4().hex}"
    name = address.rpartition("=")[2]
    with RedisStore(address) as slow:
        server = server_on(slow)
        w = play(server, 3)
        redis_server.client.delete(f"{name}:lease")  # it was silent for too long
        with RedisStore(address) as quick:
            other = server_on(quick)
            expected = digest(other, play(other, 4))
        one_round(server, w, 4)
        with pytest.raises(StoreError, match="was written by another server"):
            server.commit(w, round=4)
    with RedisStore(address) as store:
        again = server_on(store)
        assert digest(again, play(again, 4)) == expected
    assert sound(address)


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("redis://localhost:6379", False), ("redis://127.0.0.1", False), ("redis://[::1]", False),
        ("redis://10.0.0.5", True), ("redis://redis.example.org:6379", True),
        ("rediss://10.0.0.5", False), ("rediss://localhost", False),
    ],
)  # fmt: skip
def test_plain_text_to_another_machine_is_said(
    url: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With TLS, or on this machine, there is nothing to say."""
    store: Any = SimpleNamespace(_url=url, where="the store")
    RedisStore._warn_of_plain_text(store)
    assert ("unencrypted: use rediss://" in caplog.text) == warned


def test_only_a_dead_process_of_this_machine_leaves_its_lease() -> None:
    """What another machine's process does cannot be seen from here; a live one keeps it."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert _is_dead(f"{_machine()}:{ended.pid}:token")
    assert not _is_dead(f"{_machine()}:{os.getpid()}:token")
    assert not _is_dead(f"elsewhere/1:{ended.pid}:token")


def test_ids_stay_with_their_nodes(address: str) -> None:
    """Another node that claims a client's id is rejected, also after a restart, until forgotten."""
    w = LAYOUT.zeros()
    with open_store(address) as store:  # type: ignore[union-attr]
        server = server_on(store)
        server.commit(server.step(w, [Update("a", w + 1, 1, owner=7)]))
    with open_store(address) as store:  # type: ignore[union-attr]
        server = server_on(store)
        server.restore()
        with pytest.raises(Rejected, match="'a': this id belongs to node 7, and node 8 claims it"):
            server.step(w, [Update("a", w + 1, 1, owner=8), Update("b", w + 1, 1, owner=8)])
        server.step(w, [Update("a", w + 2, 1)])  # an engine that knows no nodes
        server.step(w, [Update("a", w + 2, 1, owner=7)])
        server.memory.forget("a")
        server.step(w, [Update("a", w + 1, 1, owner=8)])


# --- damage ---


def spoil(address: str, client: str, change: Any) -> None:
    """Change the raw record of a client, header and payload, as a bad disk would."""
    if address.startswith("lmdb:"):
        with lmdb.open(address.removeprefix("lmdb:"), max_dbs=7) as env:
            heads, updates = env.open_db(b"clients"), env.open_db(b"updates")
            key = client.encode()
            with env.begin(write=True) as txn:
                whole = [txn.get(key, db=database) or b"" for database in (heads, updates)]
                value = change(b"".join(whole))
                txn.put(key, value[:SIZE], db=heads)
                txn.put(key, value[SIZE:], db=updates)
        return
    url, _, name = address.partition("?name=")
    server = connect(url)
    keys = [f"{name}:{table}:{client}" for table in ("clients", "updates")]
    (head, header), (update, payload) = (next(iter(server.hgetall(k).items())) for k in keys)
    value = change(header + payload)
    server.hset(keys[0], head, value[:SIZE])
    server.hset(keys[1], update, value[SIZE:])
    server.close()


def remove(address: str, client: str, *tables: str) -> None:
    """Take a client's entries out of tables, as somebody with the wrong tool would."""
    if address.startswith("lmdb:"):
        with lmdb.open(address.removeprefix("lmdb:"), max_dbs=7) as env:
            databases = [env.open_db(table.encode()) for table in tables]
            with env.begin(write=True) as txn:
                for database in databases:
                    assert txn.delete(client.encode(), db=database)
        return
    url, _, name = address.partition("?name=")
    server = connect(url)
    for table in tables:
        assert server.delete(f"{name}:{table}:{client}") == 1
    server.close()


def connect(url: str) -> Any:
    """Redis, single or cluster."""
    return redis.cluster.RedisCluster.from_url(url) if clustered(url) else redis.Redis.from_url(url)


def clustered(url: str) -> bool:
    return bool(redis.Redis.from_url(url).info("cluster")["cluster_enabled"])


def flip(at: int) -> Any:
    return lambda raw: raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


DAMAGE = {
    "a bit of the payload": (flip(SIZE + 100), "its checksum is wrong"),
    "a bit of the weight": (flip(40), "its checksum is wrong"),
    "the magic": (flip(0), "it does not begin as a record does"),
    "the version": (flip(4), "its format is version 3"),
    "cut short": (lambda raw: raw[:-7], "bytes where its header says"),
    "only a header": (lambda raw: raw[:SIZE], "bytes where its header says 0|its header says"),
    "another's record": (None, "its checksum is wrong"),
    "nonsense": (lambda raw: os.urandom(200), "it does not begin as a record does"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_record_costs_only_itself(
    case: str, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is reported with the client's name and counts as never seen; the total is re-summed."""
    w = LAYOUT.zeros()
    updates = [Update(c, w - np.float32(k + 1), 10 * (k + 1)) for k, c in enumerate("abc")]
    with open_store(address) as store:  # type: ignore[union-attr]
        server = server_on(store)
        server.commit(server.step(w, updates), round=1)
    change, why = DAMAGE[case]
    if change is None:
        raws: list[bytes] = []
        spoil(address, "a", lambda raw: raws.append(raw) or raw)  # type: ignore[func-returns-value]
        change = lambda _: raws[0]  # noqa: E731
    spoil(address, "b", change)
    with open_store(address, read_only=True) as store:  # type: ignore[union-attr]
        faults, _ = check(store)
        assert any("'b'" in f and "cannot be read" in f for f in faults)
    intact = server_on(None)
    start = intact.step(w, [updates[0], updates[2]])
    with open_store(address) as store:  # type: ignore[union-attr]
        server = server_on(store)
        server.restore()
        with caplog.at_level(logging.ERROR):
            server.step(start, [Update("b", start + 1, 20)])
        assert "client 'b': its record cannot be read" in caplog.text
        assert any(part in caplog.text for part in why.split("|"))
        intact.step(start, [Update("b", start + 1, 20)])
        np.testing.assert_allclose(server.memory.total, intact.memory.total, rtol=1e-12)
        assert server.memory.count == intact.memory.count == CLIENTS
        server.commit(start, round=2)
    assert sound(address)


def test_a_damaged_model_is_said(tmp_path: Path) -> None:
    """There is no model to go on with: one sentence, no traceback, nothing written."""
    place = f"lmdb:{tmp_path / 's'}"
    with open_store(place) as store:  # type: ignore[union-attr]
        play(server_on(store), 2)
    with lmdb.open(str(tmp_path / "s"), max_dbs=7) as env, env.begin(write=True) as txn:
        db = env.open_db(b"state", txn)
        txn.put(b"state.w/0", b"\0" * 100, db=db)
    with open_store(place) as store, pytest.raises(StoreError, match=r"state.w/0 has a wrong"):  # type: ignore[union-attr]
        server_on(store).restore()


def test_a_damaged_header_does_not_stop_a_late_pruning(address: str) -> None:
    """Ages are read from headers alone: what a header says must be possible, or it is damage."""
    w = LAYOUT.zeros()
    with open_store(address) as store:  # type: ignore[union-attr]
        server = algorithm("fedvarp", LAYOUT, store=store)
        for client in "abc":
            w = server.step(w, [Update(client, w + 1, 1)])
        server.commit(w)
    spoil(address, "a", flip(54))  # its round is now far in the future
    spoil(address, "b", lambda raw: raw[:8] + b"\xff" + raw[9:])  # its layout is no text
    with open_store(address) as store:  # type: ignore[union-attr]
        server = algorithm("fedvarp", LAYOUT, store=store, prune_after=2)
        server.restore()
        for client in "xyz":
            w = server.step(w, [Update(client, w + 1, 1)])
        server.commit(w)
        assert {c for c, _ in server.memory.records()} >= {"y", "z"}  # type: ignore[union-attr]
        server.memory.repair()  # type: ignore[union-attr]
        server.commit(w)
        assert check(store)[0] == []


def test_a_bit_of_the_manifest(tmp_path: Path) -> None:
    """It has a checksum of its own."""
    with LmdbStore(tmp_path / "s") as store:
        play(server_on(store), 2)
    with lmdb.open(str(tmp_path / "s"), max_dbs=7) as env, env.begin(write=True) as txn:
        db = env.open_db(b"state", txn)
        raw = bytes(txn.get(b"manifest", db=db) or b"")
        assert b'"steps": 2' in raw
        txn.put(b"manifest", raw.replace(b'"steps": 2', b'"steps": 3'), db=db)
    with pytest.raises(StoreError, match="the manifest is damaged"):
        LmdbStore(tmp_path / "s")


def test_a_file_cut_short(tmp_path: Path) -> None:
    """One sentence, where reading on would end the process."""
    with LmdbStore(tmp_path / "s") as store:
        play(server_on(store, "fp32"), 10)
    with (tmp_path / "s" / "data.mdb").open("r+b") as file:
        file.truncate(40_000)
    with pytest.raises(StoreError, match="was cut short"):
        LmdbStore(tmp_path / "s")


# --- readers of LMDB ---


READER = """
import sys, time
from fedadavr.stores.lmdb import LmdbStore
store = LmdbStore(sys.argv[1], read_only=True)
len(store)
print("reading", flush=True)
time.sleep(600)
"""


def test_a_killed_reader_does_not_make_the_file_grow(tmp_path: Path) -> None:
    """Its place in LMDB's table is taken from it, so that pages can be used again."""
    with LmdbStore(tmp_path / "s") as store:
        server = server_on(store)
        play(server, 10)
        words = [sys.executable, "-c", READER, str(tmp_path / "s")]
        reader = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reading\n"
        play(server, 20)
        reader.kill()
        reader.wait()
        play(server, 40)
        size = store.nbytes
        play(server, 200)
        assert store.nbytes <= 1.2 * size


def test_a_scan_under_way_when_the_map_must_grow(tmp_path: Path) -> None:
    """The commit is refused, the scan goes on, and afterwards the commit is made."""
    with LmdbStore(tmp_path / "s", map_size=1 << 17) as store:
        server = server_on(store, "fp32")
        w = play(server, 1)
        scan = server.memory.records()
        next(scan)
        round = 1

        def rounds() -> None:
            nonlocal w, round
            for round in range(2, 40):
                w = one_round(server, w, round)
                server.commit(w, round=round)

        with pytest.raises(StoreError, match="must grow, but its records are being read"):
            rounds()
        list(scan)
        server.commit(w, round=round)
        assert check(store)[0] == []


# --- encryption ---


def test_encrypted_records_need_their_key(address: str, tmp_path: Path) -> None:
    """A wrong key, none, or one too many is refused before anything is written; so is bad data."""
    key, other = tmp_path / "key", tmp_path / "other"
    key.write_bytes(b"k" * 32)
    other.write_text("ab" * 32)
    for file in (key, other):
        file.chmod(0o600)
    ram = server_on(None, "fp32")
    expected = digest(ram, play(ram, 8))
    with open_store(address, key) as store:  # type: ignore[union-attr]
        play(server_on(store, "fp32"), 5)
    for given, message in ((other, "with another key"), (None, "give its key ")):
        with pytest.raises(WrongKey, match=message):
            open_store(address, given)
    with open_store(address, key) as store:  # type: ignore[union-attr]
        server = server_on(store, "fp32")
        assert digest(server, play(server, 8)) == expected
        client, record = next(iter(server.memory.records()))
        plain = record.data.tobytes()
    spoil(address, client, lambda raw: hidden(raw, plain))
    assert sound(address, key)
    record.data = np.frombuffer(plain, np.uint8)
    with open_store(address, key, read_only=True) as store:  # type: ignore[union-attr]
        forged = b"".join(pack(Seal(), store.id, client, record))  # in the clear, rightly summed
    spoil(address, client, lambda raw: forged)
    assert not sound(address, key)
    with open_store(f"{address}2") as store:  # type: ignore[union-attr]
        play(server_on(store), 2)
    with pytest.raises(WrongKey, match="is not encrypted"):
        open_store(f"{address}2", key)


def hidden(raw: bytes, plain: bytes) -> bytes:
    """No sixteen bytes of the update are to be found in what is stored."""
    assert len(raw) == SIZE + 12 + len(plain)
    assert not any(plain[at : at + 16] in raw for at in range(0, len(plain) - 16, 16))
    return raw


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"short", "must hold 32 bytes"),
        (b"zz" * 32, "must hold 32 bytes"),
        (None, "cannot be read"),
    ],
    ids=["short", "no hex", "absent"],
)
def test_a_bad_key_file_is_refused(content: bytes | None, message: str, tmp_path: Path) -> None:
    """And no store is made."""
    key = tmp_path / "key"
    if content is not None:
        key.write_bytes(content)
        key.chmod(0o600)
    with pytest.raises(ValueError, match=message):
        open_store(f"lmdb:{tmp_path / 's'}", key)
    assert not (tmp_path / "s").exists()


# --- room ---


def test_the_map_grows_by_itself(tmp_path: Path) -> None:
    """A store that begins with a map of one page's worth ends with all rounds."""
    ram = server_on(None, "fp32")
    expected = digest(ram, play(ram, 20))
    with LmdbStore(tmp_path / "s", map_size=1 << 16) as store:
        server = server_on(store, "fp32")
        assert digest(server, play(server, 20)) == expected
        assert store.nbytes > 1 << 16
        assert verified(f"lmdb:{tmp_path / 's'}")


FULL = """
import resource, signal, sys
sys.path.insert(0, sys.argv[2])
from tests.rounds import *
from fedadavr.stores import StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = open_store(sys.argv[1])
server = server_on(store, "fp32")
w = play(server, 5)
size = store.nbytes
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096, resource.RLIM_INFINITY))
failed = 0
for round in range(6, 31):
    w = one_round(server, w, round)
    try:
        server.commit(w, round=round)
    except StoreError as error:
        assert "the disk is full or failing" in str(error), error
        failed += 1
    if round == 20:
        assert failed > 3
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
assert failed < 20
print(digest(server, w))
store.close()
"""


def test_a_full_disk_in_a_commit_loses_nothing(tmp_path: Path) -> None:
    """The commit fails in one sentence, the last one stands, and a later one writes it all.

    A limit on the size of files stands in for the full disk: writes fail in the same place.
    """
    place = f"lmdb:{tmp_path / 's'}"
    words = [sys.executable, "-c", FULL, place, str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ram = server_on(None, "fp32")
    assert done.stdout.strip() == digest(ram, play(ram, 30))
    assert sound(place)


# --- Redis comes and goes ---


def while_down(servers: RedisServer, act: Any) -> None:
    """Start something while a server is stopped; it comes back when the first attempts failed."""
    servers.stop()
    thread = threading.Timer(0.5, servers.start)
    thread.start()
    try:
        act()
    finally:
        thread.join()


@pytest.mark.parametrize("moment", ["read", "commit"])
def test_redis_restarted_in_a_round(moment: str, redis_server: RedisServer) -> None:
    """The store tries again until it is back, and the round is as if nothing had been."""
    address = f"{redis_server.url}?name={uuid4().hex}"
    ram = server_on(None)
    expected = digest(ram, play(ram, 6))
    with open_store(address) as store:  # type: ignore[union-attr]
        server = server_on(store)
        w = play(server, 4)
        box = [w]
        if moment == "read":
            while_down(redis_server, lambda: box.append(one_round(server, w, 5)))
            server.commit(box[-1], round=5)
        else:
            box.append(one_round(server, w, 5))
            while_down(redis_server, lambda: server.commit(box[-1], round=5))
        assert digest(server, play(server, 6)) == expected
    assert sound(address)


def test_a_lost_connection_fails_that_round_only(redis_server: RedisServer) -> None:
    """With no patience a read and a commit fail in one sentence; both can be tried again."""
    address = f"{redis_server.url}?name={uuid4().hex}&patience=0.2"
    ram = server_on(None)
    expected = digest(ram, play(ram, 6))
    with open_store(address) as store:  # type: ignore[union-attr]
        server = server_on(store)
        w = play(server, 4)
        before = digest_of_ram_part(server)
        redis_server.stop()
        with pytest.raises(StoreError, match=r"does not answer .* can be tried again"):
            one_round(server, w, 5)
        assert digest_of_ram_part(server) == before
        redis_server.start()
        w = one_round(server, w, 5)
        redis_server.stop()
        with pytest.raises(StoreError, match=r"does not answer"):
            server.commit(w, round=5)
        redis_server.start()
        server.commit(w, round=5)
        assert digest(server, play(server, 6)) == expected
    assert sound(address)


def digest_of_ram_part(server: Any) -> Any:
    from tests.rounds import flat

    return flat(server.state_dict())


@pytest.mark.parametrize("node", [0, 1, 2])
def test_a_cluster_node_gone_and_back(node: int, redis_cluster: RedisCluster) -> None:
    """Whatever it holds (records, the manifest), the round waits for it and is whole."""
    address = f"{redis_cluster.url}?name={uuid4().hex}"
    ram = server_on(None)
    expected = digest(ram, play(ram, 8))
    with open_store(address) as store:  # type: ignore[union-attr]
        server = server_on(store)
        play(server, 4)
        while_down(redis_cluster.nodes[node], lambda: play(server, 6))
        wait_for(redis_cluster.is_whole, "the cluster")
        assert digest(server, play(server, 8)) == expected
    assert sound(address)


class Interrupted(BaseException):
    """As if the process had been killed here."""


def test_every_point_of_a_redis_commit_leaves_a_whole_round(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop before each command in turn, go on with *other* clients, and all is sound."""
    for point in range(40):
        address = f"{redis_server.url}?name={uuid4().hex}"
        store: PersistentStore = RedisStore(address)
        server = server_on(store)
        w = play(server, 3)
        w = one_round(server, w, 4)
        server.memory.forget(next(iter(server.memory.records()))[0])
        left = [point]
        send = RedisStore._try

        def dying(self: Any, attempt: Any, left: list[int] = left, send: Any = send) -> Any:
            if not left[0]:
                raise Interrupted
            left[0] -= 1
            return send(self, attempt)

        finished = False
        with monkeypatch.context() as patch:
            patch.setattr(RedisStore, "_try", dying)
            try:
                server.commit(w, round=4)
                finished = True
            except Interrupted:
                pass
        store.close()
        with RedisStore(address) as store:
            assert check(store)[0] == [], point
            again = server_on(store)
            w, extra = again.restore()
            assert extra["round"] in (3, 4)
            again.commit(one_round(again, w, 100), round=extra["round"] + 1)
            assert check(store)[0] == [], point
            count = sum(1 for _ in store.items())
            assert count == len(store)
            keys = redis_server.client.keys(f"{address.rpartition('=')[2]}:*")
            # Nothing is left lying about: headers, updates, five arrays, manifest, intent, lease,
            # and what each round has told.
            assert len(keys) <= 2 * count + 5 + 3 + extra["round"] + 1, keys
        if finished:
            break
    assert finished
    assert point > 5


def test_an_answer_that_is_lost_is_not_a_commit_that_is(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flip was made and only its answer lost: commit again, after more rounds, or restore."""
    if address.startswith("lmdb:"):
        pytest.skip("LMDB knows what it has written")
    for go_on in (True, False):
        ram = server_on(None)
        expected = digest(ram, play(ram, 7))
        place = f"{address}{go_on}&patience=0"
        with RedisStore(place) as store:
            server = server_on(store)
            w = one_round(server, play(server, 4), 5)
            attempt = RedisStore._try

            def deaf(self: Any, call: Any, attempt: Any = attempt) -> Any:
                answer = attempt(self, call)
                if call.__code__.co_names.count("eval"):
                    raise StoreError("the answer is lost")
                return answer

            with monkeypatch.context() as patch:
                patch.setattr(RedisStore, "_try", deaf)
                with pytest.raises(StoreError, match="the answer is lost"):
                    server.commit(w, round=5)
            if go_on:
                w = one_round(server, w, 6)
                server.commit(w, round=6)
            assert digest(server, play(server, 7)) == expected
        with RedisStore(place) as store:
            assert check(store)[0] == []
            assert store.state()["extra"]["round"] == 7  # type: ignore[index]


def test_a_failed_commit_leaves_no_ghosts(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had written is not taken for a later commit's of the same number."""
    with RedisStore(f"{redis_server.url}?name={uuid4().hex}") as store:
        server = server_on(store)
        w = play(server, 4)
        w = one_round(server, w, 5)
        with monkeypatch.context() as patch:
            patch.setattr(RedisStore, "_flip", lambda *_: (_ for _ in ()).throw(StoreError("x")))
            with pytest.raises(StoreError):
                server.commit(w, round=5)
        w, _ = server.restore()
        w = one_round(server, w, 50)  # other clients
        server.commit(w, round=5)
        assert check(store)[0] == []


def test_a_server_that_wakes_up_late_takes_nothing_away(redis_server: RedisServer) -> None:
    """It stalls between its flip and its cleaning, while another takes over and goes on."""
    address = f"{redis_server.url}?name={uuid4().hex}"
    name = address.rpartition("=")[2]
    with RedisStore(address) as slow:
        server = server_on(slow)
        w = one_round(server, play(server, 3), 4)
        cleaned: list[Any] = []
        assert isinstance(slow, RedisStore)
        slow._clean = lambda intent: cleaned.append(intent)  # type: ignore[method-assign]
        server.commit(w, round=4)
        redis_server.client.delete(f"{name}:lease")
        with RedisStore(address) as quick:
            other = server_on(quick)
            expected = digest(other, play(other, 12))
        del slow._clean
        for intent in cleaned:
            slow._clean(intent)
    with RedisStore(address) as store:
        assert check(store)[0] == []
        again = server_on(store)
        assert digest(again, play(again, 12)) == expected


def test_redis_restarted_in_a_scan(redis_server: RedisServer) -> None:
    """Reading all records waits for it, too."""
    address = f"{redis_server.url}?name={uuid4().hex}"
    with RedisStore(address) as store:
        server = server_on(store)
        play(server, 12)
        total = server.memory.total.copy()
        box: list[Any] = []
        while_down(redis_server, lambda: box.append(server.memory.resum()))
        np.testing.assert_allclose(box[0], total, rtol=1e-9, atol=1e-9)


def test_a_cluster_that_was_away_is_still_ours(
    redis_cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is renewed again when it is back, so that no second server gets in."""
    monkeypatch.setattr("fedadavr.stores.redis.LEASE", 3.0)
    address = f"{redis_cluster.url}?name={uuid4().hex}"
    with RedisStore(address) as store:
        play(server_on(store), 2)
        for node in redis_cluster.nodes:
            node.stop()
        time.sleep(2.5)  # the lease is renewed every second: some of that fails
        for node in redis_cluster.nodes:
            node.start()
        wait_for(redis_cluster.is_whole, "the cluster")
        name = address.rpartition("=")[2]
        assert isinstance(store, RedisStore)
        connection = store._redis

        def held() -> bool:
            try:
                return bool(connection.get(f"{name}:lease"))
            except Exception:  # not whole yet
                return False

        wait_for(held, "the lease")
        with pytest.raises(StoreError, match="is in use by another server"):
            RedisStore(address)


# --- pruning ---


def test_pruning_forgets_who_was_not_seen(address: str) -> None:
    """Against a plain dictionary: total, population and who is remembered, round after round."""
    after, rng = 3, np.random.default_rng(0)
    with open_store(address) as store:  # type: ignore[union-attr]
        server = algorithm(
            "fedadavr", LAYOUT, store=store, prune_after=after, population=CLIENTS, clip=0.0
        )
        w = LAYOUT.zeros()
        known: dict[str, Any] = {}
        for round in range(1, 20):
            cohort = rng.choice(12, 2, replace=False)
            updates = [Update(str(c), w + np.float32(c + round), int(c) + 1) for c in cohort]
            known |= {u.client: (u.examples, (w - u.weights).astype(float), round) for u in updates}
            w = server.step(w, updates)
            known = {c: v for c, v in known.items() if round - v[2] < after}
            memory = server.memory
            assert memory is not None
            assert sorted(c for c, _ in memory.records()) == sorted(known)
            total = sum(n * y for n, y, _ in known.values())
            np.testing.assert_allclose(memory.total, total, rtol=1e-6)
            assert memory.count == CLIENTS
            sizes = [n for n, _, _ in known.values()]
            assert memory.weight == pytest.approx(np.mean(sizes) * CLIENTS)
            if round % 4 == 0:
                server.commit(w)


def test_a_memory_that_begins_to_prune_late(tmp_path: Path) -> None:
    """The clients that were seen before are found once, and pruned when they are due."""
    w = LAYOUT.zeros()
    with LmdbStore(tmp_path / "s") as store:
        server = algorithm("fedvarp", LAYOUT, store=store)
        for client in "abcdef":
            w = server.step(w, [Update(client, w + 1, 1)])
        server.commit(w)
    with LmdbStore(tmp_path / "s") as store:
        server = algorithm("fedvarp", LAYOUT, store=store, prune_after=3)
        server.restore()
        server.step(w, [Update("z", w + 1, 1)])
        assert sorted(c for c, _ in server.memory.records()) == ["e", "f", "z"]  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [0, -1, 2.5, True])
def test_a_bad_prune_after_is_refused(value: Any) -> None:
    """It counts rounds."""
    with pytest.raises(ValueError, match="prune_after must be a whole number"):
        algorithm("fedadavr", LAYOUT, prune_after=value)


# --- the format ---


def test_the_format_is_as_it_is_written_down(tmp_path: Path) -> None:
    """A reader made from docs/store-format.md alone reads a record and its manifest."""
    import json
    import struct
    import zlib

    with LmdbStore(tmp_path / "s") as store:
        record = Record(7.5, 3, np.arange(5, dtype=np.uint8), "int4", LAYOUT.digest, 99, 2)
        store.commit({"ü": record}, {"server": {"memory": None}})
    with lmdb.open(str(tmp_path / "s"), max_dbs=7) as env, env.begin() as txn:
        raw, update = (
            txn.get("ü".encode(), db=env.open_db(name, txn)) for name in (b"clients", b"updates")
        )
        manifest = txn.get(b"manifest", db=env.open_db(b"state", txn))
    assert raw is not None
    assert len(raw) == 96
    assert update == bytes(range(5))
    fields = struct.unpack("<4sBBxx16s16sdQQQI", raw[:76])
    assert fields[:4] == (b"FAVR", 2, 0, b"int4".ljust(16, b"\0"))
    assert fields[4].decode() == Layout(LAYOUT.shapes).digest
    assert fields[5:] == (7.5, 3, 99, 5, 2)
    name = "ü".encode()
    assert raw[76:80] == struct.pack("<I", zlib.crc32(raw[:76] + name))
    assert manifest is not None
    assert manifest[:9] == b"%08x " % zlib.crc32(manifest[9:])
    about = json.loads(manifest[9:])
    assert about["format"] == 2
    sealed = about["id"].encode() + b"\0" + name + b"\0" + raw[:80] + update
    assert raw[80:] == struct.pack("<I", zlib.crc32(sealed)).ljust(16, b"\0")


@pytest.mark.parametrize("bad", ["disk:x", "lmdb:", "redis", "", "ram:"])
def test_an_address_that_is_none(bad: str) -> None:
    """One sentence with the three kinds."""
    with pytest.raises(ValueError, match="must be ram, lmdb:FOLDER or redis://HOST:PORT"):
        open_store(bad)


def test_a_redis_that_is_not_there() -> None:
    """After the patience that was asked for, one sentence, without the password."""
    with pytest.raises(StoreError, match=r"redis://127.0.0.1:9.* does not answer") as caught:
        open_store("redis://me:secret@127.0.0.1:9?patience=0.1")
    assert "secret" not in str(caught.value)


def test_redis_started_again_in_the_middle_of_a_scan(redis_server: RedisServer) -> None:
    """Its cursors mean nothing to the new process: every record is met all the same, once."""
    name = uuid4().hex
    with RedisStore(f"{redis_server.url}?name={name}") as store:
        for start in range(0, 6000, 1000):
            store.commit({
                f"{k}": Record(1.0, 1, np.zeros(1, np.uint8), "int8", LAYOUT.digest)
                for k in range(start, start + 1000)
            })  # fmt: skip
        for _ in range(3):
            scan = store.items(data=False)
            found = [next(scan)[0] for _ in range(500)]
            redis_server.stop()
            redis_server.start()
            found += [client for client, _ in scan]
            assert sorted(found, key=int) == [str(k) for k in range(6000)]
