"""Who is asked for its client's id, how often, for how long; and who has it after a restart."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod

import fedadavr.flower as flower
from fedadavr.flower.asking import SEVERAL, UNREAD
from fedadavr.flower.identity import Identities
from tests.flower_grid import LocalGrid, app_that, drawn, federation, first_model, strategy_on


class Asked(LocalGrid):
    """Remembers who was asked at once, with which patience, and how many apps raised.

    `down` are nodes that do not run their app: with Flower's error code, or None for silence.
    """

    def __init__(self, app: ClientApp, clients: dict[int, Any]) -> None:
        super().__init__(app, clients)
        self.batches: list[list[int]] = []
        self.patience: list[float | None] = []
        self.down: dict[int, int | None] = {}
        self.raised = 0

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        messages = list(messages)
        asked = [m.metadata.dst_node_id for m in messages if m.metadata.message_type[0] == "q"]
        if asked:
            self.batches.append(asked)
            self.patience.append(timeout)
            assert all(m.metadata.ttl == UNREAD for m in messages)  # nobody gets it much later
        return super().send_and_receive(messages, timeout=timeout)

    def answer(self, message: Message) -> list[Message]:
        replies = super().answer(message)
        node = message.metadata.dst_node_id
        if node in self.down:
            code = self.down[node]
            return [] if code is None else [Message(Error(code, "down"), reply_to=message)]
        self.raised += replies[0].has_error()
        return replies


def mute() -> ClientApp:
    """An app that trains and does not tell who it is."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return Message(content=drawn(message, context), reply_to=message)

    return app


def names(count: int) -> dict[int, Any]:
    return {100 + k: f"c{k}" for k in range(count)}


def by_node(nodes: Iterable[int]) -> dict[str, int]:
    return {f"node:{node}": node for node in nodes}


def identities(**settings: Any) -> Identities:
    return Identities(lambda client: 0, 60.0, **settings)


# --- an app that does not answer ---


def test_of_200_nodes_without_an_answer_one_is_asked(said: list[str]) -> None:
    """One exception in one client and a few lines here; who comes later is not asked, either."""
    grid = Asked(mute(), names(200))
    strategy = strategy_on(None, fraction_train=0.01, min_available_nodes=200)

    def come(round: int, arrays: ArrayRecord) -> None:
        grid.clients[1000 + round] = "new"

    strategy.start(grid, first_model(5), 3, evaluate_fn=come)
    assert (grid.batches, grid.raised) == ([[100]], 1)
    assert set(by_node(names(200))) <= set(strategy.identities.nodes)
    assert "node:1002" in strategy.identities.nodes
    warnings = [line for line in said if "known by their nodes'" in line]
    assert len(warnings) == 1
    assert "No query function registered with name 'client_id'" in warnings[0]
    assert len(said) < 100  # most of them Flower's: at its start, and of three rounds


def picky(message: Message, context: Context, call_next: Any) -> Message:
    if message.metadata.message_type not in ("train", "evaluate"):
        raise RuntimeError(f"what is {message.metadata.message_type}?")
    reply: Message = call_next(message, context)
    return reply


def emptying(message: Message, context: Context, call_next: Any) -> Message:
    return Message(content=RecordDict(), reply_to=message)


def blurring(message: Message, context: Context, call_next: Any) -> Message:
    call_next(message, context)
    return Message(content=RecordDict({"identity": ArrayRecord()}), reply_to=message)


MODS: dict[str, Any] = {
    "LocalDpMod": LocalDpMod(1.0, 1.0, 1.0, 0.1), "fixedclipping": fixedclipping_mod,
    "adaptiveclipping": adaptiveclipping_mod, "picky": picky, "emptying": emptying,
    "blurring": blurring,
}  # fmt: skip


@pytest.mark.parametrize("mod", MODS)
def test_mods_that_refuse_the_question_are_asked_once(mod: str, said: list[str]) -> None:
    """Then clients are known by their nodes, at once, though the app itself would answer."""
    grid = Asked(flower.answer_identity(ClientApp(mods=[MODS[mod]])), names(20))
    found = identities()
    assert found.connected(grid, list(grid.clients)) == by_node(grid.clients)
    assert grid.batches == [[100]]
    assert sum("known by their nodes'" in line for line in said) == 1


def test_an_app_of_the_old_kind_is_asked_once() -> None:
    """One with a `client_fn` cannot have an answer."""
    grid = Asked(ClientApp(client_fn=lambda context: NumPyClient().to_client()), names(20))
    assert identities().connected(grid, list(grid.clients)) == by_node(grid.clients)
    assert grid.batches == [[100]]


def test_mods_of_the_training_alone_do_not_matter() -> None:
    """As the documentation advises: clients train under local privacy, and are known."""
    app = flower.answer_identity(ClientApp())

    @app.train(mods=[LocalDpMod(1.0, 1.0, 1.0, 0.1)])
    def train(message: Message, context: Context) -> Message:
        return Message(content=drawn(message, context), reply_to=message)

    grid = Asked(app, names(6))
    strategy = strategy_on(None)
    result = strategy.start(grid, first_model(5), 2)
    assert set(strategy.identities.nodes) == set(names(6).values())
    assert grid.batches == [[100], [101, 102, 103, 104, 105]]
    assert result.train_metrics_clientapp[2]["failed"] == 0


def test_one_that_errs_among_others_that_answer_is_known_by_its_node() -> None:
    """A mixed federation: only that one is, and who comes later is asked."""

    class Mixed(Asked):
        def answer(self, message: Message) -> list[Message]:
            self.app = silent if message.metadata.dst_node_id == 103 else good
            return super().answer(message)

    silent, good = mute(), app_that(drawn)
    grid = Mixed(good, names(4))
    expected = {"c0": 100, "c1": 101, "c2": 102, "node:103": 103}
    found = identities()
    assert found.connected(grid, list(grid.clients)) == expected
    grid.clients[104] = "c4"
    assert found.connected(grid, list(grid.clients)) == expected | {"c4": 104}


def test_a_node_without_a_name_says_that_the_app_answers() -> None:
    """Its config has no id, the others' have."""
    grid = Asked(app_that(drawn), {7: None, 8: "a", 9: "b"})
    assert identities().connected(grid, [7, 8, 9]) == {"node:7": 7, "a": 8, "b": 9}


# --- nodes that are down ---


@pytest.mark.parametrize("code", [None, 0, 1, 3, 4, 5, 7, 8])
@pytest.mark.parametrize("answers", [True, False])
def test_what_is_down_says_nothing_of_the_app(code: int | None, answers: bool) -> None:
    """Another one is asked; what that says holds."""
    grid = Asked(app_that(drawn) if answers else mute(), names(6))
    grid.down = {100: code}
    there = identities().connected(grid, list(grid.clients))
    if answers:
        assert grid.batches == [[100], [101], [102, 103, 104, 105]]
        assert there == {f"c{k}": 100 + k for k in range(1, 6)}
    else:
        assert grid.batches == [[100], [101]]
        assert there == by_node(grid.clients)  # that node is not asked again, either


def test_a_node_that_cannot_install_the_app_is_down() -> None:
    """Flower reports it as if the app had raised."""

    class Broken(Asked):
        def answer(self, message: Message) -> list[Message]:
            replies = super().answer(message)
            if message.metadata.dst_node_id == 100:
                why = "<class 'flwr.RuntimeDependencyInstallationError'>:<'no network'>"
                return [Message(Error(2, why), reply_to=message)]
            return replies

    grid = Broken(app_that(drawn), names(3))
    assert identities().connected(grid, list(grid.clients)) == {"c1": 101, "c2": 102}


def test_where_many_are_down_more_are_asked_at_once() -> None:
    """One and one more, then a growing number: 200 silent nodes do not take 200 waits."""
    grid = Asked(app_that(drawn), names(200))
    grid.down = dict.fromkeys(range(100, 299))
    assert identities().connected(grid, list(grid.clients)) == {"c199": 299}
    assert [len(batch) for batch in grid.batches] == [1, 1, 4, 36, 158]


def test_after_a_silent_node_who_is_there_is_looked_up_again() -> None:
    """It has its time, then the next look asks another one: who has come or gone is seen."""

    class Waiting(Asked):
        def send_and_receive(
            self, messages: Iterable[Message], *, timeout: float | None = None
        ) -> Iterable[Message]:
            replies = list(super().send_and_receive(messages, timeout=timeout))
            if not replies and timeout:
                time.sleep(timeout)  # as Flower's grid does
            return replies

    grid = Waiting(app_that(drawn), names(6))
    grid.down = {100: None}
    found = Identities(lambda client: 0, 0.05)
    assert found.connected(grid, list(grid.clients), least=6) == {}
    assert grid.batches == [[100]]
    found.connected(grid, list(grid.clients), least=6)
    assert grid.batches[1:] == [[101], [102, 103, 104, 105, 100]]


def test_nodes_that_err_at_once_are_not_asked_every_second(
    monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    """An app that cannot be loaded: each client says so once in a while, not at every look."""
    monkeypatch.setattr("fedadavr.flower.roster.POLL", 0.01)
    grid = Asked(app_that(drawn), names(6))
    grid.down = dict.fromkeys(grid.clients, 1)
    with pytest.raises(TimeoutError, match="no client has come within 0 s"):
        strategy_on(None).start(grid, first_model(5), 1, timeout=0.3)
    assert sum(map(len, grid.batches)) == 6
    assert any("did not tell their client ids yet: down" in line for line in said)


# --- how long ---


@pytest.mark.parametrize(("timeout", "own"), [(0.2, 120.0), (300.0, 0.1)])
def test_a_question_never_waits_longer_than_either_timeout(timeout: float, own: float) -> None:
    """That of `start` and that of the strategy: a silent node does not hold the run up."""
    grid = Asked(app_that(drawn), names(6))
    grid.down = {100: None}
    strategy = strategy_on(None, identity_timeout=own, min_available_nodes=5)
    with contextlib.suppress(TimeoutError):  # of a slow machine
        strategy.start(grid, first_model(5), 1, timeout=timeout)
    assert grid.patience
    assert all(given is not None and given <= min(timeout, own) for given in grid.patience)


def test_the_timeout_holds_for_a_subclass_and_for_loops_of_others() -> None:
    """Whose nodes are asked when they reply; without `start` it is the strategy's own."""

    class Mine(flower.FedAdaVR):
        def configure_train(
            self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any
        ) -> Iterable[Message]:
            config["server-round"] = server_round
            record = RecordDict({"arrays": arrays, "config": config})
            return self._construct_messages(record, [100, 101], "train")

    for timeout in (7.0, None):
        grid = Asked(app_that(drawn), names(2))
        strategy = Mine(fraction_evaluate=0.0, identity_timeout=50.0)
        if timeout:
            strategy.start(grid, first_model(5), 1, timeout=timeout)
        else:
            asked = strategy.configure_train(1, first_model(5), ConfigRecord(), grid)
            strategy.aggregate_train(1, grid.send_and_receive(asked))
        assert set(strategy.identities.nodes) == {"c0", "c1"}
        assert grid.batches == [[100], [101]]
        assert all(given is not None and given <= (timeout or 50.0) for given in grid.patience)


# --- how clients are known: `identity` ---


def questions(strategy: Any, grid: LocalGrid | None = None) -> int:
    """How many nodes a round asks."""
    grid = grid or federation()
    strategy.start(grid, first_model(5), 1)
    return grid.questions


EXPORTED: list[Any] = [getattr(flower, name) for name in flower.__all__]
ALL = [cls for cls in EXPORTED if getattr(cls, "name", "")]


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.name)
def test_nobody_is_asked_where_no_memory_needs_it(cls: Any, said: list[str]) -> None:
    """FedAvg costs what Flower's costs; what remembers clients asks each of them once."""
    least: dict[str, Any] = {"fraction_evaluate": 0.0, "min_available_nodes": 6}
    if cls.name == "cluster-fedvarp":
        least["clusters"] = 2
    plain = {"fedavg", "fedprox", "fednova", "fedcm", "ghbm", "fedavgm", "fedexp",
             "fedadagrad", "fedadam", "fedyogi", "fedadavr-novr"}  # fmt: skip
    assert questions(cls(**least)) == (0 if cls.name in plain else 6)
    assert questions(cls(identity="ask", **least)) == 6
    assert not any("known by their nodes'" in line for line in said)


def test_by_node_nobody_is_asked(said: list[str]) -> None:
    """What that costs a memory is said once; without one it costs nothing."""
    assert questions(flower.FedAvg(identity="node", min_available_nodes=6)) == 0
    assert not any("known by their nodes'" in line for line in said)
    strategy = strategy_on(None, identity="node")
    assert questions(strategy) == 0
    assert set(strategy.identities.nodes) == set(by_node(federation().clients))
    assert [line for line in said if "known by their nodes'" in line] == [
        "clients are known by their nodes' ids: the memory survives a restart only where nodes "
        "have registered keys. identity='ask' asks them"
    ]


@pytest.mark.parametrize("name", [lambda n: f"of {n}", lambda n: n - 100, lambda n: np.int64(n)])
def test_a_function_names_the_clients(name: Callable[[int], Any]) -> None:
    """It gets Flower's node id; a whole number is a name, too. Nobody is asked."""
    strategy = strategy_on(None, identity=name)
    assert questions(strategy) == 0
    assert strategy.identities.nodes == {str(name(n)): n for n in federation().clients}


@pytest.mark.parametrize("bad", [None, "", "node:7", True, 1.5, "a\nb"])
def test_a_bad_name_of_a_function_is_refused(bad: Any, said: list[str]) -> None:
    """As one that a node tells: in a line, and the others train."""
    strategy = strategy_on(None, identity=lambda n: bad if n == 100 else n, min_available_nodes=5)
    questions(strategy)
    assert list(strategy.identities.refused) == [100]
    assert len(strategy.identities.nodes) == 5
    assert sum(line.startswith("node 100 ") for line in said) == 1


def test_what_the_function_raises_is_raised() -> None:
    """As it is, with the line that raised."""

    class Unlisted(LookupError):
        pass

    def name(node: int) -> str:
        raise Unlisted(node)

    with pytest.raises(Unlisted) as caught:
        questions(strategy_on(None, identity=name))
    assert caught.traceback[-1].name == "name"


@pytest.mark.parametrize("wrong", ["Ask", "", 3, ["ask"], {"100": "a"}, True])
def test_another_identity_is_refused_in_one_sentence(wrong: Any) -> None:
    """Before any work."""
    with pytest.raises(ValueError, match="identity must be 'ask', 'node' or a function"):
        flower.FedAvg(identity=wrong)


@pytest.mark.parametrize("identity", ["ask", "node", str])
def test_a_list_of_clients_leaves_nothing_to_ask(identity: Any) -> None:
    with pytest.raises(ValueError, match="omit identity, or omit clients"):
        flower.FedAvg(identity=identity, clients={"7": "a"})
    grid = federation(2)
    flower.FedAdaVR(clients={"100": "a", "101": "b"}).start(grid, first_model(5), 1)
    assert grid.questions == 0


def test_asked_clients_are_sampled_alike_whatever_their_nodes_ids_are() -> None:
    """Also for FedAvg, if it is told to ask."""

    def sampled(identity: Any, nodes: list[int]) -> list[str]:
        chosen: list[str] = []
        told = dict(zip(nodes, "abcdefgh", strict=True))

        def train(message: Message, context: Context) -> RecordDict:
            chosen.append(told[context.node_id])
            return drawn(message, context)

        strategy = flower.FedAvg(identity=identity, fraction_train=0.25, fraction_evaluate=0.0,
                                 min_available_nodes=8)  # fmt: skip
        strategy.start(LocalGrid(app_that(train), told), first_model(5), 5)
        return chosen

    up, down = [*range(200, 208)], [*range(307, 299, -1)]
    assert sampled("ask", up) == sampled("ask", down)
    assert sampled("node", up) != sampled("node", down)


# --- what a store's clients have told before ---


def test_one_node_that_errs_does_not_rename_the_clients_of_a_store(tmp_path: Path) -> None:
    """The app has answered before: it takes several to say that it does not any more."""
    store = f"lmdb:{tmp_path / 's'}"

    class FirstErrs(Asked):
        def answer(self, message: Message) -> list[Message]:
            self.app = mute() if message.metadata.dst_node_id == 100 else app_that(drawn)
            return super().answer(message)

    strategy_on(store).start(Asked(app_that(drawn), names(6)), first_model(5), 1)
    again = strategy_on(store)
    grid: Asked = FirstErrs(mute(), names(6))
    again.start(grid, first_model(5), 2)
    assert set(again.identities.nodes) == {"node:100", "c1", "c2", "c3", "c4", "c5"}
    assert grid.batches == [[100], [101], [102, 103, 104, 105]]
    for rounds, asked in ((3, SEVERAL), (4, 1)):  # an app that answers no more, then known as such
        grid = Asked(mute(), names(200))
        strategy_on(store).start(grid, first_model(5), rounds)
        assert sum(map(len, grid.batches)) == asked


# --- a node that is restarted ---


def restart(grid: LocalGrid, node: int, new: int) -> None:
    grid.clients[new] = grid.clients.pop(node)


def test_a_restarted_node_takes_its_clients_id_over(said: list[str]) -> None:
    """It counts once, trains under its id, and its memory is used."""
    grid = Asked(app_that(drawn), names(6))
    strategy = strategy_on(None, fraction_train=1.0)

    def look(round: int, arrays: ArrayRecord) -> None:
        if round == 2:
            restart(grid, 103, 903)

    result = strategy.start(grid, first_model(5), 4, evaluate_fn=look)
    told = [
        (m["failed"], m["rejected"], m["staleness"])
        for m in result.train_metrics_clientapp.values()
    ]
    assert told == [(0, 0, 0.0), (0, 0, 1.0), (0, 0, 1.0), (0, 0, 1.0)]
    assert strategy.server is not None
    assert strategy.server.memory is not None
    assert strategy.server.memory.count == strategy.server.memory.population.seen == 6
    assert strategy.identities.nodes["c3"] == 903
    assert "client 'c3' is node 903 now: node 103 is not connected any more" in said


def test_it_waits_while_its_old_node_is_listed(said: list[str]) -> None:
    """A killed node is, for up to a minute: then it is let in, and is not asked again."""
    grid = Asked(app_that(drawn), names(3))
    found = identities()
    found.connected(grid, list(grid.clients))
    grid.clients[900] = "c1"
    for _ in range(3):
        assert found.connected(grid, list(grid.clients)) == {"c0": 100, "c1": 101, "c2": 102}
    assert 900 in found.refused
    assert sum("it is refused while that one is connected" in line for line in said) == 1
    del grid.clients[101]
    assert found.connected(grid, list(grid.clients)) == {"c0": 100, "c1": 900, "c2": 102}
    # The old one was only cut off, and comes back: it waits in its turn, and has it back.
    grid.clients[101] = "c1"
    assert found.connected(grid, list(grid.clients))["c1"] == 900
    del grid.clients[900]
    assert found.connected(grid, list(grid.clients)) == {"c0": 100, "c1": 101, "c2": 102}
    assert sum(map(len, grid.batches)) == 4  # each was asked once
    assert set(found.clients) == {100, 101, 102}


@pytest.mark.parametrize("settings", [{"authenticated": True}, {"clients": {"100": "a"}}])
def test_with_keys_or_a_list_nobody_takes_an_id_over(settings: dict[str, Any]) -> None:
    """An id belongs to its node, or to whom the list says."""
    grid = Asked(app_that(drawn), {100: "a"})
    strategy = strategy_on(None, min_available_nodes=1, min_train_nodes=1, **settings)

    def look(round: int, arrays: ArrayRecord) -> None:
        if round == 1:
            restart(grid, 100, 900)

    with pytest.raises(TimeoutError, match="no client has come"):
        strategy.start(grid, first_model(5), 2, timeout=0.3, evaluate_fn=look)
    assert strategy.identities.nodes == {"a": 100}
    assert list(strategy.identities.refused) == [900]


def test_a_list_of_nodes_that_fails_hands_nothing_over() -> None:
    """That nobody is seen does not say that nobody is there."""

    class Failing(Asked):
        fails = False

        def get_node_ids(self) -> Iterable[int]:
            if self.fails:
                self.fails = False
                raise ConnectionError("the SuperLink is away")
            return super().get_node_ids()

    grid = Failing(app_that(drawn), {100: "a", 101: "b"})
    strategy = strategy_on(None, min_available_nodes=2)
    strategy.configure_train(1, first_model(5), ConfigRecord(), grid)
    strategy.identities._answers[900] = "a"  # of a node whose answer could not be looked up yet
    grid.clients[900], grid.fails = "a", True
    strategy.configure_train(2, first_model(5), ConfigRecord(), grid)
    assert strategy.identities.nodes == {"a": 100, "b": 101}


def test_who_replies_in_a_round_keeps_its_id_in_it() -> None:
    """Though it is gone by then, and another node of the round says that it is the same client."""
    grid = Asked(app_that(drawn), {100: "a", 101: "b"})
    found = identities()
    found.connected(grid, [100, 101])
    grid.clients = {101: "b", 900: "a"}
    found.learn(grid, [100, 101, 900])
    found.bind()
    assert found.nodes == {"a": 100, "b": 101}
    assert found.connected(grid, [101, 900]) == {"a": 900, "b": 101}


def test_those_who_claim_anothers_id_do_not_pile_up() -> None:
    """Their claims are forgotten with them, and what a taken-over client was is, too."""
    grid = Asked(app_that(drawn), {100: "a"})
    found = identities(expire_after=2)
    for round in range(1, 30):
        grid.clients = {1000 * round + k: "a" for k in range(50)} | {100: "a"}
        found.connected(grid, list(grid.clients))
        found.note_trained("a")
        found.expire(round)
    assert found.nodes == {"a": 100}
    assert len(found.refused) <= 150
    assert found._claims.keys() == found.refused.keys()
