"""Kinds of clients: a few centers, each fed by many clients that are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.checks import positive
from fedadavr.kernels import Sketch, Vectors
from fedadavr.memory.vectors import (
    MEMORIES,
    Assignment,
    Floats,
    Ints,
    VectorMemory,
    difference,
)
from fedadavr.vector import Layout, Vector

EXACT = 1 << 20  # coordinates up to which cosines are computed from all of them
_SEED = 1


class Kinds(VectorMemory):
    """At most `most` centers. A reply belongs to the center nearest to itself by cosine.

    This is post-stratification: the stratum is learned from the answer. A reply that is like none
    of them opens a new center, while there is room. With L replies in a round a center moves to
    (1 - rho) c + rho * their mean, rho = 1 - (1 - rate)^L.
    """

    name = "centers"

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
        blocks = self.layout.blocks.number
        turn = np.stack(
            [rng.integers(most, size=blocks) for most in (kernels.SKETCH, 16 * kernels.BLOCK)],
            axis=1,
        )
        return sign, turn.astype(np.int64)

    def sketch(self, replies: int) -> Sketch:
        """Room for sketches of the round's updates; none for small models."""
        if self.exact:
            return Sketch()
        sign, turn = self._signs
        groups = -(-self.layout.blocks.number // kernels.GROUP)
        return Sketch(sign, turn, np.zeros((groups, replies, kernels.SKETCH), np.float32))

    def assign(
        self, w: Vector, replies: Sequence[Any], inverse: Vector, sketch: Sketch
    ) -> Assignment:
        """The kind of each reply, in the order given; changes nothing."""
        known = len(self)
        if self.exact:
            updates = (difference(w, x, f) for x, f in zip(replies, inverse, strict=True))
            old = self.vectors[:known]
            sketches = np.zeros((len(replies), 0), np.float32)
        else:
            sketches = sketch.into.sum(axis=0)
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

    def terms(self, assignment: Assignment, pull: Floats | None) -> Vectors:
        """Where the centers of a round lie, and how they move."""
        start, keep = kernels.address(self.vectors), assignment.keep
        address = start + self.vectors.strides[0] * np.arange(len(keep), dtype=np.int64)
        pull = np.zeros(len(keep)) if pull is None else pull
        return Vectors(address, keep, pull, assignment.of, assignment.push)

    def learned(self, assignment: Assignment, round: int) -> None:
        """The pass has moved the centers: note when, and move their sketches along."""
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


@MEMORIES.named("centers")
def centers(layout: Layout, settings: Mapping[str, Any]) -> Kinds:
    """Kinds of clients, with the settings `centers`, `center_similarity` and `center_rate`."""
    most, similarity = settings["centers"], settings["center_similarity"]
    if type(most) is not int or most < 1:
        raise ValueError(f"centers must be a whole number from 1 up, got {most!r}")
    if not -1 <= similarity <= 1:
        raise ValueError(f"center_similarity is a cosine, from -1 to 1, got {similarity!r}")
    if positive("center_rate", settings["center_rate"]) > 1:
        raise ValueError(f"center_rate must not be above 1, got {settings['center_rate']!r}")
    return Kinds(layout, most, similarity, settings["center_rate"])
