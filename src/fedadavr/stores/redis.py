"""A store that outgrows one machine: Redis, or what speaks its language, single or cluster.

No transaction spans the keys of a cluster, so a commit is made in an order in which every crash
leaves a whole round: note what will be written (the intent), write entries and arrays under the
new commit's number, flip the manifest to that number, remove what is older. A reader takes the
newest value that is not after the manifest. Whoever opens the store finishes or undoes what the
intent says. Numbers carry a token of the server that writes, and the manifest says from which
commit on each token holds: what a server writes that has lost the store is never read.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import math
import os
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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

from fedadavr.stores.addresses import bad_address, public
from fedadavr.stores.backend import Changes, Chunks, Manifest, Undo
from fedadavr.stores.persistent import PersistentStore
from fedadavr.stores.store import STORES, StoreError, StoreLost

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
BACK = (
    "{} has gone back to an earlier commit, as a Redis does that was killed before it had written "
    "what it answered: set appendfsync to always; start this server again, it goes on from there"
)
EMPTY = (
    "{} has lost its state, as a Redis does that was started again without its data: restore the "
    "data, then start this server again"
)
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
Place = Sequence[str]  # a table, and a key
Version = tuple[int, str, bool]  # a commit's number, its server's token, whether it removed


class RedisStore(PersistentStore):
    """Records in a Redis server or cluster.

    Parameters
    ----------
    url : str
        redis://[user:password@]host:port[/db][?name=NAME&patience=SECONDS]. `name` begins all
        keys, so that several servers can share a Redis; a command that fails because the
        connection does is tried again for `patience` seconds, with growing pauses.
    key : bytes, optional
        32 bytes, to encrypt the store with.
    read_only : bool
        Look at a store, also at one that a server is using.
    must_exist : bool
        Do not make a new one.
    """

    _redis: Any

    def __init__(
        self,
        url: str,
        *,
        key: bytes | None = None,
        read_only: bool = False,
        must_exist: bool = False,
    ) -> None:
        self._prepare(url, key, read_only)
        self._warn_of_plain_text()
        try:
            self._redis = self._try(self._connect)
            if (read_only or must_exist) and self._read_manifest() is None:
                raise ValueError(f"there is no store at {public(url)} with the name {self._name}")
            if not read_only:
                self._take_lease()
                self._check_eviction()
                self._check_durability()
            if not self._adopt(self._read_manifest()):
                self._flip(dict(self._manifest, eras=[]))
            elif not read_only:
                self._fence()
                self._recover()
        except BaseException:
            self.close()
            raise

    def _fence(self) -> None:
        """Change the manifest, so that a flip that a killed server has sent cannot come late."""
        for _ in range(5):
            try:
                self._flip(dict(self._manifest, server=self._token))
                return
            except StoreLost:  # it did come, just now
                self._adopt(self._read_manifest())
        raise StoreError(f"{self.where} is being written by another server: stop it first")

    @classmethod
    def unread(cls, url: str) -> RedisStore:
        """A connection to whatever is there, for a reader of an older format."""
        store = cls.__new__(cls)
        store._prepare(url, None, read_only=True)
        store._redis = store._try(store._connect)
        return store

    def _prepare(self, url: str, key: bytes | None, read_only: bool) -> None:
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
        self._redis = None

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

    def _warn_of_plain_text(self) -> None:
        """What is sent to another machine without TLS can be read and changed on the way."""
        parts = urlsplit(self._url)
        if parts.scheme == "redis" and not _is_here(parts.hostname or ""):
            log.warning(
                "%s: models, updates and the password travel to another machine unencrypted: use "
                "rediss:// (TLS)", self.where,
            )  # fmt: skip

    def _check_eviction(self) -> None:
        """A Redis that drops keys when its memory is full would drop clients."""
        with contextlib.suppress(*TROUBLE):  # some services do not let one ask
            policy = self._redis.config_get("maxmemory-policy").get("maxmemory-policy")
            if policy not in (None, "noeviction"):
                log.warning(
                    "%s: maxmemory-policy is %s, so clients can vanish when its memory is full: "
                    "set it to noeviction", self.where, policy,
                )  # fmt: skip

    def _check_durability(self) -> None:
        """What a Redis without an append-only file has committed can be gone when it restarts."""
        with contextlib.suppress(*TROUBLE):
            if self._redis.config_get("appendonly").get("appendonly") == "no":
                log.warning(
                    "%s: appendonly is off, so that commits can be lost when Redis itself ends: "
                    "set it to yes", self.where,
                )  # fmt: skip
            elif self._redis.config_get("appendfsync").get("appendfsync") != "always":
                log.info(
                    "%s: appendfsync is not always, so that the last commits can be lost when "
                    "Redis itself is killed", self.where,
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

    def _versions(self, places: Sequence[Place]) -> list[list[Version]]:
        """Which commits each entry has a value of, the newest first."""
        fields = self._pipe([("HKEYS", self._key(*place)) for place in places])
        return [sorted(map(_version, found), reverse=True) for found in fields]

    def _holds(self, version: Version) -> bool:
        """Whether a version is one that the manifest stands for."""
        commit, token, _ = version
        eras = [era for era in self._manifest["eras"] if era[0] <= commit]
        return commit <= self._manifest["commit"] and bool(eras) and eras[-1][1] == token

    def _read_manifest(self) -> Any | None:
        raw = self._try(lambda: self._redis.get(self._key("manifest")))
        self._flipped: bytes = raw or b""
        return raw

    def _read(self, clients: Sequence[str]) -> list[tuple[Any | None, Any | None]]:
        if not self._try(lambda: self._redis.exists(self._key("manifest"))):
            raise StoreLost(EMPTY.format(self.where))
        return self._records(clients)

    def _records(self, clients: Sequence[str]) -> list[tuple[Any | None, Any | None]]:
        places = [(table, client) for client in clients for table in ("clients", "updates")]
        found = self._fetch(places)
        return list(zip(found[::2], found[1::2], strict=True))

    def _values(self, table: str, keys: Sequence[str]) -> list[Any | None]:
        return self._fetch([(table, key) for key in keys])

    def _fetch(self, places: Sequence[Place]) -> list[Any | None]:
        """The entries, None for one that is not there or was removed."""
        newest = [next(filter(self._holds, versions), None) for versions in self._versions(places)]
        wanted = [v is not None and not v[2] for v in newest]
        commands = [
            ("HGET", self._key(*place), _field(v))
            for place, v, there in zip(places, newest, wanted, strict=True)
            if v is not None and there
        ]
        replies = iter(self._pipe(commands))
        return [next(replies) if there else None for there in wanted]

    def _scan(self, data: bool) -> Iterator[tuple[str, Any, Any | None]]:
        clients = self._names("clients")
        while some := list(islice(clients, 16 if data else 1000)):
            if data:
                found = self._records(some)
            else:
                found = [(header, None) for header in self._values("clients", some)]
            for client, (header, payload) in zip(some, found, strict=True):
                if header is not None or payload is not None:
                    yield client, header, payload
        if data:
            yield from self._orphans()

    def _orphans(self) -> Iterator[tuple[str, Any, Any | None]]:
        """Updates whose headers are gone."""
        clients = self._names("updates")
        while some := list(islice(clients, 1000)):
            headers = self._values("clients", some)
            for client in [c for c, header in zip(some, headers, strict=True) if header is None]:
                (payload,) = self._values("updates", [client])
                if payload is not None:
                    yield client, None, payload

    def _entries(self, table: str) -> Iterator[tuple[str, Any]]:
        keys = self._names(table)
        while some := list(islice(keys, 1000)):
            for key, value in zip(some, self._values(table, some), strict=True):
                if value is not None:
                    yield key, value

    def _names(self, table: str) -> Iterator[str]:
        """The keys of a table's entries, also of those that were just removed."""
        start = len(self._key(table, ""))
        for key in self._keys(self._key(table, "*")):
            yield key[start:].decode(errors="surrogateescape")

    def _keys(self, pattern: str) -> Iterator[bytes]:
        """All keys like this, each once: Redis may give one twice, and a connection may fail.

        A cursor means nothing to a server that was started again, so it begins anew then.
        """
        clustered = isinstance(self._redis, RedisCluster)
        seen: set[bytes] = set()
        for node in self._redis.get_primaries() if clustered else [None]:
            where = {"target_nodes": node} if clustered else {}
            born = self._born(where)
            while True:
                for key in self._scan_once(pattern, where):
                    if key not in seen:
                        seen.add(key)
                        yield key
                before, born = born, self._born(where)
                if born == before:
                    break

    def _born(self, where: dict[str, Any]) -> str:
        """What tells a server from the one that it was before it was started again."""
        about = self._try(lambda: self._redis.info("server", **where))
        return str(about["run_id"])

    def _scan_once(self, pattern: str, where: dict[str, Any]) -> Iterator[bytes]:
        cursor: Any = 0
        while True:
            cursor, keys = self._try(
                lambda cursor=cursor: self._redis.scan(  # type: ignore[misc]
                    cursor, match=pattern, count=1000, **where
                )
            )
            yield from keys
            if isinstance(cursor, dict):  # a cluster tells it by the node
                cursor = next(iter(cursor.values()))
            if not cursor:
                return

    def _chunks(self, names: list[str]) -> dict[str, Any]:
        place = self._manifest["arrays_at"]
        return self._strings({name: self._key("array", place, name) for name in names})

    def _strings(self, keys: dict[str, str]) -> Chunks:
        """Values that lie under keys of their own, one by one since they are large."""
        found = {name: self._send([("GET", key)])[0] for name, key in keys.items()}
        return {name: value for name, value in found.items() if value is not None}

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
        self, changes: Changes, chunks: Chunks | None, manifest: Manifest, undo: Undo
    ) -> None:
        places = [(table, key) for table, changed in changes.items() for key in changed]
        values = [value for changed in changes.values() for value in changed.values()]
        version = (manifest["commit"], self._token)
        if not manifest["eras"] or manifest["eras"][-1][1] != self._token:
            manifest["eras"] = [*manifest["eras"], list(version)]
        at = f"{version[0]}.{version[1]}"
        stale = [] if chunks is None else self._arrays_of(self._manifest)
        if chunks is not None:
            manifest["arrays_at"] = at
        arrays = {self._key("array", at, name): data for name, data in (chunks or {}).items()}
        kept = {self._key("snapshot", str(undo.snapshot), n): d for n, d in undo.kept.items()}
        stale += [self._key("undo", str(snapshot)) for snapshot in undo.emptied]
        for snapshot in undo.dropped:
            names = [*self._manifest["snapshots"].get(str(snapshot), ()), "manifest"]
            stale += [self._key("snapshot", str(snapshot), name) for name in names]
        intent = {
            "version": version, "places": places, "fresh": [*arrays, *kept], "stale": stale,
            "gone": [p for p, value in zip(places, values, strict=True) if value is None],
        }  # fmt: skip
        self._attempt = b""  # from here on, and until it is flipped, it is in doubt
        self._try(lambda: self._redis.set(self._key("intent"), json.dumps(intent)))
        commands: list[tuple[Any, ...]] = [
            ("HSETNX", self._key("undo", str(undo.newest)), name, value)
            for name, value in undo.entries.items()
        ]
        commands += [
            ("HSET", self._key(*place), _field((*version, value is None)),
             b"" if value is None else bytes(value))
            for place, value in zip(places, values, strict=True)
        ]  # fmt: skip
        commands += [("SET", key, bytes(data)) for key, data in {**arrays, **kept}.items()]
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
                self._flipped, self._manifest = raw, self._parse(raw)
            elif raw != self._flipped:
                raise self._lost(raw)
            self._recover()
            # What a failed attempt has written, or will yet, is under a token that never holds.
            self._attempt, self._token = None, os.urandom(4).hex()
        self._clean_up()

    def _clean_up(self) -> None:
        if self._leftover is not None:
            self._clean(self._leftover)
            self._leftover = None

    def _flip(self, manifest: Manifest) -> None:
        raw = self._dump(manifest)
        self._attempt = raw
        args = (self._key("manifest"), self._flipped, raw)
        if not self._try(lambda: self._redis.eval(FLIP, 1, *args)):
            raise self._lost(self._try(lambda: self._redis.get(self._key("manifest"))))
        self._flipped, self._manifest, self._attempt = raw, manifest, None

    def _lost(self, raw: bytes | None) -> StoreLost:
        """What is said of a manifest that is not ours any more."""
        if not raw:
            return StoreLost(EMPTY.format(self.where))
        with contextlib.suppress(StoreError, ValueError):
            there = self._parse(raw)
            if there["id"] == self.id and there["commit"] < self._manifest["commit"]:
                return StoreLost(BACK.format(self.where))
        return StoreLost(LOST.format(self.where))

    def _recover(self) -> None:
        """Finish the commit that a crash has left behind, or undo it."""
        raw = self._try(lambda: self._redis.get(self._key("intent")))
        if raw is None:
            return
        try:
            intent = json.loads(raw)
            made = self._holds((*intent["version"], False))
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f"{self.where}: the note of the last commit is damaged: restore a backup"
            ) from None
        if made:
            self._clean(intent)
            return
        fields = [_field((*intent["version"], gone)) for gone in (False, True)]
        self._pipe([("HDEL", self._key(*place), *fields) for place in intent["places"]])
        self._pipe([("DEL", key) for key in intent["fresh"]])

    def _clean(self, intent: dict[str, Any]) -> None:
        """Remove what the commit has replaced."""
        places, made = intent["places"], tuple(intent["version"])
        gone = {tuple(place) for place in intent["gone"]}
        commands: list[tuple[Any, ...]] = []
        for place, versions in zip(places, self._versions(places), strict=True):
            # Never what is newer: another server may hold the store by now.
            fields = [
                _field(v)
                for v in versions
                if v[0] <= made[0] and (v[:2] != made or tuple(place) in gone)
            ]
            if fields:
                commands.append(("HDEL", self._key(*place), *fields))
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

    # --- snapshots ---

    def _not_undone(self, snapshot: int, names: list[str]) -> list[str]:
        key = self._key("undo", str(snapshot))
        there = self._pipe([("HEXISTS", key, name) for name in names])
        return [name for name, kept in zip(names, there, strict=True) if not kept]

    def _read_undo(self, snapshot: int) -> Iterator[Any]:
        key = self._key("undo", str(snapshot))
        for name in self._send([("HKEYS", key)])[0]:
            yield self._send([("HGET", key, name)])[0]

    def _read_kept(self, snapshot: int, names: Iterable[str]) -> Chunks:
        return self._strings({name: self._key("snapshot", str(snapshot), name) for name in names})

    # --- the whole ---

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


QUOTED = (
    "what is special in a user or password must be quoted: / as %2F, @ as %40, ? as %3F, # as %23"
)


def _parse_url(url: str) -> tuple[str, str, float]:
    try:
        parts = urlsplit(url)
    except ValueError:  # whose own message may show all of it
        raise ValueError(
            f"{public(url)} is not a valid address: it should look like redis://HOST:PORT or "
            "redis://USER:PASSWORD@HOST:PORT, with a host like [::1] in both brackets"
        ) from None
    if "@" in url and "@" not in parts.netloc:
        raise ValueError(f"{public(url)}: there is an @, but not before the host; {QUOTED}")
    try:
        parts.port  # noqa: B018, it is read to be checked
    except ValueError:  # whose own message may show a piece of the password
        raise ValueError(
            f"{public(url)}: there is no port in it that is a number; {QUOTED}"
        ) from None
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
    return int(commit), token, field[:1] == b"x"


def _field(version: Sequence[Any]) -> str:
    """Under which name a version's value stands in an entry's hash; x: the entry was removed."""
    commit, token, gone = version
    return f"{'x' if gone else 'v'}{commit}.{token}"


def _is_here(host: str) -> bool:
    """Whether a host's name or address is of this machine's loopback."""
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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


@STORES.named("rediss")
@STORES.named("redis")
def open_redis(address: str, *, key: bytes | None, read_only: bool, must_exist: bool) -> RedisStore:
    """The store at redis://HOST:PORT, or rediss:// with TLS."""
    if not address.partition(":")[2].startswith("//"):
        raise bad_address(address)
    return RedisStore(address, key=key, read_only=read_only, must_exist=must_exist)
