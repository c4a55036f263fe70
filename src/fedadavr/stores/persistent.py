"""What the stores that outlive a process have in common: manifest, tables, arrays, snapshots.

Beside the manifest a store has four tables. `clients` has the headers of the records, `updates`
their payloads, `members` the clients that are counted and have no record, `rounds` what was noted
of each round. The state's arrays lie in chunks. A commit writes what has changed in the tables, all
of the arrays, and the manifest. The manifest holds a sum over the tables' entries that each commit
moves by what it changes, so that `faults` notices an entry that was lost, edited or put back.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

from fedadavr.stores import compression, record_format
from fedadavr.stores.backend import (
    TABLES,
    Backend,
    Changes,
    Chunks,
    Manifest,
    Undo,
    pack_undo,
    unpack_undo,
)
from fedadavr.stores.seal import TAG, Seal
from fedadavr.stores.state_format import StateFormat
from fedadavr.stores.store import Damaged, Member, Record, State, StoreError

FORMAT = 2
SNAPSHOTS = 5  # how many are kept; the oldest goes when another is taken
LISTED = ("clients", "members", "rounds")  # in the manifest's sum; a header vouches for its update
CLEAR = ("format", "id", "commit", "key_check")  # what can be read of a manifest without the key
MODULUS = 1 << 128
DIGITS, METRICS = 10, ".metrics"  # a key of the table rounds: digits, then what is noted

log = logging.getLogger(__name__)


class OldFormat(ValueError):
    """The store was written by a former version: it can be looked at, and converted."""


class PersistentStore(Backend):
    """A store whose commits outlive the process."""

    durable = True
    where: str
    steady = False  # whether what is read does not change while a server goes on
    longest: ClassVar[int] = 1 << 16  # bytes of a client's id

    def __init__(self, key: bytes | None = None) -> None:
        self._seal = Seal(key)
        self._manifest: Manifest = {}
        self._compress: compression.Compress | None = None  # None: as the store was before

    # --- the manifest ---

    def _adopt(self, raw: Any | None) -> bool:
        """Take over what is there, after looking at the key; False if there is nothing."""
        if raw is None:
            self._manifest = {
                "format": FORMAT, "id": os.urandom(8).hex(), "commit": 0,
                "key_check": self._seal.key_check(), "state": None, "arrays": {},
                "entries": dict.fromkeys(LISTED, 0), "sum": f"{0:032x}", "snapshots": {}, "lost": 0,
            }  # fmt: skip
            return False
        self._manifest = self._parse(raw)
        if self._manifest["state"] is None and len(self):
            raise ValueError(
                f"{self.where} holds records but no state, as an interrupted convert leaves it: "
                "delete it first"
            )
        return True

    def _dump(self, manifest: Manifest) -> bytes:
        """The manifest as JSON, after its checksum in eight hexadecimal digits and a space."""
        told = manifest
        if self._seal.keyed:
            told = {name: manifest[name] for name in CLEAR}
            rest = {name: value for name, value in manifest.items() if name not in CLEAR}
            tag, text = self._seal.close(_about(told), json.dumps(rest).encode())
            told = told | {"sealed": base64.b64encode(tag + text).decode()}
        raw = json.dumps(told).encode()
        return b"%08x %b" % (zlib.crc32(raw), raw)

    def _parse(self, raw: Any) -> Manifest:
        """The manifest from its bytes."""
        damaged = StoreError(f"{self.where}: the manifest is damaged: restore it from a backup")
        manifest = parse_json(raw)
        if not isinstance(manifest, dict):
            raise damaged
        if manifest.get("format") != FORMAT:
            raise OldFormat(
                f"{self.where} has format {manifest.get('format')!r}, this program writes "
                f"{FORMAT}: convert it first, with fedadavr memory upgrade"
            )
        self._seal.test_key(manifest.get("key_check"), self.where)
        if self._seal.keyed:
            manifest = self._unseal(manifest)
        try:
            whole = (
                set(manifest["entries"]) == set(LISTED)
                and all(type(n) is int and n >= 0 for n in manifest["entries"].values())
                and type(manifest["commit"]) is int
                and re.fullmatch("[0-9a-f]{32}", manifest["sum"]) is not None
                and isinstance(manifest["arrays"], dict)
                and all(round.isdigit() for round in manifest["snapshots"])
                and isinstance(manifest["id"], str)
                and {"state", "lost"} <= manifest.keys()
            )
        except (KeyError, TypeError, AttributeError):
            raise damaged from None
        if not whole:
            raise damaged
        return manifest

    def _unseal(self, manifest: Manifest) -> Manifest:
        """All of an encrypted manifest."""
        try:
            clear = {name: manifest[name] for name in CLEAR}
            raw = base64.b64decode(manifest["sealed"])
            plain = self._seal.open(_about(clear), raw[:TAG], raw[TAG:])
        except (KeyError, TypeError, ValueError):
            plain = None
        if plain is None:
            raise StoreError(
                f"{self.where}: the manifest was changed by somebody who does not have the key: "
                "restore it from a backup"
            )
        rest: Manifest = json.loads(bytes(plain))
        return clear | rest

    def refresh(self) -> int:
        """See what a server has committed meanwhile; the number of its last commit."""
        self._adopt(self._read_manifest())
        return int(self._manifest["commit"])

    @property
    def id(self) -> str:
        """What tells this store from all others."""
        return str(self._manifest["id"])

    @property
    def encrypted(self) -> bool:
        """Whether it is encrypted."""
        return self._seal.keyed

    @property
    def compress(self) -> compression.Compress:
        """How records are compressed that are written from now on; others stay as they are."""
        return self._compress or self._manifest.get("compress", "none")

    @compress.setter
    def compress(self, how: compression.Compress) -> None:
        compression.check(how)
        self._compress = how

    @property
    def lost(self) -> int:
        """How many records were lost or damaged so far, and are taken as never seen."""
        return int(self._manifest["lost"])

    # --- the interface ---

    def refuses(self, client: str) -> str | None:
        """Why a client cannot be stored under this id; None if it can."""
        try:
            size = len(client.encode())
        except UnicodeEncodeError:
            return f"the id {client!r} is not valid Unicode"
        if 1 <= size <= self.longest:
            return None
        return f"a client's id must have 1 to {self.longest} bytes for this store, this has {size}"

    def get(self, clients: Sequence[str]) -> list[Record | Damaged | None]:
        """The records of these clients, None for one that has none."""
        found = self._read(clients)
        return [
            None if header is None and payload is None else self._unpack(client, header, payload)
            for client, (header, payload) in zip(clients, found, strict=True)
        ]

    def items(self, data: bool = True) -> Iterator[tuple[str, Record | Damaged]]:
        """All records, one by one; without `data` their bytes are left out and not checked."""
        for client, header, payload in self._scan(data):
            yield client, self._unpack(client, header, payload, data)

    def commit(
        self,
        records: Mapping[str, Record | None],
        state: State | None = None,
        *,
        members: Mapping[str, Member | None] | None = None,
        rounds: Mapping[int, Any] | None = None,
        metrics: Mapping[int, Any] | None = None,
        snapshot: int | None = None,
        lost: int | None = None,
        accept: bool = False,
    ) -> None:
        """Write all of this, or nothing; see `Store.commit`."""
        self._settle()
        manifest = dict(self._manifest, commit=self._manifest["commit"] + 1)
        if self._compress is not None:
            manifest["compress"] = self._compress
        if lost is not None:
            there = self._counted()
            if there != (manifest["entries"], manifest["sum"]) and self._seal.keyed and not accept:
                # Who took one entry away may have put another back: only a person can tell.
                manifest["unexplained"] = True
            (manifest["entries"], manifest["sum"]) = there
            manifest["lost"] += lost
        if accept:
            manifest.pop("unexplained", None)
        changes = self._changes(records, members or {}, rounds or {}, metrics or {})
        manifest["entries"], manifest["sum"] = self._moved(manifest, changes)
        chunks: Chunks | None = None
        if state is not None:
            chunks = {}
            manifest["state"], manifest["arrays"] = self._state_format.pack(state, chunks)
        newest = max(self.snapshots, default=-1)
        undo = Undo(newest, self._undo_of(changes, newest) if newest >= 0 else {})
        if snapshot is not None and snapshot > newest and chunks is not None:
            taken = manifest["snapshots"] | {str(snapshot): list(chunks)}
            undo.dropped = sorted(map(int, taken))[:-SNAPSHOTS]
            undo.emptied = undo.dropped
            manifest["snapshots"] = {r: n for r, n in taken.items() if int(r) not in undo.dropped}
            undo.snapshot, undo.kept = snapshot, {**chunks, "manifest": self._dump(manifest)}
        self._write(changes, chunks, manifest, undo)
        self._manifest = manifest

    def state(self) -> State | None:
        """The state of the last commit; None if there was none."""
        self._settle()
        tree = self._manifest["state"]
        if tree is None:
            return None
        return self._state_format.unpack(tree, self._manifest["arrays"], self._chunks)

    def members(self) -> dict[str, Member]:
        """The clients without a record that are known by name."""
        found = {}
        for client, value in self._entries("members"):
            about = self._small(client, "members", value)
            if not isinstance(about, dict):
                log.error("%s: what is kept of client %r cannot be read", self.where, client)
            else:
                flags = (bool(about.get(name)) for name in ("left", "placed"))
                found[client] = Member(about.get("size"), *flags)
        return found

    def rounds(self) -> dict[int, Any]:
        """What was noted of each round."""
        return self._of_rounds("")

    def metrics(self) -> dict[int, Any]:
        """What each round was measured to be."""
        return self._of_rounds(METRICS)

    def _of_rounds(self, suffix: str) -> dict[int, Any]:
        found = {}
        for key, value in self._entries("rounds"):
            if len(key) == DIGITS + len(suffix) and key.endswith(suffix):
                note = self._small(key, "rounds", value)
                if key[:DIGITS].isdigit() and note is not None:
                    found[int(key[:DIGITS])] = note
        return dict(sorted(found.items()))

    def __len__(self) -> int:
        return int(self._manifest["entries"]["clients"])

    def intact(self) -> bool:
        """Whether as many records are there as there should be, where that is quick to tell."""
        return True

    def faults(self) -> list[str]:
        """What is not as the manifest says, in the tables as a whole; reads all headers."""
        entries, total = self._counted()
        told = [
            "entries were removed or changed by somebody without the key, and others may have been "
            "put back: restore a backup, or accept what is there with fedadavr memory repair"
        ] if self._manifest.get("unexplained") else []  # fmt: skip
        faults = [
            f"{entries[table]} entries of {table} are there, {number} should be"
            for table, number in self._manifest["entries"].items()
            if entries[table] != number
        ]
        if not faults and total != self._manifest["sum"]:
            faults.append(
                "an entry is not the one that was last written: it was edited, or an older one, or "
                "one of another store, was put in its place"
            )
        return told + faults

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- back to an earlier round ---

    @property
    def snapshots(self) -> list[int]:
        """The rounds that can be gone back to."""
        return sorted(map(int, self._manifest["snapshots"]))

    def rewind(self, round: int, *, force: bool = False) -> None:
        """Go back to a snapshot; what came after it is gone.

        Where entries were lost since, it is refused, unless forced: repair the store then.
        """
        self._settle()
        taken: dict[str, list[str]] = self._manifest["snapshots"]
        if str(round) not in taken:
            there = ", ".join(map(str, self.snapshots)) or "none"
            raise ValueError(f"{self.where} has no snapshot of round {round}; there are: {there}")
        kept = self._read_kept(round, [*taken[str(round)], "manifest"])
        then = self._parse(kept.pop("manifest", b""))
        changes: Changes = {table: {} for table in TABLES}
        later = [r for r in self.snapshots if r > round]
        for snapshot in [*reversed(later), round]:
            for packed in self._read_undo(snapshot):
                table, key, value = unpack_undo(packed)
                changes[table][key] = value
        manifest = dict(
            self._manifest, commit=self._manifest["commit"] + 1, state=then["state"],
            arrays=then["arrays"], snapshots={r: n for r, n in taken.items() if int(r) <= round},
        )  # fmt: skip
        manifest["entries"], manifest["sum"] = self._moved(manifest, changes)
        if (manifest["entries"], manifest["sum"]) != (then["entries"], then["sum"]) and not force:
            raise StoreError(
                f"{self.where}: not all that was there in round {round} still is: take --force and "
                "then repair it, or another snapshot, or a backup; nothing was changed"
            )
        self._state_format.unpack(
            then["state"], then["arrays"], lambda _: kept
        )  # raises if damaged
        self._write(changes, kept, manifest, Undo(emptied=[round, *later], dropped=later))
        self._manifest = manifest

    def _undo_of(self, changes: Changes, newest: int) -> dict[str, bytes]:
        """The entries as they are before a commit changes them, unless they are kept already."""
        places = {
            hashlib.blake2b(f"{table}\0{key}".encode(), digest_size=16).hexdigest(): (table, key)
            for table, changed in changes.items()
            for key in changed
        }
        fresh = self._not_undone(newest, list(places))
        found = {}
        for table in TABLES:
            mine = [name for name in fresh if places[name][0] == table]
            values = self._values(table, [places[name][1] for name in mine])
            for name, value in zip(mine, values, strict=True):
                found[name] = pack_undo(*places[name], value)
        return found

    # --- entries ---

    def _changes(
        self,
        records: Mapping[str, Record | None],
        members: Mapping[str, Member | None],
        rounds: Mapping[int, Any],
        metrics: Mapping[int, Any],
    ) -> Changes:
        changes: Changes = {table: {} for table in TABLES}
        small = self.compress == "zstd"
        for client, record in records.items():
            header, payload = (
                (None, None)
                if record is None
                else record_format.pack(self._seal, self.id, client, record, small)
            )
            changes["clients"][client], changes["updates"][client] = header, payload
        for client, member in members.items():
            about = None if member is None else _member(member)
            changes["members"][client] = self._seal_small(client, "members", about)
        for suffix, notes in (("", rounds), (METRICS, metrics)):
            for round, note in notes.items():
                key = f"{round:0{DIGITS}d}{suffix}"
                changes["rounds"][key] = self._seal_small(key, "rounds", note)
        return changes

    def _seal_small(self, key: str, table: str, value: Any | None) -> bytes | None:
        if value is None:
            return None
        tag, text = self._seal.close(self._place(table, key), json.dumps(value).encode())
        return bytes(tag + text)

    def _small(self, key: str, table: str, raw: Any) -> Any | None:
        """A small value; None if it was changed."""
        raw = bytes(raw)
        plain = self._seal.open(self._place(table, key), raw[:TAG], raw[TAG:])
        try:
            return None if plain is None else json.loads(bytes(plain))
        except ValueError:
            return None

    def _place(self, table: str, key: str) -> bytes:
        return f"{self.id}\0{table}\0{key}".encode(errors="surrogateescape")

    def _moved(self, manifest: Manifest, changes: Changes) -> tuple[dict[str, int], str]:
        """The numbers of entries and their sum, after these changes."""
        entries, total = dict(manifest["entries"]), int(manifest["sum"], 16)
        for table in LISTED:
            keys = list(changes[table])
            for key, old in zip(keys, self._values(table, keys), strict=True):
                new = changes[table][key]
                entries[table] += (new is not None) - (old is not None)
                total += self._digest(table, key, new) - self._digest(table, key, old)
        return entries, f"{total % MODULUS:032x}"

    def _counted(self) -> tuple[dict[str, int], str]:
        """The numbers of entries and their sum, by looking at all of them."""
        entries, total = dict.fromkeys(LISTED, 0), 0
        for table in LISTED:
            for key, value in self._entries(table):
                entries[table] += 1
                total += self._digest(table, key, value)
        return entries, f"{total % MODULUS:032x}"

    def _digest(self, table: str, key: str, value: Any | None) -> int:
        return 0 if value is None else self._seal.digest(self.id, table, key, bytes(value))

    def _unpack(
        self, client: str, header: Any, payload: Any | None, data: bool = True
    ) -> Record | Damaged:
        if header is None:
            return Damaged("its header is missing")
        if payload is None and data:
            return Damaged("its update is missing")
        record = record_format.unpack(
            self._seal, self.id, client, header, payload if data else None
        )
        if isinstance(record, Record) and record.data.ctypes.data % 4:
            record.data = record.data.copy()  # small values lie anywhere in a page
        return record

    @property
    def _state_format(self) -> StateFormat:
        return StateFormat(self._seal, partial(self._place, "state"), self.where)


def _member(member: Member) -> dict[str, Any]:
    if member.left:
        return {"left": True}
    return {"size": member.size, "placed": True} if member.placed else {"size": member.size}


def _about(clear: Mapping[str, Any]) -> bytes:
    return json.dumps([clear[name] for name in CLEAR]).encode()


def parse_json(raw: Any) -> Any:
    """What stands after a checksum in eight digits; None if that is wrong."""
    raw = bytes(raw)
    if raw[:9] != b"%08x " % zlib.crc32(raw[9:]):
        return None
    try:
        return json.loads(raw[9:])
    except ValueError:
        return None
