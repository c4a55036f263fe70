"""The embedded durable store: one LMDB environment in a folder."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import lmdb
import numpy as np

from fedadavr.stores.addresses import bad_address
from fedadavr.stores.backend import TABLES, Changes, Chunks, Manifest, Undo
from fedadavr.stores.persistent import PersistentStore
from fedadavr.stores.store import STORES, StoreError, StoreLost

MANIFEST = b"manifest"
DATABASES = (*TABLES, "state", "undo", "snapshots")
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
DATA, READERS, LOCK = "data.mdb", "lock.mdb", "server.lock"
BESIDE = ".fedadavr-"  # begins the name of a folder in which a store is made, beside its place

log = logging.getLogger(__name__)

_madvise = getattr(ctypes.CDLL(None), "madvise", None)


class LmdbStore(PersistentStore):
    """Records are views into the map; a commit is one write transaction.

    Parameters
    ----------
    path : Path or str
        The folder; it is made for its owner only.
    key : bytes, optional
        32 bytes, to encrypt the store with.
    read_only : bool
        Look at a store, also at one that a server is using.
    must_exist : bool
        Do not make a new one.
    map_size : int
        Where the map begins, in bytes; it grows by itself.
    """

    longest = 511  # LMDB's limit for a key

    def __init__(
        self,
        path: Path | str,
        *,
        key: bytes | None = None,
        read_only: bool = False,
        must_exist: bool = False,
        map_size: int = 1 << 28,
    ) -> None:
        super().__init__(key)
        self.path = Path(path)
        self.where = f"the store {self.path}"
        self.read_only = self.steady = read_only
        self._map_size = map_size
        self._lock: IO[str] | None = None
        self._files: dict[str, tuple[int, int]] = {}
        self._txn: Any = None
        self._env: Any = None
        self._scans = 0
        there = (self.path / DATA).exists()
        if (read_only or must_exist) and not there:
            raise ValueError(f"there is no store in {self.path}")
        if not read_only:
            self._lock = lock(self.path)
        try:
            if not (self.path / DATA).exists():
                self._create()
            self._open()
            self._adopt(self._read_manifest())
        except BaseException:
            self.close()
            raise

    def _create(self) -> None:
        """Make a whole store beside its place, then put it there: one that is there is whole."""
        self._adopt(None)
        new = Path(tempfile.mkdtemp(prefix=BESIDE, dir=self.path))
        try:
            with self._errors("made"):
                env = lmdb.open(str(new), max_dbs=len(DATABASES), mode=0o600)
                with env.begin(write=True) as txn:
                    for name in DATABASES:
                        env.open_db(name.encode(), txn)
                    state = env.open_db(b"state", txn)
                    txn.put(MANIFEST, self._dump(self._manifest), db=state)
                env.close()
            (new / DATA).replace(self.path / DATA)
            _sync(self.path)
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"{self.where} cannot be made: {error.strerror}") from None
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _open(self) -> None:
        with self._errors("opened"):
            if not (self.path / DATA).stat().st_size:
                raise StoreError(f"{self.where} is empty, it was cut short: restore a backup")
            self._env = lmdb.open(
                str(self.path), map_size=self._map_size, max_dbs=len(DATABASES), mode=0o600,
                readonly=self.read_only, create=False,
                readahead=self.read_only,  # a server reads here and there, a look goes through
            )  # fmt: skip
            info, page = self._env.info(), self._env.stat()["psize"]
            if (self.path / DATA).stat().st_size < (info["last_pgno"] + 1) * page:
                self._env.close()
                self._env = None
                raise StoreError(f"{self.where} was cut short: restore it from a backup")
            self._env.reader_check()  # a reader that was killed would keep old pages for ever
            self._databases = self._open_databases()
        self._files = self._identify()
        if (self.path / DATA).stat().st_mode & 0o077:
            log.warning(
                "%s can be read by others than its owner: chmod -R go= %s", self.where, self.path
            )

    def _open_databases(self) -> dict[str, Any]:
        """All databases; a file of another program's, or one that has lost some, is refused."""
        with self._env.begin(buffers=True) as txn:
            names = {bytes(key) for key in txn.cursor().iternext(values=False)}
        if b"state" not in names or b"clients" not in names:
            raise StoreError(
                f"{self.where} is no store of this program, or has lost its databases: there is "
                f"{', '.join(sorted(repr(n.decode(errors='replace')) for n in names)) or 'nothing'}"
                " in it; use another folder, or restore it from a backup"
            )
        state = self._env.open_db(b"state", create=False)
        missing = [name for name in DATABASES if name.encode() not in names]
        if missing:
            with self._env.begin(buffers=True) as txn:
                raw = txn.get(MANIFEST, db=state)
                if raw is not None:
                    self._parse(raw)  # an older format says so
            raise StoreError(
                f"{self.where} has lost its database {missing[0]!r}: restore it from a backup"
            )
        return {name: self._env.open_db(name.encode(), create=False) for name in DATABASES}

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """LMDB's errors as one sentence."""
        try:
            yield
        except lmdb.Error as error:
            raise StoreError(
                f"{self.where} cannot be {what} ({type(error).__name__}: {error}): if its disk is "
                "sound, restore it from a backup"
            ) from None
        except FileNotFoundError:
            raise StoreLost(f"{self.where} is gone: its files were removed") from None

    # --- reading ---

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """A read transaction, whose values are views into the map; a look has one for all."""
        with self._errors("read"):
            if self.read_only:
                if self._txn is None:
                    self._txn = self._begin()
                yield self._txn
                return
            with self._begin() as txn:
                yield txn

    def _begin(self) -> Any:
        try:
            return self._env.begin(buffers=True)
        except lmdb.MapResizedError:  # a server has let the map grow
            self._env.set_mapsize(0)
            return self._env.begin(buffers=True)

    def _release(self) -> None:
        """End the transaction that the records last read lie in."""
        if self._txn is not None:
            self._txn.abort()
            self._txn = None

    def _read_manifest(self) -> Any:
        if self.read_only:
            self._release()  # look at the store as it is now
        with self._reading() as txn:
            raw = txn.get(MANIFEST, db=self._databases["state"])
            if raw is None:
                raise StoreError(f"{self.where} has lost its manifest: restore it from a backup")
            return bytes(raw)

    def _read(self, clients: Sequence[str]) -> list[tuple[Any | None, Any | None]]:
        with self._errors("read"):
            if not self.read_only or self._txn is None:
                self._release()
                self._txn = self._begin()
            txn, keys = self._txn, [_key(client) for client in clients]
            found = [
                tuple(txn.get(key, db=self._databases[table]) for table in ("clients", "updates"))
                for key in keys
            ]
        for _, payload in found:
            if payload is not None:
                _fetch(payload)
        return found

    def _values(self, table: str, keys: Sequence[str]) -> list[Any | None]:
        with self._reading() as txn:
            found = [txn.get(_key(key), db=self._databases[table]) for key in keys]
            return [None if value is None else bytes(value) for value in found]

    def _scan(self, data: bool) -> Iterator[tuple[str, Any, Any | None]]:
        self._scans += 1
        try:
            with self._reading() as txn:
                updates = self._databases["updates"]
                for key, header in txn.cursor(db=self._databases["clients"]):
                    payload = txn.get(key, db=updates) if data else None
                    yield _name(key), header, payload
                if data:
                    yield from self._orphans(txn)
        finally:
            self._scans -= 1

    def _orphans(self, txn: Any) -> Iterator[tuple[str, Any, Any | None]]:
        """Updates whose headers are gone."""
        clients, updates = self._databases["clients"], self._databases["updates"]
        if txn.stat(clients)["entries"] < txn.stat(updates)["entries"] or self._headless(txn):
            for key, payload in txn.cursor(db=updates):
                if txn.get(key, db=clients) is None:
                    yield _name(key), None, payload

    def _headless(self, txn: Any) -> bool:
        return bool(txn.stat(self._databases["clients"])["entries"] != len(self))

    def _entries(self, table: str) -> Iterator[tuple[str, Any]]:
        self._scans += 1
        try:
            with self._reading() as txn:
                for key, value in txn.cursor(db=self._databases[table]):
                    yield _name(key), bytes(value)
        finally:
            self._scans -= 1

    def _chunks(self, names: list[str]) -> dict[str, Any]:
        return self._pieces("state", names)

    def _pieces(self, database: str, names: Iterable[str]) -> Chunks:
        with self._reading() as txn:
            found = {name: txn.get(_key(name), db=self._databases[database]) for name in names}
            return {name: bytes(value) for name, value in found.items() if value is not None}

    def intact(self) -> bool:
        """Whether there are as many headers and updates as there should be."""
        with self._reading() as txn:
            counts = [txn.stat(self._databases[t])["entries"] for t in ("clients", "updates")]
        return counts == [len(self)] * 2

    # --- writing ---

    def _write(
        self, changes: Changes, chunks: Chunks | None, manifest: Manifest, undo: Undo
    ) -> None:
        self._release()
        raw = self._dump(manifest)

        def write(txn: Any) -> None:
            state, kept = self._databases["state"], self._databases["snapshots"]
            for name, value in undo.entries.items():
                txn.put(_undo_key(undo.newest, name), value, db=self._databases["undo"],
                        overwrite=False)  # fmt: skip
            for snapshot in undo.emptied:
                _drop(txn, self._databases["undo"], _undo_key(snapshot))
            for snapshot in undo.dropped:
                _drop(txn, kept, _kept_key(snapshot))
            for name, value in undo.kept.items():
                txn.put(_kept_key(undo.snapshot, name), value, db=kept)
            for table, changed in changes.items():
                for name, value in changed.items():
                    if value is None:
                        txn.delete(_key(name), db=self._databases[table])
                    else:
                        txn.put(_key(name), value, db=self._databases[table])
            if chunks is not None:
                stale = {bytes(key) for key in txn.cursor(db=state).iternext(values=False)}
                for key in stale - {_key(name) for name in chunks} - {MANIFEST}:
                    txn.delete(key, db=state)
                for name, data in chunks.items():
                    txn.put(_key(name), data, db=state)
            txn.put(MANIFEST, raw, db=state)

        self._transact(write)

    def _transact(self, write: Callable[[Any], None]) -> None:
        if self.read_only:
            raise StoreError(f"{self.where} was opened to look at: it cannot be written")
        while True:
            self._check_place()
            try:
                self._env.reader_check()
                with self._env.begin(write=True) as txn:
                    write(txn)
                return
            except lmdb.MapFullError:
                self._check_no_scan()
                self._map_size = 2 * self._env.info()["map_size"]
                self._reopen()
            except lmdb.Error as error:
                self._check_no_scan()
                full = getattr(error, "code", 0) in DISK_ERRORS or isinstance(error, lmdb.DiskError)
                why = "the disk is full or failing" if full else "it cannot be written"
                sentence = (
                    f"{self.where}: {why} ({error}); the last commit is as it was, and this one "
                    "can be tried again"
                )
                self._reopen()
                raise StoreError(sentence) from None

    def _identify(self) -> dict[str, tuple[int, int]]:
        """Which files these are, by device and inode."""
        found = {}
        for name in (DATA, READERS, LOCK):
            try:
                about = (self.path / name).stat()
            except OSError:
                continue
            found[name] = (about.st_dev, about.st_ino)
        return found

    def _check_place(self) -> None:
        """A commit into files that somebody has removed or replaced would be lost."""
        now = self._identify()
        changed = [name for name, file in self._files.items() if now.get(name) != file]
        if changed:
            raise StoreLost(
                f"{self.where}: {changed[0]} was removed or replaced under this server, which "
                "stops before it writes into nowhere; restore the store, then start again"
            )

    def _check_no_scan(self) -> None:
        """The map cannot move while somebody reads in it."""
        if self._scans:
            raise StoreError(
                f"{self.where} must grow, but its records are being read: finish that, and commit "
                "again"
            )

    def _reopen(self) -> None:
        """A new environment: for a larger map, and since LMDB may refuse one that failed."""
        self._release()
        self._env.close()
        self._open()

    # --- snapshots ---

    def _not_undone(self, snapshot: int, names: list[str]) -> list[str]:
        with self._reading() as txn:
            undo = self._databases["undo"]
            return [n for n in names if txn.get(_undo_key(snapshot, n), db=undo) is None]

    def _read_undo(self, snapshot: int) -> Iterator[Any]:
        prefix = _undo_key(snapshot)
        with self._reading() as txn:
            cursor = txn.cursor(db=self._databases["undo"])
            there = cursor.set_range(prefix)
            while there and bytes(cursor.key()).startswith(prefix):
                yield bytes(cursor.value())
                there = cursor.next()

    def _read_kept(self, snapshot: int, names: Iterable[str]) -> Chunks:
        keys = {name: _kept_key(snapshot, name).decode() for name in names}
        found = self._pieces("snapshots", keys.values())
        return {name: found[key] for name, key in keys.items() if key in found}

    # --- the whole ---

    def backup(self, folder: Path) -> None:
        """A copy of the store as it is now, also while a server goes on."""
        if (folder / DATA).exists():
            raise ValueError(f"{folder} holds a store already")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = Path(tempfile.mkdtemp(prefix=BESIDE, dir=folder))
        except OSError as error:
            raise ValueError(f"{folder} cannot be made: {error.strerror}") from None
        try:
            with self._errors("copied"):
                self._env.copy(str(new), compact=True)
            (new / DATA).chmod(0o600)
            _sync(new / DATA)
            (new / DATA).replace(folder / DATA)
            _sync(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    @property
    def nbytes(self) -> int:
        """The bytes on the disk."""
        return (self.path / DATA).stat().st_blocks * 512

    def erase(self) -> None:
        """Remove the store, with all of its records."""
        self.close()
        for name in (DATA, READERS, LOCK):
            (self.path / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the environment; records that were read are gone with it."""
        self._release()
        if self._env is not None:
            self._env.close()
            self._env = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _key(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


def _name(key: Any) -> str:
    return bytes(key).decode(errors="surrogateescape")


def _undo_key(snapshot: int, name: str = "") -> bytes:
    return snapshot.to_bytes(8, "big") + bytes.fromhex(name)


def _kept_key(snapshot: int, name: str = "") -> bytes:
    return f"{snapshot:020d}/{name}".encode()


def _drop(txn: Any, database: Any, prefix: bytes) -> None:
    """Remove all keys that begin so."""
    cursor = txn.cursor(db=database)
    there = cursor.set_range(prefix)
    while there and bytes(cursor.key()).startswith(prefix):
        there = cursor.delete()


def _sync(folder: Path) -> None:
    """Have a folder's entries, or a file, safe on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fetch(value: Any) -> None:
    """Ask for a value's pages, so that those of a round come from the disk all at once."""
    data = np.frombuffer(value, np.uint8)
    start = data.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
    length = data.ctypes.data + len(data) - start
    if _madvise is not None and length > mmap.PAGESIZE:
        _madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_WILLNEED)


def lock(path: Path) -> IO[str]:
    """A lock on the folder that ends with this process, however it ends."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(f"the store {path} cannot be made: {error.strerror}") from None
    file = os.fdopen(handle, "r+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = file.read().strip() or "unknown"
        file.close()
        raise StoreError(
            f"the store {path} is in use by another server (process {holder}): stop it first, or "
            "give this one a store of its own"
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


@STORES.named("lmdb")
def open_lmdb(address: str, *, key: bytes | None, read_only: bool, must_exist: bool) -> LmdbStore:
    """The store at lmdb:FOLDER."""
    folder = address.partition(":")[2]
    if not folder:
        raise bad_address(address)
    return LmdbStore(folder, key=key, read_only=read_only, must_exist=must_exist)
