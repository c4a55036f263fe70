"""`compress="zstd"`: fewer bytes, and not one bit of difference."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout, Update, algorithm
from fedadavr.cli import main
from fedadavr.memory.verify import check
from fedadavr.stores import RamStore, open_store
from fedadavr.stores.record_format import COMPRESSED, HEADER
from tests.rounds import digest, opened, play, server_on

SPARSE = Layout({"x": (4000,)})


def flags(store: Any) -> set[int]:
    return {HEADER.unpack(bytes(header)[: HEADER.size])[2] for _, header, _ in store._scan(False)}


def sparse_round(server: Any, w: Any, round: int) -> Any:
    """Replies that are zero in nine of ten coordinates."""
    rng = np.random.default_rng(round)
    g = rng.normal(size=SPARSE.size) * (rng.random(SPARSE.size) < 0.1)
    return server.step(w, [Update(f"c{round % 3}", w - g.astype(np.float32), examples=5)])


@pytest.mark.parametrize(("codec", "keyed"), [("int4-block", False), ("rot2", True)])
def test_rounds_are_the_same_to_the_bit(
    codec: str, keyed: bool, address: str, tmp_path: Path
) -> None:
    """In LMDB and in Redis, with a key and without, also when it is opened anew each time."""
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    plain = server_on(None, codec)
    expected = play(plain, 9)
    for upto in (4, 9):
        with opened(address, key if keyed else None, compress="zstd") as store:
            server = server_on(store, codec)
            w = play(server, upto)
            assert check(store)[0] == []
            assert store.compress == "zstd"
    np.testing.assert_array_equal(w, expected)
    with opened(address, key if keyed else None, read_only=True) as store:
        assert store.compress == "zstd"  # it stays what it was made as
        assert check(store)[0] == []


def test_what_is_zero_takes_no_room(tmp_path: Path) -> None:
    """Sparse updates are small; what would not become smaller is stored as it is."""
    sizes = {}
    for how in ("none", "zstd"):
        with opened(f"lmdb:{tmp_path / how}", compress=how) as store:
            server: Any = algorithm("fedadavr", SPARSE, codec="int8", store=store)
            w = SPARSE.zeros()
            for round in range(1, 4):
                w = sparse_round(server, w, round)
            server.commit(w)
            sizes[how] = sum(len(payload) for _, _, payload in store._scan(True))
            assert flags(store) == {COMPRESSED if how == "zstd" else 0}
    assert sizes["zstd"] < 0.4 * sizes["none"]
    with opened(f"lmdb:{tmp_path / 'dense'}", compress="zstd") as store:
        server = algorithm("fedadavr", SPARSE, codec="rot4", store=store)
        rng = np.random.default_rng(0)
        sent = rng.normal(size=SPARSE.size).astype(np.float32)
        server.commit(server.step(SPARSE.zeros(), [Update("a", sent, 5)]))
        assert flags(store) == {0}


def test_it_can_be_turned_on_and_off(tmp_path: Path) -> None:
    """Each record says by itself what it is; old ones stay readable."""
    address = f"lmdb:{tmp_path / 's'}"
    w: Any = SPARSE.zeros()
    for round, how in enumerate(("none", "zstd", None, "none"), 1):
        with opened(address, compress=how) as store:
            server: Any = algorithm("fedadavr", SPARSE, codec="int8", store=store)
            if round > 1:
                w, _ = server.restore()
            w = sparse_round(server, w, round)
            server.commit(w)
            assert check(store)[0] == []
            assert store.compress == ("zstd" if round in (2, 3) else "none")
    with opened(address) as store:
        assert flags(store) == {0, COMPRESSED}


def test_a_damaged_record_costs_only_itself(tmp_path: Path) -> None:
    """What cannot be decompressed is named, also if its checksum were right."""
    from fedadavr.stores import compression, record_format
    from fedadavr.stores.seal import Seal
    from fedadavr.stores.store import Damaged, Record

    record = Record(1.0, 1, np.zeros(4000, np.uint8), "int8", SPARSE.digest)
    header, payload = record_format.pack(Seal(), "s", "c", record, True)
    assert len(payload) < 100
    back = record_format.unpack(Seal(), "s", "c", header, payload)
    assert isinstance(back, Record)
    np.testing.assert_array_equal(back.data, record.data)
    spoiled = bytes(payload[:-1]) + bytes([payload[-1] ^ 1])
    assert isinstance(record_format.unpack(Seal(), "s", "c", header, spoiled), Damaged)
    assert compression.unpack(b"no frame at all") is None


def test_in_ram(tmp_path: Path) -> None:
    """A memory in RAM gives up time for room, and no bit."""
    plain, small = server_on(None, "int4"), server_on(RamStore("zstd"), "int4")
    np.testing.assert_array_equal(play(small, 9), play(plain, 9))
    assert digest(small, SPARSE.zeros()) == digest(plain, SPARSE.zeros())
    with pytest.raises(ValueError, match="cannot be compressed any more"):
        small.memory.store.compress = "none"


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`convert --compress` changes it, any other keeps it; forget and verify go on."""
    one, two = tmp_path / "one", tmp_path / "two"
    with opened(f"lmdb:{one}", compress="zstd") as store:
        play(server_on(store, "int4"), 9)
    main(["memory", "convert", f"lmdb:{one}", f"lmdb:{two}", "--compress", "none"])
    main(["memory", "convert", f"lmdb:{one}", f"lmdb:{tmp_path / 'three'}", "--codec", "rot2"])
    capsys.readouterr()
    main(["memory", "inspect", f"lmdb:{one}", "--json"])
    assert json.loads(capsys.readouterr().out)["compress"] == "zstd"
    with opened(f"lmdb:{two}") as store:
        assert flags(store) == {0}
        client = next(iter(dict(store.items())))
    for place in (one, two, tmp_path / "three"):
        main(["memory", "forget", f"lmdb:{place}", client])
        main(["memory", "verify", f"lmdb:{place}"])
        assert "is sound" in capsys.readouterr().out


def test_mistakes_are_said_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown way; a missing library."""
    with pytest.raises(ValueError, match="compress must be 'zstd' or 'none', got 'lz9'"):
        open_store(f"lmdb:{tmp_path / 's'}", compress="lz9")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ValueError, match=r"pip install 'fedadavr\[compression\]'"):
        open_store(f"lmdb:{tmp_path / 's'}", compress="zstd")
    assert not (tmp_path / "s").exists()
