"""Who may take part, and what those who come and go can make a server remember."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedadavr.flower.allow_list import AllowList, fingerprint
from fedadavr.flower.identity import IDS_PER_NODE, Identities
from fedadavr.flower.ids import bad_id
from fedadavr.memory import ClientMemory
from fedadavr.memory.population import Population
from fedadavr.stores.lmdb import LmdbStore
from fedadavr.vector import Layout
from tests.flower_grid import LocalGrid, app_that, drawn, federation, first_model, strategy_on

# --- ids at the door ---

BAD: dict[str, Any] = {
    "empty": "", "long": "x" * 129, "long in bytes": "é" * 65, "control": "a\x1b[2Jb",
    "newline": "a\nb", "direction": "a\u202eb", "surrogate": "\ud800", "reserved": "node:7",
    "a number": 7, "bytes": b"x", "a list": ["x"], "a truth": True,
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_ids_are_refused_at_the_door(case: str, said: list[str]) -> None:
    """With one line that is short; the others train, and nothing of it is remembered."""
    app = ClientApp()
    good = app_that(drawn)

    @app.query("client_id")
    def client_id(message: Message, context: Context) -> Message:
        content = RecordDict({"identity": ConfigRecord({"client-id": "ok"})})
        if context.node_id == 300:
            content["identity"].__dict__["_data"]["client-id"] = BAD[case]  # as no honest app can
        return Message(content=content, reply_to=message)

    class Two(LocalGrid):
        def answer(self, message: Message) -> list[Message]:
            is_query = message.metadata.message_type.startswith("query")
            self.app = app if is_query else good
            return super().answer(message)

    grid = Two(app, {200: "ok", 300: "bad"})
    strategy = strategy_on(None, min_available_nodes=1, min_train_nodes=1, fraction_train=1.0)
    result = strategy.start(grid, first_model(5), 3)
    assert list(strategy.identities.refused) == [300]
    assert [line for line in said if "node 300" in line] == [
        f"node 300 {bad_id(BAD[case])}: it is refused"
    ]
    assert max(map(len, said)) < 400
    assert result.train_metrics_clientapp[3]["failed"] == 0
    assert strategy.server is not None
    assert strategy.server.memory is not None
    assert strategy.server.memory.count == 1


@pytest.mark.parametrize("name", ["0", "clinic 7", "Zoë 日本", "x" * 128, "a:b", "Node:7"])
def test_good_ids_are_good(name: str) -> None:
    assert bad_id(name) is None


def told(grid: LocalGrid, identities: Identities) -> dict[str, int]:
    return identities.connected(grid, grid.get_node_ids())


def test_a_node_has_few_ids_in_its_life(said: list[str]) -> None:
    """One at a time; another only after it was away, and not for ever."""
    grid = LocalGrid(app_that(drawn), {7: "first"})
    identities = Identities(lambda client: 0, 1.0, expire_after=1)
    for k in range(IDS_PER_NODE + 1):
        grid.clients = {7: f"id {k}"}
        there = told(grid, identities)
        assert there == ({f"id {k}": 7} if k < IDS_PER_NODE else {})
        for client in there:
            identities.note_new(client, 10 * k)
        grid.clients = {7: "another"}
        assert told(grid, identities) == there  # it is not even asked
        grid.clients = {}
        told(grid, identities)
        identities.expire(10 * k + 5)
    assert any("tells another client id for the 4th time" in line for line in said)


# --- who is counted ---


def test_those_who_only_connect_do_not_pile_up(tmp_path: Path) -> None:
    """200 new ids in each of 20 rounds: the population, the store and the books stay small."""
    store = f"lmdb:{tmp_path / 's'}"
    grid = federation()
    strategy = strategy_on(store, fraction_train=0.0001, min_train_nodes=3, expire_after=2)

    class Crowd(LocalGrid):
        round = 0

        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
            messages = list(messages)
            replies = super().send_and_receive(messages, timeout=timeout)
            if any(m.metadata.message_type == "train" for m in messages):
                self.round += 1
                come = {1000 * self.round + k: f"{self.round}-{k}" for k in range(200)}
                self.clients = grid.clients | come
            return replies

    strategy.start(Crowd(grid.app, grid.clients), first_model(5), 20)
    with LmdbStore(tmp_path / "s", read_only=True) as kept:
        memory, _ = ClientMemory.stored(kept)
        assert memory is not None
        assert memory.count < 700  # 6, and those of the last rounds
        assert memory.population.seen >= 6
    identities = strategy.identities
    assert len(identities.nodes) + len(identities.clients) + len(identities.refused) < 1400
    assert len(strategy.roster.joined) < 700
    # The run goes on without them: those that the store counts expire, too.
    again = strategy_on(store, expire_after=2)
    again.start(grid, first_model(5), 24)
    with LmdbStore(tmp_path / "s", read_only=True) as kept:
        memory, _ = ClientMemory.stored(kept)
        assert memory is not None
        assert memory.count == memory.population.seen


def test_who_has_trained_counts_on_when_it_is_away() -> None:
    """That is what the memory is for; and its id stays with its node."""
    grid = federation()
    strategy = strategy_on(None, fraction_train=1.0, min_available_nodes=1, expire_after=1)

    class Leaving(LocalGrid):
        def get_node_ids(self) -> Any:
            nodes = list(super().get_node_ids())
            return nodes if strategy._reached < 2 else nodes[:2]

    strategy.start(Leaving(grid.app, grid.clients), first_model(5), 8)
    assert strategy.server is not None
    assert strategy.server.memory is not None
    assert strategy.server.memory.count == len(strategy.identities.nodes) == 6


@pytest.mark.parametrize("population", [None, 3, {"named": 5, "other": 7}])
def test_withdrawing_undoes_joining(population: Any) -> None:
    """Count and size are as before; whom the user named, or who was seen, stays."""
    people = Population(population)
    before = people.count, people.size, people.anonymous
    for client in "abcde":
        people.join(client)
    again = Population(population)
    again.load_state_dict(people.state_dict())
    for some in (people, again):
        for client in "abcde":
            some.withdraw(client)
            some.withdraw(client)
        assert (some.count, some.size, some.anonymous) == before
        some.withdraw("named")
        some.withdraw("nobody")
        assert some.count == before[0]
        some.join("f")
        some.see("f", None, 4)
        count = some.count
        some.withdraw("f")
        assert some.count == count
    memory = ClientMemory(Layout({"x": (2,)}))
    memory.join("a")
    memory.withdraw("a")
    assert memory.count == 0


# --- a list of who may take part ---


def make_key(folder: Path, name: str) -> tuple[bytes, str]:
    """A key as Flower holds it, and its fingerprint as ssh-keygen prints it."""
    from flwr.cli.supernode.register import try_load_public_key

    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", str(path)],
                   check=True)  # fmt: skip
    shown = subprocess.run(["ssh-keygen", "-lf", f"{path}.pub"], check=True, capture_output=True,
                           text=True)  # fmt: skip
    return try_load_public_key(Path(f"{path}.pub")), shown.stdout.split()[1]


def test_the_list_says_who_is_who(tmp_path: Path, said: list[str]) -> None:
    """By fingerprint or node id, whatever nodes tell of themselves; others are refused."""
    key, print_of_key = make_key(tmp_path, "a")
    stranger, _ = make_key(tmp_path, "b")
    assert fingerprint(key) == print_of_key
    path = tmp_path / "clients.toml"
    path.write_text(f'"{print_of_key}" = "clinic-7"\n"102" = "clinic-8"\n')
    grid = LocalGrid(app_that(drawn), {101: "clinic-8", 102: None, 103: "clinic-7", 104: "x"})
    grid.keys = {101: key, 103: stranger}
    strategy = strategy_on(
        None, clients=path, authenticated=True, min_available_nodes=2, fraction_train=1.0
    )
    strategy.start(grid, first_model(5), 2)
    assert strategy.identities.nodes == {"clinic-7": 101, "clinic-8": 102}
    assert sorted(strategy.identities.refused) == [103, 104]
    assert sum("is not on the list of clients: it is refused" in line for line in said) == 2
    assert grid.questions == 0
    # A new key or node for a client is one line in the file: no id is bound to the old one.
    del grid.clients[101]
    grid.keys[105], grid.clients[105] = key, "y"
    strategy.configure_train(3, strategy._current(), ConfigRecord(), grid)
    assert strategy.identities.nodes["clinic-7"] == 105


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x =", "is not valid TOML"),
        ('"SHA256:abc" = "c"', "'SHA256:abc' is no node"),
        ('"-3" = "c"', "'-3' is no node"),
        ('"5" = "node:1"', "begins with 'node:'"),
        ('"5" = 3', "must be named by a string, not int"),
        ('"5" = "c"\n"6" = "c"', "client 'c' stands there twice"),
        ("", "lists no node"),
        ('[clients]\n"5" = "c"', "'clients' is no node"),
    ],
)
def test_a_wrong_list_is_refused_in_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    """Before any work; the file is named."""
    path = tmp_path / "clients.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=sentence) as caught:
        strategy_on(None, clients=path)
    assert "clients.toml" in str(caught.value)
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        AllowList(tmp_path / "nowhere.toml")
