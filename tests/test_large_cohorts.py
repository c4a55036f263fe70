"""A large round's replies go into a scratch file: the same bits, and RAM for a few of them only."""

from __future__ import annotations

import copy
import functools
import gc
import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict

from fedadavr.algorithms import algorithm_names
from fedadavr.algorithms.registry import algorithm_class
from fedadavr.bench import cohorts
from fedadavr.flower import FedAdaVR, Strategy, pulling
from fedadavr.flower.arrays import view
from fedadavr.flower.scratch import ScratchArray, ScratchFile
from tests.flower_grid import LocalGrid, PolledGrid, app_that
from tests.rounds import flat

ROOT = Path(__file__).parent.parent
CLIENTS, ROUNDS = 7, 3
NEVER = 1 << 60
OURS = [n for n in algorithm_names() if algorithm_class(n).__module__.startswith("fedadavr.")
        and n not in ("fedbuff", "fedawe")]  # fmt: skip


def model() -> ArrayRecord:
    """Float32, a buffer, whole numbers and an empty array."""
    rng = np.random.default_rng(0)
    return ArrayRecord({
        "conv": Array(rng.normal(size=(30, 7)).astype(np.float32)),
        "bias": Array(np.zeros(3, np.float32)),
        "bn.running_mean": Array(np.zeros(3, np.float32)),
        "bn.num_batches_tracked": Array(np.asarray(0)),
        "none": Array(np.zeros((0, 2), np.float32)),
    })  # fmt: skip


def trained(message: Message, context: Context) -> RecordDict:
    """A reply drawn from its round and node.

    Metrics are summed as they come, and Flower's grids give replies in any order: so eighths.
    """
    round = int(message.content.config_records["config"]["server-round"])  # type: ignore[arg-type]
    rng = np.random.default_rng([round, context.node_id])
    arrays = ArrayRecord()
    for name, array in message.content.array_records["arrays"].items():
        values = array.numpy()
        if values.dtype.kind == "f":
            values = values - rng.random(values.shape, np.float32) / 8
        else:
            values = np.asarray(values + 2)
        arrays[name] = Array(values)
    metrics = MetricRecord({"num-examples": int(rng.integers(1, 50)), "num-steps": 4,
                            "loss": int(rng.integers(64)) / 8})  # fmt: skip
    return RecordDict({"arrays": arrays, "metrics": metrics})


def odd(message: Message, context: Context) -> RecordDict:
    """Replies of every wrong kind, and one that is right in another dtype."""
    content, node = trained(message, context), context.node_id - 100
    arrays = content.array_records["arrays"]
    if node == 1:
        arrays["conv"] = Array(arrays["conv"].numpy()[:5])  # another shape
    if node == 2:
        arrays["conv"] = Array(arrays["conv"].numpy().astype(np.float64))
    if node == 3:
        del content["arrays"]
    if node == 4:
        arrays["conv"] = Array("float32", (30, 7), "numpy.ndarray", b"")
    if node == 5:
        raise RuntimeError("out of memory, say")
    if node == 6:
        arrays["bias"] = Array("float32", (3,), "pickle", b"who knows")
    return content


def polled(train: Any = trained, clients: int = CLIENTS, kind: Any = PolledGrid) -> Any:
    return kind(app_that(train), {100 + k: str(k) for k in range(clients)})


def set_large(monkeypatch: Any, size: int) -> None:
    """So many bytes of replies make a large round, and are pulled at once."""
    monkeypatch.setattr(pulling, "LARGE", size)
    monkeypatch.setattr(pulling, "GROUP", size)


def ran(monkeypatch: Any, in_ram: int, grid: Any, name: str = "fedadavr", **settings: Any) -> Any:
    """A strategy after some rounds, all of whose bits are in the digest."""
    set_large(monkeypatch, in_ram)
    kept = {"min_available_nodes": len(grid.clients), "fraction_evaluate": 0.0}
    made = Strategy(algorithm=name, **(kept | settings))
    states: list[bytes] = []

    def note(round: int, arrays: ArrayRecord) -> None:
        assert made.server is not None
        states.extend(flat(made.server.state_dict()))
        if made.server.memory is not None:
            for client, record in sorted(made.server.memory.records(), key=lambda x: x[0]):
                states.extend([client.encode(), record.data.tobytes()])

    result = made.start(grid, model(), ROUNDS, evaluate_fn=note)
    arrays = b"".join(array.data for array in result.arrays.values())
    metrics = {r: dict(m) for r, m in result.train_metrics_clientapp.items()}
    return hashlib.sha256(arrays + b"".join(states)).hexdigest(), metrics


@pytest.mark.parametrize("name", OURS)
def test_every_algorithm_has_the_same_bits_both_ways(name: str, monkeypatch: Any) -> None:
    settings = {"clusters": 3} if name == "cluster-fedvarp" else {}
    plain, pulled = polled(), polled()
    expected = ran(monkeypatch, NEVER, plain, name, **settings)
    assert ran(monkeypatch, 2000, pulled, name, **settings) == expected
    assert plain.most == CLIENTS
    assert pulled.most == 1  # a model has more than 1,000 bytes: one reply at a time


def test_odd_replies_are_judged_as_before(
    monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    told = []
    for in_ram in (NEVER, 2000):
        caplog.clear()
        told.append(ran(monkeypatch, in_ram, polled(odd)))
        told.append(sorted(  # Flower's grids give replies in any order
            r.getMessage() for r in caplog.records if "reject" in r.getMessage()
            or "cast" in r.getMessage() or "failed" in r.getMessage()
        ))  # fmt: skip
    assert told[:2] == told[2:]
    assert len(told[1]) > 4 * ROUNDS
    assert told[0][1][1]["rejected"] == 4
    assert told[0][1][1]["failed"] == 1


class Late(PolledGrid):
    """Some replies come late, twice, never, as the SuperLink's error, or to no question."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.looks: Counter[str] = Counter()

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        nodes = {k: m.metadata.dst_node_id - 100 for k, m in self.sent.items()}
        ready = []
        for key in message_ids:
            self.looks[key] += 1
            if nodes.get(key) == 1 and self.looks[key] < 3:
                continue  # late
            if nodes.get(key) == 4 and self.sent[key].metadata.message_type == "train":
                continue  # never
            ready.append(key)
        found = []
        for reply in super().pull_messages(ready):
            node = reply.metadata.src_node_id - 100
            if reply.metadata.message_type == "train" and node == 2:
                found.append(copy.deepcopy(reply))  # twice
            if reply.metadata.message_type == "train" and node == 3:
                question = reply.metadata.reply_to_message_id
                reply = copy.deepcopy(reply)
                reply.metadata.__dict__["_src_node_id"] = 1
                reply.__dict__["_content"] = None
                reply.__dict__["_error"] = Error(5, "the node is away")
                assert reply.metadata.reply_to_message_id == question
            found.append(reply)
        return found


def test_replies_late_missing_twice_and_erroneous_are_as_before(monkeypatch: Any) -> None:
    outcomes = []
    for in_ram in (NEVER, 2000):
        made = Strategy(algorithm="fedadavr", min_available_nodes=CLIENTS, fraction_evaluate=0.0)
        set_large(monkeypatch, in_ram)
        began = time.monotonic()
        result = made.start(polled(kind=Late), model(), 2, timeout=0.5)
        assert time.monotonic() - began >= 1.0  # both rounds wait for the one that never comes
        outcomes.append((
            [array.data for array in result.arrays.values()],
            {r: dict(m) for r, m in result.train_metrics_clientapp.items()},
        ))  # fmt: skip
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1][2]["failed"] == 2


def test_small_rounds_evaluation_and_grids_of_ones_own_are_left_alone(monkeypatch: Any) -> None:
    """What is not a large round of training goes through the user's own method."""
    called: list[str] = []

    class Own(PolledGrid):
        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
            messages = list(messages)
            called.extend(m.metadata.message_type for m in messages)
            return super().send_and_receive(messages, timeout=timeout)

    set_large(monkeypatch, 0)
    own = polled(kind=Own)
    assert pulling.pulling(own, None, False) is own
    ran(monkeypatch, 0, own)
    assert called.count("train") == CLIENTS * ROUNDS
    local = polled(kind=LocalGrid)  # it cannot push
    assert pulling.pulling(local, None, False) is local
    proxy: Any = SimpleNamespace(send_and_receive=polled().send_and_receive)  # another's method
    assert pulling.pulling(proxy, None, False) is proxy
    flowers = polled()
    assert pulling.pulling(flowers, None, True) is flowers  # nothing unencrypted on a disk
    evaluated = polled()
    ran(monkeypatch, 0, evaluated, fraction_evaluate=1.0)
    assert evaluated.most == 1
    ran(monkeypatch, NEVER, evaluated)
    assert evaluated.most == CLIENTS


@pytest.mark.parametrize(("clients", "large", "most"), [(8, 2, 8), (8, 1, 1), (9, 9, 9), (9, 8, 1)])
def test_few_replies_may_be_four_times_as_large(
    clients: int, large: int, most: int, monkeypatch: Any
) -> None:
    """So that five replies of a ResNet-18 are collected as fast as Flower does."""
    size = model().count_bytes()
    monkeypatch.setattr(pulling, "LARGE", large * size)
    monkeypatch.setattr(pulling, "GROUP", 1)
    grid = polled(clients=clients)
    made = Strategy(algorithm="fedavg", min_available_nodes=clients, fraction_evaluate=0.0)
    made.start(grid, model(), 1)
    assert grid.most == most


def test_the_grid_is_the_users_in_all_else(monkeypatch: Any) -> None:
    grid = polled()
    grid.color = "red"
    made: Any = pulling.pulling(grid, None, False)
    assert made is not grid
    assert isinstance(made, type(grid))
    assert made.color == "red"
    made.color = "blue"
    assert grid.color == "blue"
    assert list(made.get_node_ids()) == list(grid.clients)
    with pytest.raises(AttributeError, match="shape"):
        _ = made.shape


def test_users_can_read_keep_copy_and_send_what_they_get(monkeypatch: Any) -> None:
    """Replies that somebody keeps are not changed by later rounds, and are real `Array`s."""
    kept: list[tuple[bytes, Message]] = []

    class Keeps(FedAdaVR):
        def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
            assert isinstance(replies, list)
            for reply in replies:
                arrays = reply.content.array_records["arrays"]
                kept.append((arrays["conv"].data, reply))
                assert type(arrays["conv"]) is ScratchArray
                assert np.array_equal(arrays["conv"].numpy(), view(arrays["conv"]))
                assert len(arrays.to_numpy_ndarrays()) == len(model())
            return super().aggregate_train(server_round, replies)

    set_large(monkeypatch, 2000)
    Keeps(min_available_nodes=CLIENTS, fraction_evaluate=0.0).start(polled(), model(), ROUNDS)
    assert len(kept) == CLIENTS * ROUNDS
    for data, reply in kept:
        array = reply.content.array_records["arrays"]["conv"]
        plain = Array("float32", (30, 7), "numpy.ndarray", data)
        assert array.data == data
        assert array == plain
        assert plain == array
        assert array.object_id == plain.object_id
        assert array.deflate() == plain.deflate()
        for other in (copy.deepcopy(array), pickle.loads(pickle.dumps(array))):
            assert type(other) is Array
            assert other == plain
    array.data = plain.data[:-1] + b"\1"
    assert array != plain
    assert array.numpy()[-1, -1] != plain.numpy()[-1, -1]


def test_float32_is_read_in_place() -> None:
    file = ScratchFile(Path(tempfile.gettempdir()))
    for size in (3, 100, 7):
        plain = Array(np.arange(size, dtype=np.float32))
        array = ScratchArray(plain, file, file.write([plain.data])[0])
        values = view(array)
        assert not values.flags.owndata
        assert not values.flags.writeable
        assert np.ascontiguousarray(values, np.float32) is values
        assert values.__array_interface__["data"][0] % 64 == 0


def open_scratch_files(folder: str) -> list[str]:
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(fd)
        except OSError:
            continue
        if "(deleted)" in target and target.startswith(folder):
            found.append(target)
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("ends", ["well", "badly"])
def test_the_file_is_gone_after_the_end(ends: str, monkeypatch: Any, tmp_path: Path) -> None:
    """Neither a name, nor an open file, nor a thread is left; the store's folder has it."""
    seen: list[int] = []

    class Ends(FedAdaVR):
        def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
            seen.append(len(open_scratch_files(str(tmp_path))))
            if ends == "badly" and server_round == 2:
                raise RuntimeError("enough")
            return super().aggregate_train(server_round, replies)

    set_large(monkeypatch, 2000)
    made = Ends(store=f"lmdb:{tmp_path / 'store'}", min_available_nodes=CLIENTS,
                fraction_evaluate=0.0)  # fmt: skip
    with pytest.raises(RuntimeError, match="enough") if ends == "badly" else nullcontext():
        made.start(polled(), model(), ROUNDS)
    assert len(seen) == (ROUNDS if ends == "well" else 2)
    assert all(seen)
    gc.collect()
    assert open_scratch_files(str(tmp_path)) == []
    assert {p.name for p in (tmp_path / "store").iterdir()} <= {"data.mdb", "lock.mdb",
                                                                 "server.lock"}  # fmt: skip
    assert not [t for t in threading.enumerate() if t.name == "fedadavr-sweeper"]


def test_a_folder_that_cannot_take_them_costs_one_warning(
    monkeypatch: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pulling, "scratch_folder", lambda store: tmp_path / "not there")
    grid = polled()
    found = ran(monkeypatch, 2000, grid)
    told = [r.getMessage() for r in caplog.records if "stay in RAM" in r.getMessage()]
    assert len(told) == 1
    assert "No such file" in told[0]
    assert "TMPDIR" in told[0]
    assert found == ran(monkeypatch, NEVER, polled())


@functools.cache
def in_its_own_process(*arguments: int) -> tuple[dict[str, Any], str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.large_cohorts", *map(str, arguments)], cwd=ROOT,
        env=environment, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_ram_does_not_grow_with_the_replies() -> None:
    """300 replies of 0.4 MB are 120 MB, and 240 with those of the round before."""
    few, _ = in_its_own_process(5, 100_000)
    many, _ = in_its_own_process(300, 100_000)
    assert few["at_once"] == 5
    assert many["at_once"] == 41
    more = many["grown"]["RssAnon"] - few["grown"]["RssAnon"]
    assert more < 60e6, (few, many)
    assert many["grown"]["RssFile"] < 60e6, many


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE")
def test_a_full_disk_costs_ram_and_one_warning_but_no_round() -> None:
    roomy, silent = in_its_own_process(300, 100_000)
    full, told = in_its_own_process(300, 100_000, 95_500_000)
    assert full["model"] == roomy["model"]
    assert "stay in RAM" not in silent
    assert told.count("stay in RAM") == 1
    assert "File too large" in told


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_benchmark_weighs_a_round(monkeypatch: Any) -> None:
    """In a process of its own; what it adds is at least its replies."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    monkeypatch.setattr(cohorts, "NAMES", ("fedavg",))
    told: list[str] = []
    (row,) = cohorts.measure([40], ["lenet5"], "int8", 1, told.append)
    assert told[0] == "lenet5, 40 replies, fedavg (1 of 1)"
    assert row.both_mb >= row.own_mb >= 0.9 * row.replies_mb > 8
    assert row.ms > 0
    with pytest.raises(ValueError, match="from 2 up"):
        cohorts.measure([1], ["lenet5"], "int8", 1, told.append)
