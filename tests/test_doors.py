"""Doors where bytes and numbers come in: whatever comes, the answer is a sentence or a good value.

`FUZZ=20000 pytest tests/test_doors.py` tries more; `make torture` does.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import zlib
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedadavr import Layout, Rejected, Update, algorithm
from fedadavr.algorithms import algorithm_names
from fedadavr.cli.arguments import read_config
from fedadavr.cli.run import RunArguments
from fedadavr.experiments.experiment import Experiment
from fedadavr.experiments.folder import RunFolder
from fedadavr.memory.verify import check
from fedadavr.stores import Record, StoreError, open_store
from fedadavr.stores.addresses import public
from fedadavr.stores.lmdb import LmdbStore
from fedadavr.stores.record_format import SIZE, pack, unpack
from fedadavr.stores.redis import _parse_url as parse_url
from fedadavr.stores.seal import Seal
from fedadavr.stores.store import Damaged
from tests.rounds import LAYOUT, flat, play, server_on

CASES = int(os.environ.get("FUZZ", "150"))
door = settings(
    max_examples=CASES,
    deadline=None,
    derandomize="FUZZ" not in os.environ,
    suppress_health_check=list(HealthCheck),
)

SMALL = Layout({"a": (5,), "b": (2, 2)})

odd_numbers = st.one_of(
    st.integers(), st.integers(min_value=2**62), st.floats(), st.booleans(), st.none(), st.text(),
    st.just(10**400), st.just(np.int64(3)), st.just(np.float32("nan")), st.lists(st.integers()),
)  # fmt: skip
odd_floats = st.one_of(
    st.floats(width=32), st.sampled_from([1e30, -1e38, 3.4e38, 1e-45, math.inf, math.nan, 0.0])
)
odd_weights = st.one_of(
    st.lists(odd_floats, min_size=9, max_size=9).map(lambda x: np.array(x, np.float32)),
    st.lists(odd_floats, max_size=12).map(lambda x: np.array(x, np.float32)),
    st.lists(st.floats(), min_size=9, max_size=9).map(np.array),
    st.none(), st.text(), st.just([np.zeros(5, np.float32), np.zeros(4, np.float32)]),
    st.just([np.zeros(5, np.float32), np.zeros(3, np.float32)]), st.just(np.zeros(9, object)),
    st.just(np.zeros(18, np.float32)[::2]), st.just(np.zeros((9, 1), np.float32)),
)  # fmt: skip
odd_ids = st.one_of(
    st.text(max_size=20), st.sampled_from(["a", "b", "\ud800", "x" * 600, ""]), st.integers(),
    st.none(), st.lists(st.integers(), max_size=2), st.binary(max_size=4),
)  # fmt: skip


def finite(server: Any, w: Any) -> bool:
    arrays = [w, server.server_optimizer.m, server.server_optimizer.v]
    if server.memory is not None:
        arrays.append(server.memory.total)
    return all(np.isfinite(x).all() for x in arrays)


@door
@given(
    st.sampled_from(algorithm_names()),
    st.lists(st.lists(st.tuples(odd_ids, odd_weights, odd_numbers, odd_numbers, odd_numbers),
                      max_size=4), min_size=1, max_size=4),
)  # fmt: skip
def test_replies(name: str, rounds: list[list[Any]]) -> None:
    """Any update is taken or `Rejected`; then nothing changed, and what is kept stays finite."""
    server = algorithm(name, SMALL, **({"clusters": 2} if name == "cluster-fedvarp" else {}))
    w = SMALL.zeros() + np.float32(0.5)
    for replies in rounds:
        updates = [Update(c, x, n, k, owner=o) for c, x, n, k, o in replies]
        before = flat(server.state_dict())
        try:
            w = server.step(w, updates)
        except Rejected:
            assert flat(server.state_dict()) == before
        assert finite(server, w)
    good = [Update(c, w - np.float32(0.1), 5, 3) for c in ("p", "q", "r")]
    assert finite(server, server.step(w, good))


@door
@given(st.binary(max_size=200), st.data())
def test_records(raw: bytes, data: st.DataObject) -> None:
    """Bytes of a record, random or changed in some places, are a record or `Damaged`."""
    for key in (None, b"k" * 32):
        seal = Seal(key)
        good = Record(3.0, 2, np.arange(40, dtype=np.uint8), "int8", SMALL.digest, 1, 1)
        header, payload = pack(seal, "id", "c", good)
        whole = bytearray(header + bytes(payload))
        for at, value in data.draw(
            st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=5)
        ):
            whole[at] = value
        changed = bytes(whole)
        for sample in (raw, changed, changed[: len(raw)]):
            found = unpack(seal, "id", "c", sample[:SIZE], sample[SIZE:])
            assert isinstance(found, (Record, Damaged))
            if isinstance(found, Record):
                assert sample[:SIZE] == header
                assert sample[SIZE:] == bytes(payload)
            assert isinstance(unpack(seal, "id", "c", sample[:SIZE], None), (Record, Damaged))


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A store in a folder, and its manifest."""
    path = tmp_path_factory.mktemp("doors") / "s"
    with LmdbStore(path) as store:
        play(server_on(store, name="fedadavr-plus"), 4)
    with lmdb.open(str(path), max_dbs=7) as env, env.begin() as txn:
        raw = txn.get(b"manifest", db=env.open_db(b"state", txn))
    assert raw is not None
    return path, json.loads(raw[9:])


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in a tree a value can be put in another's place."""
    if not isinstance(tree, dict):
        return [path]
    return [path, *(p for key, value in tree.items() for p in places(value, (*path, key)))]


@door
@given(st.data())
def test_manifests_and_states(filled: tuple[Path, dict[str, Any]], data: st.DataObject) -> None:
    """A manifest with any value changed, its checksum made anew: a sentence, or a good state.

    What it says never reaches an address: sizes, shapes, names and lists are checked before.
    """
    path, manifest = filled
    changed = json.loads(json.dumps(manifest))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from([p for p in places(changed) if p]))
        value = data.draw(json_values)
        inner = changed
        for key in place[:-1]:
            inner = inner[key] if isinstance(inner, dict) and key in inner else {}
        if isinstance(inner, dict):
            inner[place[-1]] = value
    raw = json.dumps(changed).encode()
    with lmdb.open(str(path), max_dbs=7) as env:
        state = env.open_db(b"state")
        with env.begin(write=True, db=state) as txn:
            txn.put(b"manifest", b"%08x %b" % (zlib.crc32(raw), raw))
    with contextlib.suppress(ValueError, StoreError), LmdbStore(path) as store:
        server = server_on(store, name="fedadavr-plus")
        found = server.restore()
        if found is not None:
            w, _ = found
            assert w.shape == (LAYOUT.size,)
            with contextlib.suppress(Rejected):
                server.step(w, [Update("a", w + 1, 5), Update("b", w - 1, 5)])
            check(store)


@door
@given(st.binary(max_size=300), st.text(max_size=200))
def test_configs(raw: bytes, text: str) -> None:
    """A config file of any bytes is settings or one sentence."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.toml"
        for content in (raw, text.encode(errors="ignore"), b'clients = "' + raw[:9] + b'"'):
            path.write_bytes(content)
            with contextlib.suppress(ValueError):
                RunFolder(path.parent).experiment().resolved()
            with contextlib.suppress(ValueError):
                RunArguments(**read_config(path, RunArguments)).experiment.resolved()


@door
@given(st.text(max_size=60))
def test_addresses(text: str) -> None:
    """An address of any text is refused in one sentence, unless it is one."""
    for address in (text, f"redis://{text}", f"redis://127.0.0.1:1/?{text}", f"redis://:{text}@h"):
        with contextlib.suppress(ValueError):
            parse_url(address)
        with contextlib.suppress(ValueError):
            public(address)
    if text.partition(":")[0] not in ("ram", "lmdb", "redis", "rediss"):
        with pytest.raises(ValueError, match="must be ram, lmdb:FOLDER or redis://HOST:PORT"):
            open_store(text)


@door
@given(st.text(max_size=60))
def test_algorithms_as_they_are_typed(text: str) -> None:
    """NAME:key=value of any text is settings or one sentence."""
    for spec in (text, f"fedadavr:{text}", f"fedadavr:server-lr={text}"):
        with contextlib.suppress(ValueError):
            Experiment().with_algorithm(spec).resolved()
