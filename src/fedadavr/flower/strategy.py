"""Any of our algorithms as a Flower strategy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from logging import ERROR, INFO, WARNING
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg as FlowerFedAvg
from flwr.serverapp.strategy import Result

from fedadavr.algorithms import Algorithm, Rejected, Update
from fedadavr.algorithms.registry import settings_in_use, settings_of
from fedadavr.flower.aliases import ATTRIBUTES, meant, ours
from fedadavr.flower.allow_list import AllowList
from fedadavr.flower.arrays import BadArrays
from fedadavr.flower.history import EVALUATED, TRAINED
from fedadavr.flower.identity import Identities, Naming, check_naming
from fedadavr.flower.ids import RESERVED, one_line
from fedadavr.flower.kept import KeptRounds
from fedadavr.flower.log import log
from fedadavr.flower.loop import EvaluateFunction, Hook, Loop, hooks_of
from fedadavr.flower.loops import begins_round
from fedadavr.flower.metrics import Aggregate, aggregate, average, checked, numbers
from fedadavr.flower.privacy import check_wrapper
from fedadavr.flower.pulling import finish, pulling
from fedadavr.flower.replies import (
    Keys,
    RejectedRounds,
    Reply,
    SortedReplies,
    check_buffers,
    match,
    number,
    parts,
    sort,
)
from fedadavr.flower.resuming import Resume, anew, check_resume, fixed
from fedadavr.flower.retrying import Retry
from fedadavr.flower.roster import Roster
from fedadavr.sampling import EVALUATE, sample
from fedadavr.stores import StoreError
from fedadavr.stores.compression import Compress
from fedadavr.stores.compression import check as check_compression
from fedadavr.stores.store import StoreLost
from fedadavr.supported import check_platform
from fedadavr.vector import Vector

CORRECTION = "fedadavr.correction"  # the record with c - c_i, for SCAFFOLD
PROXIMAL = "proximal-mu"  # in the config, as Flower's FedProx has it
SCALE = "fedadavr.gradient-scale"  # in the config, for FedCM
STEPS = "num-steps"  # in a reply's metrics, for FedNova and SCAFFOLD
PREFIX = "fedadavr-"  # of a metric of ours whose name the user's metrics have


class Strategy(KeptRounds, FlowerFedAvg):
    """A Flower strategy with FedAvg's arguments, and an algorithm's settings beside them.

    It trains in a loop of one's own, too, under a strategy that wraps it, and with a
    `configure_train` of a subclass's: with a store that holds rounds, their model goes out first.

    Parameters
    ----------
    algorithm : str, optional
        The algorithm's name, where the class does not say it.
    store : str, optional
        lmdb:FOLDER or redis://HOST:PORT, where model, memory, metrics and round outlive this
        process; `start` goes on from there.
    resume : {"auto", "never", "require"}
        With a store: go on if it holds rounds; raise if it does; raise if it does not.
    store_timeout : float
        Seconds that a round waits for a store that cannot be read or written, with its replies
        kept; then the run ends, and can be continued from the last commit.
    encrypt_with : str or Path, optional
        A file with 32 bytes, the key that the client records are encrypted with.
    compress : {"zstd", "none"}, optional
        With a store: compress client records before they are encrypted; None: as it was, or none.
    commit_every : int
        Commit every so many rounds; until then a crash loses them.
    authenticated : bool
        Nodes have registered keys (`--enable-supernode-auth`), so that their ids are theirs across
        runs, and a client's id stays with its node for good.
    clients : str, Path or Mapping[str, str], optional
        Who may take part: a TOML file, or a mapping, from a node (its key's fingerprint, or its id)
        to its client's id; nodes that are not listed are refused. None: see `identity`.
    identity : "ask", "node" or Callable[[int], str], optional
        How clients are known. "ask": their nodes tell (`answer_identity`); one is asked first, and
        if its app cannot answer, all are known by their nodes' ids. "node": by their nodes' ids,
        nobody is asked. A function: it gets a node's id and returns its client's. None: nodes
        are asked if the algorithm remembers clients, and only then. Who is sampled does not
        depend on Flower's random node ids with "ask" or a function, also for FedAvg.
    expire_after : int
        Rounds after which a client that never trained and is not connected any more is not counted
        in the population.
    seed : int
        Seed of who is sampled.
    buffers : Sequence[str]
        Arrays that are not to be optimized, beside integers and running statistics.
    identity_timeout : float
        Seconds that nodes have to tell their client ids, and not more than `start`'s `timeout`.
    max_rejected_rounds : int
        Rounds in a row whose every reply was rejected, after which the run ends.
    on_round : Callable or Sequence[Callable], optional
        Called by `start` as on_round(round, arrays, metrics) after each round, with metrics by
        names like "train/loss", "evaluate/accuracy" or "server/accuracy"; True ends the run.
        `fedadavr.flower.hooks` has ready ones.
    **settings : Any
        The algorithm's settings (`fedadavr algorithms` lists them), `client_lr`,
        `client_momentum`, `population` and `snapshot_every`; those that are not given are, with a
        store that holds rounds, what these were made with. Flower's names are understood: `eta`
        (`server_lr`), `eta_l` (`client_lr`), `beta_1`, `beta_2`, `proximal_mu` (`mu`).
    """

    name: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.configure_train = begins_round(cls.configure_train)  # type: ignore[method-assign]

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
        resume: Resume = "auto",
        store_timeout: float = 3600.0,
        encrypt_with: str | Path | None = None,
        compress: Compress | None = None,
        commit_every: int = 1,
        authenticated: bool = False,
        clients: str | Path | Mapping[str, str] | None = None,
        identity: Naming | None = None,
        expire_after: int = 10,
        seed: int = 42,
        buffers: Sequence[str] = (),
        identity_timeout: float = 120.0,
        max_rejected_rounds: int = 3,
        on_round: Hook | Sequence[Hook] | None = None,
        **settings: Any,
    ) -> None:
        check_platform()
        super().__init__(
            fraction_train, fraction_evaluate, min_train_nodes, min_evaluate_nodes,
            min_available_nodes, weighted_by_key, arrayrecord_key, configrecord_key,
            train_metrics_aggr_fn or average, evaluate_metrics_aggr_fn or average,
        )  # fmt: skip
        for key, value in (("fraction_train", fraction_train),
                           ("fraction_evaluate", fraction_evaluate)):  # fmt: skip
            if not 0 <= value <= 1:
                raise ValueError(f"{key} must lie in [0, 1], got {value!r}")
        for key, whole in (("commit_every", commit_every), ("expire_after", expire_after),
                           ("max_rejected_rounds", max_rejected_rounds)):  # fmt: skip
            if type(whole) is not int or whole < 1:
                raise ValueError(f"{key} must be a whole number from 1 up, got {whole!r}")
        if not store_timeout >= 0:
            raise ValueError(f"store_timeout must be in seconds, got {store_timeout!r}")
        check_resume(resume, store)
        hooks = hooks_of(on_round)
        self._algorithm = algorithm or type(self).name
        if not self._algorithm:
            raise ValueError("say which algorithm: Strategy(algorithm='fedadavr')")
        settings = ours(settings, settings_of(self._algorithm))
        if settings.get("snapshot_every") is not None and store is None:
            raise ValueError("snapshot_every goes with a store: there is nothing to go back to")
        self._settings = settings
        self.store, self.encrypt_with, self.commit_every = fixed(store), encrypt_with, commit_every
        probe = self._probe()
        self._allowed = None if clients is None else AllowList(clients)
        if compress is not None:
            check_compression(compress)
            if store is None:
                raise ValueError("compress goes with a store: there is nothing to compress")
        self._compress = compress
        self._resume, self.on_round = resume, hooks
        self._remembers = probe.memory is not None
        self._naming = check_naming(identity, self._allowed, self._remembers)
        self.authenticated, self._sampling_seed, self._buffer_names = (
            authenticated,
            seed,
            tuple(buffers),
        )
        self._retry, self._expire_after = Retry(store_timeout), expire_after
        self._timeout = 3600.0
        self._identity_timeout = identity_timeout
        self._max_rejected_rounds = max_rejected_rounds
        self._in_start = False  # else the loop is somebody else's
        self._starts = 0  # of `start`, that began without a store
        self._forget_all()

    def _forget_all(self) -> None:
        """As before any round."""
        self._forget_rounds()
        self._offset = 0  # what a loop that is not ours does not count
        self.asked: list[Message] = []
        self._evaluating: list[Message] = []
        self._rejected_rounds = RejectedRounds(self._max_rejected_rounds)
        self._keys = Keys(self.weighted_by_key, self.arrayrecord_key, self.configrecord_key)
        self._begun, self._stepped = 0, -1  # the last rounds, as the loop counts them
        self._configuring = self._cast_said = False
        self._grid: Grid | None = None
        self.identities = Identities(
            self._owner_of, self._identity_timeout, self._expire_after, self._allowed,
            self._naming, remembers=self._remembers, handing_over=not self.authenticated,
        )  # fmt: skip
        self.roster = Roster(self.identities)

    def __getattr__(self, name: str) -> Any:
        """A setting by the name that Flower's strategies have for it."""
        key = self._meant(name)
        if key is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        server = self.server or self._probe()
        return server.client_lr if key == "client_lr" else settings_in_use(server)[key]

    def __setattr__(self, name: str, value: Any) -> None:
        key = self._meant(name)
        if key is None:
            super().__setattr__(name, value)
        elif self.__dict__.get("server") is not None:
            raise AttributeError(
                f"{name} cannot be changed while {type(self).__name__} runs: give it {key} before"
            )
        else:
            before, self._settings = self._settings, {**self._settings, key: value}
            try:
                self._probe()
            except ValueError:
                self._settings = before
                raise

    def _meant(self, name: str) -> str | None:
        """The setting that an attribute is, by Flower's name."""
        known = self.__dict__.get("_algorithm") if name in ATTRIBUTES else None
        return meant(name, settings_of(known)) if known else None

    @property
    def _draws(self) -> int:
        """The seed of draws: a second `start` that begins anew would draw the first one's again."""
        return self._sampling_seed + max(0, self._starts - 1)

    def summary(self) -> None:
        """Log what will run."""
        given = ", ".join(f"{key}={one_line(repr(v), 200)}" for key, v in self._settings.items())
        log(INFO, "\t├──> Algorithm: %s(%s)", self._algorithm, given)
        log(INFO, "\t├──> Store: %s", self._where or "none: a crash loses everything")
        if self._where and self.commit_every > 1:
            log(INFO, "\t├──> Commits: every %d rounds; until then they are in RAM only",
                self.commit_every)  # fmt: skip
        if self._allowed is not None and not self.authenticated:
            log(WARNING, "\t├──> Clients: listed, but not authenticated: unless the SuperLink has "
                "--enable-supernode-auth, anyone can come with a listed key")  # fmt: skip
        super().summary()

    # --- from start to end ---

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float | None = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFunction | None = None,
    ) -> Result:
        """Run to `num_rounds` in all; with a store that holds rounds already, the rest of them.

        See Flower's `Strategy.start`. A result has the metrics of all rounds, the store's included;
        a round that was made and not evaluated when a run ended is evaluated first. It returns
        when the last round is stored, and raises `StoreError` if it cannot be.
        """
        self._timeout = math.inf if timeout is None else timeout  # as Flower's grids take it
        self.close()
        self._forget_all()
        if self.store is None:
            self._starts += 1
        self._prepare(initial_arrays)
        self._in_start, grid = True, pulling(grid, self.store, self.encrypt_with is not None)
        try:
            self._say_start(num_rounds)
            loop = Loop(self, grid, timeout, train_config, evaluate_config, evaluate_fn,
                        self._measured, self.on_round)  # fmt: skip
            result = loop.run(self._current(), self._done_before, num_rounds)
            self._commit()
            self._retry("the last metrics", self._write_metrics)
            self._record = result.arrays  # what `current_arrays` is after the end
        except BaseException as error:
            self._save_what_is_whole(error)
            raise
        finally:
            finish(grid)
            try:
                self.close()
            finally:
                self._in_start = False
        return result

    def _say_start(self, num_rounds: int) -> None:
        log(INFO, "Starting %s, %d rounds:", type(self).__name__, num_rounds)
        self.summary()
        if self._starts > 1:
            log(INFO, "started before, and there is no store: memory and moments begin anew")
        if self._done_before:
            log(
                INFO,
                "going on after round %d of %d, from %s",
                self._done_before,
                num_rounds,
                self._where,
            )
        if 0 < self._done_before >= num_rounds:
            log(WARNING, "already at round %d of %d: raise num_rounds, or %s", self._done_before,
                num_rounds, anew(self._where))  # fmt: skip

    def _begin_round(self, server_round: int, arrays: ArrayRecord, grid: Grid) -> ArrayRecord:
        """The model that a round begins with: the loop's, or at first the store's."""
        self._grid = grid
        again = server_round < self._begun or (self.store and server_round == self._stepped)
        if again and not self._in_start:  # a new loop with the same strategy
            self.close()
            self._forget_all()
            self._grid, self._configuring = grid, True
        if not self._in_start:
            check_wrapper(self.store, self._build, first=self.server is None)
        if self.server is None:
            self._prepare(arrays)
            if self.on_round and not self._in_start:
                log(WARNING, "on_round is called by start() only, and the loop is another one")
            if self._unseen:
                done = self._done_before
                log(INFO, "going on after round %d, from %s: its model is sent, not the one that "
                    "was passed", done, self._where)  # fmt: skip
                # A loop that goes on itself counts the stored rounds, one that begins does not.
                self._offset = 0 if server_round > done else done + 1 - server_round
        self._begun = server_round
        if self._unseen:
            return self._current()  # until the loop has got a model back
        self._take(arrays)
        return arrays

    # --- who takes part ---

    def _owner_of(self, client: str) -> int:
        """The node that the store has bound a client's id to, 0 for none."""
        if not self._binding or self.server is None or self.server.memory is None:
            return 0
        try:
            return self.server.memory.owner_of(self.server.record_of(client))
        except ValueError:
            return 0  # it is in no cluster, and will be left out

    @property
    def _binding(self) -> bool:
        """Whether an id stays with its node for good; with a list, that says who is who."""
        return self.authenticated and self._allowed is None

    # --- training ---

    @begins_round
    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose the round's clients, and give each what its training needs."""
        if self.fraction_train == 0.0:
            return []
        server, round = self._prepare(arrays), self._offset + server_round
        self._take(arrays)
        wanted = {"min_available_nodes": self.min_available_nodes,
                  "min_train_nodes": self.min_train_nodes}  # fmt: skip
        there = self.roster.connected(grid, wanted, self._timeout, self._retry)
        clients = self._retry(f"round {round}", partial(self.roster.join, server, round, there))
        self.roster.expire(server, round)
        everyone = _in_order(clients)
        size = min(len(everyone), max(int(len(everyone) * self.fraction_train),
                                      self.min_train_nodes))  # fmt: skip
        chosen = server.sample(self._draws, round, everyone, size)
        log(INFO, "round %d: %d of %d clients train", round, len(chosen), len(clients))
        config["server-round"] = round
        if server.needs.proximal_mu:
            config[PROXIMAL] = server.needs.proximal_mu
        if server.needs.gradient_scale != 1:
            config[SCALE] = server.needs.gradient_scale
        shared: dict[str, Any] = {self.arrayrecord_key: arrays, self.configrecord_key: config}
        messages = []
        for client in chosen:
            content = RecordDict(shared)
            if server.needs.correction:
                correct = partial(server.correction, client)
                tensors = self._flat_model.layout.split(self._retry(f"round {round}", correct))
                content[CORRECTION] = ArrayRecord(
                    {name: _array(tensor) for name, tensor in tensors.items()}
                )
            messages.append(
                Message(content=content, message_type=MessageType.TRAIN,
                        dst_node_id=clients[client])
            )  # fmt: skip
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Step with the replies that are good; the others cost only themselves.

        Where the store cannot be read or written, the replies are kept and the round waits.
        """
        replies = list(replies)
        if not self.asked and not replies:
            return None, None
        server, round = self.server, self._offset + server_round
        if server is None:
            raise RuntimeError(
                "aggregate_train: the model that was sent is not known; call configure_train of "
                "this strategy before, or set current_arrays"
            )
        answers = match(self.asked, replies)
        self._learn_of(round, server, [node for _, node in answers[0]])
        found = sort(f"round {round}", answers, self._client_of, self._read)
        self._keys.check(found, len(self.roster.joined))
        if self._flat_model.cast and not self._cast_said:
            self._cast_said = True
            cast = one_line(self._flat_model.cast, 300)
            log(WARNING, "%s: %s; such replies are cast", found.what, cast)
        check_buffers(found, self._flat_model, self.buffer_values)
        while True:
            try:
                moved, metrics = self._retry(
                    f"round {round}", partial(self._make, server_round, found),
                    "its replies are kept")  # fmt: skip
                break
            except Rejected as error:
                if not error.reasons.keys() & found.good.keys():
                    raise  # it is nobody's fault who is here
                for client, why in error.reasons.items():
                    found.reject(client, why)
        if isinstance(metrics, BaseException):
            if not self._in_start:
                self._save_what_is_whole(metrics)
            raise metrics
        if not self._in_start:
            self._commit()  # somebody else's loop does not say when it ends; see `_made`
        omitted = len(replies) - len(answers[0])
        self._rejected_rounds.look(found, len(self.roster.joined), omitted)
        if not moved:
            return None, metrics
        self._unseen = False
        return self._current(), metrics

    def _learn_of(self, round: int, server: Algorithm, nodes: list[int]) -> None:
        """Nodes that a subclass or a wrapper has asked: find out who they are, and count them."""
        if all(self._client_of(node) in self.roster.joined for node in nodes):
            return
        self.identities.learn(self._grid, nodes, self._timeout)
        self._retry(f"round {round}", self.identities.bind)
        known = {self._client_of(node): node for node in nodes if node in self.identities.clients}
        self._retry(f"round {round}", partial(self.roster.join, server, round, known))

    def _make(
        self, server_round: int, found: SortedReplies
    ) -> tuple[bool, MetricRecord | BaseException]:
        """One step and what is noted of it: a signal comes before all of it, or after.

        Gives whether the model has moved, and the metrics, or what the user's function for them
        has raised: the round is made all the same.
        """
        assert self.server is not None
        round = self._offset + server_round
        moved = self._step(round, found.good)
        for client in found.good:
            self.identities.note_trained(client)
        if moved:
            self._unseen, self._stepped = True, server_round
        self._measured.finish(round - 1)
        self._measured.note(round, TRAINED, None)
        try:
            metrics = self._metrics(found, self.server)
        except BaseException as error:
            return moved, error
        self._measured.note(round, TRAINED, metrics)
        return moved, metrics

    def _step(self, round: int, good: dict[str, Reply]) -> bool:
        """One step and all that belongs to it; whether the model has moved.

        `StoreError` and `Rejected` come before anything is changed; whatever else is raised leaves
        a round half made, which is never committed.
        """
        assert self.server is not None
        before = self.server.round
        self.server.step(self._w, [reply.update for reply in good.values()], out=self._next)
        self._whole = False
        self._w, self._next = self._next, self._w
        moved = self.server.round > before
        if moved:
            self._record = None
            sizes = np.array([reply.update.examples for reply in good.values()], float)
            self.buffer_values = self._flat_model.mean(
                [reply.buffers for reply in good.values()], (sizes / sizes.sum()).tolist()
            )
        self._uncommitted, self._reached = self._uncommitted + 1, round
        self._whole = True
        return moved

    def _client_of(self, node: int) -> str:
        return self.identities.clients.get(node, f"{RESERVED}{node}")

    def _read(self, client: str, node: int, content: RecordDict) -> Reply:
        """A reply's parts; raises `BadArrays` if it is not what it should be."""
        assert self.server is not None
        if node in self.identities.refused:
            raise BadArrays("its node is refused")
        arrays, metrics = parts(content)
        weighted = self._keys.has_weight(client, metrics)
        examples = number(metrics[self.weighted_by_key]) if weighted else None
        steps = number(metrics.get(STEPS)) if self.server.needs.steps else None
        if examples is None:
            raise BadArrays(f"its metrics lack {self.weighted_by_key!r}")
        if steps is None and self.server.needs.steps:
            raise BadArrays(
                f"{self._algorithm} needs the number of local steps in its metrics as {STEPS!r} "
                "(fedadavr.flower.ClientHook counts them)"
            )
        weights, buffers = self._flat_model.split(arrays)
        for name, values in buffers.items():
            if name not in self._flat_model.constant and not np.isfinite(values).all():
                raise BadArrays(f"its buffer {name!r} holds NaN or infinity")
        update = Update(client, weights, examples, steps, owner=node if self._binding else 0)
        return Reply(update, buffers, content)

    def _metrics(self, found: SortedReplies, server: Algorithm) -> MetricRecord:
        """The clients' metrics, averaged, and ours, under a name that is not one of theirs."""
        contents = {client: reply.content for client, reply in found.good.items()}
        theirs = self._averaged(found.what, contents, self.train_metrics_aggr_fn)
        metrics = MetricRecord({} if theirs is None else numbers(theirs))
        ours = {"rejected": len(found.rejected), "failed": len(found.failed),
                "staleness": server.staleness, "clipped": len(server.clipped)}  # fmt: skip
        learned = server.server_optimizer.learned
        if learned is not None and learned.used is not None:
            ours["server_lr"] = learned.used
        for name, value in ours.items():
            metrics[f"{PREFIX}{name}" if name in metrics else name] = value
        return metrics

    def _averaged(
        self, what: str, contents: dict[str, RecordDict], function: Aggregate
    ) -> MetricRecord | None:
        def note(client: str, why: str) -> None:
            log(WARNING, "%s: metrics of client %r are omitted: %s", what, one_line(client),
                one_line(why, 300))  # fmt: skip

        name = getattr(function, "__name__", "the function for metrics")
        return checked(aggregate(contents, self.weighted_by_key, function, note), name)

    # --- evaluation ---

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose the clients that evaluate; an outage costs only the evaluation."""
        self._evaluating = []
        if self.fraction_evaluate == 0.0:
            return []
        round = self._offset + server_round
        if self._unseen and not self._in_start:  # `start` has chosen what is evaluated
            arrays = self._current()
        wanted = {"min_available_nodes": self.min_available_nodes,
                  "min_evaluate_nodes": self.min_evaluate_nodes}  # fmt: skip
        try:
            clients = self.roster.connected(grid, wanted, self._timeout, Retry(0))
        except StoreLost:
            raise
        except StoreError as error:
            log(ERROR, "round %d is not evaluated: %s", round, error)
            return []
        everyone = _in_order(clients)
        size = min(len(everyone), max(int(len(everyone) * self.fraction_evaluate),
                                      self.min_evaluate_nodes))  # fmt: skip
        places = sample(self._draws, round, EVALUATE, len(everyone), size)
        chosen = [everyone[place] for place in places]
        config["server-round"] = round
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        nodes = [clients[client] for client in chosen]
        self._evaluating = [
            Message(content=record, message_type=MessageType.EVALUATE, dst_node_id=node)
            for node in nodes
        ]
        return self._evaluating

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Average the metrics of the replies that have them."""
        what = f"the evaluation of round {self._offset + server_round}"
        answers = match(self._evaluating, replies)
        self._evaluating = []  # a subclass may ask nobody in the next round
        found = sort(what, answers, self._client_of, lambda client, node, reply: reply)
        for client, content in found.good.items():
            for metrics in content.metric_records.values():
                self._keys.has_weight(client, metrics)
        self._keys.check(found, len(self.roster.joined))
        metrics = self._averaged(what, found.good, self.evaluate_metrics_aggr_fn)
        self._measured.note(self._offset + server_round, EVALUATED, metrics)
        if not self._in_start:  # what else a loop of one's own does with the round is not known
            self._measured.finish(self._offset + server_round)
        return metrics


def _in_order(clients: Iterable[str]) -> list[str]:
    """Clients in the order of their ids, numbers as numbers: whom a draw means must not change."""
    return sorted(clients, key=lambda client: (len(client), client))


def _array(tensor: Vector) -> Any:
    from flwr.app import Array

    return Array(np.require(tensor, requirements="C"))  # which leaves a scalar one
