"""A server's state as a tree of plain values and chunks of bytes, and back."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedadavr.stores.backend import Chunks
from fedadavr.stores.seal import Seal
from fedadavr.stores.store import State, StoreError

CHUNK = 1 << 26  # the largest value that is written in one piece, in bytes
LONG = 400  # bytes of an array's name, beyond which its hash stands for it in keys


class StateFormat:
    """Packs and unpacks a state; `place` binds a chunk to its store, `where` names that."""

    def __init__(self, seal: Seal, place: Callable[[str], bytes], where: str) -> None:
        self._seal, self._place, self.where = seal, place, where

    def pack(self, state: State, chunks: Chunks) -> tuple[Any, dict[str, Any]]:
        """The state without its arrays, and their descriptions; puts their bytes into `chunks`."""
        arrays: dict[str, Any] = {}
        tree = strip(state, "state", arrays)
        about = {}
        for name, array in arrays.items():
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            tags = {}
            short = name
            if len(name.encode()) > LONG:
                short = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
            for k, at in enumerate(range(0, len(raw), CHUNK)):
                piece = f"{short}/{k}"
                tag, chunks[piece] = self._seal.close(self._place(piece), raw[at : at + CHUNK])
                tags[piece] = tag.hex()
            about[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "chunks": tags}
        return tree, about

    def unpack(
        self, tree: Any, about: Mapping[str, Any], chunks: Callable[[list[str]], Chunks]
    ) -> Any:
        """The state with its arrays put in again; a chunk that is wrong or missing is an error."""
        arrays = {}
        for name, description in about.items():
            try:
                dtype, shape = np.dtype(description["dtype"]), tuple(description["shape"])
                tags = {piece: bytes.fromhex(tag) for piece, tag in description["chunks"].items()}
                size = math.prod(shape) * dtype.itemsize
                whole = dtype.kind in "biufc" and all(type(s) is int and s >= 0 for s in shape)
            except (KeyError, TypeError, ValueError, AttributeError):
                whole = False
            if not whole:
                raise StoreError(f"{self.where}: the array {name} is described wrongly")
            found = chunks(list(tags))
            pieces = [self._open_chunk(piece, tag, found) for piece, tag in tags.items()]
            if sum(map(len, pieces)) != size:
                raise StoreError(
                    f"{self.where}: the array {name} has {sum(map(len, pieces))} of {size} bytes"
                )
            array = np.empty(shape, dtype)
            raw, at = array.reshape(-1).view(np.uint8), 0
            for data in pieces:
                raw[at : at + len(data)] = data
                at += len(data)
            arrays[name] = array
        return fill(tree, arrays)

    def _open_chunk(self, piece: str, tag: bytes, found: Chunks) -> Any:
        stored = found.get(piece)
        data = None
        if stored is not None:
            data = self._seal.open(self._place(piece), tag, stored)
        if data is None:
            wrong = "is missing" if stored is None else "has a wrong checksum"
            raise StoreError(f"{self.where}: the array {piece} {wrong}: restore it from a backup")
        return data


def strip(tree: Any, name: str, arrays: dict[str, Any]) -> Any:
    """The tree with its arrays taken out and named."""
    if isinstance(tree, dict):
        return {key: strip(value, f"{name}.{key}", arrays) for key, value in tree.items()}
    if isinstance(tree, np.ndarray):
        arrays[name] = tree
        return {"array": name}
    return tree


def fill(tree: Any, arrays: Mapping[str, Any]) -> Any:
    """The tree with its arrays put in again."""
    if isinstance(tree, dict):
        if set(tree) == {"array"} and isinstance(tree["array"], str) and tree["array"] in arrays:
            return arrays[tree["array"]]
        return {key: fill(value, arrays) for key, value in tree.items()}
    return tree
