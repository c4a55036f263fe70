"""The model and the rounds of a strategy: built or restored, and committed whole."""

from __future__ import annotations

from collections.abc import Mapping
from logging import ERROR, INFO, WARNING
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

from fedadavr import __version__
from fedadavr.algorithms import Algorithm, algorithm
from fedadavr.algorithms.registry import check_settings, settings_in_use
from fedadavr.algorithms.server_state import Torn
from fedadavr.defaults import FIRST, filled
from fedadavr.flower.arrays import Model, Values, nameless_statistics
from fedadavr.flower.history import History
from fedadavr.flower.identity import Identities
from fedadavr.flower.log import log
from fedadavr.flower.resuming import check_extra, check_state
from fedadavr.flower.retrying import Retry
from fedadavr.flower.roster import Roster
from fedadavr.settings import plain
from fedadavr.signals import Hold
from fedadavr.stores import StoreError, open_store
from fedadavr.stores.addresses import public
from fedadavr.stores.compression import Compress
from fedadavr.stores.store import StoreLost
from fedadavr.vector import Layout, Vector


class KeptRounds:
    """What a strategy has made so far, in this process and in its store."""

    store: str | None
    encrypt_with: str | Path | None
    _compress: Compress | None
    commit_every: int
    _resume: str
    _sampling_seed: int
    _buffer_names: tuple[str, ...]
    identities: Identities
    roster: Roster
    _algorithm: str
    _settings: dict[str, Any]
    _retry: Retry
    _in_start: bool

    server: Algorithm | None
    _flat_model: Model
    _w: Vector
    buffer_values: dict[str, Values]
    _next: Vector  # where the next model is made

    def _forget_rounds(self) -> None:
        """As before any round."""
        self.server = None
        self._measured = History()
        self._done_before = 0  # rounds that the store held when this began
        self._uncommitted = self._reached = self._stored = 0
        self._whole = True  # whether model, buffers and memory are of one round
        self._record: ArrayRecord | None = None  # the model as it goes out, if it is made
        self._inside: tuple[Array, ...] = ()  # its arrays
        self._unseen = False  # whether the loop has not got the model yet: a store's, say

    @property
    def _where(self) -> str:
        """The store's address as it may be shown."""
        return public(self.store) if self.store else ""

    def _probe(self) -> Algorithm:
        """A server of one number, so that a wrong setting is said before any work."""
        told = dict(self._settings)
        if self.store is not None and "codec" not in told:
            told.pop("rounding_seed", None)  # whether it can be had the store's own codec says
        return self._build(Layout({"probe": (1,)}), settings=told)

    def _build(
        self, layout: Layout, store: Any = None, settings: Mapping[str, Any] | None = None
    ) -> Algorithm:
        settings = self._settings_on(store) | dict(self._settings if settings is None else settings)
        server = algorithm(self._algorithm, layout, store=store, **settings)
        if server.needs.echo:
            raise ValueError(
                f"{server.name}'s clients start from the model of their last visit, and Flower's "
                "from the newest: take another strategy"
            )
        return server

    def _settings_on(self, store: Any) -> dict[str, Any]:
        """What a store's rounds were made with: a new version's defaults are not for them."""
        state = None if store is None else store.state()
        try:
            if state is None or state["server"]["algorithm"] != self._algorithm:
                return {}
            kept, version = state["extra"].get("settings", {}), state["extra"].get("version", FIRST)
        except (KeyError, TypeError, AttributeError):
            return {}  # it is damaged: restoring it will say so
        given = check_settings(self._algorithm, self._settings)
        return filled(self._algorithm, {**kept, **given}, version)

    # --- the model ---

    def close(self) -> None:
        """Let go of the store; of a loop of one's own, the last evaluation is written before."""
        if self.server is not None and self.server.store is not None:
            with Hold():
                try:
                    if not self._in_start:
                        self._write_metrics()
                except StoreError as error:
                    log(ERROR, "the last metrics are not stored: %s", error)
                finally:
                    self.server.store.close()
            self.server = None

    def _prepare(self, arrays: ArrayRecord) -> Algorithm:
        """Build the server for a model, once; with a store, take over what it holds."""
        if self.server is not None:
            return self.server
        store = None
        if self.store is not None:
            store = open_store(self.store, self.encrypt_with, compress=self._compress)
        try:
            state = None if store is None else store.state()
            self._flat_model = self._model_of(arrays, state)
            check_state(state, self._resume, self._algorithm, self._flat_model, self._where)
            server = self._build(self._flat_model.layout, store)
            if server.average is not None and self._flat_model.statistics:
                log(WARNING, "averaging: %s belongs to the last model, so that one is served, not "
                    "a mean", self._flat_model.statistics[0])  # fmt: skip
                server.average = None
            self._w, self.buffer_values = self._flat_model.flatten(arrays)
            self._next = np.zeros_like(self._w)
            kept = server.restore()
            if kept is not None and store is not None:
                self._w, extra = kept
                check_extra(extra, self._flat_model, self._where, self._sampling_seed)
                self.identities.told_before(extra.get("told"))
                self._unseen = True
                self.buffer_values, self._done_before = extra["buffers"], extra["round"]
                self._reached = self._stored = self._done_before
                self._measured.take_over(store.metrics(), extra.get("unevaluated", {}))
        except BaseException:
            if store is not None:
                store.close()
            raise
        self.server = server
        self._record = None
        self.roster.take_over(server, self._done_before)
        return server

    def _model_of(self, arrays: ArrayRecord, state: Mapping[str, Any] | None) -> Model:
        """What is optimized in these arrays, and what is not: with a store, as it was then."""
        nameless = nameless_statistics(arrays)
        if state is not None:
            extra = state.get("extra") or {}  # where it is damaged, restoring it will say so
            before = extra.get("buffers", {}) if isinstance(extra, Mapping) else {}
            nameless = [
                name for name in before
                if name.isdecimal() and name in arrays and arrays[name].dtype.startswith("float")
                and name not in self._buffer_names
            ]  # fmt: skip
        model = Model(arrays, self._buffer_names, nameless)
        log(INFO, "the model: %s", model)
        if nameless:
            log(INFO, "the arrays %s are statistics of batch normalization: averaged, not "
                "optimized", ", ".join(nameless))  # fmt: skip
        for name in model.constant:
            log(WARNING, "the array %r holds infinity: it stays as it is", name)
        return model

    def _current(self) -> ArrayRecord:
        """The model as it goes out."""
        if self._record is None:
            self._record = self._flat_model.record(self._w, self.buffer_values)
            self._inside = tuple(self._record.values())
        return self._record

    @property
    def current_arrays(self) -> ArrayRecord | None:
        """The model, as it is after the last round; it can be set, as that of Flower's FedOpt."""
        return self._record if self.server is None else self._current()

    @current_arrays.setter
    def current_arrays(self, arrays: Mapping[str, Any]) -> None:
        record = arrays if isinstance(arrays, ArrayRecord) else ArrayRecord(
            {name: Array(np.asarray(values)) for name, values in arrays.items()})  # fmt: skip
        self._prepare(record)
        self._take(record)

    @property
    def served_arrays(self) -> ArrayRecord | None:
        """What `start` evaluates and returns: the model, or with `averaging` a mean of the models.

        Clients train on `current_arrays`.
        """
        if self.server is None or self.server.average is None:
            return self.current_arrays
        return self._flat_model.record(self.server.served(self._w), self.buffer_values)

    def _take(self, arrays: ArrayRecord) -> None:
        """What is sent is the model from now on: a loop or a subclass may have changed it."""
        if not self._went_out(arrays):
            self._w, self.buffer_values = self._flat_model.flatten(arrays)
            self._record, self._inside = arrays, tuple(arrays.values())

    def _went_out(self, arrays: ArrayRecord) -> bool:
        """Whether this is the model as it went out, with no array of it replaced since."""
        return (
            arrays is self._record
            and len(arrays) == len(self._inside)
            and all(now is then for now, then in zip(arrays.values(), self._inside, strict=True))
        )

    # --- commits ---

    def _made(self, round: int, arrays: ArrayRecord | None) -> None:
        """A round of `start` is made: what a subclass has made of the model is the model.

        It is committed then and not before, so that a restart sends out what would have been sent.
        """
        if arrays is not None:
            if (
                not self._went_out(arrays)
                and not np.isfinite(self._flat_model.flatten(arrays)[0]).all()
            ):
                raise ValueError(
                    f"round {round}: aggregate_train of {type(self).__name__} gave a model with "
                    "NaN or infinity"
                )
            self._serve_own(arrays)
            self._take(arrays)
            self._unseen = False
            if self._reached < round:
                if self.store and self._reached == self._done_before:
                    log(WARNING, "%s aggregates without ours: its models are stored, %s has no "
                        "part in them", type(self).__name__, self._algorithm)  # fmt: skip
                self._uncommitted, self._reached = self._uncommitted + 1, round
        if self._uncommitted >= self.commit_every:
            self._commit()

    def _serve_own(self, arrays: ArrayRecord) -> None:
        """A model that a subclass has made is served as it is: a mean of some need not be one."""
        server = self.server
        if server is not None and server.average is not None and not self._went_out(arrays):
            log(WARNING, "averaging: %s makes models of its own, so that the last one is served, "
                "not a mean", type(self).__name__)  # fmt: skip
            server.average = None

    def _commit(self) -> None:
        """Write the rounds that are not stored yet; waits for the store, then raises."""
        if self._uncommitted:
            self._retry(f"the commit of round {self._reached}", self._write, self._in_ram())

    def _write(self) -> None:
        assert self.server is not None
        if not self._whole:
            raise Torn
        metrics = self._measured.to_write(self._reached)
        self.server.commit(
            self._w, round=self._reached, buffers=self.buffer_values, seed=self._sampling_seed,
            settings=plain(settings_in_use(self.server)), version=__version__,
            dtypes=self._flat_model.dtypes, metrics=metrics,
            unevaluated=self._measured.to_keep(self._reached),
            told=self.identities.told,
        )  # fmt: skip
        self._uncommitted, self._stored = 0, self._reached
        self._measured.written(metrics)

    def _write_metrics(self) -> None:
        """Metrics of stored rounds that came after their commit."""
        metrics = self._measured.to_write(self._stored)
        if metrics and self.server is not None and self.server.store is not None:
            self.server.store.commit({}, metrics=metrics)
            self._measured.written(metrics)

    def _in_ram(self) -> str:
        """Which rounds a crash would lose now."""
        first = self._reached - self._uncommitted + 1
        rounds = f"round {first} is" if first == self._reached else (
            f"rounds {first} to {self._reached} are")  # fmt: skip
        return f"{rounds} in the RAM of this process only"

    def _save_what_is_whole(self, error: BaseException) -> None:
        """The run ends by an exception: try once to keep the rounds that were made before it."""
        if self.server is None or self.server.store is None:
            return
        try:
            if isinstance(error, StoreLost):
                raise error
            with Hold():
                if self._uncommitted:
                    self._write()
                self._write_metrics()
        except (StoreError, Torn) as why:
            if self._uncommitted:
                log(ERROR, "%s and cannot be stored any more, the last commit is as it was: %s",
                    self._in_ram(), why)  # fmt: skip
