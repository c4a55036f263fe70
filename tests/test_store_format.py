"""Format 2: what is sealed, what is noticed, what old stores become, and what a commit costs."""

from __future__ import annotations

import gzip
import json
import logging
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import lmdb
import numpy as np
import pytest

from fedadavr import Layout, Update, algorithm
from fedadavr.cli import main
from fedadavr.memory import ClientMemory
from fedadavr.memory.verify import check
from fedadavr.stores import StoreError, StoreLost, open_store
from fedadavr.stores.addresses import open_any_store
from fedadavr.stores.lmdb import LmdbStore
from fedadavr.stores.persistent import OldFormat, PersistentStore
from fedadavr.stores.record_format import SIZE
from fedadavr.stores.seal import Seal
from tests.redis_servers import RedisServer
from tests.rounds import CLIENTS, LAYOUT, digest, one_round, opened, play, server_on
from tests.test_stores import connect, flip, remove, sound, spoil

FIXTURES = Path(__file__).parent / "fixtures" / "format-1"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A key file as it must be."""
    path = tmp_path / "key"
    path.write_bytes(b"k" * 32)
    path.chmod(0o600)
    return path


def raw_values(address: str) -> dict[str, bytes]:
    """All bytes that a store keeps, by where they are."""
    if address.startswith("lmdb:"):
        found = {}
        with lmdb.open(address.removeprefix("lmdb:"), max_dbs=7) as env, env.begin() as txn:
            for table in ("clients", "updates", "members", "rounds", "state", "snapshots"):
                for where, value in txn.cursor(db=env.open_db(table.encode(), txn)):
                    found[f"{table}:{bytes(where)!r}"] = bytes(value)
        return found
    url, _, name = address.partition("?name=")
    server = connect(url)
    found = {}
    for place in set(server.scan_iter(f"{name}:*")):
        if server.type(place) == b"string":
            found[place.decode()] = server.get(place)
        else:
            found |= {f"{place.decode()} {f!r}": v for f, v in server.hgetall(place).items()}
    server.close()
    return found


# --- encryption ---


def test_an_encrypted_store_shows_nothing(address: str, key: Path) -> None:
    """Neither the model nor the total, moments, records, centers or settings stand in the clear.

    After one round FedAdaVR+'s centers are single clients' updates, and with a cohort of one so
    is total / n.
    """
    with opened(address, key) as store:
        server = server_on(store, "fp32", "fedadavr-plus", snapshot_every=1)
        w = play(server, 2)
        server.memory.join("somebody", 7654321)
        server.commit(w, round=2, secret="a setting")
        secrets = [
            w,
            server.memory.total,
            server.server_optimizer.m,
            server.server_optimizer.v,
            server.vectors.vectors,
        ]
        secrets += [record.data for _, record in server.memory.records()]
        pieces = [bytes(x.tobytes()[at : at + 16]) for x in secrets for at in (64, 400, 1600)]
        pieces = [piece for piece in pieces if len(piece) == 16 and any(piece)]
    assert len(pieces) > 15
    for where, value in raw_values(address).items():
        assert not any(piece in value for piece in pieces), where
        assert b"a setting" not in value, where
        assert b"7654321" not in value, where
    assert sound(address, key)


def old_record(address: str, key: Path | None) -> None:
    """A client's record of the round before is copied back."""
    kept: list[bytes] = []
    with opened(address, key) as store:
        w = play(server_on(store), 6)
        client = next(client for client, record in store.items() if record.round == 6)
    spoil(address, client, lambda raw: kept.append(raw) or raw)  # type: ignore[func-returns-value]
    with opened(address, key) as store:
        server = server_on(store)
        server.restore()
        server.commit(server.step(w, [Update(client, w + 1, 5)]), round=7)
    spoil(address, client, lambda raw: kept[0])


def foreign_record(address: str, key: Path | None) -> None:
    """A client's record comes from another store with the same key."""
    for place in (f"{address}2", address):
        with opened(place, key) as store:
            play(server_on(store), 6)
            clients = sorted(client for client, _ in store.items())
    kept: list[bytes] = []
    spoil(f"{address}2", clients[0], lambda raw: kept.append(raw) or raw)  # type: ignore[func-returns-value]
    spoil(address, clients[0], lambda raw: kept[0])


def edited(array: str) -> Any:
    """Some numbers of the state are changed, and the checksum with them where there is no key."""

    def edit(address: str, key: Path | None) -> None:
        with opened(address, key) as store:
            play(server_on(store), 6)

        def change(raw: bytes) -> bytes:
            return raw[:100] + bytes(8) + raw[108:]

        if address.startswith("lmdb:"):
            with lmdb.open(address.removeprefix("lmdb:"), max_dbs=7) as env:
                state = env.open_db(b"state")
                with env.begin(write=True, db=state) as txn:
                    value = txn.get(array.encode())
                    assert value is not None
                    txn.put(array.encode(), change(value))
            return
        url, _, name = address.partition("?name=")
        server = connect(url)
        (place,) = set(server.scan_iter(f"{name}:array:*:{array}"))
        server.set(place, change(server.get(place)))
        server.close()

    return edit


@pytest.mark.parametrize("with_key", [True, False], ids=["keyed", "plain"])
@pytest.mark.parametrize(
    "tamper",
    [old_record, foreign_record, edited("state.w/0"), edited("state.server.memory.total/0")],
    ids=["an old record", "another store's record", "the model", "the total"],
)  # fmt: skip
def test_what_was_put_in_its_place_is_noticed(
    tamper: Any, with_key: bool, address: str, key: Path
) -> None:
    """`verify` says so for each of them, and `repair` mends what is a record's."""
    given = key if with_key else None
    tamper(address, given)
    assert not sound(address, given)
    if "record" not in (tamper.__doc__ or ""):
        with opened(address, given) as store, pytest.raises(StoreError, match="checksum"):
            server_on(store).restore()
        return
    words = ["--encrypt-with", str(key)] if with_key else []
    main(["memory", "repair", address, *words])
    assert sound(address, given)


def test_an_edited_manifest_is_noticed_with_a_key(tmp_path: Path, key: Path) -> None:
    """Also when its checksum was made anew: only who has the key can write one."""
    import zlib

    with LmdbStore(tmp_path / "s", key=b"k" * 32) as store:
        play(server_on(store), 3)
    with lmdb.open(str(tmp_path / "s"), max_dbs=7) as env:
        state = env.open_db(b"state")
        with env.begin(write=True, db=state) as txn:
            about = json.loads(bytes(txn.get(b"manifest"))[9:])  # type: ignore[arg-type]
            assert set(about) == {"format", "id", "commit", "key_check", "sealed"}
            about["commit"] += 1
            raw = json.dumps(about).encode()
            txn.put(b"manifest", b"%08x %b" % (zlib.crc32(raw), raw))
    with pytest.raises(StoreError, match="changed by somebody who does not have the key"):
        LmdbStore(tmp_path / "s", key=b"k" * 32)


def test_no_nonce_is_used_twice(tmp_path: Path) -> None:
    """AES-GCM with the same nonce twice gives the key stream away: all of a run's are different."""
    seen: list[bytes] = []
    with LmdbStore(tmp_path / "s", key=b"k" * 32) as store:
        server, w = server_on(store), LAYOUT.zeros()
        for round in range(1, 8):
            w = one_round(server, w, round)
            server.commit(w, round=round)
            with store._reading() as txn:
                for name in ("updates", "state"):
                    for where, value in txn.cursor(db=store._databases[name]):
                        if bytes(where) != b"manifest":
                            seen.append(bytes(value[:12]))
    distinct = set(seen)
    # A record that did not change is met again in the next round with the nonce that it had.
    assert len(distinct) > 7 * 5
    assert all(any(nonce) for nonce in distinct)
    assert len({nonce[:6] for nonce in distinct}) == len(distinct)
    checks = [Seal(b"k" * 32).key_check() for _ in range(20)]  # one for each store with this key
    assert len({check[:24] for check in checks if check}) == 20


# --- what is lost ---


@pytest.mark.parametrize(
    ("tables", "named"),
    [(["updates"], True), (["clients"], True), (["clients", "updates"], False)],
    ids=["its update", "its header", "both"],
)
def test_a_missing_record_costs_only_itself(
    tables: list[str], named: bool, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named where a trace is left, taken as never seen, and the total is summed again."""
    w = LAYOUT.zeros()
    updates = [Update(c, w - np.float32(k + 1), 10 * (k + 1)) for k, c in enumerate("abc")]
    with opened(address) as store:
        server = server_on(store)
        server.commit(server.step(w, updates), round=1)
    remove(address, "b", *tables)
    assert not sound(address)
    intact = server_on(None)
    start = intact.step(w, [updates[0], updates[2]])
    with opened(address) as store:
        server = server_on(store)
        server.restore()
        with caplog.at_level(logging.ERROR):
            if not named and not isinstance(store, LmdbStore):
                server.memory.repair()  # Redis cannot count; verify told the user to repair
            server.step(start, [Update("b", start + np.float32(0.02), 20)])
        assert ("client 'b'" if named else "missing without a trace") in caplog.text
        intact.step(start, [Update("b", start + np.float32(0.02), 20)])
        np.testing.assert_allclose(server.memory.total, intact.memory.total, rtol=1e-12)
        assert server.memory.count == intact.memory.count == CLIENTS
        server.commit(start, round=2)
        assert store.lost == 1
    assert sound(address)


def test_repair_mends_what_can_be_mended(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Damaged records, a wrong total, moments that are not finite; the rest stays."""
    with opened(address) as store:
        play(server_on(store), 8)
        kept = {c: r.data.tobytes() for c, r in store.items()}
        memory, state = ClientMemory.stored(store)
        assert memory is not None
        state["server"]["optimizer"]["v"][7] = np.inf
        state["server"]["optimizer"]["m"][8] = np.nan
        state["server"]["memory"]["total"][3] += 1
        memory.commit(state)
    client = sorted(kept)[0]
    spoil(address, client, flip(SIZE + 50))
    with pytest.raises(SystemExit):
        main(["memory", "verify", address])
    said = capsys.readouterr().out
    for fault in ("first moment holds NaN", "second moment holds NaN", f"client '{client}'"):
        assert fault in said
    main(["memory", "repair", address])
    said = capsys.readouterr().out
    assert "1 records were lost" in said
    assert "2 of 1252 moments were not finite" in said
    assert "is sound now" in said
    main(["memory", "verify", address])
    with opened(address) as store:
        left = {c: r.data.tobytes() for c, r in store.items()}
        assert left == {c: data for c, data in kept.items() if c != client}
        play(server_on(store), 12)
    main(["memory", "repair", address])
    assert "needed no repair" in capsys.readouterr().out


def test_repair_does_not_pretend_to_mend_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model with NaN is gone: it says how to go back, and changes nothing."""
    place = f"lmdb:{tmp_path / 's'}"
    with opened(place) as store:
        play(server_on(store), 3)
        memory, state = ClientMemory.stored(store)
        assert memory is not None
        state["w"][0] = np.nan
        memory.commit(state)
    with pytest.raises(SystemExit):
        main(["memory", "repair", place])
    assert "fedadavr memory rewind, or restore a backup" in capsys.readouterr().err


def test_a_huge_record_is_not_called_sound(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its rounding swallows the others in the total; forgotten and repaired, they are back."""
    with opened(address) as store:
        server = server_on(store, "fp32")
        play(server, 5)
        memory, state = ClientMemory.stored(store)
        assert memory is not None
        client, record = next(iter(memory.records()))
        record.data = np.full(LAYOUT.size, 1e30, np.float32).view(np.uint8)
        memory.total += record.weight * 1e30
        memory.adopt({client: record})
        state["server"]["memory"] = memory.state_dict()
        memory.commit(state)
    with pytest.raises(SystemExit):
        main(["memory", "verify", address])
    assert "has no digits left for the others" in capsys.readouterr().out
    main(["memory", "forget", address, client])
    main(["memory", "repair", address])
    capsys.readouterr()
    main(["memory", "verify", address])
    assert "is sound" in capsys.readouterr().out


# --- LMDB's own troubles ---


def damaged_files(path: Path) -> dict[str, Any]:
    """Ways in which a file can be none of ours, each by name."""

    def foreign() -> None:
        shutil.rmtree(path)
        with lmdb.open(str(path)) as env, env.begin(write=True) as txn:
            txn.put(b"theirs", b"1")

    def without(name: bytes) -> Any:
        def drop() -> None:
            with lmdb.open(str(path), max_dbs=7) as env:
                database = env.open_db(name)
                with env.begin(write=True) as txn:
                    txn.drop(database, delete=True)

        return drop

    def no_manifest() -> None:
        with lmdb.open(str(path), max_dbs=7) as env:
            database = env.open_db(b"state")
            with env.begin(write=True) as txn:
                txn.delete(b"manifest", db=database)

    def rewrite(data: bytes) -> Any:
        return lambda: (path / "data.mdb").write_bytes(data)

    return {
        "foreign": foreign, "clients": without(b"clients"), "undo": without(b"undo"),
        "manifest": no_manifest, "empty": rewrite(b""), "text": rewrite(b"hello" * 5000),
        "zeros": rewrite(bytes(100_000)), "short": rewrite(b"x"),
    }  # fmt: skip


@pytest.mark.parametrize("case", list(damaged_files(Path())))
def test_a_file_that_is_no_store_is_never_begun_anew(case: str, tmp_path: Path) -> None:
    """One sentence, no traceback of LMDB's, no fresh start from round 0; the file stays."""
    path = tmp_path / "s"
    with LmdbStore(path) as store:
        play(server_on(store), 3)
    damaged_files(path)[case]()
    before = (path / "data.mdb").read_bytes()
    for read_only in (True, False):
        with pytest.raises(StoreError, match=r"restore|no store of this program"):
            LmdbStore(path, read_only=read_only)
    assert (path / "data.mdb").read_bytes() == before


def test_random_damage_gives_a_sentence(tmp_path: Path) -> None:
    """Whatever bytes of the file are changed: sound, a fault that is told, or one sentence.

    Each look is a process of its own, since LMDB itself can be brought to crash by its own pages;
    a crash is an end, too, but never a wrong answer.
    """
    path, seed = tmp_path / "s", int(os.environ.get("SEED", "7"))
    with LmdbStore(path) as store:
        play(server_on(store), 5)
    whole = (path / "data.mdb").read_bytes()
    rng = np.random.default_rng(seed)
    outcomes: dict[str, int] = {}
    for trial in range(60):
        raw = bytearray(whole)
        for at in rng.integers(0, len(raw), int(rng.integers(1, 40))):
            raw[at] = int(rng.integers(256))
        (path / "data.mdb").write_bytes(raw)
        child = os.fork()
        if not child:  # pragma: no cover, another process
            os.close(2)
            try:
                with LmdbStore(path, read_only=True) as store:
                    faults, _ = check(store)
                os._exit(1 if faults else 0)
            except (StoreError, ValueError):
                os._exit(2)
            except BaseException:
                os._exit(3)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code != 3, f"trial {trial} of seed {seed}: an exception that is no sentence"
        outcomes[str(code)] = outcomes.get(str(code), 0) + 1
    assert len(outcomes) >= 2, outcomes


@pytest.mark.parametrize("what", ["data.mdb", "server.lock", "lock.mdb", "the folder"])
def test_files_removed_under_a_server_are_noticed(what: str, tmp_path: Path) -> None:
    """At the next commit, which would have gone into nowhere."""
    path = tmp_path / "s"
    with LmdbStore(path) as store:
        server = server_on(store)
        w = play(server, 2)
        w = one_round(server, w, 3)
        if what == "the folder":
            path.rename(tmp_path / "away")
        else:
            (path / what).unlink()
        with pytest.raises(StoreLost, match=r"removed or replaced under this server|is gone"):
            server.commit(w, round=3)


# --- permissions ---


def test_stores_are_their_owners_alone(tmp_path: Path) -> None:
    """Folder 0700, files 0600, whatever the umask; also those of a backup."""
    before = os.umask(0o000)
    try:
        with LmdbStore(tmp_path / "deep" / "s") as store:
            play(server_on(store), 2)
            store.backup(tmp_path / "copy")
    finally:
        os.umask(before)
    for path in (tmp_path / "deep" / "s", tmp_path / "copy"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        for file in path.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_store_that_others_can_read_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the command that mends it."""
    LmdbStore(tmp_path / "s").close()
    (tmp_path / "s" / "data.mdb").chmod(0o644)
    LmdbStore(tmp_path / "s").close()
    assert f"chmod -R go= {tmp_path / 's'}" in caplog.text


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """With the command that mends it; the command that the docs give makes a good one."""
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o640)
    with pytest.raises(ValueError, match=rf"chmod 600 {key}"):
        open_store(f"lmdb:{tmp_path / 's'}", key)
    key.unlink()
    deploying = (Path(__file__).parent.parent / "docs" / "deploying.md").read_text()
    command = "(umask 077; head -c 32 /dev/urandom > "
    assert command in deploying
    assert os.system(f"{command}{key})") == 0
    open_store(f"lmdb:{tmp_path / 's'}", key).close()


# --- former formats ---


def old_store(tmp_path: Path, name: str) -> str:
    folder = tmp_path / name
    folder.mkdir(mode=0o700)
    with gzip.open(FIXTURES / f"{name}.mdb.gz") as file:
        (folder / "data.mdb").write_bytes(file.read())
    return f"lmdb:{folder}"


@pytest.mark.parametrize("name", ["plain", "encrypted", "plus", "fedavg"])
def test_a_store_of_format_1_is_read_and_converted(
    name: str, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It can be looked at as it is; nothing writes into it; converted, it goes on to the bit."""
    address = old_store(tmp_path, name)
    given = key if name == "encrypted" else None
    words = ["--encrypt-with", str(key)] if given else []
    about = json.loads((FIXTURES / "digests.json").read_text())
    with pytest.raises(OldFormat, match="convert it first, with fedadavr memory upgrade"):
        open_store(address, given)
    with open_any_store(address, given, read_only=True) as old:
        assert check(old)[0] == []
    main(["memory", "inspect", address, *words])
    assert "after round 9" in capsys.readouterr().out
    main(["memory", "upgrade", address.removeprefix("lmdb:"), *words])
    main(["memory", "verify", address, *words])
    kind = {"plus": "fedadavr-plus", "fedavg": "fedavg"}.get(name, "fedadavr")
    with opened(address, given) as store:
        server = server_on(store, name=kind)
        w, extra = server.restore()
        assert extra == {"round": 9}
        assert float(np.abs(w).sum()) == about[f"{name} w"]
        if server.memory is not None:
            assert server.memory.population.waiting == {"waiting": 12, "unsized": None}
            assert len(server.memory.population.left) == 1
        if kind == "fedadavr-plus":
            assert sorted(store.rounds()) == list(range(1, 10))
        play(server, 14)
        assert check(store)[0] == []


def test_a_redis_store_of_format_1_is_converted(
    redis_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Into another name, or into a folder."""
    name = uuid4().hex
    with gzip.open(FIXTURES / "redis.json.gz") as file:
        for where, value in json.loads(file.read()).items():
            place = bytes.fromhex(where).replace(b"fixture", name.encode())
            if isinstance(value, str):
                redis_server.client.set(place, bytes.fromhex(value))
            else:
                fields = {bytes.fromhex(f): bytes.fromhex(v) for f, v in value.items()}
                redis_server.client.hset(place, mapping=fields)
    redis_server.client.delete(f"{name}:lease")
    old, new = (f"{redis_server.url}?name={n}" for n in (name, f"{name}-2"))
    with pytest.raises(OldFormat):
        open_store(old)
    main(["memory", "verify", old])
    main(["memory", "convert", old, new])
    main(["memory", "verify", new])
    assert capsys.readouterr().out.count("is sound") == 2
    fresh = server_on(None, server_lr=0.01)
    expected = play(fresh, 14)
    with opened(new) as store:
        server = server_on(store, server_lr=0.01)
        np.testing.assert_array_equal(play(server, 14), expected)
        np.testing.assert_array_equal(server.memory.total, fresh.memory.total)
        np.testing.assert_array_equal(server.server_optimizer.v, fresh.server_optimizer.v)


def test_a_record_of_format_1_is_never_accepted(tmp_path: Path) -> None:
    """An authenticated store does not take what was written without its guarantees."""
    address = old_store(tmp_path, "plain")
    with lmdb.open(address.removeprefix("lmdb:"), max_dbs=2) as env, env.begin() as txn:
        client, raw = next(iter(txn.cursor(db=env.open_db(b"clients", txn))))
    place = f"lmdb:{tmp_path / 'new'}"
    with opened(place) as store:
        server = server_on(store)
        w = LAYOUT.zeros()
        server.commit(server.step(w, [Update(client.decode(), w + 1, 3)]), round=1)
    spoil(place, client.decode(), lambda _: raw[:64].ljust(SIZE, b"\0") + raw[64:])
    with opened(place, read_only=True) as store:
        assert any("its format is version 1" in fault for fault in check(store)[0])


# --- what a commit writes ---


def written(store: Any, act: Any) -> int:
    """The bytes that a store is given to write."""
    sizes: list[int] = []
    before = store._write

    def counting(changes: Any, chunks: Any, manifest: Any, undo: Any) -> None:
        values = [v for changed in changes.values() for kv in changed.items() for v in kv]
        values += [v for kv in (chunks or {}).items() for v in kv]
        sizes.append(sum(len(v) for v in values if v is not None) + len(store._dump(manifest)))
        before(changes, chunks, manifest, undo)

    store._write = counting
    act()
    del store._write
    return sum(sizes)


def test_a_commit_does_not_grow_with_the_population(tmp_path: Path) -> None:
    """With 100 and with 100,000 clients known by name its bytes differ by less than 8 kB."""
    layout = Layout({"x": (8,)})
    sizes = {}
    for number in (100, 100_000):
        known = {f"client {k:06d}": 5 for k in range(number)}
        with LmdbStore(tmp_path / str(number)) as store:
            server = algorithm("fedadavr", layout, store=store, population=known, prune_after=50)
            w = layout.zeros()
            w = server.step(w, [Update(c, w + 1, 5) for c in list(known)[:5]])
            server.commit(w, round=1)  # which writes all names, once
            w = server.step(w, [Update(c, w + 1, 5) for c in list(known)[3:8]])
            sizes[number] = written(store, lambda server=server, w=w: server.commit(w, round=2))
        with LmdbStore(tmp_path / str(number)) as store:
            again = algorithm("fedadavr", layout, store=store, population=3, prune_after=50)
            again.restore()
            assert again.memory is not None
            assert again.memory.count == number
            assert again.memory.weight == 5.0 * number
            assert check(store)[0] == []
    assert abs(sizes[100_000] - sizes[100]) < 8_000, sizes


def test_members_come_and_go(address: str) -> None:
    """Clients that wait or have left are kept beside the records, changed ones only."""
    w = LAYOUT.zeros()
    with opened(address) as store:
        server: Any = algorithm("fedadavr", LAYOUT, store=store)
        for name, size in (("a", 5), ("b", None), ("c", 7)):
            server.memory.join(name, size)
        server.commit(server.step(w, [Update("a", w + 1, 5)]), round=1)
        server.memory.leave("c")
        server.memory.join("d")
        server.commit(w, round=2)
    for _ in range(2):
        with opened(address) as store:
            server = algorithm("fedadavr", LAYOUT, store=store)
            server.restore()
            assert server.memory.population.waiting == {"b": None, "d": None}
            assert server.memory.population.left == {"c"}
            assert server.memory.count == 3
            server.commit(w, round=3)
            assert check(store)[0] == []


def test_arrays_of_any_name(address: str) -> None:
    """Flower's buffers have the names of the user's modules, which may be longer than a key."""
    buffers = {name: np.arange(k + 1) for k, name in enumerate(("a/b", "ü" * 400, "array", ""))}
    with opened(address) as store:
        server = server_on(store)
        server.commit(play(server, 2), round=2, buffers=buffers)
    with opened(address) as store:
        found = store.state()["extra"]["buffers"]
        assert found.keys() == buffers.keys()
        assert all((found[name] == buffers[name]).all() for name in buffers)


def test_what_rounds_report_is_noted_once(address: str) -> None:
    """A key for each round, never rewritten; the state does not grow with the rounds."""
    with opened(address) as store:
        server = server_on(store, name="fedadavr-plus")
        play(server, 5)
        first = store.rounds()
        assert sorted(first) == [1, 2, 3, 4, 5]
        assert set(first[3]) == {"trust", "shares", "server_lr"}
        size = written(store, lambda: play(server, 6))
    with opened(address) as store:
        server = server_on(store, name="fedadavr-plus")
        play(server, 40)
        assert {k: v for k, v in store.rounds().items() if k <= 5} == first
        assert len(store.rounds()) == 40
        assert written(store, lambda: play(server, 41)) < 1.5 * size


# --- undo ---


@pytest.mark.parametrize("with_key", [False, True], ids=["plain", "keyed"])
def test_rewind_goes_back_to_the_bit(with_key: bool, address: str, key: Path) -> None:
    """Records, members, model, moments, notes are those of that round; then on to the same end."""
    given = key if with_key else None
    ram = server_on(None, name="fedadavr-plus")
    w = LAYOUT.zeros()
    digests = {}
    for round in range(1, 24):
        w = one_round(ram, w, round)
        digests[round] = digest(ram, w)
    with opened(address, given) as store:
        server = server_on(store, name="fedadavr-plus", snapshot_every=4)
        play(server, 23)
        assert store.snapshots == [4, 8, 12, 16, 20]
        for back in (16, 8, 8):
            store.rewind(back)
            assert check(store)[0] == []
            server = server_on(store, name="fedadavr-plus", snapshot_every=4)
            w, extra = server.restore()
            assert extra["round"] == back
            assert digest(server, w) == digests[back]
            assert sorted(store.rounds()) == list(range(1, back + 1))
        assert digest(server, play(server, 23)) == digests[23]
        assert check(store)[0] == []


def test_snapshots_keep_only_what_changed(tmp_path: Path) -> None:
    """A store of many clients grows by what the rounds touch, not by all of it."""
    layout = Layout({"x": (20_000,)})
    with LmdbStore(tmp_path / "s") as store:
        server = algorithm("fedvarp", layout, store=store, snapshot_every=1)
        w = layout.zeros()
        w = server.step(w, [Update(str(c), w + c, 1) for c in range(300)])
        server.commit(w, round=1)
        size = store.nbytes
        for round in range(2, 12):
            w = server.step(w, [Update(str(round), w + 1, 1)])
            server.commit(w, round=round)
        state = 6 * (4 + 8) * 20_000  # of five snapshots and now: the model and the total
        assert store.nbytes - size < 2 * state + 11 * 80_000 * 2
        assert store.snapshots == [7, 8, 9, 10, 11]


def test_a_backup_of_a_store_in_use(address: str, tmp_path: Path, key: Path) -> None:
    """A copy is a store itself, taken while the server has it; convert puts it back."""
    with opened(address, key) as store:
        server = server_on(store)
        expected = digest(server, play(server, 9))
        code = os.spawnv(os.P_WAIT, sys.executable, [
            sys.executable, "-c", "from fedadavr.cli import main; main()", "memory", "backup",
            address, str(tmp_path / "copy"), "--encrypt-with", str(key)])  # fmt: skip
        assert code == 0
        play(server, 12)
    back = f"lmdb:{tmp_path / 'back'}"
    words = ["--encrypt-with", str(key), "--encrypt-target-with", str(key)]
    main(["memory", "convert", str(tmp_path / "copy"), back, *words])
    with opened(back, key) as store:
        assert isinstance(store, PersistentStore)
        server = server_on(store)
        w, extra = server.restore()
        assert extra["round"] == 9
        assert digest(server, w) == expected


# --- numbers that become addresses ---


def test_numbers_from_a_store_are_checked_before_they_are_used(tmp_path: Path) -> None:
    """Lists and arrays of another length than the centers' are refused, not read beyond."""
    with LmdbStore(tmp_path / "s") as store:
        server = server_on(store, name="fedadavr-plus")
        play(server, 4)
        memory, state = ClientMemory.stored(store)
        assert memory is not None
        kinds = state["server"]["kinds"]
        for change in (
            {"fed": kinds["fed"] * 50},
            {"fed": ["x"] * len(kinds["fed"])},
            {"fed": None},
            {"vectors": kinds["vectors"][:, :5]},
            {"vectors": kinds["vectors"].astype(np.complex64)},
            {"sketches": np.zeros((3, 3), np.float32)},
        ):
            broken = state | {"server": state["server"] | {"kinds": kinds | change}}
            store.commit({}, broken)
            twin = server_on(store, name="fedadavr-plus")
            with pytest.raises(ValueError, match="the state"):
                twin.restore()
        for name in ("m", "v"):
            for bad in (np.zeros(3, np.float32), None, np.zeros(LAYOUT.size, np.complex64)):
                optimizer = state["server"]["optimizer"] | {name: bad}
                store.commit({}, state | {"server": state["server"] | {"optimizer": optimizer}})
                with pytest.raises(ValueError, match="the state"):
                    server_on(store, name="fedadavr-plus").restore()


# --- what a hostile review found ---


def test_an_old_record_is_not_laundered_by_losing_another(address: str, key: Path) -> None:
    """Who puts an old record back and takes another away is noticed until somebody accepts it."""
    old_record(address, key)
    with opened(address, key) as store:
        victim = next(client for client, record in store.items() if record.round < 6)
    remove(address, victim, "clients", "updates")
    with opened(address, key) as store:
        server = server_on(store)
        w, _ = server.restore()
        server.memory.repair()
        server.commit(server.step(w, [Update("somebody else", w + 1, 5)]), round=8)
        faults, _ = check(store)
        assert any("by somebody without the key" in fault for fault in faults)
    main(["memory", "repair", address, "--encrypt-with", str(key)])
    assert sound(address, key)


def test_what_lies_beside_a_store_is_left_alone(tmp_path: Path) -> None:
    """Folders of the user's, whatever their name, in the folder of a store or of a backup."""
    mine = [
        tmp_path / place / name / "thesis.txt" for place in "ab" for name in ("new", "upgraded")
    ]
    for file in mine:
        file.parent.mkdir(parents=True)
        file.write_text("years of work")
    with LmdbStore(tmp_path / "a") as store:
        play(server_on(store), 2)
        store.backup(tmp_path / "b")
    assert all(file.read_text() == "years of work" for file in mine)
    assert not list(tmp_path.glob("*/.fedadavr-*"))


def test_an_upgrade_waits_for_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A store that a server has is not converted under it."""
    from fedadavr.stores.lmdb import lock

    address = old_store(tmp_path, "plain")
    folder = Path(address.removeprefix("lmdb:"))
    before = (folder / "data.mdb").read_bytes()
    with lock(folder), pytest.raises(SystemExit):
        main(["memory", "upgrade", str(folder)])
    assert "is in use by another server" in capsys.readouterr().err
    assert (folder / "data.mdb").read_bytes() == before


def test_snapshots_come_with_the_first_commit_after(tmp_path: Path) -> None:
    """Also where rounds are committed in other steps than snapshots are asked for."""
    with LmdbStore(tmp_path / "s") as store:
        play(server_on(store, snapshot_every=6), 24, commit_every=4)
        assert store.snapshots == [8, 12, 20, 24]


def test_a_lost_record_does_not_cost_the_snapshot(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said that not all is there; forced and repaired, the rest is that round's."""
    with opened(address) as store:
        server = server_on(store, snapshot_every=4)
        w = play(server, 5)
        client = next(client for client, record in store.items() if record.round < 4)
    remove(address, client, "clients", "updates")
    with opened(address) as store:
        server = server_on(store, snapshot_every=4)
        w, _ = server.restore()
        server.memory.repair()
        server.commit(one_round(server, w, 6), round=6)
    with pytest.raises(SystemExit):
        main(["memory", "rewind", address, "--round", "4"])
    assert "take --force and then repair it" in capsys.readouterr().err
    with pytest.raises(SystemExit):  # it is there, and says that it is not sound yet
        main(["memory", "rewind", address, "--round", "4", "--force"])
    main(["memory", "repair", address])
    with opened(address) as store:
        assert store.state()["extra"]["round"] == 4
        assert check(store)[0] == []


@pytest.mark.parametrize("half", [None, 0.005])
@pytest.mark.parametrize("codec", ["fp32", "rot4"])
def test_records_of_rounds_yet_to_come_are_dropped(
    codec: str, half: float | None, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a forced rewind leaves some: by `repair`, in a sentence, and the server goes on."""
    with opened(address) as store:
        server = server_on(store, codec, snapshot_every=4, staleness_half_life=half)
        play(server, 5)
        old = store.state()
        play(server, 9)
        there = dict(store.items())
        late = {client for client, record in there.items() if record.round > 5}
        store.commit({}, old)
        faults = " ".join(check(store)[0])
        assert all(
            f"client {c!r}: its record cannot be read, it is of round" in faults for c in late
        )
    for words in (["verify", address], ["convert", address, address + "-new"]):
        with pytest.raises(SystemExit):
            main(["memory", *words])
    assert "Traceback" not in capsys.readouterr().err
    main(["memory", "repair", address])
    with opened(address) as store:
        assert {client for client, _ in store.items()} == set(there) - late
        assert check(store)[0] == []
        play(server_on(store, codec, snapshot_every=4, staleness_half_life=half), 8)
        assert check(store)[0] == []
