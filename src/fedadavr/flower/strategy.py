"""Any of our algorithms as a Flower strategy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from logging import ERROR, INFO, WARNING
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg as FlowerFedAvg
from flwr.serverapp.strategy import Result

from fedadavr.algorithms import Algorithm, Rejected, Update, algorithm
from fedadavr.flower.arrays import BadArrays, Model
from fedadavr.flower.identity import Identities
from fedadavr.memory import StoreError, open_store
from fedadavr.sampling import EVALUATE, sample
from fedadavr.vector import Layout, Vector

CORRECTION = "fedadavr.correction"  # the record with c - c_i, for SCAFFOLD
PROXIMAL = "proximal-mu"  # in the config, as Flower's FedProx has it
STEPS = "num-steps"  # in a reply's metrics, for FedNova and SCAFFOLD
POLL = 1.0  # seconds between looks for nodes


@dataclass(frozen=True)
class Reply:
    """A reply that can be stepped with."""

    update: Update
    buffers: dict[str, Any]
    content: RecordDict


class Strategy(FlowerFedAvg):
    """A Flower strategy with FedAvg's arguments, and an algorithm's settings beside them.

    Parameters
    ----------
    algorithm : the algorithm's name, where the class does not say it
    store : lmdb:FOLDER or redis://HOST:PORT, where model, memory and round outlive this process;
        `start` goes on from there
    encrypt_with : a file with 32 bytes, the key that the client records are encrypted with
    commit_every : commit every so many rounds; until then a crash loses them
    authenticated : nodes have registered keys (`--enable-supernode-auth`), so that their ids are
        theirs across runs, and a client's id stays with its node for good
    seed : seed of who is sampled
    buffers : arrays that are not to be optimized, beside integers and running statistics
    identity_timeout : seconds that nodes have to tell their client ids
    **settings : FedAvg's arguments, and the algorithm's settings (`client_lr`, `server_lr`,
        `optimizer`, `codec`, `population`, ...)
    """

    name: ClassVar[str] = ""

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        evaluate_metrics_aggr_fn: Callable[[list[RecordDict], str], MetricRecord] | None = None,
        *,
        algorithm: str | None = None,
        store: str | None = None,
        encrypt_with: str | Path | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        **settings: Any,
    ) -> None:
        super().__init__(
            fraction_train, fraction_evaluate, min_train_nodes, min_evaluate_nodes,
            min_available_nodes, weighted_by_key, arrayrecord_key, configrecord_key,
            train_metrics_aggr_fn, evaluate_metrics_aggr_fn,
        )  # fmt: skip
        for key, value in (("fraction_train", fraction_train),
                           ("fraction_evaluate", fraction_evaluate)):  # fmt: skip
            if not 0 <= value <= 1:
                raise ValueError(f"{key} must lie in [0, 1], got {value!r}")
        if type(commit_every) is not int or commit_every < 1:
            raise ValueError(f"commit_every must be a whole number from 1 up, got {commit_every!r}")
        self._algorithm = algorithm or self.name
        if not self._algorithm:
            raise ValueError("say which algorithm: Strategy(algorithm='fedadavr')")
        self._settings = settings
        self._build(Layout({"probe": (1,)}))  # a wrong setting is said before any work
        self.store, self.encrypt_with, self.commit_every = store, encrypt_with, commit_every
        self.authenticated, self.seed, self.buffers = authenticated, seed, tuple(buffers)
        self._timeout = 3600.0
        self._offset = 0  # rounds that were done before this start
        self.asked: list[Message] = []
        self._joined: set[str] = set()
        self._barred: set[str] = set()
        self._uncommitted = self._reached = 0
        self._record: ArrayRecord | None = None
        self.server: Algorithm | None = None
        self._identity_timeout = identity_timeout
        self.identities = Identities(self._owner_of, identity_timeout)

    def _build(self, layout: Layout, store: Any = None) -> Algorithm:
        return algorithm(self._algorithm, layout, store=store, **self._settings)

    def summary(self) -> None:
        """Log what will run."""
        given = ", ".join(f"{key}={value!r}" for key, value in self._settings.items())
        log(INFO, "\t├──> Algorithm: %s(%s)", self._algorithm, given)
        log(INFO, "\t├──> Store: %s", self.store or "none: a crash loses everything")
        super().summary()

    # --- from start to end ---

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run to `num_rounds`; with a store that holds rounds already, the rest of them.

        See Flower's `Strategy.start`. A result's metrics are those of the rounds made now.
        """
        self._timeout = timeout
        self.server, self._joined, self._uncommitted = None, set(), 0
        self.identities = Identities(self._owner_of, self._identity_timeout)
        self._prepare(initial_arrays)
        try:
            arrays = self._current()
            done = min(self._offset, num_rounds)
            if done:
                log(INFO, "going on after round %d of %d, from %s", done, num_rounds, self.store)

            def evaluate(round: int, now: ArrayRecord) -> MetricRecord | None:
                if evaluate_fn is None or (done and not round):
                    return None  # the model of that round was evaluated before
                return evaluate_fn(done + round, now)

            result = super().start(
                grid, arrays, num_rounds - done, timeout, train_config, evaluate_config,
                evaluate if evaluate_fn else None,
            )  # fmt: skip
        finally:
            if self._uncommitted:
                self._try_commit(self._reached)
            self.close()
        if not len(result.arrays):
            result.arrays = arrays
        for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp",
                     "evaluate_metrics_serverapp"):  # fmt: skip
            metrics = getattr(result, name)
            setattr(result, name, {done + round: value for round, value in metrics.items()})
        return result

    def close(self) -> None:
        """Let go of the store."""
        if self.server is not None and self.server.store is not None:
            self.server.store.close()
            self.server = None

    def _prepare(self, arrays: ArrayRecord) -> Algorithm:
        """Build the server for a model, once; with a store, take over what it holds."""
        if self.server is not None:
            return self.server
        self.model = Model(arrays, self.buffers)
        store = None if self.store is None else open_store(self.store, self.encrypt_with)
        try:
            server = self._build(self.model.layout, store)
            self.w, self.buffer_values = self.model.flatten(arrays)
            self._next = np.zeros_like(self.w)
            self._offset = 0
            kept = server.restore()
            if kept is not None:
                self.w, extra = kept
                self._check_kept(extra)
                self.buffer_values, self._offset = extra["buffers"], extra["round"]
        except BaseException:
            if store is not None:
                store.close()
            raise
        self.server = server
        self._record = None
        return server

    def _check_kept(self, extra: dict[str, Any]) -> None:
        if not {"buffers", "round", "seed"} <= extra.keys():
            raise ValueError(
                f"{self.store} was not written by a Flower strategy: use another store"
            )
        there, mine = extra["buffers"], self.model.buffers
        if set(there) != set(mine):
            raise ValueError(
                f"the store's model has the buffers {sorted(there)}, this one {sorted(mine)}"
            )
        for name in mine:
            kind = self.model.kinds[name]
            if there[name].shape != kind.shape or there[name].dtype != kind.dtype:
                raise ValueError(f"the buffer {name!r} is not what it is in the store's model")
        if extra["seed"] != self.seed:
            log(WARNING, "the rounds so far were sampled with seed %s, not %s", extra["seed"],
                self.seed)  # fmt: skip

    def _current(self) -> ArrayRecord:
        """The model as it goes out."""
        if self._record is None:
            self._record = self.model.record(self.w, self.buffer_values)
        return self._record

    def _commit(self, round: int) -> None:
        assert self.server is not None
        self.server.commit(self.w, round=round, buffers=self.buffer_values, seed=self.seed)
        self._uncommitted = 0

    def _try_commit(self, round: int) -> None:
        """Commit; if it fails, training goes on in RAM, and the next commit writes it all."""
        try:
            self._commit(round)
        except StoreError as error:
            log(ERROR, "round %d is not committed yet: %s", round, error)

    # --- who takes part ---

    def _owner_of(self, client: str) -> int:
        """The node that the store has bound a client's id to, 0 for none."""
        if not self.authenticated or self.server is None or self.server.memory is None:
            return 0
        try:
            return self.server.memory.owner_of(self.server.record_of(client))
        except ValueError:
            return 0  # it is in no cluster, and will be left out

    def _connected(self, grid: Grid) -> dict[str, int]:
        """The clients that are there, and their nodes; waits for enough of them, not for ever."""
        deadline, said = time.monotonic() + self._timeout, False
        while True:
            nodes = grid.get_node_ids()
            clients = self.identities.connected(grid, nodes, self.min_available_nodes)
            if len(clients) >= self.min_available_nodes or time.monotonic() > deadline:
                break
            if not said:
                log(INFO, "waiting for %d clients, %d are there", self.min_available_nodes,
                    len(clients))  # fmt: skip
                said = True
            time.sleep(min(POLL, self._timeout))
        if not clients:
            raise TimeoutError(f"no client has come within {self._timeout:.0f} s")
        if len(clients) < self.min_available_nodes:
            log(WARNING, "only %d of %d clients have come within %.0f s: going on with them",
                len(clients), self.min_available_nodes, self._timeout)  # fmt: skip
        return clients

    # --- training ---

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose the round's clients, and give each what its training needs."""
        self.asked = []
        if self.fraction_train == 0.0:
            return []
        server, round = self._prepare(arrays), self._offset + server_round
        if arrays is not self._record:
            self.w, self.buffer_values = self.model.flatten(arrays)
            self._record = arrays
        try:
            return self._configure(server, round, arrays, config, grid)
        except StoreError as error:
            log(ERROR, "round %d is lost: %s", round, error)
            self.asked = []
            return []

    def _configure(
        self, server: Algorithm, round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        clients = self._join(self._connected(grid))
        everyone = _in_order(clients)
        size = min(len(everyone), max(int(len(everyone) * self.fraction_train),
                                      self.min_train_nodes))  # fmt: skip
        chosen = server.sample(self.seed, round, everyone, size)
        log(INFO, "round %d: %d of %d clients train", round, len(chosen), len(clients))
        config["server-round"] = round
        if server.needs.proximal_mu:
            config[PROXIMAL] = server.needs.proximal_mu
        shared: dict[str, Any] = {self.arrayrecord_key: arrays, self.configrecord_key: config}
        for client in chosen:
            content = RecordDict(shared)
            if server.needs.correction:
                tensors = self.model.layout.split(server.correction(client))
                content[CORRECTION] = ArrayRecord(
                    {name: _array(tensor) for name, tensor in tensors.items()}
                )
            self.asked.append(
                Message(content=content, message_type=MessageType.TRAIN,
                        dst_node_id=clients[client])
            )  # fmt: skip
        return self.asked

    def _join(self, clients: dict[str, int]) -> dict[str, int]:
        """Count clients that are there in the population; those that cannot be are left out."""
        assert self.server is not None
        memory = self.server.memory
        for client in [c for c in clients if c not in self._joined and c not in self._barred]:
            try:
                record = self.server.record_of(client)
            except ValueError as error:
                log(WARNING, "client %r cannot take part: %s", client, error)
                self._barred.add(client)
                continue
            if memory is not None:
                memory.join(record)
            self._joined.add(client)
        return {client: node for client, node in clients.items() if client in self._joined}

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Step with the replies that are good; the others cost only themselves."""
        server, round = self.server, self._offset + server_round
        if server is None or not self.asked:
            return None, None
        good, rejected, failed = self._sort(round, replies)
        before = server.round
        while True:
            try:
                updates = [reply.update for reply in good.values()]
                server.step(self.w, updates, out=self._next)
                self.w, self._next = self._next, self.w
                break
            except Rejected as error:
                for client, why in error.reasons.items():
                    self._note_rejected(round, client, why)
                    good.pop(client)
                    rejected += 1
            except StoreError as error:
                log(ERROR, "round %d is lost: %s", round, error)
                return None, MetricRecord({"rejected": rejected, "failed": failed})
        if server.round > before and self.model.buffers:
            sizes = np.array([reply.update.examples for reply in good.values()], float)
            self.buffer_values = self.model.mean(
                [reply.buffers for reply in good.values()], (sizes / sizes.sum()).tolist()
            )
        metrics = self._metrics([reply.content for reply in good.values()])
        metrics["rejected"], metrics["failed"] = rejected, failed
        metrics["staleness"] = server.staleness
        self._uncommitted, self._reached = self._uncommitted + 1, round
        if self._uncommitted >= self.commit_every:
            self._try_commit(round)
        if server.round == before:
            return None, metrics
        self._record = None
        return self._current(), metrics

    def _sort(self, round: int, replies: Iterable[Message]) -> tuple[dict[str, Reply], int, int]:
        """The replies that can be read, by client, and how many were rejected and failed."""
        asked = {m.metadata.message_id: m.metadata.dst_node_id for m in self.asked}
        waiting = {m.metadata.dst_node_id for m in self.asked}
        good: dict[str, Reply] = {}
        rejected = failed = 0
        for message in replies:
            node = asked.get(message.metadata.reply_to_message_id, message.metadata.src_node_id)
            client = self.identities.clients.get(node, str(node))
            if node not in waiting:
                rejected += 1
                self._note_rejected(round, client, "it was not asked, or has answered before")
                continue
            waiting.discard(node)
            if message.has_error():
                failed += 1
                why = (message.error.reason or f"error {message.error.code}").splitlines()[-1]
                log(WARNING, "round %d: client %r failed: %s", round, client, why)
                continue
            try:
                good[client] = self._read(client, node, message.content)
            except Exception as error:  # whatever a reply can be made to raise
                rejected += 1
                self._note_rejected(round, client, str(error) or type(error).__name__)
        for node in waiting:
            failed += 1
            client = self.identities.clients.get(node, str(node))
            log(WARNING, "round %d: client %r did not answer in time", round, client)
        return good, rejected, failed

    def _note_rejected(self, round: int, client: str, why: str) -> None:
        log(WARNING, "round %d: the reply of client %r is rejected: %s", round, client, why)

    def _read(self, client: str, node: int, content: RecordDict) -> Reply:
        """A reply's parts; raises `BadArrays` if it is not what it should be."""
        assert self.server is not None
        for what, records in (("ArrayRecord", content.array_records),
                              ("MetricRecord", content.metric_records)):  # fmt: skip
            if len(records) != 1:
                raise BadArrays(f"it must hold one {what}, and holds {len(records)}")
        metrics = next(iter(content.metric_records.values()))
        examples = _whole(metrics.get(self.weighted_by_key))
        steps = _whole(metrics.get(STEPS)) if self.server.needs.steps else None
        if examples is None:
            raise BadArrays(f"its metrics lack {self.weighted_by_key!r}")
        if steps is None and self.server.needs.steps:
            raise BadArrays(
                f"{self._algorithm} needs the number of local steps in its metrics as {STEPS!r} "
                "(fedadavr.flower.Guide counts them)"
            )
        weights, buffers = self.model.split(next(iter(content.array_records.values())))
        if any(not np.isfinite(b).all() for b in buffers.values()):
            raise BadArrays("its buffers hold NaN or infinity")
        update = Update(
            client, weights, examples, steps,
            owner=node if self.authenticated else 0,
        )  # fmt: skip
        return Reply(update, buffers, content)

    def _metrics(self, contents: list[RecordDict]) -> MetricRecord:
        """The clients' metrics, averaged; odd ones do not end the run."""
        if not contents:
            return MetricRecord()
        try:
            return self.train_metrics_aggr_fn(contents, self.weighted_by_key) or MetricRecord()
        except Exception as error:  # whatever a function of the user's raises
            log(WARNING, "the clients' metrics could not be averaged: %s", error)
            return MetricRecord()

    # --- evaluation ---

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose the clients that evaluate."""
        if self.fraction_evaluate == 0.0:
            return []
        round = self._offset + server_round
        clients = self._connected(grid)
        everyone = _in_order(clients)
        size = min(len(everyone), max(int(len(everyone) * self.fraction_evaluate),
                                      self.min_evaluate_nodes))  # fmt: skip
        places = sample(self.seed, round, EVALUATE, len(everyone), size)
        chosen = [everyone[place] for place in places]
        config["server-round"] = round
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        nodes = [clients[client] for client in chosen]
        return self._construct_messages(record, nodes, MessageType.EVALUATE)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Average the metrics of the replies that have them."""
        good, _ = self._check_and_log_replies(list(replies), is_train=False, validate=False)
        contents = []
        for message in good:
            records = list(message.content.metric_records.values())
            weight = records[0].get(self.weighted_by_key) if len(records) == 1 else None
            if isinstance(weight, (int, float)) and weight > 0 and np.isfinite(weight):
                contents.append(message.content)
            else:
                node = message.metadata.src_node_id
                client = self.identities.clients.get(node, str(node))
                log(WARNING, "the evaluation of client %r is rejected: it must hold one "
                    "MetricRecord with %r", client, self.weighted_by_key)  # fmt: skip
        if not contents:
            return None
        try:
            return self.evaluate_metrics_aggr_fn(contents, self.weighted_by_key)
        except Exception as error:  # whatever a function of the user's raises
            log(WARNING, "the clients' evaluations could not be averaged: %s", error)
            return None


def _whole(value: Any) -> Any:
    """A whole number that came as a float, as a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _in_order(clients: Iterable[str]) -> list[str]:
    """Clients in the order of their ids, numbers as numbers: whom a draw means must not change."""
    return sorted(clients, key=lambda client: (len(client), client))


def _array(tensor: Vector) -> Any:
    from flwr.app import Array

    return Array(np.ascontiguousarray(tensor))
