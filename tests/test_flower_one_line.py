"""A Flower user changes one line: own loops, wrappers, subclasses; replies; FedAvg's semantics."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import flwr.serverapp.strategy as flwr_strategies
import numpy as np
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping
from flwr.serverapp.strategy import Strategy as FlowerStrategy

import fedadavr.flower as flower
from fedadavr.flower.replies import NothingAccepted, WrongKey
from fedadavr.memory.verify import check
from fedadavr.stores import open_store
from fedadavr.stores.persistent import PersistentStore
from tests.flower_grid import LocalGrid, app_that

Config = tuple[int, ArrayRecord, ConfigRecord, Grid]
CLIENTS = 4


def model(value: float = 0.0, size: int = 5) -> ArrayRecord:
    arrays = {"x": np.full(size, value, np.float32), "n": np.array(0)}
    return ArrayRecord({name: Array(a) for name, a in arrays.items()})


def towards(message: Message, context: Context) -> RecordDict:
    """A client that goes a part of the way to a point of its own, from the model that it got."""
    sent = message.content.array_records["arrays"]
    x, n = sent["x"].numpy(), sent["n"].numpy()
    x = x + np.float32(0.1) * (np.float32(context.node_id - 99) - x)
    arrays = ArrayRecord({"x": Array(x), "n": Array(np.asarray(n + 1))})
    metrics = MetricRecord({"num-examples": 10 * (context.node_id - 99), "loss": 1.0})
    return RecordDict({"arrays": arrays, "metrics": metrics})


def nodes(train: Any = towards, evaluate: Any = None, clients: int = CLIENTS) -> LocalGrid:
    return LocalGrid(app_that(train, evaluate), {100 + k: f"c{k}" for k in range(clients)})


def made(cls: type[flower.Strategy] = flower.FedAdaVR, /, **settings: Any) -> flower.Strategy:
    given: dict[str, Any] = {
        "min_available_nodes": CLIENTS, "fraction_evaluate": 0.0, "server_lr": 0.1,
        "codec": "int8",
    }  # fmt: skip
    if not issubclass(cls, flower.FedAdaVR):
        del given["codec"]
    return cls(**(given | settings))


def loop(
    strategy: FlowerStrategy, grid: Grid, arrays: ArrayRecord, rounds: Iterable[int]
) -> ArrayRecord:
    """A loop as an app of its own has one, the `start` of Flower's advanced-pytorch, say."""
    for round in rounds:
        config = ConfigRecord()
        messages = strategy.configure_train(round, arrays, config, grid)
        replies = grid.send_and_receive(messages, timeout=10)
        now, _ = strategy.aggregate_train(round, replies)
        arrays = arrays if now is None else now
        messages = strategy.configure_evaluate(round, arrays, ConfigRecord(), grid)
        strategy.aggregate_evaluate(round, grid.send_and_receive(messages, timeout=10))
    return arrays


class Wrapper(FlowerStrategy):
    """A strategy around another one, as Flower's for differential privacy are."""

    def __init__(self, strategy: FlowerStrategy) -> None:
        self.strategy = strategy

    def configure_train(self, *given: Any) -> Iterable[Message]:
        return self.strategy.configure_train(*given)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        return self.strategy.aggregate_train(server_round, replies)

    def configure_evaluate(self, *given: Any) -> Iterable[Message]:
        return self.strategy.configure_evaluate(*given)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> Any:
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        self.strategy.summary()


class Rewriting(Wrapper):
    """Sends messages of its own, with what the wrapped strategy's have in them."""

    def configure_train(self, *given: Any) -> Iterable[Message]:
        return [
            Message(content=m.content, dst_node_id=m.metadata.dst_node_id, message_type="train")
            for m in super().configure_train(*given)
        ]


class CallsSuper(flower.FedAdaVR):
    """All nodes are asked, in an order of its own, and of those that super has chosen."""

    def configure_train(self, *given: Any) -> Iterable[Message]:
        return reversed(list(super().configure_train(*given)))


class OwnMessages(flower.FedAdaVR):
    """Chooses the nodes and writes the messages itself."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        chosen = list(grid.get_node_ids())
        return [
            Message(content=content, dst_node_id=node, message_type=MessageType.TRAIN)
            for node in chosen
        ]


class Mixin:
    """The same beside the strategy, not below it."""

    configure_train = OwnMessages.__dict__["configure_train"].__wrapped__


class Mixed(Mixin, flower.FedAdaVR):
    pass


Run = Callable[[flower.Strategy, LocalGrid, ArrayRecord, int], ArrayRecord]


def _ours(strategy: flower.Strategy, grid: LocalGrid, first: ArrayRecord, n: int) -> ArrayRecord:
    return strategy.start(grid, first, strategy_rounds(strategy) + n).arrays


def strategy_rounds(strategy: flower.Strategy) -> int:
    """How many rounds a strategy's store holds."""
    if strategy.store is None or not Path(strategy.store.removeprefix("lmdb:")).exists():
        return 0
    return stored(strategy.store)[0]


def _own(strategy: flower.Strategy, grid: LocalGrid, first: ArrayRecord, n: int) -> ArrayRecord:
    return loop(strategy, grid, first, range(1, n + 1))


def _wrapped(by: type[Wrapper]) -> Run:
    return lambda strategy, grid, first, n: by(strategy).start(grid, first, n).arrays


HOW: dict[str, tuple[type[flower.Strategy], Run]] = {
    "start": (flower.FedAdaVR, _ours),
    "own loop": (flower.FedAdaVR, _own),
    "wrapper": (flower.FedAdaVR, _wrapped(Wrapper)),
    "wrapper with messages of its own": (flower.FedAdaVR, _wrapped(Rewriting)),
    "subclass that calls super": (CallsSuper, _ours),
    "subclass with messages of its own": (OwnMessages, _ours),
    "subclass that calls super, own loop": (CallsSuper, _own),
    "subclass with messages of its own, own loop": (OwnMessages, _own),
    "mixin, own loop": (Mixed, _own),
    "subclass in a wrapper": (OwnMessages, _wrapped(Rewriting)),
}


def values(arrays: ArrayRecord) -> list[Any]:
    return [arrays["x"].numpy().tolist(), arrays["n"].numpy().tolist()]


def stored(url: str) -> tuple[int, int, list[float]]:
    """Of a sound store: the round, the steps of the optimizer, and the model."""
    with open_store(url, read_only=True) as store:  # type: ignore[union-attr]
        assert isinstance(store, PersistentStore)
        assert check(store)[0] == []
        state = store.state()
        assert state is not None
        steps = state["server"]["optimizer"]["steps"]
        return state["extra"]["round"], steps, state["w"].tolist()


# --- 1. who runs the loop does not matter ---


@pytest.mark.parametrize("how", HOW)
def test_it_trains_whoever_runs_the_loop(how: str) -> None:
    """The bits of our own `start`; every client is known by its id."""
    cls, run = HOW[how]
    expected = values(made().start(nodes(), model(), 5).arrays)
    strategy = made(cls)
    assert values(run(strategy, nodes(), model(), 5)) == expected
    assert expected[1] == 5
    assert strategy.server is not None
    assert strategy.server.memory is not None
    assert {client for client, _ in strategy.server.memory.records()} == {"c0", "c1", "c2", "c3"}
    assert strategy.server.memory.count == CLIENTS


@pytest.mark.parametrize("how", HOW)
def test_a_restart_sends_out_the_stored_model(how: str, tmp_path: Path, said: list[str]) -> None:
    """Whatever is passed: model, moments, memory and rounds are those of one run to the end."""
    cls, run = HOW[how]
    expected = values(made().start(nodes(), model(), 6).arrays)
    url = f"lmdb:{tmp_path / 's'}"
    for part in range(2):
        strategy = made(cls, store=url, commit_every=5)
        last = run(strategy, nodes(), model(77.0 * part), 3)
        strategy.close()
        assert stored(url)[:2] == (3 * part + 3, 3 * part + 3)
    assert values(last) == expected
    assert stored(url)[2] == expected[0]
    if how not in ("start", "subclass that calls super", "subclass with messages of its own"):
        sentence = f"going on after round 3, from {url}: its model is sent, not the one that was"
        assert sum(sentence in line for line in said) == 1


def test_the_stored_model_waits_for_a_round_that_succeeds(tmp_path: Path) -> None:
    """A loop that got nothing back passes its first arrays again: they are not the model."""
    url = f"lmdb:{tmp_path / 's'}"
    strategy = made(store=url)
    loop(strategy, nodes(), model(), [1, 2])
    strategy.close()
    sent: list[float] = []

    def deaf(message: Message, context: Context) -> RecordDict:
        sent.append(float(message.content.array_records["arrays"]["x"].numpy()[0]))
        if len(sent) <= 2 * CLIENTS:
            raise RuntimeError("not now")
        return towards(message, context)

    evaluated: list[float] = []

    def evaluate(message: Message, context: Context) -> RecordDict:
        evaluated.append(float(message.content.array_records["arrays"]["x"].numpy()[0]))
        return RecordDict({"metrics": MetricRecord({"num-examples": 1, "loss": 1.0})})

    before = stored(url)[2][0]
    strategy = made(store=url, fraction_evaluate=1.0)
    loop(strategy, nodes(deaf, evaluate), model(77.0), [1, 2, 3])
    assert sent == [before] * 3 * CLIENTS
    assert evaluated[: 2 * CLIENTS] == [before] * 2 * CLIENTS
    assert evaluated[-1] != before
    strategy.close()
    assert stored(url)[0] == 5


@pytest.mark.parametrize(
    ("first", "then", "rounds", "same"),
    [
        ([1, 2, 3], [1, 2], 5, False), ([1, 2, 3], [1, 2], 5, True), ([1], [1], 2, True),
        ([0, 1, 2], [0, 1], 4, False), ([0, 1, 2], [0, 1], 4, True), ([0], [0], 1, False),
        ([0], [0], 1, True), ([1, 2, 3], [4, 5], 5, False),
    ],
)  # fmt: skip
def test_rounds_are_counted_on(
    first: list[int], then: list[int], rounds: int, same: bool, tmp_path: Path
) -> None:
    """As the loop counts; by another strategy, or by the same one in a second loop."""
    url = f"lmdb:{tmp_path / 's'}"
    told: list[int] = []

    def train(message: Message, context: Context) -> RecordDict:
        told.append(int(message.content.config_records["config"]["server-round"]))  # type: ignore[arg-type]
        return towards(message, context)

    strategy = made(store=url)
    loop(strategy, nodes(train), model(), first)
    if not same:
        strategy.close()
        strategy = made(store=url)
    last = loop(strategy, nodes(train), model(77.0), then)
    strategy.close()
    assert told[::CLIENTS] == list(range(first[0], rounds + 1))
    assert stored(url)[:2] == (rounds, len(first) + len(then))
    assert values(last) == values(made().start(nodes(), model(), len(first) + len(then)).arrays)


def test_without_a_store_a_second_loop_begins_anew() -> None:
    """The moments and the memory of the first belong to another model."""
    strategy = made()
    expected = values(loop(strategy, nodes(), model(), [1, 2, 3]))
    assert values(loop(strategy, nodes(), model(), [1, 2, 3])) == expected
    assert values(strategy.start(nodes(), model(), 3).arrays) == expected


def test_a_store_of_another_model_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """By whoever runs the loop; the store stays as it was."""
    url = f"lmdb:{tmp_path / 's'}"
    made(store=url).start(nodes(), model(), 1)
    before = stored(url)
    other = ArrayRecord({**model(size=6)})
    for run in (_ours, _own, _wrapped(Wrapper)):
        with pytest.raises(
            ValueError, match=r"holds another model: the shape of its array 'x' is \[5\].*\[6\]"
        ):
            run(made(store=url), nodes(), other, 1)
    renamed = ArrayRecord({"y": model()["x"], "n": model()["n"]})
    with pytest.raises(ValueError, match=r"array 'x' is \[5\], that of the one passed none"):
        _own(made(store=url), nodes(), renamed, 1)
    assert stored(url) == before


def test_what_a_wrapper_makes_of_the_model_is_the_model() -> None:
    """Flower's own wrapper for differential privacy, whose noise is in what goes out next."""
    sent: list[Any] = []

    def train(message: Message, context: Context) -> RecordDict:
        x = message.content.array_records["arrays"]["x"].numpy()
        sent.append(x)
        return reply_of({"x": x + np.float32(0.1) * (context.node_id - 99 - x)})

    first = ArrayRecord({"x": model()["x"]})
    plain = made(flower.FedAvg, server_lr=1.0).start(nodes(train), first, 4).arrays["x"].numpy()
    for noise in (0.0, 1.0):
        strategy = made(flower.FedAvg, server_lr=1.0)
        wrapper = DifferentialPrivacyServerSideFixedClipping(strategy, noise, 20.0, CLIENTS)
        sent.clear()
        result = wrapper.start(nodes(train), first, 4).arrays["x"].numpy()
        assert np.allclose(result, plain, atol=1e-5) == (not noise)
        assert strategy.server is not None
        assert strategy.server.round == 4
        np.testing.assert_array_equal(strategy._w if not noise else sent[-1], result if not noise
                                      else sent[-CLIENTS])  # fmt: skip
    assert np.ptp(sent[CLIENTS]) > 0.1  # the noise of the first round went out in the second


def test_nodes_that_a_subclass_adds_or_leaves_out() -> None:
    """Who is asked is who gets a message: nobody else is waited for, nobody's reply is lost."""

    class Some(flower.FedAdaVR):
        def configure_train(self, *given: Any) -> Iterable[Message]:
            first, *_ = super().configure_train(*given)
            more = Message(content=first.content, dst_node_id=999, message_type="train")
            return iter([first, more])

    grid = nodes()
    grid.clients[999] = "added"
    strategy = made(Some, min_train_nodes=1, fraction_train=0.1)
    result = strategy.start(grid, model(), 3)
    for metrics in result.train_metrics_clientapp.values():
        assert (metrics["failed"], metrics["rejected"]) == (0, 0)
    assert strategy.server is not None
    assert strategy.server.memory is not None
    assert "added" in dict(strategy.server.memory.records())


def test_a_subclass_does_not_get_round_the_list_of_clients() -> None:
    """Nodes that are not listed are refused, whoever asked them."""
    listed = {str(100 + k): f"listed {k}" for k in range(CLIENTS - 1)}
    strategy = made(OwnMessages, clients=listed, min_available_nodes=1)
    result = strategy.start(nodes(), model(), 2)
    assert [m["rejected"] for m in result.train_metrics_clientapp.values()] == [1, 1]
    assert strategy.server is not None
    assert strategy.server.memory is not None
    assert {c for c, _ in strategy.server.memory.records()} == set(listed.values())


def test_replies_without_a_model_say_so() -> None:
    """Never a round that silently trains nothing."""
    grid, strategy = nodes(), made()
    content = RecordDict({"arrays": model(), "config": ConfigRecord()})
    asked = [Message(content=content, dst_node_id=100, message_type="train")]
    with pytest.raises(RuntimeError, match="the model that was sent is not known"):
        strategy.aggregate_train(1, grid.send_and_receive(asked))


# --- 2. what Flower accepts ---


def reply_of(arrays: dict[str, Any], weight: float = 10) -> RecordDict:
    return RecordDict({
        "arrays": ArrayRecord({name: Array(a) for name, a in arrays.items()}),
        "metrics": MetricRecord({"num-examples": weight, "loss": 1.0}),
    })  # fmt: skip


@pytest.mark.parametrize("ours", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("theirs", [np.float16, np.float32, np.float64, np.dtype(">f4")])
def test_replies_are_cast_between_floating_dtypes(ours: Any, theirs: Any, said: list[str]) -> None:
    """Parameters and buffers; the model keeps its dtype, and the log says it once."""
    names = ("x", "bn.running_mean")
    first = ArrayRecord({name: Array(np.zeros(3, ours)) for name in names})
    back = {name: np.full(3, 0.5, theirs) for name in names}
    strategy = made(flower.FedAvg, server_lr=1.0)
    result = strategy.start(nodes(lambda *_: reply_of(back)), first, 3)
    for name in names:
        found = result.arrays[name].numpy()
        assert found.dtype == ours
        np.testing.assert_array_equal(found, np.full(3, 0.5))
    assert sum("such replies are cast" in line for line in said) == (ours != theirs)


def test_whole_numbers_are_cast_if_they_fit() -> None:
    """JAX counts in int32; what cannot be held is rejected, and so is what is no whole number."""
    first = model()

    def train(message: Message, context: Context) -> RecordDict:
        n = {100: np.array(3, np.int32), 101: np.array(2**63, np.uint64), 102: np.array(3.0)}
        return reply_of({"x": np.ones(5, np.float32), "n": n.get(context.node_id, np.array(3))})

    result = made(flower.FedAvg).start(nodes(train), first, 1)
    assert result.train_metrics_clientapp[1]["rejected"] == 2
    assert result.arrays["n"].numpy() == 3
    assert result.arrays["n"].numpy().dtype == np.int64


def test_a_number_that_the_cast_makes_infinite_is_rejected() -> None:
    """In parameters and buffers."""
    for name in ("x", "bn.running_mean"):
        first = {"x": np.zeros(2, np.float32), "bn.running_mean": np.zeros(2, np.float32)}

        def train(_: Message, context: Context, name: str = name, first: Any = first) -> RecordDict:
            odd = {name: np.full(2, 1e300)} if context.node_id == 100 else {}
            return reply_of(first | odd)

        arrays = ArrayRecord({key: Array(a) for key, a in first.items()})
        result = made(flower.FedAvg).start(nodes(train), arrays, 1)
        assert result.train_metrics_clientapp[1]["rejected"] == 1
        assert all(np.isfinite(a.numpy()).all() for a in result.arrays.values())


@pytest.mark.parametrize("scale", [12.5, 0.25, 1 / 3, 1e-3])
def test_weights_may_be_fractions(scale: float, tmp_path: Path) -> None:
    """The mean is Flower's; a memory by weights goes on after a restart, its store is sound."""

    def train(_: Message, context: Context) -> RecordDict:
        k = context.node_id - 99
        return reply_of({"x": np.full(3, k, np.float32)}, scale * k)

    first = ArrayRecord({"x": Array(np.zeros(3, np.float32))})
    own = made(flower.FedAvg, server_lr=1.0).start(nodes(train), first, 1)
    theirs = flwr_strategies.FedAvg(fraction_evaluate=0.0, min_available_nodes=CLIENTS)
    expected = theirs.start(nodes(train), first, 1).arrays["x"].numpy()
    digits = 2e-3 if scale < 0.01 else 1e-6  # weights count in units of 2^-20
    np.testing.assert_allclose(own.arrays["x"].numpy(), expected, rtol=digits)
    assert own.train_metrics_clientapp[1]["rejected"] == 0
    results = []
    for stops in ([6], [2, 6]):
        url = f"lmdb:{tmp_path / str(len(stops))}"
        for stop in stops:
            strategy = made(store=url, fraction_train=0.5, max_share=0.5)
            last = strategy.start(nodes(train), first, stop)
        assert all(m["rejected"] == 0 for m in last.train_metrics_clientapp.values())
        results.append(stored(url))
    assert results[0] == results[1]


@pytest.mark.parametrize("weight", [0.0, -0.5, float("nan"), float("inf")])
def test_a_weight_that_is_none_costs_its_reply(weight: float) -> None:
    """Zero, negative, not finite."""

    def train(_: Message, context: Context) -> RecordDict:
        return reply_of({"x": np.ones(3, np.float32)}, weight if context.node_id == 100 else 2.5)

    first = ArrayRecord({"x": Array(np.zeros(3, np.float32))})
    result = made().start(nodes(train), first, 2)
    assert [m["rejected"] for m in result.train_metrics_clientapp.values()] == [1, 1]


@pytest.mark.parametrize("cls", [flower.FedAdaVR, flower.FedAdam, flower.Scaffold])
def test_empty_arrays_go_along(cls: type[flower.Strategy], tmp_path: Path) -> None:
    """Out and back as they are, also through a store."""
    arrays: dict[str, Any] = {
              "x": np.zeros(3, np.float32), "none": np.zeros(0, np.float32),
              "flat": np.zeros((2, 0), np.float64), "whole": np.zeros(0, np.int64)}  # fmt: skip

    def train(message: Message, context: Context) -> RecordDict:
        got = {name: a.numpy() for name, a in message.content.array_records["arrays"].items()}
        assert {name: (a.shape, a.dtype) for name, a in got.items()} == {
            name: (a.shape, a.dtype) for name, a in arrays.items()
        }
        content = reply_of(got | {"x": got["x"] - np.float32(0.5)})
        content.metric_records["metrics"]["num-steps"] = 5
        return content

    first = ArrayRecord({name: Array(a) for name, a in arrays.items()})
    url = f"lmdb:{tmp_path / 's'}"
    for rounds in (2, 4):
        result = made(cls, store=url).start(nodes(train), first, rounds)
        assert list(result.train_metrics_clientapp) == list(range(1, rounds + 1))
        assert all(m["rejected"] + m["failed"] == 0  # type: ignore[operator]
                   for m in result.train_metrics_clientapp.values())  # fmt: skip
    assert result.arrays["x"].numpy()[0] < 0
    assert result.arrays["flat"].numpy().shape == (2, 0)


@pytest.mark.parametrize("how", ["start", "own loop", "wrapper"])
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"weighted_by_key": "num-exmples"},
         "no reply has 'num-exmples' in its metrics.*weighted_by_key.*'num-examples', 'loss'"),
        ({"arrayrecord_key": "weights"}, r"KeyError: 'arrays'.*'weights' \(arrayrecord_key\)"),
        ({"configrecord_key": "conf"}, r"KeyError: 'config'.*as 'conf' \(configrecord_key\)"),
    ],
)  # fmt: skip
def test_a_misspelt_key_raises(how: str, settings: dict[str, str], sentence: str) -> None:
    """In the first round, with what the clients have instead."""

    def train(message: Message, context: Context) -> RecordDict:
        assert isinstance(message.content["config"], ConfigRecord)
        return towards(message, context)

    cls, run = HOW[how]
    strategy = made(cls, **settings)
    with pytest.raises(WrongKey, match=sentence):
        run(strategy, nodes(train), model(), 9)
    assert strategy._begun == 1


def test_one_client_without_the_weight_ends_no_run() -> None:
    """Nor one that raises a KeyError, whichever comes first."""

    def train(message: Message, context: Context) -> RecordDict:
        if context.node_id == 100:
            return RecordDict({**towards(message, context), "metrics": MetricRecord({"a": 1.0})})
        if context.node_id == 101:
            raise KeyError("arrays")
        return towards(message, context)

    result = made().start(nodes(train), model(), 4)
    assert len(result.train_metrics_clientapp) == 4


@pytest.mark.parametrize("how", HOW)
def test_rounds_without_one_good_reply_end_the_run(how: str, said: list[str]) -> None:
    """Whoever runs the loop: an error in the log for each, with the commonest reason."""

    def train(message: Message, context: Context) -> RecordDict:
        arrays = {"x": np.zeros(5, np.float32), "n": np.array(1)}
        odd = {"x": np.zeros(6, np.float32)} if context.node_id == 100 else {"z": np.ones(1)}
        return reply_of(arrays | odd)

    cls, run = HOW[how]
    with pytest.raises(NothingAccepted, match=r"the last 2 rounds was rejected.*have 'z'"):
        run(made(cls, max_rejected_rounds=2), nodes(train), model(), 9)
    assert sum("no reply was accepted" in line and "have 'z'" in line for line in said) == 2


def test_an_app_that_always_raises_ends_the_run() -> None:
    """An exception in every client is no outage, and no success either."""

    def train(message: Message, context: Context) -> RecordDict:
        raise ZeroDivisionError("of mine")

    with pytest.raises(NothingAccepted, match=r"3 rounds was rejected or an error.*of mine"):
        made().start(nodes(train), model(), 9)


# --- 4. FedAvg's semantics ---


class Late(LocalGrid):
    """A node more each time that one looks."""

    looked = 0

    def get_node_ids(self) -> Iterable[int]:
        self.looked += 1
        return list(self.clients)[: self.looked]


@pytest.mark.parametrize("which", ["min_available_nodes", "min_train_nodes", "min_evaluate_nodes"])
def test_it_waits_for_enough_nodes(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Flower's do: for the largest of what is asked for, in training and in evaluation."""
    monkeypatch.setattr("fedadavr.flower.roster.POLL", 0.01)
    counts: dict[str, int] = {"train": 0, "evaluate": 0}

    def counting(what: str) -> Any:
        def answer(message: Message, context: Context) -> RecordDict:
            counts[what] += 1
            return towards(message, context)

        return answer

    grid = Late(app_that(counting("train"), counting("evaluate")), nodes().clients)
    least = dict.fromkeys(("min_available_nodes", "min_train_nodes", "min_evaluate_nodes"), 1)
    made(**(least | {which: 4, "fraction_evaluate": 1.0})).start(grid, model(), 1, timeout=20)
    trained = 1 if which == "min_evaluate_nodes" else 4
    assert counts == {"train": trained, "evaluate": 4}


@pytest.mark.parametrize("which", ["min_available_nodes", "min_train_nodes", "min_evaluate_nodes"])
def test_the_wait_for_nodes_ends_with_the_timeout(which: str, tmp_path: Path) -> None:
    """Then it raises, with what came and what was asked for; the rounds so far are stored."""
    url = f"lmdb:{tmp_path / 's'}"
    settings = {which: 5, "fraction_evaluate": 1.0, "store": url}
    sentence = rf"only 4 of 5 clients have come within 0 s \(timeout\).*{which}=5"
    with pytest.raises(TimeoutError, match=sentence):
        made(**settings).start(nodes(), model(), 3, timeout=0.3)
    if which == "min_evaluate_nodes":
        assert stored(url)[0] == 1
    with pytest.raises(TimeoutError, match="no client has come"):
        made().start(nodes(clients=0), model(), 3, timeout=0.1)


@pytest.mark.parametrize(
    ("cls", "flowers", "ours"),
    [
        (flower.FedAdaVR, {"eta": 0.5, "eta_l": 0.25, "beta_1": 0.5, "beta_2": 0.75},
         {"server_lr": 0.5, "client_lr": 0.25, "beta1": 0.5, "beta2": 0.75}),
        (flower.FedProx, {"proximal_mu": 0.5}, {"mu": 0.5}),
    ],
)  # fmt: skip
def test_flowers_names_of_settings_are_understood(
    cls: Any, flowers: dict[str, float], ours: dict[str, float]
) -> None:
    """Each means ours; both at once, or one that the algorithm does not have, is an error."""
    assert cls(**flowers)._settings == ours
    for (alias, value), (name, same) in zip(flowers.items(), ours.items(), strict=True):
        with pytest.raises(ValueError, match=f"{alias} is Flower's name of {name}: give one of"):
            cls(**{alias: value, name: same})
    with pytest.raises(ValueError, match="unknown setting of fedavg 'proximal_mu'"):
        flower.FedAvg(proximal_mu=0.5)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["FedAdam", "FedYogi", "FedAdagrad", "FedAvgM"])
def test_flowers_own_line_gives_flowers_result(name: str) -> None:
    """The class's import is all that changes."""
    given: dict[str, Any] = {"fraction_evaluate": 0.0, "min_available_nodes": CLIENTS}
    if name == "FedAvgM":
        given |= {"server_learning_rate": 0.5, "server_momentum": 0.7}
    else:
        given |= {"eta": 0.05, "eta_l": 0.03, "tau": 1e-2}
    if name in ("FedAdam", "FedYogi"):
        given |= {"beta_1": 0.8, "beta_2": 0.95}
    first = ArrayRecord({"x": Array(np.linspace(0, 1, 5).astype(np.float32))})

    def train(message: Message, context: Context) -> RecordDict:
        x = message.content.array_records["arrays"]["x"].numpy()
        k = context.node_id - 99
        return reply_of({"x": (x + 0.1 * (k - x)).astype(x.dtype)}, 10 * k)

    results = [
        getattr(module, name)(**given).start(nodes(train), first, 4).arrays["x"].numpy()
        for module in (flower, flwr_strategies)
    ]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_metrics_of_the_users_are_not_overwritten() -> None:
    """Ours have a prefix where theirs have the name, and plain names else, as they always had."""

    def train(message: Message, context: Context) -> RecordDict:
        content = towards(message, context)
        content.metric_records["metrics"].update({"failed": 0.5, "staleness": 7.0})
        return content

    kept = MetricRecord({"clipped": 9.0})
    for function, theirs in ((None, {"loss": 1.0, "failed": 0.5, "staleness": 7.0}),
                             (lambda *_: kept, {"clipped": 9.0})):  # fmt: skip
        result = made(train_metrics_aggr_fn=function).start(nodes(train), model(), 1)
        found = dict(result.train_metrics_clientapp[1])
        for name, value in theirs.items():
            assert found.pop(name) == value
        ours = {"rejected", "failed", "staleness", "clipped"}
        assert set(found) == {f"fedadavr-{n}" if n in theirs else n for n in ours}
    assert dict(kept) == {"clipped": 9.0}


class OfMine(Exception):
    pass


def fails(*_: Any) -> Any:
    raise OfMine("here")


@pytest.mark.parametrize("how", ["start", "own loop"])
@pytest.mark.parametrize("which", ["train_metrics_aggr_fn", "evaluate_metrics_aggr_fn"])
def test_exceptions_of_the_users_functions_are_theirs(which: str, how: str, tmp_path: Path) -> None:
    """Type and traceback; the round that was made before is stored."""
    url = f"lmdb:{tmp_path / 's'}"
    _, run = HOW[how]
    settings = {which: fails, "fraction_evaluate": 1.0, "store": url}
    strategy = made(**settings)
    with pytest.raises(OfMine, match="here") as caught:
        run(strategy, nodes(towards, towards), model(), 3)
    assert traceback.extract_tb(caught.tb)[-1].name == "fails"
    if how == "own loop" and which == "train_metrics_aggr_fn":  # and it goes on all the same
        strategy.train_metrics_aggr_fn = strategy.evaluate_metrics_aggr_fn
        loop(strategy, nodes(towards, towards), model(), [2])
        expected = made().start(nodes(), model(), 2).arrays["x"].numpy()
        np.testing.assert_array_equal(strategy._w, expected)
    strategy.close()
    assert stored(url)[0] == strategy._begun


def test_an_exception_of_evaluate_fn_is_the_users(tmp_path: Path) -> None:
    """The same for the model's evaluation on the server."""
    url = f"lmdb:{tmp_path / 's'}"
    with pytest.raises(OfMine) as caught:
        made(store=url, commit_every=5).start(
            nodes(), model(), 3, evaluate_fn=lambda round, _: fails() if round == 2 else None
        )
    assert traceback.extract_tb(caught.tb)[-1].name == "fails"
    assert stored(url)[0] == 2


def test_a_record_of_another_name_does_not_reach_the_users_function() -> None:
    """It would be a KeyError there, and end the run: it comes under the name that most have."""

    def train(message: Message, context: Context) -> RecordDict:
        content = towards(message, context)
        if context.node_id == 100:
            content["odd"] = content.pop("metrics")
        return content

    def mean(records: list[RecordDict], weighted_by: str) -> MetricRecord:
        return MetricRecord({"mean": float(np.mean([r["metrics"]["loss"] for r in records]))})

    result = made(train_metrics_aggr_fn=mean).start(nodes(train), model(), 1)
    assert result.train_metrics_clientapp[1]["mean"] == 1.0


# --- what other people's models and apps have ---


def normalized(names: list[str]) -> ArrayRecord:
    """A layer, and batch normalization as Keras and PyTorch begin it, under these names."""
    values = [np.full((2, 3), 0.5), np.ones(3), np.zeros(3), np.zeros(3), np.ones(3)]
    arrays = [Array(np.asarray(v, np.float32)) for v in values]
    return ArrayRecord(dict(zip(names, arrays, strict=True)))


def narrower(message: Message, context: Context) -> RecordDict:
    """A client whose data have a small variance, and a mean of its own."""
    arrays = [a.numpy() for a in message.content.array_records["arrays"].values()]
    arrays[0] = arrays[0] - np.float32(0.01)
    mean = -1.0 if context.node_id < 102 else 5.0
    arrays[3:] = [np.full(3, mean, np.float32), np.full(3, 0.01, np.float32)]
    names = list(message.content.array_records["arrays"])
    return reply_of(dict(zip(names, arrays, strict=True)))


NAMES = {
    "Keras": ["w", "bn/gamma", "bn/beta", "bn/moving_mean", "bn/moving_variance"],
    "PyTorch": ["w", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"],
    "a list": ["0", "1", "2", "3", "4"],
}


@pytest.mark.parametrize("names", NAMES.values(), ids=list(NAMES))
@pytest.mark.parametrize("cls", [flower.FedAvg, flower.FedAdaVR])
def test_statistics_of_batch_normalization_are_averaged(
    cls: type[flower.Strategy], names: list[str], tmp_path: Path
) -> None:
    """Whatever they are called, also after a restart; a mean may be negative, at a minority too."""
    store = f"lmdb:{tmp_path / 's'}"
    for rounds in (3, 5):
        strategy = made(cls, store=store)
        result = strategy.start(nodes(narrower, clients=5), normalized(names), rounds)
        mean, variance = (result.arrays[name].numpy() for name in names[3:])
        np.testing.assert_allclose(variance, 0.01, rtol=1e-5)
        np.testing.assert_allclose(mean, 2.6, rtol=1e-5)
        assert result.train_metrics_clientapp[rounds]["rejected"] == 0


def test_an_array_with_infinity_stays_as_it_is(said: list[str]) -> None:
    """A mask of attention that is saved with the weights; NaN is nobody's mask."""
    mask = np.triu(np.full((3, 3), -np.inf, np.float32), 1)
    first = ArrayRecord({"w": Array(np.ones(4, np.float32)), "mask": Array(mask)})

    def train(message: Message, context: Context) -> RecordDict:
        return reply_of({"w": np.zeros(4, np.float32), "mask": mask + np.float32(1)})

    result = made().start(nodes(train), first, 2)
    np.testing.assert_array_equal(result.arrays["mask"].numpy(), mask)
    assert (result.arrays["w"].numpy() < 1).all()
    assert any("'mask' holds infinity" in line for line in said)
    broken = ArrayRecord({"w": Array(np.full(4, np.nan, np.float32))})
    with pytest.raises(ValueError, match="the array 'w' of the model holds NaN"):
        made().start(nodes(), broken, 2)


@pytest.mark.parametrize("cls", [flower.FedAvg, flower.FedAdaVR])
def test_starting_again_and_again_trains_everybody(cls: type[flower.Strategy]) -> None:
    """An app with phases of one round each: the second one's draws are not the first one's."""
    trained = set()

    def train(message: Message, context: Context) -> RecordDict:
        trained.add(context.node_id)
        return towards(message, context)

    strategy = made(cls, fraction_train=0.25, min_train_nodes=2, min_available_nodes=8)
    for _ in range(12):
        strategy.start(nodes(train, clients=8), model(), 1)
    assert len(trained) == 8


class Rebuilding(flower.FedAdaVR):
    """A subclass that makes new messages of the replies, as one that decompresses them might."""

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        new = [Message(r.content, r.metadata.dst_node_id, MessageType.TRAIN) for r in replies]
        return super().aggregate_train(server_round, new)


def test_replies_that_answer_nothing_end_the_run_with_the_reason() -> None:
    """Nothing would be trained, and the run would come to a normal end."""
    with pytest.raises(NothingAccepted, match=r"answer no message of the round.*reply_to"):
        made(Rebuilding).start(nodes(), model(), 9)


def test_flowers_attributes_are_there() -> None:
    """They are read and set before a run; in a run they are said to be fixed."""
    adam = flower.FedAdam(eta=0.02, beta_1=0.8)
    assert (adam.eta, adam.beta_1, adam.beta_2) == (0.02, 0.8, 0.99)
    adam.eta *= 0.5
    assert adam.eta == 0.01
    with pytest.raises(ValueError, match="server_lr"):
        adam.eta = -1.0
    assert adam.eta == 0.01
    assert not hasattr(adam, "proximal_mu")
    sent = []

    def train(message: Message, context: Context) -> RecordDict:
        sent.append(message.content.config_records["config"]["proximal-mu"])
        return towards(message, context)

    prox = made(flower.FedProx, proximal_mu=0.1, server_lr=1.0)
    prox.proximal_mu = 0.5
    prox.start(nodes(train), model(), 1)
    assert set(sent) == {0.5}

    class Decaying(flower.FedAdam):
        def configure_train(self, *given: Any) -> Any:
            self.eta *= 0.9
            return super().configure_train(*given)

    with pytest.raises(AttributeError, match="eta cannot be changed while Decaying runs"):
        made(Decaying).start(nodes(), model(), 2)


def test_a_metric_that_is_nan_everywhere_reaches_the_users_function() -> None:
    """An area under a curve of clients with one class; and counts of very different clients."""
    seen: list[Any] = []

    def mine(records: list[RecordDict], weighted_by: str) -> MetricRecord:
        metrics: list[Any] = [record.metric_records["metrics"] for record in records]
        seen.extend(m["auc"] for m in metrics)
        return MetricRecord({"correct": sum(m["correct"] for m in metrics)})

    def train(message: Message, context: Context) -> RecordDict:
        content = towards(message, context)
        correct = 4500 if context.node_id == 100 else 150
        content["metrics"] = MetricRecord(
            {"num-examples": 10, "auc": float("nan"), "correct": correct}
        )
        return content

    result = made(train_metrics_aggr_fn=mine).start(nodes(train), model(), 1)
    assert len(seen) == CLIENTS
    assert result.train_metrics_clientapp[1]["correct"] == 4500 + 3 * 150


# --- Flower's own tests of its strategies, in short ---


def hand_made(arrays: list[Any], examples: int) -> Message:
    """A reply as Flower's tests make them: a content, and no metadata at all."""
    reply = Mock(spec=Message)
    metrics = MetricRecord({"num-examples": examples})
    reply.content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    reply.has_error.side_effect = lambda: False
    return reply


@pytest.mark.parametrize("name", ["FedAvg", "FedProx", "FedAdagrad", "FedAdam", "FedYogi"])
@pytest.mark.parametrize("first", [0.0, 1.0])
def test_replies_made_by_hand(name: str, first: float) -> None:
    """A strategy whose `current_arrays` were set aggregates what a test makes, as Flower's do."""
    shapes: list[tuple[int, ...]] = [(2, 3), (4,), ()]
    rng = np.random.default_rng(1)
    replies = [
        hand_made([np.asarray(30 * rng.random(shape), np.float32) for shape in shapes], n)
        for n in (1, 2)
    ]
    given = {"proximal_mu": 0.1} if name == "FedProx" else {}
    found = []
    for module in (flwr_strategies, flower):
        strategy = getattr(module, name)(**given)
        strategy.current_arrays = {
            str(k): np.full(shape, first, np.float32) for k, shape in enumerate(shapes)
        }
        arrays, _ = strategy.aggregate_train(1, replies)
        found.append(arrays.to_numpy_ndarrays())
    for theirs, ours in zip(*found, strict=True):
        assert theirs.shape == ours.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
