"""`fedadavr memory ...` and runs that live in a store, as a user types them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedadavr import Layout
from fedadavr.cli import main
from fedadavr.codecs import CODECS
from fedadavr.experiments.folder import RunFolder
from fedadavr.memory import ClientMemory
from fedadavr.stores import open_store
from fedadavr.stores.addresses import public
from fedadavr.stores.record_format import SIZE
from tests.redis_servers import RedisServer
from tests.rounds import play, server_on
from tests.test_stores import spoil

COARSE = ("int4", "int4-block")


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints."""
    main(list(words))
    return capsys.readouterr().out


@pytest.fixture
def filled(address: str) -> str:
    """A store after fifteen rounds."""
    with open_store(address) as store:  # type: ignore[union-attr]
        play(server_on(store), 15)
    return address


def records(address: str) -> dict[str, Any]:
    with open_store(address) as store:  # type: ignore[union-attr]
        return {c: (r.weight, r.round, r.codec, bytes(r.data)) for c, r in store.items()}  # type: ignore[union-attr]


def test_inspect_shows_what_is_there(filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Clients, codec, bytes, ages and the stalest; the same as JSON."""
    view = json.loads(typed(capsys, "memory", "inspect", filled, "--json"))
    kept = records(filled)
    assert (view["clients"], view["codec"], view["round"]) == (len(kept), "int8", 15)
    assert sum(view["staleness"].values()) == len(kept)
    for ages, number in view["staleness"].items():
        low, _, high = ages.partition("-")
        there = [15 - r for _, r, _, _ in kept.values() if int(low) <= 15 - r <= int(high or low)]
        assert number == len(there), ages
    assert view["record_bytes"] == sum(SIZE + len(data) for *_, data in kept.values())
    oldest = min(round for _, round, _, _ in kept.values())
    assert view["stalest"][0]["round"] == oldest
    assert view["stalest"][0]["staleness"] == 15 - oldest
    assert view["population"] == 30
    text = typed(capsys, "memory", "inspect", filled)
    assert f"{len(kept)} clients remembered of a population of 30, codec int8" in text
    assert "█" in text


def test_verify_says_that_a_store_is_sound(filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And exits with 1 when the total is not the sum of what is stored."""
    assert "is sound" in typed(capsys, "memory", "verify", filled)
    with open_store(filled) as store:  # type: ignore[union-attr]
        memory, state = ClientMemory.stored(store)
        assert memory is not None
        state["server"]["memory"]["total"][3] += 1
        memory.commit(state)
    with pytest.raises(SystemExit) as caught:
        main(["memory", "verify", filled])
    assert caught.value.code == 1
    assert "the total differs from the sum of what is stored by up to 1" in capsys.readouterr().out


def test_forget_takes_clients_out(filled: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All or none; the store stays sound, the rest as it was, and it says what it cannot undo."""
    before = records(filled)
    first, second = sorted(before)[:2]
    with pytest.raises(SystemExit):
        main(["memory", "forget", filled, first, "nobody"])
    assert "client 'nobody' is not in the store; nothing was changed" in capsys.readouterr().err
    assert records(filled) == before
    text = typed(capsys, "memory", "forget", filled, first, second)
    assert "The model keeps what it has learned" in text
    assert records(filled) == {c: r for c, r in before.items() if c not in (first, second)}
    assert "is sound" in typed(capsys, "memory", "verify", filled)
    with open_store(filled) as store:  # type: ignore[union-attr]
        server = server_on(store)
        server.restore()
        assert server.memory.count == 30
        play(server, 20)


@pytest.mark.parametrize("codec", [None, "int4", "int4-block", "fp32"])
def test_convert_between_stores_and_codecs(
    codec: str | None, filled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same codec every byte is kept; with another the invariant holds for the new one."""
    target, key = f"lmdb:{tmp_path / 'new'}", tmp_path / "key"
    key.write_bytes(b"x" * 32)
    key.chmod(0o600)
    words = ["--codec", codec] if codec else []
    typed(capsys, "memory", "convert", filled, target, *words, "--encrypt-target-with", str(key))
    assert "is sound" in typed(capsys, "memory", "verify", target, "--encrypt-with", str(key))
    back = f"{target}-back"
    typed(capsys, "memory", "convert", target, back, "--encrypt-with", str(key))
    if codec is None:
        assert records(back) == records(filled)
    with open_store(back) as store, open_store(filled) as old:  # type: ignore[union-attr]
        server, first = server_on(store, codec or "int8"), server_on(old)
        w, extra = server.restore()
        w_first, extra_first = first.restore()
        np.testing.assert_array_equal(w, w_first)
        assert extra == extra_first
        np.testing.assert_allclose(
            server.memory.total, first.memory.total,
            atol=0.2 * np.abs(first.memory.total).max() if codec in COARSE else 1e-9,
        )  # fmt: skip
    with pytest.raises(SystemExit):
        main(["memory", "convert", filled, back])
    assert "holds a store already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["inspect", "nowhere"], "there is no store in nowhere"),
        (["verify", "lmdb:nowhere"], "there is no store in nowhere"),
        (["forget", "nowhere", "a"], "there is no store in nowhere"),
        (["inspect", "redis://127.0.0.1:9?patience=0.1"], "does not answer"),
        (["verify", "redis://127.0.0.1:9?patience=x"], "patience must be in seconds"),
        (["convert", "nowhere", "x", "--codec", "int5"], "unknown codec 'int5'"),
        (["plan", "--model", "lenet6"], "did you mean 'lenet5'"),
        (["plan", "--clients", "0"], "--clients must be from 1 to 1e13, got 0"),
        (["plan", "--parameters", "inf"], "--parameters must be from 1 to 1e13, got inf"),
        (["inspct", "x"], "did you mean"),
        (["inspect", "redis://127.0.0.1:9?nmae=x"], "there is no option 'nmae'"),
        (["inspect", "redis://127.0.0.1:9?patience=nan"], "patience must be in seconds"),
        (["inspect", "redis://127.0.0.1:9?password=x"], "a password stands before the host"),
    ],
)
def test_bad_input_gets_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """No traceback, and nothing is made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["memory", *words])
    assert caught.value.code == 2
    said = capsys.readouterr().err.strip()
    assert sentence in said
    assert "\n" not in said
    assert list(tmp_path.iterdir()) == []


TYPED_WRONG = [
    "redis:/:{}@127.0.0.1:9", ":{}@127.0.0.1:9", "redis:{}@127.0.0.1:9", "{}@127.0.0.1:9",
    "Redis://:{}@127.0.0.1:9", "http://me:{}@127.0.0.1", "me:{}@127.0.0.1:9",
    "redis://:{}@127.0.0.1:port", "redis://:{}@[::1:9", "redis://:{}\u2100@127.0.0.1:9",
    "redis://:12?{}@127.0.0.1:9", "redis://127.0.0.1:9?password=x@{}", "redis://:12#{}@127.0.0.1:9",
    "redis:/:" + "{}" * 200 + "@127.0.0.1:9",
]  # fmt: skip


@pytest.mark.parametrize("typed", TYPED_WRONG)
@pytest.mark.parametrize(
    "words",
    [["inspect", "?"], ["convert", "?", "x"], ["backup", "?", "x"], ["upgrade", "?"], ["?"],
     ["convert", "here", "?"], ["backup", "here", "?"], ["trust", "?"],
     ["rewind", "?", "--round=1"]],
    ids=" ".join,
)  # fmt: skip
def test_a_password_in_a_mistyped_address_is_not_shown(
    words: list[str], typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Whatever is wrong with it, one sentence without it; nothing is made, in no folder."""
    monkeypatch.chdir(tmp_path)
    with open_store("lmdb:here") as store:  # type: ignore[union-attr]
        play(server_on(store), 1)
    address = typed.replace("{}", "s3cret")
    with pytest.raises(SystemExit) as caught:
        main(["memory", *(address if word == "?" else word for word in words)])
    assert caught.value.code == 2
    said = capsys.readouterr().err.strip()
    assert "s3cret" not in said
    assert "\n" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("redis://host:6379/1?name=a&patience=3", "redis://host:6379/1?name=a&patience=3"),
        ("redis://ann:pw@host:6379", "redis://host:6379"), ("redis:/:pw@host:1", "redis:/host:1"),
        ("rediss://:p/w@x@host:1?ssl_ca_certs=f&x=pw", "rediss://host:1?ssl_ca_certs=f"),
        (":pw@host:1", "host:1"), ("ann:pw@host:1", "host:1"), ("pw@host:1", "host:1"),
        ("redis://host:1?password=p@w", "redis://..."), ("redis://:p?w@host:1", "redis://..."),
        ("lmdb:/home/me:1@here", "lmdb:/home/me:1@here"), ("disk:x", "disk:x"), ("ram", "ram"),
    ],
)  # fmt: skip
def test_an_address_is_shown_without_what_is_secret(address: str, shown: str) -> None:
    """What stands before an @ and options that may be a password."""
    assert public(address) == shown


def test_an_address_that_is_not_valid_says_how_it_should_look(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A bracket forgotten, say."""
    with pytest.raises(SystemExit):
        main(["memory", "inspect", "redis://:s3cret@[::1:6379"])
    said = capsys.readouterr().err
    assert "redis://[::1:6379 is not a valid address: it should look like redis://HOST:PORT" in said


@pytest.mark.parametrize("note", [b"\xff\xfe", b"", b" \n"])
def test_a_damaged_note_of_the_store_is_named(
    note: bytes, mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To whoever continues the run, or looks at its store."""
    out = tmp_path / "a"
    main([*blobs(mine, "--rounds", "2"), "--store", f"lmdb:{tmp_path / 's'}", "--out", str(out)])
    (out / "store").write_bytes(note)
    for words in (["run", "--resume", str(out), "--load", mine, "--rounds", "3"],
                  ["memory", "inspect", str(out)]):  # fmt: skip
        with pytest.raises(SystemExit) as caught:
            main(words)
        assert caught.value.code == 2
        said = capsys.readouterr().err
        assert f"{out / 'store'} does not hold the address of the run's store" in said


PAPER = {  # its table of memory, GB at a thousand clients: FP32, FP16, Int8, Int4
    1.2e6: (4.6, 2.3, 1.15, 0.58), 2.3e6: (8.8, 4.4, 2.2, 1.1), 2.5e6: (9.5, 4.8, 2.4, 1.2),
    3.4e6: (13.0, 6.5, 3.25, 1.63), 3.9e6: (14.9, 7.45, 3.73, 1.86), 4.2e6: (16.0, 8.0, 4.0, 2.0),
}  # fmt: skip


def test_plan_has_the_papers_table(capsys: pytest.CaptureFixture[str]) -> None:
    """In the paper's unit, to its rounding; what a record takes is what the codec writes."""
    words = [word for p in PAPER for word in [f"{p:g}"]]
    rows = json.loads(
        typed(capsys, "memory", "plan", "--parameters", *words, "--clients", "1000", "--json")
    )
    assert {row["codec"] for row in rows} == set(CODECS)
    for row in rows:
        if row["codec"] in ("fp32", "fp16", "int8", "int4"):
            column = ["fp32", "fp16", "int8", "int4"].index(row["codec"])
            assert row["paper_gb"] == pytest.approx(PAPER[row["parameters"]][column], rel=0.015)
        layout = Layout({"x": (row["parameters"],)})
        assert row["record_bytes"] == CODECS[row["codec"]].nbytes(layout)
        assert row["ram_gb"] >= row["record_bytes"] * 1000 / 1e9


@pytest.mark.parametrize("codec", ["fp32", "int4"])
def test_plan_tells_lmdbs_disk(codec: str, tmp_path: Path) -> None:
    """The figure for the disk is what a store of that size takes, to five percent."""
    from fedadavr.bench.memory import StoreCase, fill
    from fedadavr.experiments.plan import layouts, row
    from fedadavr.stores.lmdb import LmdbStore

    layout = layouts(["lenet5"])["lenet5"]
    with LmdbStore(tmp_path / "s") as store:
        server = server_of(store, layout, codec)
        fill(server, StoreCase("lmdb:", layout, codec, 300))
        for _ in range(3):
            server.commit(layout.zeros())
        expected = row("", layout, 300, CODECS[codec], 5).lmdb_disk_gb * 1e9
        assert store.nbytes == pytest.approx(expected, rel=0.05)


def server_of(store: Any, layout: Any, codec: str) -> Any:
    from fedadavr import algorithm

    return algorithm("fedadavr", layout, codec=codec, store=store)


# --- FedAdaVR+ ---


def test_kinds_and_trust_can_be_looked_at(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`inspect` lists the centers, their shares, cosines and trust; `trust` draws both sources."""
    out, place = tmp_path / "a", f"lmdb:{tmp_path / 's'}"
    plus = blobs(mine, "--algorithm", "fedadavr-plus", "--centers", "4")
    main([*plus, "--store", place, "--out", str(out)])
    capsys.readouterr()
    view = json.loads(typed(capsys, "memory", "inspect", place, "--json"))
    assert 1 <= len(view["kinds"]) <= 4
    assert sum(row["share"] for row in view["kinds"]) == pytest.approx(1)
    np.testing.assert_allclose(np.diag(view["alike"]), 1.0, atol=1e-3)
    assert {name: len(values) for name, values in view["trust"].items()} == {
        "own": 40, "centers": 40
    }  # fmt: skip
    text = typed(capsys, "memory", "inspect", place)
    assert "kinds of clients" in text
    assert "trust in centers" in text
    for source in (str(out), place):
        picture = tmp_path / "trust.png"
        said = typed(capsys, "memory", "trust", source, "--out", str(picture))
        assert "40 rounds: trust in own" in said
        assert picture.read_bytes().startswith(b"\x89PNG")
        picture.unlink()
    last = rows(out)[-1]
    assert set(last["trust"]) == {"own", "centers"}
    main([*blobs(mine, "--rounds", "2"), "--out", str(tmp_path / "b")])
    with pytest.raises(SystemExit):
        main(["memory", "trust", str(tmp_path / "b")])
    assert "holds no rounds of fedadavr-plus" in capsys.readouterr().err


# --- runs in stores ---


def blobs(mine: str, *words: str) -> list[str]:
    return ["run", "--load", mine, "--dataset", "blobs", "--model", "mlp", "--clients", "20",
            "--rounds", "40", "--client-lr", "0.05", "--seed", "7", *words]  # fmt: skip


def rows(path: Path) -> Any:
    return [
        {key: value for key, value in row.items() if "seconds" not in key and key != "elapsed"}
        for row in RunFolder(path).rows()
    ]


@pytest.mark.parametrize("name", ["fedadavr", "scaffold", "fedavg"])
def test_a_run_does_not_depend_on_its_store(
    name: str, address: str, mine: str, tmp_path: Path
) -> None:
    """Losses, accuracies and cohorts are those of a run in RAM; with workers, too."""
    common = blobs(mine, "--algorithm", name)
    main([*common, "--out", str(tmp_path / "ram")])
    main([*common, "--out", str(tmp_path / "a"), "--store", address, "--commit-every", "3"])
    assert rows(tmp_path / "a") == rows(tmp_path / "ram")
    assert not (tmp_path / "a" / "checkpoint").exists()  # there are not two truths


def test_a_killed_run_goes_on_from_its_store(
    address: str, mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--resume finds the store by itself; every line is there once, and as it would have been."""
    main([*blobs(mine, "--rounds", "150"), "--out", str(tmp_path / "whole")])
    out = tmp_path / "killed"
    words = blobs(mine, "--rounds", "150", "--out", str(out), "--store", address)
    program = [sys.executable, "-c", "from fedadavr.cli import main; main()"]
    for kill in range(2):
        process = subprocess.Popen([*program, *words], stderr=subprocess.DEVNULL)
        start = len(RunFolder(out).rows()) if kill else 0
        deadline = time.monotonic() + 60
        while len(RunFolder(out).rows()) < start + 20 + 7 * kill:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        words = ["run", "--resume", str(out), "--load", mine, "--commit-every", "2"]
    main(words)
    assert rows(out) == rows(tmp_path / "whole")
    assert "is sound" in typed(capsys, "memory", "verify", str(out))  # a run's folder will do


def test_what_does_not_go_with_a_store(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Contradictions are refused in one sentence, before any work."""
    place, out = f"lmdb:{tmp_path / 's'}", str(tmp_path / "a")
    main([*blobs(mine, "--rounds", "2"), "--store", place, "--out", out])
    key = tmp_path / "key"
    key.write_bytes(b"x" * 32)
    key.chmod(0o600)
    for words, sentence in (
        (["--store", place], "holds a run already"),
        (["--commit-every", "2"], "go with a --store"),
        (["--encrypt-with", str(key)], "go with a --store"),
        (["--store", f"{place}2", "--checkpoint-every", "3"], "use --commit-every"),
        (["--store", f"{place}2", "--commit-every", "0"], "must be at least 1"),
        (["--store", "disk:x"], "must be ram, lmdb:FOLDER or redis"),
    ):
        with pytest.raises(SystemExit):
            main([*blobs(mine), "--out", str(tmp_path / "b"), *words])
        assert sentence in capsys.readouterr().err
        assert not (tmp_path / "b").exists()
    again = ["run", "--resume", out, "--load", mine]
    for words, sentence in (
        ([*again, "--store", f"{place}2"], "there is no store in"),
        ([*again, "--encrypt-with", str(key)], "is not encrypted"),
        (["compare", "--store", place], "each needs a store of its own"),
    ):
        with pytest.raises(SystemExit):
            main(words)
        assert sentence in capsys.readouterr().err
    assert "is sound" in typed(capsys, "memory", "verify", place)


def test_a_run_whose_store_is_gone_is_not_begun_again(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disk that is not mounted must not cost the lines that there are; a moved store is found."""
    place, out = tmp_path / "s", tmp_path / "a"
    main([*blobs(mine, "--rounds", "6"), "--store", f"lmdb:{place}", "--out", str(out)])
    place.rename(tmp_path / "moved")
    again = ["run", "--resume", str(out), "--load", mine]
    before = (out / "metrics.jsonl").read_bytes()
    with pytest.raises(SystemExit):
        main([*again, "--rounds", "8"])
    assert "there is no store in" in capsys.readouterr().err
    assert (out / "metrics.jsonl").read_bytes() == before
    moved = f"lmdb:{tmp_path / 'moved'}"
    main([*again, "--rounds", "8", "--store", moved])
    main([*again, "--rounds", "9"])  # it was noted
    assert len(rows(out)) == 9
    other = f"lmdb:{tmp_path / 'other'}"
    main([*blobs(mine, "--seed", "8"), "--store", other, "--out", str(tmp_path / "b")])
    with pytest.raises(SystemExit):
        main([*again, "--rounds", "10", "--store", other])
    assert "holds another run" in capsys.readouterr().err


def test_a_convert_that_fails_leaves_nothing(
    filled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says to do can be done, and then it works; a typo makes no store either."""
    client = sorted(records(filled))[0]
    spoil(filled, client, lambda raw: raw[:-1])
    target = f"lmdb:{tmp_path / 'new'}"
    with pytest.raises(SystemExit):
        main(["memory", "convert", filled, target])
    assert f"client '{client}': its record cannot be read" in capsys.readouterr().err
    typed(capsys, "memory", "forget", filled, client)
    typed(capsys, "memory", "convert", filled, target)
    assert "is sound" in typed(capsys, "memory", "verify", target)
    assert client not in records(target)
    with pytest.raises(SystemExit):
        main(["memory", "convert", filled, "ram"])
    with pytest.raises(SystemExit):
        main(["memory", "forget", f"{filled}typo", client])
    assert "there is no store" in capsys.readouterr().err
    with pytest.raises(ValueError, match="there is no store"):
        open_store(f"{filled}typo", must_exist=True)


def test_inspect_counts_all_whatever_it_lists(
    filled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when it lists nobody."""
    view = json.loads(typed(capsys, "memory", "inspect", filled, "--stalest", "0", "--json"))
    assert view["clients"] == len(records(filled))
    assert view["stalest"] == []


def test_a_password_is_not_written_down(
    redis_server: RedisServer, mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run's folder names the store without it, and it is asked for again."""
    redis_server.client.acl_setuser(
        "someone", enabled=True, passwords=["+secret"], commands=["+@all"], keys=["*"]
    )
    url = f"redis://someone:secret@127.0.0.1:{redis_server.port}?name=hidden"
    main([*blobs(mine, "--rounds", "3"), "--out", str(tmp_path / "a"), "--store", url])
    assert not any("secret" in p.read_text() for p in (tmp_path / "a").iterdir())
    again = ["run", "--resume", str(tmp_path / "a"), "--load", mine]
    main([*again, "--store", url, "--rounds", "5"])
    assert len(rows(tmp_path / "a")) == 5
    capsys.readouterr()
