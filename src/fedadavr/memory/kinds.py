"""What the server remembers of kinds of clients: a few vectors, each fed by many clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.vector import Layout, Vector

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

EXACT = 1 << 20  # coordinates up to which cosines are computed from all of them
_SEED = 1


@dataclass(frozen=True)
class Assignment:
    """Which kind each client of a round is of, and how the centers move."""

    of: Ints
    known: int  # centers that were there before the round; the others are opened by it
    keep: Floats  # c_k <- keep_k c_k + sum_{i of k} push_i g_i
    push: Floats
    sketches: npt.NDArray[np.float32]

    def shares(self, weights: Floats) -> Floats:
        """The sum of the clients' weights in each kind."""
        return np.bincount(self.of, weights, minlength=len(self.keep)).astype(np.float64)


class Kinds:
    """At most `most` centers. A reply belongs to the center nearest to itself by cosine.

    This is post-stratification: the stratum is learned from the answer. A reply that is like none
    of them opens a new center, while there is room. With L replies in a round a center moves to
    (1 - rho) c + rho * their mean, rho = 1 - (1 - rate)^L.
    """

    def __init__(self, layout: Layout, most: int, similarity: float, rate: float) -> None:
        self.layout, self.most, self.similarity, self.rate = layout, most, similarity, rate
        self.vectors = np.zeros((most, layout.size), np.float32)
        self.fed: list[int] = []  # the round in which each center was last fed
        self.exact = layout.size <= EXACT
        self.sketches = np.zeros((0 if self.exact else most, kernels.SKETCH), np.float32)

    def __len__(self) -> int:
        return len(self.fed)

    # --- one round ---

    @cached_property
    def _signs(self) -> tuple[npt.NDArray[np.float32], Ints]:
        """Random signs, and where each block of coordinates begins in a sketch and in the signs."""
        rng = np.random.default_rng(_SEED)
        sign = rng.choice(np.array([-1, 1], np.float32), 17 * kernels.BLOCK)
        blocks = len(self.layout.blocks)
        turn = np.stack(
            [rng.integers(kernels.SKETCH, size=blocks), rng.integers(16 * kernels.BLOCK,
                                                                     size=blocks)], axis=1,
        )  # fmt: skip
        return sign, turn.astype(np.int64)

    def sketching(self, clients: int) -> tuple[Any, Any, Any]:
        """What `measure` needs in order to sketch the round's updates; nothing for small models."""
        if self.exact:
            return NO_SKETCH
        sign, turn = self._signs
        groups = -(-len(self.layout.blocks) // kernels.GROUP)
        return sign, turn, np.zeros((groups, clients, kernels.SKETCH), np.float32)

    def assign(self, w: Vector, replies: Sequence[Any], inverse: Any, sketch: Any) -> Assignment:
        """The kind of each reply, in the order given; changes nothing. g_i = inverse(w - w_i)."""
        known = len(self)
        if self.exact:
            factors = np.broadcast_to(inverse, len(replies))
            updates = (_difference(w, x, f) for x, f in zip(replies, factors, strict=True))
            old = self.vectors[:known]
            sketches = np.zeros((len(replies), 0), np.float32)
        else:
            sketches = sketch.sum(axis=0)
            updates = iter(sketches)
            old = self.sketches[:known]
        sizes = np.sqrt([float(np.dot(c, c)) for c in old])
        opened: list[Any] = []
        of: list[int] = []
        moves: list[bool] = []
        for g in updates:
            size = np.sqrt(float(np.dot(g, g)))
            dots = np.array([float(np.dot(g, c)) for c in (*old, *opened)])
            norms = np.array([*sizes, *(np.sqrt(float(np.dot(c, c))) for c in opened)])
            both = size * norms
            cosines = np.divide(dots, both, out=np.zeros_like(dots), where=both > 0)
            best = int(np.argmax(cosines)) if len(cosines) else -1
            alone = best < 0 or (cosines[best] < self.similarity and size > 0)
            if alone and known + len(opened) < self.most:
                best = known + len(opened)
                opened.append(g.copy())
            of.append(best)
            moves.append(size > 0)  # a reply of zeros is of some kind, but tells nothing of it
        kinds = np.array(of, np.int64)
        number = np.bincount(kinds, moves, minlength=known + len(opened))
        keep = np.where(np.arange(len(number)) < known, (1 - self.rate) ** number, 0.0)
        push = np.array(moves) * (1 - keep[kinds]) / np.maximum(number[kinds], 1)
        return Assignment(kinds, known, keep, push, sketches)

    def addresses(self, assignment: Assignment) -> Ints:
        """Where the centers of a round lie."""
        start = kernels.address(self.vectors)
        return start + self.vectors.strides[0] * np.arange(len(assignment.keep), dtype=np.int64)

    def done(self, assignment: Assignment, round: int) -> None:
        """The kernels have moved the centers: note when, and move their sketches along."""
        self.fed += [0] * (len(assignment.keep) - len(self.fed))
        for k in np.unique(assignment.of):
            self.fed[k] = round
            if not self.exact:
                mine = assignment.of == k
                push = assignment.push[mine].astype(np.float32)
                self.sketches[k] = (
                    np.float32(assignment.keep[k]) * self.sketches[k]
                    + push @ assignment.sketches[mine]
                )

    def alike(self) -> Floats:
        """The cosines between the centers."""
        vectors = self.vectors[: len(self)].astype(np.float64)
        norms = np.linalg.norm(vectors, axis=1)
        norms[norms == 0] = 1.0
        return (vectors @ vectors.T) / norms[:, None] / norms

    # --- state ---

    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """The centers, when they were fed, and their sketches."""
        vectors, sketches = self.vectors[: len(self)], self.sketches[: len(self)]
        return {
            "vectors": vectors.copy() if copy else vectors,
            "sketches": sketches.copy() if copy else sketches,
            "fed": list(self.fed),
        }

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raise unless the state fits; changes nothing."""
        vectors, sketches, fed = state["vectors"], state["sketches"], state["fed"]
        found = np.shape(vectors)
        if len(found) != 2 or found[1] != self.layout.size or found[0] > self.most:
            raise ValueError(
                f"the state has centers of shape {found}, this server has room for {self.most} of "
                f"{self.layout.size} numbers"
            )
        if not isinstance(fed, list) or [type(round) for round in fed] != [int] * found[0]:
            raise ValueError(f"the state has {found[0]} centers, and says when {fed!r} were fed")
        if np.shape(sketches) != (0 if self.exact else found[0], kernels.SKETCH):
            raise ValueError(f"the state's sketches have shape {np.shape(sketches)}")
        for array in (vectors, sketches):
            if np.asarray(array).dtype != np.float32:
                raise ValueError(f"the state's centers are {np.asarray(array).dtype}, not float32")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state made by `state_dict`."""
        self.check_state(state)
        self.fed = list(state["fed"])
        self.vectors[: len(self)] = state["vectors"]
        self.vectors[len(self) :] = 0.0
        if not self.exact:
            self.sketches[: len(self)] = state["sketches"]


def _difference(w: Vector, reply: Any, inverse: np.float32) -> Vector:
    whole = reply if isinstance(reply, np.ndarray) else np.concatenate(reply)
    return (w - whole) * inverse


NO_SKETCH = (
    np.zeros(0, np.float32), np.zeros((0, 2), np.int64), np.zeros((0, 0, 0), np.float32)
)  # fmt: skip
NO_CENTERS = (
    np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0, np.int64), np.zeros(0),
    np.zeros(0), np.zeros((0, 0)),
)  # fmt: skip
