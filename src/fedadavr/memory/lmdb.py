"""The embedded durable store: one LMDB environment in a folder."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import lmdb
import numpy as np

from fedadavr.memory.durable import Chunks, DurableStore, Manifest, dump, halves, parse
from fedadavr.memory.store import StoreError

MANIFEST = b"manifest"
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

_madvise = getattr(ctypes.CDLL(None), "madvise", None)


class LmdbStore(DurableStore):
    """Records are views into the map; a commit is one write transaction.

    Parameters
    ----------
    path : the folder
    key : 32 bytes, to encrypt the records with
    read_only : look at a store, also at one that a server is using
    must_exist : do not make a new one
    map_size : where the map begins, in bytes; it grows by itself
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
        self.read_only = read_only
        self._map_size = map_size
        self._lock: IO[str] | None = None
        self._txn: Any = None
        self._env: Any = None
        self._scans = 0
        self.snapshot = read_only
        if (read_only or must_exist) and not (self.path / "data.mdb").is_file():
            raise ValueError(f"there is no store in {self.path}")
        if not read_only:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.path)
        try:
            self._open()
            if not self._adopt(self._read_manifest()) and not read_only:
                self._write({}, None, self._manifest)
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        try:
            self._env = lmdb.open(
                str(self.path), map_size=self._map_size, max_dbs=2, readonly=self.read_only,
                readahead=self.read_only,  # a server reads here and there, a look goes through
            )  # fmt: skip
            info, page = self._env.info(), self._env.stat()["psize"]
            if (self.path / "data.mdb").stat().st_size < (info["last_pgno"] + 1) * page:
                self._env.close()
                self._env = None
                raise StoreError(f"{self.where} was cut short: restore it from a backup")
            self._env.reader_check()  # a reader that was killed would keep old pages for ever
            self._clients = self._env.open_db(b"clients", create=not self.read_only)
            self._state = self._env.open_db(b"state", create=not self.read_only)
        except lmdb.Error as error:
            raise StoreError(f"{self.where} cannot be opened: {error}") from None

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """A read transaction, whose values are views into the map; a look has one for all."""
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

    def _read_manifest(self) -> Manifest | None:
        if self.read_only:
            self._release()  # look at the store as it is now
        with self._reading() as txn:
            raw = txn.get(MANIFEST, db=self._state)
            return None if raw is None else parse(raw, self.where)

    def _read(self, clients: Sequence[str]) -> list[tuple[Any, Any] | None]:
        if not self.read_only or self._txn is None:
            self._release()
            self._txn = self._begin()
        txn = self._txn
        values = [txn.get(client.encode(), db=self._clients) for client in clients]
        for value in values:
            if value is not None:
                _fetch(value)
        return [None if value is None else halves(value) for value in values]

    def _scan(self, data: bool) -> Iterator[tuple[str, Any, Any | None]]:
        self._scans += 1
        try:
            with self._reading() as txn:
                for key, value in txn.cursor(db=self._clients):
                    header, payload = halves(value)
                    yield bytes(key).decode(), header, payload if data else None
        finally:
            self._scans -= 1

    def _chunks(self, names: list[str]) -> dict[str, Any]:
        with self._reading() as txn:
            found = {name: txn.get(name.encode(), db=self._state) for name in names}
            return {name: bytes(value) for name, value in found.items() if value is not None}

    def _write(
        self,
        records: dict[str, tuple[bytes, Any] | None],
        chunks: Chunks | None,
        manifest: Manifest,
    ) -> None:
        keyed = {client.encode(): packed for client, packed in records.items()}
        self._release()

        def write(txn: Any) -> None:
            for key, packed in keyed.items():
                if packed is None:
                    txn.delete(key, db=self._clients)
                else:
                    txn.put(key, b"".join(packed), db=self._clients)
            if chunks is not None:
                stale = [bytes(key) for key in txn.cursor(db=self._state).iternext(values=False)]
                for key in set(stale) - {name.encode() for name in chunks} - {MANIFEST}:
                    txn.delete(key, db=self._state)
                for name, data in chunks.items():
                    txn.put(name.encode(), data, db=self._state)
            txn.put(MANIFEST, dump(manifest), db=self._state)

        self._transact(write)

    def _transact(self, write: Callable[[Any], None]) -> None:
        while True:
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
                self._reopen()
                full = getattr(error, "code", 0) in DISK_ERRORS or isinstance(error, lmdb.DiskError)
                why = "the disk is full or failing" if full else "it cannot be written"
                raise StoreError(
                    f"{self.where}: {why} ({error}); the last commit is as it was, and this one "
                    "can be tried again"
                ) from None

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

    def __len__(self) -> int:
        with self._reading() as txn:
            return int(txn.stat(self._clients)["entries"])

    @property
    def nbytes(self) -> int:
        """The bytes on the disk."""
        return (self.path / "data.mdb").stat().st_blocks * 512

    def erase(self) -> None:
        """Remove the store, with all of its records."""
        self.close()
        for name in ("data.mdb", "lock.mdb", "server.lock"):
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


def _fetch(value: Any) -> None:
    """Ask for a value's pages, so that those of a round come from the disk all at once."""
    data = np.frombuffer(value, np.uint8)
    start = data.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
    length = data.ctypes.data + len(data) - start
    if _madvise is not None and length > mmap.PAGESIZE:
        _madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_WILLNEED)


def _lock(path: Path) -> IO[str]:
    """A lock on the folder that ends with this process, however it ends."""
    file = (path / "server.lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
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
