"""The Flower strategies: the engine's results on Flower's simulation, bad replies, the parts."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    Metadata,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords
from flwr.supercore.task_identity import TaskIdentity
from torch import nn

import fedadavr.flower as flower
from fedadavr import Layout, Update, algorithm
from fedadavr.algorithms import algorithm_names
from fedadavr.algorithms.registry import algorithm_class
from fedadavr.clients import FlatModel, LocalSGD, layout_of
from fedadavr.data import Arrays, federate, load
from fedadavr.flower.arrays import BadArrays, Model, view
from fedadavr.flower.identity import Identities
from fedadavr.flower.metrics import aggregate, average
from fedadavr.flower.replies import NothingAccepted
from fedadavr.flower.strategy import CORRECTION, SCALE
from fedadavr.models import build
from fedadavr.simulation import Engine
from fedadavr.stores import StoreError
from tests.flower_grid import LocalGrid, app_that
from tests.flower_simulation import CASES, CONFIG, FAULTS, NODES, ROOT, ROUNDS

ARRAYS = {
    "conv.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "bn.running_mean": np.array([1.5, 2.5], np.float32),
    "bn.num_batches_tracked": np.array(7),
    "half": np.array([0.5], np.float16),
    "double": np.array([[0.25]], np.float64),
    "scale": np.array(3.0, np.float32),
    "mask": np.array([True, False]),
}


def record(arrays: dict[str, Any] | None = None) -> ArrayRecord:
    return ArrayRecord({name: Array(a) for name, a in (arrays or ARRAYS).items()})


# --- on Flower's simulation ---


def simulate(what: str, out: Path) -> str:
    words = [sys.executable, "-m", "tests.flower_simulation", what, str(out)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout + done.stderr


def test_flower_and_the_engine_agree(tmp_path: Path) -> None:
    """The same seed and clients: the same weights to float tolerance, also across a resume."""
    simulate("same", tmp_path)
    federation = federate(load("mnist-5k"), CONFIG["partition"], NODES, CONFIG["seed"])
    for name, settings in CASES.items():
        settings = dict(settings)
        module = build("lenet5", 10, 42)
        layout = layout_of(module)
        if "codec" in settings or settings["algorithm"] == "scaffold":
            settings["population"] = NODES
        server = algorithm(settings.pop("algorithm"), layout, client_lr=0.01, **settings)
        local_sgd = LocalSGD(0.01, 0.9, 1, 20, server.needs.proximal_mu)
        with Engine(server, module, federation, local_sgd, seed=42, clients_per_round=2) as engine:
            for _ in range(ROUNDS):
                engine.finish_training()
            expected = layout.split(engine.w.copy())
        found = np.load(tmp_path / f"{name}.npz")
        moved = max(np.abs(expected[k] - p.detach().numpy()).max()
                    for k, p in build("lenet5", 10, 42).named_parameters())  # fmt: skip
        assert moved > 1e-3
        for key, values in expected.items():
            np.testing.assert_allclose(found[key], values, atol=2e-5, err_msg=f"{name} {key}")


def test_bad_replies_cost_only_themselves(tmp_path: Path) -> None:
    """NaN, a wrong shape or dtype, a record too few or too many, no weight, an exception."""
    said = simulate("bad", tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    for round in ("1", "2"):
        metrics = result["train"][round]
        assert metrics["rejected"] == len(FAULTS) - 3
        assert metrics["failed"] == 1
        assert metrics["loss"] == 1.0
        assert result["evaluate"][round] == pytest.approx({"accuracy": 0.5})
    # The first round steps by 0.5; in the second the two good ones bring nothing new (their g is
    # what is remembered), and the mean of the memory has nine clients, seven of them never seen.
    np.testing.assert_allclose(result["x"], -0.5 - 0.5 * 2 / 9, atol=1e-6)
    assert result["n"] == ["int64 6"]  # a counter is averaged and stays an integer
    assert result["order"] == ["x", "bn.num_batches_tracked"]
    assert said.count("new nodes for their client ids") == said.count("asking 1 new nodes") == 1
    for reason in (
        "the weights hold NaN or infinity", "has shape (2,), the model (3,)",
        "it must hold one ArrayRecord, and holds 0", "it must hold one ArrayRecord, and holds 2",
        "is int64, the model has float32", "must be at least 1, got -1", "out of memory, say",
    ):  # fmt: skip
        assert reason in said
    assert said.count("does not tell its clients' ids") == 1


# --- replies, in this process ---

NAN, INF = float("nan"), float("inf")


def reply(
    x: Any = 0.5, metrics: dict[str, Any] | None = None, var: float = 1.0, count: int = 3
) -> RecordDict:
    """What an honest client sends, but for what a test changes."""
    arrays = {"x": np.full(4, x, np.float32), "bn.running_var": np.full(2, var, np.float32),
              "bn.num_batches_tracked": np.array(count)}  # fmt: skip
    given = {"num-examples": 10, "loss": 1.0} | (metrics or {})
    return RecordDict({
        "arrays": ArrayRecord({name: Array(a) for name, a in arrays.items()}),
        "metrics": MetricRecord(given),
    })  # fmt: skip


def federate_with(
    evil: RecordDict, rounds: int = 2, clients: int = 5, **settings: Any
) -> tuple[Any, flower.Strategy]:
    """Rounds in which the last client always answers with this, to train and to evaluate."""

    def answer(_: Message, context: Context) -> RecordDict:
        return evil if context.node_id == 100 + clients - 1 else reply()

    grid = LocalGrid(app_that(answer, answer), {100 + k: str(k) for k in range(clients)})
    first = reply(0.0)["arrays"]
    assert isinstance(first, ArrayRecord)
    given: dict[str, Any] = {"optimizer": "sgd", "server_lr": 1.0, "min_available_nodes": clients}
    strategy = flower.FedAdaVR(**(given | settings))
    return strategy.start(grid, first, rounds), strategy


@pytest.mark.parametrize(
    "odd",
    [
        {"loss": NAN}, {"loss": INF}, {"loss": 1e30}, {"loss": [1.0, 2.0]}, {"more": 5.0},
        {"num-examples": 2**62}, {"num-examples": 1e18}, {f"m{k}": 1.0 for k in range(100_000)},
    ],
    ids=["nan", "inf", "huge", "list", "one more", "2^62 examples", "1e18 examples", "many"],
)  # fmt: skip
@pytest.mark.parametrize("own", [False, True])
def test_one_clients_metrics_do_not_spoil_the_rounds(
    odd: dict[str, Any], own: bool, said: list[str]
) -> None:
    """In training and evaluation, averaged by us or by a function of the user's."""

    def mean(records: list[RecordDict], weighted_by: str) -> MetricRecord:
        rows = [next(iter(r.metric_records.values())) for r in records]
        assert all(set(row) == {"num-examples", "loss"} for row in rows)
        return MetricRecord({"loss": float(np.mean([row["loss"] for row in rows]))})

    names = ("train_metrics_aggr_fn", "evaluate_metrics_aggr_fn") if own else ()
    functions: dict[str, Any] = dict.fromkeys(names, mean)
    result, _ = federate_with(reply(metrics=odd), **functions)
    for round in (1, 2):
        assert dict(result.evaluate_metrics_clientapp[round]) == {"loss": 1.0}
        trained = dict(result.train_metrics_clientapp[round])
        assert trained.pop("loss") == 1.0
        assert set(trained) == {"rejected", "failed", "clipped", "staleness"}
    assert max(map(len, said)) < 2000


Told = dict[str, Any]


def averaged(told: list[Told], function: Any = average) -> tuple[Told | None, list[str]]:
    """What comes of the clients' metrics, and what was noted."""
    notes: list[str] = []
    contents = {str(k): RecordDict({"m": MetricRecord(metrics)}) for k, metrics in enumerate(told)}
    found = aggregate(
        contents, "num-examples", function, lambda c, why: notes.append(f"{c}: {why}")
    )
    return None if found is None else dict(found), notes


HONEST: Told = {"num-examples": 10, "accuracy": 0.9}


@pytest.mark.parametrize(
    ("odd", "clients", "why"),
    [
        ({"num-examples": 10_000, "accuracy": 900.0}, 5, "out of all measure: 900, others' 0.9"),
        ({"accuracy": -91.0}, 3, "out of all measure: 91, others' 0.9"),
        ({"accuracy": [0.9]}, 5, "is a list of 1, others' a number"),
        ({"accuracy": []}, 2, "is a list of 0, others' a number"),
        ({"accuracy": [0.9] * 10_000}, 2, "is a list of 10000, others' a number"),
        ({"num-examples": [10]}, 5, "'num-examples', a number above 0"),
    ],
)
@pytest.mark.parametrize("function", [average, aggregate_metricrecords])
@pytest.mark.parametrize("first", [True, False])
def test_a_metric_of_another_shape_or_size_costs_only_itself(
    odd: Told, clients: int, why: str, function: Any, first: bool
) -> None:
    """Whoever comes first, by our average and by Flower's own; the log says it."""
    honest, evil = [HONEST] * (clients - 1), [HONEST | odd]
    found, notes = averaged(evil + honest if first else honest + evil, function)
    assert found == {"accuracy": pytest.approx(0.9)}
    assert type(found["accuracy"]) is float
    (note,) = notes
    assert note.startswith(f"{0 if first else clients - 1}: ")
    assert why in note


def test_on_a_tie_the_shorter_list_counts() -> None:
    """A long one is not better for being long."""
    for told in ([[1.0] * 10_000, [0.5, 0.5]], [[0.5, 0.5], [1.0] * 10_000]):
        found, notes = averaged([HONEST | {"accuracy": values} for values in told])
        assert found == {"accuracy": [0.5, 0.5]}
        assert len(notes) == 1


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("accuracy", [0.0, 0.0, 0.0, 1.0]), ("accuracy", [0.0, 0.0, 0.0, 100.0]),
        ("accuracy", [0.05, 0.05, 0.05, 0.9]), ("loss", [0.3, 0.02, 2.5]), ("loss", [0.1, 30.0]),
        ("num-steps", [10, 10, 500]), ("loss", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    ],
)  # fmt: skip
def test_honest_metrics_are_averaged_as_they_are(key: str, values: list[Any]) -> None:
    """Clients that hold one class each are all wrong or all right; counts have heavy tails."""
    found, notes = averaged([{"num-examples": 10, key: value} for value in values])
    assert found == {key: pytest.approx(np.mean(values, axis=0).tolist())}
    assert notes == []


def test_metrics_are_averaged_over_those_that_have_them() -> None:
    """By examples; a client without one lowers nobody's mean."""
    told: list[dict[str, Any]] = [
        {"num-examples": 1, "a": 1.0, "b": [1.0, 2.0]}, {"num-examples": 3, "a": 5.0},
        {"num-examples": 1, "b": [3.0, 4.0]},
    ]  # fmt: skip
    records = [RecordDict({"m": MetricRecord(metrics)}) for metrics in told]
    assert dict(average(records, "num-examples")) == {"a": 4.0, "b": [2.0, 3.0]}


@pytest.mark.parametrize(
    "evil",
    [
        reply(var=NAN), reply(var=INF), reply(var=1e30), reply(count=2**62),
        RecordDict({**reply(), "arrays": record({"x": np.zeros(4, np.float32)})}),
        RecordDict({**reply(), "arrays": ArrayRecord({
            **reply()["arrays"],
            "bn.running_var": Array("float32", (2,), "numpy.ndarray", b"no array")})}),
    ],
    ids=["nan", "inf", "huge", "counter", "missing", "malformed"],
)  # fmt: skip
def test_a_bad_buffer_costs_only_its_reply(evil: RecordDict) -> None:
    """The mean is that of the others."""
    result, strategy = federate_with(evil, 1)
    assert result.train_metrics_clientapp[1]["rejected"] == 1
    np.testing.assert_array_equal(strategy.buffer_values["bn.running_var"], [1.0, 1.0])
    np.testing.assert_array_equal(strategy.buffer_values["bn.num_batches_tracked"], 3)


@pytest.mark.parametrize("evil", [reply(var=-1e-3), reply(count=-1)], ids=["variance", "count"])
@pytest.mark.parametrize("clients", [1, 2, 3, 5])
def test_a_variance_below_zero_is_refused_whoever_sends_it(
    evil: RecordDict, clients: int, said: list[str]
) -> None:
    """Alone in its cohort, too, where nobody else's can be held against it; or all together."""
    every = LocalGrid(app_that(lambda *_: evil), {100 + k: str(k) for k in range(clients)})
    first = reply(0.0)["arrays"]
    assert isinstance(first, ArrayRecord)
    sizes = dict.fromkeys(("min_available_nodes", "min_train_nodes"), clients)
    strategy = flower.FedAdaVR(fraction_evaluate=0.0, **sizes)  # type: ignore[arg-type]
    result = strategy.start(every, first, 1)
    assert result.train_metrics_clientapp[1]["rejected"] == clients
    np.testing.assert_array_equal(strategy.buffer_values["bn.running_var"], [1.0, 1.0])
    np.testing.assert_array_equal(strategy.buffer_values["bn.num_batches_tracked"], 3)
    assert any("is negative, and the model's is not" in line for line in said)


def test_a_mean_below_zero_is_taken() -> None:
    """A running mean begins at zero, and a cohort's go where its data are."""
    first = {"x": np.zeros(2, np.float32), "bn.running_mean": np.zeros(1, np.float32)}
    below = RecordDict({
        "arrays": record(first | {"bn.running_mean": np.full(1, -0.5, np.float32)}),
        "metrics": MetricRecord({"num-examples": 10}),
    })  # fmt: skip
    strategy = flower.FedAvg(min_available_nodes=1, min_train_nodes=1, fraction_evaluate=0.0)
    strategy.start(LocalGrid(app_that(lambda *_: below), {100: "0"}), record(first), 1)
    np.testing.assert_array_equal(strategy.buffer_values["bn.running_mean"], [-0.5])


def test_the_mean_of_buffers_stays_in_their_dtype() -> None:
    """Also at its edge, where floats have no room for the last digits."""
    largest = float(np.finfo(np.float32).max)
    for dtype, value in ((np.int64, 2**63 - 1), (np.uint64, 2**64 - 1), (np.int8, -128),
                         (np.float16, 65504.0), (np.float32, largest)):  # fmt: skip
        edge = np.array([value], dtype)
        model = Model(record({"x": np.zeros(1, np.float32), "b": edge}), buffers=["b"])
        mean = model.mean([{"b": edge}] * 3, [1 / 3, 1 / 3, 1 / 3 + 1e-12])["b"]
        assert mean.dtype == dtype
        np.testing.assert_allclose(mean.astype(float), edge.astype(float), rtol=1e-3)


def test_a_run_whose_every_reply_is_rejected_ends(said: list[str]) -> None:
    """An error in the log for each such round, with the commonest reason; three end the run."""
    with pytest.raises(NothingAccepted, match=r"the last 3 rounds was rejected.*holds 0"):
        federate_with(RecordDict(), 9, clients=1, min_train_nodes=1, min_evaluate_nodes=1)
    assert sum("no reply was accepted" in line and "holds 0" in line for line in said) == 3


def test_one_clients_bad_replies_end_no_run() -> None:
    """Also where it is alone in the round, again and again."""

    def answer(_: Message, context: Context) -> RecordDict:
        return RecordDict() if context.node_id == 104 else reply()

    grid = LocalGrid(app_that(answer), {100 + k: str(k) for k in range(5)})
    strategy = flower.FedAvg(min_available_nodes=5, fraction_evaluate=0.0)
    strategy._build = _always("node:104", strategy._build)  # type: ignore[method-assign]
    first = reply(0.0)["arrays"]
    assert isinstance(first, ArrayRecord)
    result = strategy.start(grid, first, 6)
    assert [m["rejected"] for m in result.train_metrics_clientapp.values()] == [1] * 6


def _always(client: str, build: Any) -> Any:
    """A server that always samples this client."""

    def made(*args: Any) -> Any:
        server = build(*args)
        server.sample = lambda *_: [client]
        return server

    return made


class Odd(LocalGrid):
    """Replies that no honest network brings."""

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
        replies = list(super().send_and_receive(messages, timeout=timeout))
        if not replies or replies[0].metadata.message_type != "train":
            return replies
        first, second, *rest = replies
        late = copy.deepcopy(first)
        late.metadata.__dict__["_reply_to_message_id"] = "of another round"
        stranger = copy.deepcopy(first)
        stranger.metadata.__dict__["_src_node_id"] = 9999
        nobody = copy.deepcopy(second)
        nobody.metadata.__dict__["_src_node_id"] = 1
        silent = Message(Error(5), reply_to=rest[0])
        silent.metadata.__dict__.update(
            _reply_to_message_id=rest[0].metadata.reply_to_message_id, _src_node_id=1
        )
        wrong: list[Any] = [late, stranger, nobody, None, "text", RecordDict()]
        return [*wrong, first, first, second, silent, *rest[1:]]


def test_odd_messages_cost_nothing(said: list[str]) -> None:
    """Late, twice, from another node or none, no message at all, an error without a reason."""
    grid = Odd(app_that(lambda *_: reply()), {100 + k: str(k) for k in range(5)})
    strategy = flower.FedAvg(min_available_nodes=5, fraction_evaluate=0.0)
    first = reply(0.0)["arrays"]
    assert isinstance(first, ArrayRecord)
    result = strategy.start(grid, first, 2)
    for metrics in result.train_metrics_clientapp.values():
        assert (metrics["rejected"], metrics["failed"]) == (0, 1)
    for why in ("it answers no message of this round", "it came from node 9999, node",
                "it came from no node", "has answered before"):  # fmt: skip
        assert sum(why in line for line in said) == 2
    np.testing.assert_array_equal(result.arrays["x"].numpy(), np.full(4, 0.5))


def test_the_store_is_shown_without_its_password(said: list[str], tmp_path: Path) -> None:
    """In the summary and in what goes wrong."""
    with pytest.raises(StoreError) as caught:
        federate_with(reply(), store="redis://:secret@127.0.0.1:1?patience=0")
    strategy = flower.FedAdaVR(store="redis://ann:secret@127.0.0.1:1?patience=0&name=a")
    strategy.summary()
    assert any("Store: redis://127.0.0.1:1?patience=0&name=a" in line for line in said)
    assert "secret" not in " ".join([*said, str(caught.value), repr(strategy)])


# --- the parts ---


def message(content: dict[str, Any]) -> Message:
    metadata = Metadata(
        run_id=1, message_id="m", src_node_id=1, dst_node_id=2, group_id="1",
        reply_to_message_id="", created_at=0.0, ttl=60.0, message_type="train",
    )  # fmt: skip
    return Message(content=RecordDict(content), metadata=metadata)  # type: ignore[call-overload]


def test_every_algorithm_has_a_strategy() -> None:
    """By name, drop-in for FedAvg; the settings are the algorithm's."""
    from flwr.serverapp.strategy import FedAvg

    classes = [value for value in vars(flower).values()
               if isinstance(value, type) and issubclass(value, flower.Strategy)]  # fmt: skip
    names = {cls.name for cls in classes} - {""}
    ours = [n for n in algorithm_names() if algorithm_class(n).__module__.startswith("fedadavr.")]
    # Flower's loop waits, and sends all the newest model; others come from files of tests.
    assert names == set(ours) - {"fedbuff", "fedawe"}
    for cls in classes:
        if cls.name:
            assert isinstance(cls(fraction_train=0.1, min_train_nodes=1), FedAvg)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"codec": "int5"}, "unknown codec 'int5'"),
        ({"sever_lr": 1.0}, "unknown setting of fedadavr 'sever_lr' (did you mean 'server_lr'"),
        ({"fraction_train": 1.5}, r"fraction_train must lie in \[0, 1\]"),
        ({"commit_every": 0}, "commit_every must be a whole number from 1 up"),
        ({"server_lr": -1.0}, "must be a finite number above 0"),
    ],
)
def test_a_wrong_setting_is_said_at_once(settings: dict[str, Any], sentence: str) -> None:
    """Before any node is asked."""
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
        flower.FedAdaVR(**settings)


def test_the_server_needs_no_pytorch() -> None:
    """Strategies are made and step where torch cannot be imported."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np\n"
        "from fedadavr.flower import FedAdaVR, ClientHook, answer_identity\n"
        "from flwr.app import Array, ArrayRecord\n"
        "FedAdaVR(codec='int8')._prepare(ArrayRecord({'x': Array(np.ones(3, np.float32))}))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_model_goes_out_as_it_came_in() -> None:
    """Names, order, dtypes and bytes; parameters and buffers are told apart."""
    model = Model(record(), buffers=["scale"])
    assert model.parameters == ["conv.weight", "half", "double"]
    assert model.buffers == ["bn.running_mean", "bn.num_batches_tracked", "scale", "mask"]
    w, buffers = model.flatten(record())
    assert w.dtype == np.float32
    back = model.record(w, buffers)
    assert list(back) == list(ARRAYS)
    for name, values in ARRAYS.items():
        again = back[name].numpy()
        assert (again.dtype, again.shape) == (values.dtype, values.shape)
        np.testing.assert_array_equal(again, values)
        assert back[name].data == Array(values).data  # byte for byte what Flower writes


def test_replies_are_read_in_place() -> None:
    """No copy is made of a float32 array that came in."""
    array = Array(np.arange(1000, dtype=np.float32))
    values = view(array)
    inside = np.frombuffer(array.data, np.uint8)
    assert np.shares_memory(values, inside)
    for other in (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros((0, 3)), np.array(2)):
        np.testing.assert_array_equal(view(Array(other)), other)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda a: a.pop("half"), "they lack 'half'"),
        (lambda a: a.update(more=np.zeros(1)), "they have 'more', which is not in it"),
        (
            lambda a: a.update(half=np.zeros(1, np.int64)),
            "'half' is int64, the model has float16",
        ),
        (lambda a: a.update(scale=np.zeros(1, np.float32)), r"'scale' has shape \(1,\), the model"),
    ],
    ids=["missing", "extra", "dtype", "shape"],
)
def test_arrays_that_are_not_the_models(change: Any, sentence: str) -> None:
    """The sentence names the array."""
    arrays = dict(ARRAYS)
    change(arrays)
    with pytest.raises(BadArrays, match=sentence):
        Model(record()).split(record(arrays))


def npy(header: str, data: bytes = b"") -> bytes:
    raw = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + data


MALFORMED = {
    "empty": b"",
    "magic only": b"\x93NUMPY",
    "header cut": b"\x93NUMPY\x01\x00\xff\xff{",
    "data cut": Array(np.zeros(9)).data[:-1],
    "no npy": b"x" * 200,
    "objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (9,)}", b"x" * 72),
    "fortran cut": npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 3)}", b"x" * 8),
    "overflow": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
    "no size": npy("{'descr': '|S0', 'fortran_order': False, 'shape': (9,)}"),
    "negative": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 0)}"),
    "open brackets": npy("{'descr': '<f4', 'fortran_order': False, 'shape': ((("),
    "list as key": npy("{[]: 1}"),
    "a truth": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (True, 4)}", b"x" * 16),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_bytes_are_refused(case: str) -> None:
    """As an attacker would send them: one sentence that names the array, and nothing else."""
    model = Model(record({"x": np.zeros(9, np.float32)}))
    bad = ArrayRecord({"x": Array("float32", (9,), "numpy.ndarray", MALFORMED[case])})
    with pytest.raises(BadArrays, match="the array 'x'"):
        model.split(bad)


def test_weights_packed_in_bytes_are_refused() -> None:
    """bfloat16 travels as uint8: averaging its bytes would be nonsense."""
    with pytest.raises(ValueError, match="'w' is uint8"):
        Model(record({"w": np.zeros(4, np.uint8), "x": np.zeros(1, np.float32)}))


def test_complex_buffers_keep_their_imaginary_part() -> None:
    """Whatever a model carries along."""
    model = Model(record({"x": np.zeros(1, np.float32), "c": np.array([1 + 2j])}))
    mean = model.mean([{"c": np.array([1 + 2j])}, {"c": np.array([3 + 4j])}], [0.5, 0.5])
    np.testing.assert_array_equal(mean["c"], [2 + 3j])


class Nodes:
    """The part of a grid that identities need: who answers, and how."""

    def __init__(self, answers: dict[int, Any]) -> None:
        self.answers, self.asked = answers, 0

    def send_and_receive(self, messages: Any, *, timeout: float) -> list[Message]:
        replies = []
        for k, question in enumerate(messages):
            question.metadata.__dict__["_message_id"] = str(k)
            self.asked += 1
            answer = self.answers.get(question.metadata.dst_node_id)
            if isinstance(answer, int):
                replies.append(Message(Error(answer, "no"), reply_to=question))
            elif answer is not None:
                identity = ConfigRecord({"client-id": answer})
                replies.append(
                    Message(content=RecordDict({"identity": identity}), reply_to=question)
                )
        return replies


@pytest.fixture
def in_a_serverapp() -> Iterator[None]:
    before = TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    yield
    TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id = before


@pytest.mark.usefixtures("in_a_serverapp")
def test_an_error_is_not_an_answer() -> None:
    """Only an app that raises is known by its node; one that is down is asked again, later."""
    grid: Any = Nodes({11: "clinic", 12: 2, 13: 5, 14: None})
    identities = Identities(lambda client: 0, patience=60.0)
    assert identities.connected(grid, [11, 12, 13, 14]) == {"clinic": 11, "node:12": 12}
    assert grid.asked == 4
    identities.connected(grid, [11, 12, 13, 14])
    assert grid.asked == 4  # the silent ones are not waited for in every round
    later = identities._asking._later
    later |= {node: (0.0, 0.0, pause) for node, (_, _, pause) in later.items()}  # it is due
    grid.answers[13] = "other"
    assert identities.connected(grid, [11, 12, 13, 14])["other"] == 13


@pytest.mark.usefixtures("in_a_serverapp")
def test_an_id_stays_with_its_node() -> None:
    """Within a run by what was first; across runs by what the store says."""
    grid: Any = Nodes({11: "a", 12: "a", 13: "b"})
    identities = Identities(lambda client: {"b": 99}.get(client, 0), patience=1.0)
    assert identities.connected(grid, [11, 12, 13]) == {"a": 11}


def test_buffers_are_averaged_by_examples_and_keep_their_dtype() -> None:
    """Counters stay whole."""
    model = Model(record())
    one = {name: ARRAYS[name] for name in model.buffers}
    two: dict[str, Any] = one | {
        "bn.num_batches_tracked": np.array(10),
        "bn.running_mean": np.array([3, 4], np.float32),
    }
    mean = model.mean([one, two], [0.25, 0.75])
    assert (mean["bn.num_batches_tracked"], mean["bn.num_batches_tracked"].dtype) == (9, np.int64)
    np.testing.assert_allclose(mean["bn.running_mean"], [2.625, 3.625])
    assert mean["mask"].dtype == bool


def test_tensors_apart_give_the_bits_of_one_vector() -> None:
    """A reply's arrays are stepped with where they lie."""
    layout = Layout({"a": (5, 3), "b": (4,), "c": ()})
    rng = np.random.default_rng(0)
    w = rng.normal(size=layout.size).astype(np.float32)
    replies = rng.normal(size=(3, layout.size)).astype(np.float32)
    results = []
    for apart in (False, True):
        server = algorithm("fedadavr", layout, codec="int4")
        updates = []
        for k, x in enumerate(replies):
            pieces = [t.reshape(-1).copy() for t in layout.split(x).values()]
            updates.append(Update(str(k), pieces if apart else x, 5 + k))
        results.append(server.step(w, updates))
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_client_hook_trains_as_the_engine_does(momentum: float) -> None:
    """Scale, proximal term, correction and steps, around an ordinary PyTorch loop."""
    torch.manual_seed(0)
    x, y = torch.randn(30, 4), torch.randint(3, (30,))

    def net() -> nn.Module:
        torch.manual_seed(1)
        return nn.Linear(4, 3)

    plain = net()
    layout = layout_of(plain)
    correction = np.random.default_rng(2).normal(0, 0.1, layout.size).astype(np.float32)
    flat = FlatModel(net())
    start = flat.w.clone()
    local_sgd = LocalSGD(0.1, momentum, 2, 7, proximal_mu=0.3, gradient_scale=0.4)
    flat.train(start, Arrays(x, y), torch.arange(30), local_sgd, np.random.default_rng(3),
               torch.from_numpy(correction))  # fmt: skip

    sent = message({
        "arrays": ArrayRecord({k: Array(v.detach().numpy()) for k, v in plain.named_parameters()}),
        "config": ConfigRecord({"proximal-mu": 0.3, SCALE: 0.4}),
        CORRECTION: ArrayRecord({k: Array(v) for k, v in layout.split(correction).items()}),
    })  # fmt: skip
    sgd = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=momentum)
    rng = np.random.default_rng(3)
    with flower.ClientHook(sent, plain, sgd) as hook:
        for _ in range(2):
            for batch in torch.from_numpy(rng.permutation(30)).split(7):
                sgd.zero_grad()
                nn.functional.cross_entropy(plain(x[batch]), y[batch]).backward()
                sgd.step()
    got = torch.cat([p.detach().reshape(-1) for p in plain.parameters()])
    torch.testing.assert_close(got, flat.w, rtol=1e-5, atol=1e-6)
    assert hook.metrics == {"num-steps": 10}
    sgd.step()
    assert hook.steps == 10  # it is over


def test_the_old_name_of_the_client_hook_is_there_for_one_release() -> None:
    """With a warning that says the new one."""
    with pytest.warns(DeprecationWarning, match="Guide is called ClientHook now"):
        assert flower.Guide is flower.ClientHook
    with pytest.raises(AttributeError, match="has no attribute 'Gide'"):
        flower.Gide  # noqa: B018
