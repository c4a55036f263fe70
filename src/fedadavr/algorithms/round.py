"""One round of a server, from its replies to the next model: two passes over the coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.algorithms import bounds
from fedadavr.algorithms.cohort import Cohort, Direction, Floats, Stored
from fedadavr.memory.cohort_records import CohortRecords
from fedadavr.vector import Layout, Vector

if TYPE_CHECKING:
    from fedadavr.algorithms.base import Algorithm

Weights = Sequence[Vector | Sequence[Vector]]


class Round:
    """What one step of a server works on.

    `measure` and `bound` change nothing; then come `admit` and `advance`, which `dismiss` takes
    back only before the second pass; `close` ends the round.
    """

    def __init__(self, server: Algorithm, w: Vector, cohort: Cohort, weights: Weights) -> None:
        self.server, self.weights = server, weights
        layout, memory, vectors = server.layout, server.memory, server.vectors
        if memory is None:
            self.records = CohortRecords.blank(cohort.keys)
        else:
            self.records = memory.open(cohort.keys)
        self.cohort = cohort = replace(cohort, records=self.records.records)
        bounds.check_owners(cohort, self.records)
        sign = np.where(cohort.differences, np.float32(-1), np.float32(1))
        inverse = sign * np.float32(1 / server.client_lr)
        self.replies = kernels.Replies(w, addresses(layout, weights), inverse, cohort.first)
        self.remembered = self._records(server.stored(self._counted(cohort)))
        self.sketch = kernels.Sketch() if vectors is None else vectors.sketch(len(cohort))
        self.clipped: npt.NDArray[np.bool_] | None = None

    def _records(self, stored: Stored) -> kernels.Records:
        memory, records = self.server.memory, self.records
        decode = None if memory is None else memory.codec.decode_block
        encode = None if memory is None else memory.encode_block
        if memory is None or decode is None or encode is None:
            return kernels.Records(share=stored.share)
        return kernels.Records(
            decode.address, encode.address, memory.offsets, records.old,
            records.old_scale, memory.total, stored.share, stored.keep, stored.lean, memory.born,
            memory.whole, records.when, self._aged() if memory.staleness_half_life else np.zeros(0),
            memory.left(1),
        )  # fmt: skip

    def _aged(self) -> Floats:
        """What is left of each record: the older its client's update, the less."""
        memory = self.server.memory
        if memory is None or memory.staleness_half_life is None:
            return np.ones(len(self.records.before))
        return np.array([memory.left(memory.round - when) for when in self.records.when])

    def _counted(self, cohort: Cohort) -> Cohort:
        """The cohort, with the population as it is now."""
        memory = self.server.memory
        if memory is None:
            return cohort
        return replace(cohort, count=memory.count, weight=memory.weight)

    @property
    def _now(self) -> int:
        """The round that new records are of."""
        return 0 if self.server.memory is None else self.server.memory.round + 1

    # --- the first pass ---

    def measure(self) -> None:
        """How long each update is, and how large what is stored of it; are they finite?"""
        self.squares, self.peaks = self._measured(self.replies, self.remembered, self.sketch)
        self.sent = self._lengths()
        server, w = self.server, self.replies.w
        bounds.check_finite(server, w, self.cohort, self.weights, self.sent)

    def _measured(
        self, replies: kernels.Replies, records: kernels.Records, sketch: kernels.Sketch
    ) -> tuple[Floats, npt.NDArray[np.int32]]:
        blocks = self.server.layout.blocks
        squares = np.empty((len(replies.weights), blocks.number))
        peaks = np.empty((len(replies.first) - 1, blocks.number), np.int32)
        kernels.run(kernels.measure, blocks, replies, records, sketch, squares, peaks)
        return squares, peaks

    def _lengths(self) -> Floats:
        """|w - w_i| of each client, from the squares of its g_i."""
        lengths: Floats = np.sqrt(self.squares.sum(axis=1)) * self.server.client_lr
        return lengths

    @property
    def moved(self) -> npt.NDArray[np.bool_]:
        """Which tensors an update moves."""
        moved: npt.NDArray[np.bool_] = (
            np.add.reduceat(self.squares.sum(axis=0), self.server.layout.blocks.first) > 0
        )
        return moved

    def bound(self) -> None:
        """Clip what is too long; refuse what float32 cannot carry."""
        server, cohort, replies = self.server, self.cohort, self.replies
        self.lengths = self.learned = self.sent
        found = bounds.clip(server, replies.w, cohort, self.sent, replies.inverse)
        if found is not None:
            self.clipped, self.learned = found
            self._measure_again(self.clipped)
            self.lengths = self._lengths()
        if server.memory is not None and not self.remembered.keep:  # else they are corrections
            parts = bounds.remembered_parts(server, replies.w, cohort, self.lengths)
            if parts is not None:
                self.remembered = self.remembered._replace(share=self.remembered.share * parts)
                self._measure_again(parts < 1)
        first = server.layout.blocks.first
        self.tops = np.maximum.reduceat(self.peaks, first, axis=1).view(np.float32)
        bounds.check_magnitudes(server, cohort, self.lengths, self.tops.max(axis=1))

    def _measure_again(self, clipped: npt.NDArray[np.bool_]) -> None:
        """The first pass once more, only for the records that such a client writes."""
        replies, records, first = self.replies, self.remembered, self.cohort.first
        which = np.flatnonzero(np.logical_or.reduceat(clipped, first[:-1]))
        clients = np.concatenate([np.arange(first[k], first[k + 1]) for k in which])
        mine = np.cumsum([0, *np.diff(first)[which]]).astype(np.int64)
        sketch, sketches = self.sketch, self.sketch.into
        if sketches.size:
            sketch = sketch._replace(into=np.zeros_like(sketches[:, clients]))
        if len(records.old):
            records = records._replace(
                old=records.old[which], scale=records.scale[which], when=records.when[which]
            )
        self.squares[clients], self.peaks[which] = self._measured(
            replies._replace(
                weights=replies.weights[clients], inverse=replies.inverse[clients], first=mine
            ),
            records._replace(share=records.share[clients]),
            sketch,
        )
        if sketches.size:
            sketches[:, clients] = sketch.into

    # --- the second pass ---

    def admit(self) -> None:
        """Count the cohort in the population, and find out what the vectors say of it."""
        server, records, memory = self.server, self.records, self.server.memory
        if server.vectors is not None:
            w, inverse = self.replies.w, self.replies.inverse
            found = server.vectors.assign(w, self.weights, inverse, self.sketch)
            self.cohort = replace(self.cohort, assignment=found)
        self.after = records.before
        if memory is not None:
            memory.codec.warn_if_saturated(self.tops, f"round {server.round + 1}")
            records.new_scale[...] = memory.codec.scales(self.tops)
            sizes, labels = server.sizes(self.cohort, records), server.labels(self.cohort)
            self.after = memory.admit(records, sizes, labels)
        self.cohort = self._counted(replace(self.cohort, lengths=self.lengths))

    def dismiss(self) -> None:
        """Take back what `admit` has counted: the round cannot be made."""
        if self.server.memory is not None:
            self.server.memory.dismiss(self.records)

    def _by_record(self, recall: Floats | float) -> Floats | float:
        """A number for each record, from one for each or one for each reply."""
        first = self.cohort.first
        if np.ndim(recall) == 0 or len(np.atleast_1d(recall)) == len(first) - 1:
            return recall
        return np.asarray(np.add.reduceat(recall, first[:-1]), np.float64)

    def advance(self, go: Direction, step: kernels.OptimizerStep, out: Vector) -> None:
        """Correction, new memory, total and optimizer, all in one walk; then the norms' (LAMB)."""
        server, records, memory = self.server, self.records, self.server.memory
        blocks, assignment = server.layout.blocks, self.cohort.assignment
        # Sizes reported now count at once: r has base * (total + (after - before) * old).
        aged = self._aged()
        recall = self._by_record(go.recall) - go.base * (self.after - records.before)
        recall = recall * aged
        before = records.before * aged * self.remembered.fade
        vectors = kernels.Vectors()
        if server.vectors is not None and assignment is not None:
            vectors = server.vectors.terms(assignment, go.pull)
        weight = server.product_weights(go)
        products = kernels.Products(
            np.zeros(0) if weight is None else weight, np.zeros((6, blocks.number))
        )
        norms = server.server_optimizer.norms()
        kernels.run(
            kernels.advance, blocks, self.replies, self.remembered,
            kernels.NewRecords(
                records.new, records.new_scale, before, self.after, self._now,
                np.zeros(0, np.int64) if memory is None else memory.noise_keys(records.clients),
            ),
            kernels.Combination(go.gain, recall, go.base), vectors, products, step, out, norms,
        )  # fmt: skip
        self.products = _symmetric(products.cross.sum(axis=1))
        server.server_optimizer.done(step, self.replies.w, out, norms)

    def close(self) -> dict[str, float]:
        """Keep what was written and learn from the round; whose updates were clipped."""
        server, cohort, memory = self.server, self.cohort, self.server.memory
        if memory is not None:
            memory.close(self.records, self.after, bounds.owners_of(cohort))
            memory.settle(max((self.after * self.tops.max(axis=1)).tolist()))
        places = [] if self.clipped is None else np.flatnonzero(self.clipped).tolist()
        if places:
            bounds.tell_clipped(server.round, cohort, places, self.sent, self.lengths)
        server.influence.learn(
            self.learned / server.client_lr, cohort.examples, cohort.steps, len(places)
        )
        if server.vectors is not None and cohort.assignment is not None:
            server.vectors.learned(cohort.assignment, server.round)
        server.learn(cohort, self.products)
        return {cohort.clients[i]: float(self.sent[i]) for i in places}

    @property
    def staleness(self) -> float:
        """For how many rounds the cohort had not been seen, in the mean over those known."""
        memory = self.server.memory
        now = 0 if memory is None else memory.round
        ages = [now - record.round for record in self.records.records if record]
        return sum(ages) / len(ages) if ages else 0.0


def addresses(layout: Layout, weights: Weights) -> npt.NDArray[np.int64]:
    """Where each client's tensors begin."""
    starts = 4 * layout.offsets[:-1]
    if all(isinstance(x, np.ndarray) for x in weights):  # and one sum for all of them
        whole: Any = weights
        return np.array([[kernels.address(x)] for x in whole], np.int64) + starts
    return np.array(
        [
            kernels.address(x) + starts
            if isinstance(x, np.ndarray)
            else [kernels.address(t) for t in x]
            for x in weights
        ],
        np.int64,
    )


def _symmetric(products: Any) -> Floats:
    gg, gy, gc, yy, yc, cc = products
    return np.array([[gg, gy, gc], [gy, yy, yc], [gc, yc, cc]])
