"""What the passes take, in a few named tuples. Addresses are integers, arrays of them int64.

Arrays of clients come as addresses, since a kernel cannot take a list whose length changes from
round to round without being compiled again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Rounds = npt.NDArray[np.int32]

_NONE: Any = np.zeros(0)
_NO_INTS: Any = np.zeros(0, np.int64)
_NO_SINGLES: Any = np.zeros(0, np.float32)
_NO_ROUNDS: Any = np.zeros(0, np.int32)


class Replies(NamedTuple):
    """The cohort's replies, grouped by the records that they write."""

    w: Singles  # the model that they started from
    weights: Ints  # [i, t], the address of tensor t of reply i
    inverse: Singles  # 1 / client_lr; less where it is clipped; negative for a difference w - w_i
    first: Ints  # each record's first reply; at the end, the number of replies


class Records(NamedTuple):
    """What is remembered of each client, encoded, and what is stored of the replies.

    Record k gets sum_{i in k} share_i g_i + keep * old_k + lean * total.
    """

    decode: int = 0  # the codec's block functions; 0: nothing is remembered
    encode: int = 0
    offset: Ints = _NO_INTS  # where each tensor's bytes begin in a record
    old: Ints = _NO_INTS  # the address of each record
    scale: Singles = np.zeros((0, 0), np.float32)  # of its tensors
    total: Floats = _NONE
    share: Floats = _NONE
    keep: float = 0.0
    lean: float = 0.0
    born: Rounds = _NO_ROUNDS  # when each coordinate was first not zero; empty: all are stored
    whole: Rounds = _NO_ROUNDS  # [b], when the last of a block was; NEVER: some may not be yet
    when: Ints = _NO_INTS  # the round of each record: those born later are not in it
    aged: Floats = _NONE  # what is left of each record in the products; empty: all of it
    fade: float = 1.0  # what this round leaves of the total


class NewRecords(NamedTuple):
    """Where the new records go, and their weights in the total."""

    new: Ints = _NO_INTS
    scale: Singles = np.zeros((0, 0), np.float32)
    before: Floats = _NONE  # the weight of the old record
    after: Floats = _NONE
    now: int = 0  # their round
    key: Ints = _NO_INTS  # of each record's noise; empty: what is stored is the nearest


class Combination(NamedTuple):
    """r = base * total + sum_i gain_i g_i - sum_k recall_k old_k (+ sum_z pull_z c_z)."""

    gain: Floats
    recall: Floats
    base: float


class Vectors(NamedTuple):
    """A memory of a few vectors: c_z becomes keep_z c_z + sum_{i of z} push_i g_i."""

    address: Ints = _NO_INTS
    keep: Floats = _NONE
    pull: Floats = _NONE
    of: Ints = _NO_INTS  # the vector of each reply
    push: Floats = _NONE


class Products(NamedTuple):
    """The weighted, centered products of g, old and c over the cohort: gg, gy, gc, yy, yc, cc."""

    weight: Floats = _NONE  # of each reply; empty: not asked for
    cross: Floats = np.zeros((0, 0))  # by product and block


class Sketch(NamedTuple):
    """Sums of coordinates with random signs, from which cosines can be told."""

    sign: Singles = _NO_SINGLES
    turn: Ints = np.zeros((0, 2), np.int64)  # where a block begins in a sketch, and in the signs
    into: Singles = np.zeros((0, 0, 0), np.float32)  # by group of blocks and reply; empty: none


class OptimizerStep(NamedTuple):
    """One step of the server's optimizer; it sees G = client_lr * r."""

    move: int  # its block functions; move is 0 for one without moments
    direct: int
    hyper: Floats  # see `Hyper`
    rate: float
    largest: float  # of a gradient's magnitude, beyond which it is saturated
    hold: bool  # the model moves only after its norms are known (LAMB)
    m: Singles
    v: Singles
    client_lr: float = 1.0
    learns: bool = False  # the rate: `norms` gets what it is learned from, too
    keeps: bool = False  # m is kept for that alone, and `move` does not move it


class Hyper(NamedTuple):
    """The numbers that an optimizer's block functions find at `hyper`, in this order."""

    weight_decay: float
    beta1: float
    beta2: float
    eps: float
    first: float  # factor on the first moment (bias correction)
    second: float  # factor on the second
