"""A store that outgrows one machine: Redis, or what speaks its language, single or cluster.

No transaction spans the keys of a cluster, so a commit is made in an order in which every crash
leaves a whole round: note what will be written (the intent), write records and arrays under the
new commit's number, flip the manifest to that number, remove what is older. A reader takes the
newest record that is not after the manifest. Whoever opens the store finishes or undoes what the
intent says. Numbers carry a token of the server that writes, and the manifest says from which
commit on each token holds: what a server writes that has lost the store is never read.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import redis
from redis.cluster import RedisCluster
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    ClusterError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TryAgainError,
)

from fedadavr.memory.durable import Chunks, DurableStore, Manifest, dump, parse
from fedadavr.memory.opening import public
from fedadavr.memory.store import StoreError

LEASE = 30.0  # seconds after which a server that is not heard of has lost the store
BATCH = 1 << 25  # bytes sent before an answer is waited for
PASSING = (
    redis.ConnectionError, redis.TimeoutError, BusyLoadingError, ClusterDownError, ClusterError,
    RedisClusterException, TryAgainError,
)  # fmt: skip

TROUBLE = (*PASSING, RedisError, OSError)  # a cluster's errors are no RedisError

# Flip the manifest if it is the one that we know; doing it twice is doing it once.
FLIP = """
local now = redis.call('GET', KEYS[1]) or ''
if now == ARGV[2] then return 1 end
if now ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
"""
LOST = "{} was written by another server: this one has lost it, and stops"
# Take or keep the lease.
HOLD = """
local now = redis.call('GET', KEYS[1])
if now and now ~= ARGV[1] and now ~= ARGV[3] then return now end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
"""
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"

log = logging.getLogger(__name__)

T = TypeVar("T")
Version = tuple[int, str]  # a commit's number, and the token of the server that made it


class RedisStore(DurableStore):
    """Records in a Redis server or cluster.

    Parameters
    ----------
    url : redis://[user:password@]host:port[/db][?name=NAME&patience=SECONDS]. `name` begins all
        keys, so that several servers can share a Redis; a command that fails because the
        connection does is tried again for `patience` seconds, with growing pauses
    key : 32 bytes, to encrypt the records with
    read_only : look at a store, also at one that a server is using
    must_exist : do not make a new one
    """

    def __init__(
        self,
        url: str,
        *,
        key: bytes | None = None,
        read_only: bool = False,
        must_exist: bool = False,
    ) -> None:
        super().__init__(key)
        self._url, self._name, self._patience = _parse_url(url)
        self.where = f"the store {public(url)}"
        self.read_only = read_only
        self._token = os.urandom(4).hex()
        self._holder = f"{_machine()}:{os.getpid()}:{self._token}"
        self._attempt: bytes | None = None  # the manifest of a commit that may have failed
        self._leftover: dict[str, Any] | None = None  # the intent of a commit not cleaned up after
        self._stop = threading.Event()
        self._renewal: threading.Thread | None = None
        self._redis: Any = None
        try:
            self._redis = self._try(self._connect)
            if (read_only or must_exist) and self._read_manifest() is None:
                raise ValueError(f"there is no store at {public(url)} with the name {self._name}")
            if not read_only:
                self._take_lease()
                self._check_eviction()
            if self._adopt(self._read_manifest()):
                if not read_only:
                    self._recover()
            else:
                self._flip(dict(self._manifest, clients=0, eras=[]))
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Any:
        options: dict[str, Any] = {"socket_timeout": 30, "socket_connect_timeout": 5}
        single = redis.Redis.from_url(self._url, retry=None, **options)
        try:
            clustered = bool(single.info("cluster").get("cluster_enabled"))
        except ResponseError as error:
            raise StoreError(f"{self.where} refuses: {error}") from None
        if not clustered:
            return single
        single.close()
        parts = urlsplit(self._url)  # a cluster has one database, and no number for it
        return RedisCluster.from_url(urlunsplit(parts._replace(path="")), **options)

    def _check_eviction(self) -> None:
        """A Redis that drops keys when its memory is full would drop clients."""
        with contextlib.suppress(*TROUBLE):  # some services do not let one ask
            policy = self._redis.config_get("maxmemory-policy").get("maxmemory-policy")
            if policy not in (None, "noeviction"):
                log.warning(
                    "%s: maxmemory-policy is %s, so clients can vanish when its memory is full: "
                    "set it to noeviction", self.where, policy,
                )  # fmt: skip

    def _try(self, attempt: Callable[[], T]) -> T:
        """Again and again while the connection is the trouble; every attempt may be repeated."""
        began, pause = time.monotonic(), 0.05
        while True:
            try:
                return attempt()
            except PASSING as error:
                passed = time.monotonic() - began
                if passed >= self._patience or isinstance(error, redis.AuthenticationError):
                    raise StoreError(
                        f"{self.where} does not answer ({error}); tried for {passed:.0f} s. The "
                        "last commit is as it was, and this can be tried again"
                    ) from None
                time.sleep(min(pause, self._patience - passed) * random.uniform(0.5, 1))
                pause = min(2 * pause, 2.0)
            except RedisError as error:
                raise StoreError(
                    f"{self.where} refuses: {error}. The last commit is as it was"
                ) from None

    def _key(self, *parts: str) -> str:
        return ":".join([self._name, *parts])

    # --- one server at a time ---

    def _take_lease(self) -> None:
        holder = self._hold(self._redis, "")
        if holder != self._holder and _is_dead(holder):
            holder = self._hold(self._redis, holder)
        if holder != self._holder:
            raise StoreError(
                f"{self.where} is in use by another server ({holder.rpartition(':')[0]}): stop it "
                f"first; if it died, its lease ends after {LEASE:.0f} s"
            )
        self._renewal = threading.Thread(target=self._renew, daemon=True)
        self._renewal.start()

    def _hold(self, connection: Any, instead_of: str) -> str:
        args = (self._key("lease"), self._holder, int(LEASE * 1000), instead_of)
        return self._try(lambda: connection.eval(HOLD, 1, *args)).decode()

    def _renew(self) -> None:
        connection = None
        while not self._stop.wait(LEASE / 3):
            try:
                connection = connection or self._connect()
                connection.eval(
                    HOLD, 1, self._key("lease"), self._holder, int(LEASE * 1000), self._holder
                )
            except TROUBLE:
                connection = None  # the manifest's flip finds out whether the store was lost
        if connection is not None:
            with contextlib.suppress(*TROUBLE):
                connection.close()

    # --- reading ---

    def _versions(self, clients: Sequence[str]) -> list[list[Version]]:
        """Which commits each client has a record of, the newest first."""
        keys = [self._key("client", client) for client in clients]
        fields = self._pipe([("HKEYS", key) for key in keys])
        return [sorted((_version(f) for f in found if f[:1] == b"h"), reverse=True)
                for found in fields]  # fmt: skip

    def _holds(self, version: Version) -> bool:
        """Whether a version is one that the manifest stands for."""
        commit, token = version
        eras = [era for era in self._manifest["eras"] if era[0] <= commit]
        return commit <= self._manifest["commit"] and bool(eras) and eras[-1][1] == token

    def _read_manifest(self) -> Manifest | None:
        raw = self._try(lambda: self._redis.get(self._key("manifest")))
        self._flipped: bytes = raw or b""
        return None if raw is None else parse(raw, self.where)

    def _read(self, clients: Sequence[str]) -> list[tuple[Any, Any] | None]:
        return self._fetch(clients, data=True)

    def _fetch(self, clients: Sequence[str], data: bool) -> list[Any]:
        newest = [next(filter(self._holds, versions), None) for versions in self._versions(clients)]
        commands = [
            ("HMGET", self._key("client", client), *_fields(v)[: 2 if data else 1])
            for client, v in zip(clients, newest, strict=True)
            if v is not None
        ]
        replies = iter(self._pipe(commands))
        found: list[Any] = []
        for v in newest:
            header, payload = (*next(replies), None)[:2] if v is not None else (b"", None)
            found.append((header, payload) if header else None)  # an empty header: removed
        return found

    def _scan(self, data: bool) -> Iterator[tuple[str, Any, Any | None]]:
        start = len(self._key("client", ""))
        keys = (key[start:].decode() for key in self._keys(self._key("client", "*")))
        while clients := list(islice(keys, 16 if data else 1000)):
            for client, found in zip(clients, self._fetch(clients, data), strict=True):
                if found is not None:
                    yield client, *found

    def _keys(self, pattern: str) -> Iterator[bytes]:
        """All keys like this, each once: Redis may give one twice, and a connection may fail."""
        clustered = isinstance(self._redis, RedisCluster)
        seen: set[int] = set()
        for node in self._redis.get_primaries() if clustered else [None]:
            where = {"target_nodes": node} if clustered else {}
            cursor: Any = 0
            while True:
                cursor, keys = self._try(
                    lambda cursor=cursor, where=where: self._redis.scan(  # type: ignore[misc]
                        cursor, match=pattern, count=1000, **where
                    )
                )
                for key in keys:
                    if hash(key) not in seen:
                        seen.add(hash(key))
                        yield key
                if isinstance(cursor, dict):  # a cluster tells it by the node
                    cursor = next(iter(cursor.values()))
                if not cursor:
                    break

    def _chunks(self, names: list[str]) -> dict[str, Any]:
        keys = [self._key("array", self._manifest["arrays_at"], name) for name in names]
        values = [value for key in keys for value in self._send([("GET", key)])]
        return {n: value for n, value in zip(names, values, strict=True) if value is not None}

    def __len__(self) -> int:
        return int(self._manifest["clients"])

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the server, or the nodes of the cluster, have in use."""
        if isinstance(self._redis, RedisCluster):
            info = self._try(
                lambda: self._redis.info("memory", target_nodes=RedisCluster.PRIMARIES)
            )
            nodes = [info] if "used_memory" in info else info.values()
            return sum(node["used_memory"] for node in nodes)
        return int(self._try(lambda: self._redis.info("memory"))["used_memory"])

    # --- writing ---

    def _write(
        self,
        records: dict[str, tuple[bytes, Any] | None],
        chunks: Chunks | None,
        manifest: Manifest,
    ) -> None:
        clients, version = list(records), (manifest["commit"], self._token)
        before = [bool(found) for found in self._fetch(clients, data=False)]
        after = [packed is not None for packed in records.values()]
        manifest["clients"] = len(self) + sum(after) - sum(before)
        if not manifest["eras"] or manifest["eras"][-1][1] != self._token:
            manifest["eras"] = [*manifest["eras"], list(version)]
        header, payload = _fields(version)
        place = header[1:]
        stale = [] if chunks is None else self._arrays_of(self._manifest)
        if chunks is not None:
            manifest["arrays_at"] = place
        arrays = {self._key("array", place, name): data for name, data in (chunks or {}).items()}
        intent = {
            "version": version, "clients": clients, "fresh": list(arrays), "stale": stale,
            "gone": [client for client, packed in records.items() if packed is None],
        }  # fmt: skip
        self._attempt = b""  # from here on, and until it is flipped, it is in doubt
        self._try(lambda: self._redis.set(self._key("intent"), json.dumps(intent)))
        commands: list[tuple[Any, ...]] = [
            ("HSET", self._key("client", client), header, packed[0], payload, bytes(packed[1]))
            if packed is not None
            else ("HSET", self._key("client", client), header, b"", payload, b"")
            for client, packed in records.items()
        ]
        commands += [("SET", key, bytes(data)) for key, data in arrays.items()]
        self._pipe(commands)
        self._flip(manifest)
        self._attempt, self._leftover = None, intent
        with contextlib.suppress(StoreError):  # the round is committed; the next one cleans up
            self._clean_up()

    def _settle(self) -> None:
        """Find out what became of a commit that failed, and clean up after the last one."""
        if self._attempt is not None:
            raw = self._try(lambda: self._redis.get(self._key("manifest")))
            if raw == self._attempt:  # it was made, only the answer was lost
                self._flipped, self._manifest = raw, parse(raw, self.where)
            elif raw != self._flipped:
                raise StoreError(LOST.format(self.where))
            self._recover()
            # What a failed attempt has written, or will yet, is under a token that never holds.
            self._attempt, self._token = None, os.urandom(4).hex()
        self._clean_up()

    def _clean_up(self) -> None:
        if self._leftover is not None:
            self._clean(self._leftover)
            self._leftover = None

    def _flip(self, manifest: Manifest) -> None:
        raw = dump(manifest)
        self._attempt = raw
        args = (self._key("manifest"), self._flipped, raw)
        if not self._try(lambda: self._redis.eval(FLIP, 1, *args)):
            raise StoreError(LOST.format(self.where))
        self._flipped, self._manifest, self._attempt = raw, manifest, None

    def _recover(self) -> None:
        """Finish the commit that a crash has left behind, or undo it."""
        raw = self._try(lambda: self._redis.get(self._key("intent")))
        if raw is None:
            return
        intent = json.loads(raw)
        if self._holds(tuple(intent["version"])):
            self._clean(intent)
            return
        fields = _fields(intent["version"])
        self._pipe([("HDEL", self._key("client", c), *fields) for c in intent["clients"]])
        self._pipe([("DEL", key) for key in intent["fresh"]])

    def _clean(self, intent: dict[str, Any]) -> None:
        """Remove what the commit has replaced."""
        clients, version = intent["clients"], tuple(intent["version"])
        gone = set(intent["gone"])
        commands: list[tuple[Any, ...]] = []
        for client, versions in zip(clients, self._versions(clients), strict=True):
            # Never what is newer: another server may hold the store by now.
            fields = [
                field
                for v in versions
                if v[0] <= version[0] and (v != version or client in gone)
                for field in _fields(v)
            ]
            if fields:
                commands.append(("HDEL", self._key("client", client), *fields))
        self._pipe([*commands, *(("DEL", key) for key in intent["stale"])])

    def _arrays_of(self, manifest: Manifest) -> list[str]:
        if manifest["state"] is None:
            return []
        names = [name for about in manifest["arrays"].values() for name in about["chunks"]]
        return [self._key("array", manifest["arrays_at"], name) for name in names]

    def _pipe(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The answers to many commands, sent together, but never too many bytes at once."""
        answers: list[Any] = []
        batch: list[tuple[Any, ...]] = []
        size = 0
        for command in commands:
            batch.append(command)
            size += sum(len(part) for part in command)
            if size >= BATCH:
                answers += self._send(batch)
                batch, size = [], 0
        return answers + (self._send(batch) if batch else [])

    def _send(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        def attempt() -> list[Any]:
            with self._redis.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                return list(pipe.execute())

        return self._try(attempt)

    def erase(self) -> None:
        """Remove the store, with all of its records."""
        self._try(lambda: self._redis.delete(self._key("manifest")))
        keys = (key for key in self._keys(self._key("*")) if key != self._key("lease").encode())
        while some := list(islice(keys, 1000)):
            self._pipe([("DEL", key) for key in some])

    def close(self) -> None:
        """Give the lease back and close the connection."""
        self._stop.set()
        if self._renewal is not None:
            self._renewal.join()
        if self._redis is None:
            return
        try:
            if not self.read_only:
                self._redis.eval(RELEASE, 1, self._key("lease"), self._holder)
            self._redis.close()
        except TROUBLE:
            pass  # the lease ends by itself
        self._redis = None


def _parse_url(url: str) -> tuple[str, str, float]:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for option in options:
        if option not in ("name", "patience") and not option.startswith("ssl_"):
            raise ValueError(
                f"{public(url)}: there is no option {option!r}; there are name, patience and, for "
                "rediss, ssl_...; a password stands before the host"
            )
    name, patience = options.pop("name", "fedadavr"), options.pop("patience", "30")
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise ValueError(f"{public(url)}: name may have letters, digits, and _ . - only")
    try:
        seconds = float(patience)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{public(url)}: patience must be in seconds, got {patience!r}")
    return urlunsplit(parts._replace(query=urlencode(options))), name, seconds


def _version(field: bytes) -> Version:
    commit, _, token = field[1:].decode().partition(".")
    return int(commit), token


def _fields(version: Sequence[Any]) -> list[str]:
    """Under which names a version's header and payload stand in a client's hash."""
    return [f"{kind}{version[0]}.{version[1]}" for kind in "hd"]


def _machine() -> str:
    """Where process ids mean the same: the host, and on Linux the container in it."""
    try:
        return f"{socket.gethostname()}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def _is_dead(holder: str) -> bool:
    """Whether the holder of a lease was a process of this machine that is no more."""
    machine, pid, _ = holder.rsplit(":", 2)
    if machine != _machine():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
