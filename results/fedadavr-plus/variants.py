"""Variants of FedAdaVR+ for the study: `fedadavr compare --load variants.py --algorithms plus-...`.

Each changes one thing and is FedAdaVR+ again in its limit, which tests/test_variants.py holds it
to. They are written to be read: those that the kernels cannot make step in NumPy (`Plain`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedadavr.algorithms import Cohort, Update, bounds
from fedadavr.algorithms.fedadavr_plus import FedAdaVRPlus
from fedadavr.algorithms.gathering import gather
from fedadavr.algorithms.registry import register
from fedadavr.algorithms.trust import Trust
from fedadavr.codecs import codec as find_codec
from fedadavr.kernels import Sketch
from fedadavr.memory.cohort_records import CohortRecords
from fedadavr.memory.kinds import Kinds
from fedadavr.memory.vectors import Assignment
from fedadavr.vector import Layout, Vector

MEMORIES = ("own", "centers")
Floats = npt.NDArray[np.float64]


@register("plus-plain")
class Plain(FedAdaVRPlus):
    """The round of FedAdaVR+ in NumPy, in parts that a variant can replace.

    A room is a slice of the model with its own centers: here there is one, the whole model. The
    rooms' members are not part of the state, so that a run must be made in one go.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rooms: list[tuple[slice, Kinds]] = self._furnish()
        self.members: dict[str, tuple[int, tuple[int, ...]]] = {}  # examples, kind in each room

    # --- what a variant replaces ---

    def _furnish(self) -> list[tuple[slice, Kinds]]:
        """The slices of the model that have their own centers."""
        return [] if self.vectors is None else [(slice(0, self.layout.size), self.vectors)]

    def coefficients(self) -> tuple[Any, Any]:
        """The trust in own memory and in centers: numbers, or one for each coordinate."""
        return self._alpha("own"), self._alpha("centers")

    def learn_from(self, cohort: Cohort, products: Floats) -> None:
        """The round's products of (g, own, centers), tensor by tensor."""
        self.learn(cohort, products.sum(axis=0))

    def remembered(self, g: Vector, centers: Vector) -> Vector:
        """What own memory keeps of the replies, whose centers after the round are given."""
        return g

    def make_room(self) -> None:
        """The replies have found their centers: forget who belonged to one that was given up."""

    # --- one round ---

    def step(self, w: Vector, updates: Iterable[Update], *, out: Vector | None = None) -> Vector:
        """The next model, from this one and the clients' updates; moves the state."""
        w = self._check_models(w, out)
        for client in self.memory.gone:
            self.members.pop(client, None)
        cohort, replies = gather(self, list(updates))
        out = np.empty_like(w) if out is None else out
        if not len(cohort):
            out[...] = w
            return out
        inverse = np.full(len(cohort), 1 / self.client_lr, np.float32)
        whole = [x if isinstance(x, np.ndarray) else np.concatenate(x) for x in replies]
        g = (w - np.stack(whole)) * inverse[:, None]
        sent = self._lengths(g)
        bounds.check_finite(self, w, cohort, replies, sent)
        clipped, learned = bounds.clip(self, w, cohort, sent, inverse) or (None, sent)
        g = (w - np.stack(whole)) * inverse[:, None]
        page = self.memory.open(cohort.keys)
        bounds.check_owners(cohort, page)
        own = self._recall(page)
        found = [
            kinds.assign(w[place], [x[place] for x in whole], inverse, Sketch())
            for place, kinds in self.rooms
        ]
        self.make_room()
        first = found[0] if found and self.vectors is not None else None
        after = self.memory.admit(
            page, self.sizes(cohort, page), None if first is None else (first.of + 1).tolist()
        )
        count, weight = self.memory.count, self.memory.weight
        cohort = replace(cohort, assignment=first, count=count, weight=weight)
        for i, (client, examples) in enumerate(zip(cohort.clients, cohort.examples, strict=True)):
            self.members[client] = int(examples), tuple(int(a.of[i]) for a in found)

        p = self.weights_of(cohort)
        near = self._near(g, found)  # a center that is opened now is zeros still
        mean_near = np.zeros(self.layout.size)
        for number, ((place, kinds), assignment) in enumerate(zip(self.rooms, found, strict=True)):
            count = len(assignment.keep)
            mean_near[place] = self._shares(number, count) @ kinds.vectors[:count].astype(float)
        mean_own = self._total() + (after - page.before) @ own
        mean_own /= cohort.weight
        trust_own, trust_near = self.coefficients()
        r = p @ g - trust_own * (p @ own - mean_own) - trust_near * (p @ near - mean_near)
        products = self._products(p, (g, own, near))

        for (_, kinds), assignment, move in zip(self.rooms, found, self._moves(g, found),
                                                strict=True):  # fmt: skip
            kinds.vectors[: len(move)] = move
            kinds.learned(assignment, self.round + 1)
        self._keep(page, after, own, self.remembered(g, self._near(g, found)))
        ages = [self.memory.round + 1 - record.round for record in page.records if record]
        self.staleness = float(np.mean(ages)) if ages else 0.0
        self.memory.close(page, after, bounds.owners_of(cohort))
        places = [] if clipped is None else np.flatnonzero(clipped).tolist()
        self.clipped = {cohort.clients[i]: float(sent[i]) for i in places}
        self.influence.learn(
            learned / self.client_lr, cohort.examples, cohort.steps, len(self.clipped)
        )
        self.server_optimizer.step(w, (self.client_lr * r).astype(np.float32), out)
        self.learn_from(cohort, products)
        return out

    def _lengths(self, g: Vector) -> Floats:
        """|w - w_i| of each client."""
        return np.sqrt(np.square(g, dtype=np.float64).sum(axis=1)) * self.client_lr

    def _shares(self, room: int, count: int) -> Floats:
        """N_k / sum N_k in a room, by examples."""
        kinds = [of[room] for _, of in self.members.values()]
        weights = np.bincount(kinds, [n for n, _ in self.members.values()], minlength=count)
        return weights / weights.sum()

    def _near(self, g: Vector, found: Sequence[Assignment]) -> Vector:
        """The centers of each client, as they are now."""
        near = np.zeros_like(g)
        for (place, kinds), assignment in zip(self.rooms, found, strict=True):
            near[:, place] = kinds.vectors[assignment.of]
        return near

    def _moves(self, g: Vector, found: Sequence[Assignment]) -> list[Vector]:
        """Where the round moves the centers of each room."""
        moves = []
        for (place, kinds), a in zip(self.rooms, found, strict=True):
            new = a.keep[:, None] * kinds.vectors[: len(a.keep)]
            np.add.at(new, a.of, a.push[:, None] * g[:, place])
            moves.append(new.astype(np.float32))
        return moves

    def _products(self, p: Floats, memories: Sequence[Vector]) -> Floats:
        """The weighted, centered products of (g, own, centers) over the cohort, by tensor."""
        p = p / p.sum()
        spread = [x - (p @ x) for x in memories]
        products = np.empty((len(self.layout.shapes), len(spread), len(spread)))
        for a, x in enumerate(spread):
            for b, y in enumerate(spread[: a + 1]):
                told = np.add.reduceat(p @ (x * y), self.layout.offsets[:-1])
                products[:, a, b] = products[:, b, a] = told
        return products

    def _total(self) -> Floats:
        return self.memory.total if self.memory.codec.bits else np.zeros(self.layout.size)

    def _recall(self, page: CohortRecords) -> Vector:
        """What is remembered of each client of the cohort, zeros for a new one."""
        own = np.zeros((len(page.clients), self.layout.size), np.float32)
        for k, record in enumerate(page.records):
            if record is not None and self.memory.codec.bits:
                own[k] = self.memory.codec.decode(self.layout, record.data)
        return own

    def _keep(self, page: CohortRecords, after: Floats, own: Vector, new: Vector) -> None:
        """Write the records, and move the total along."""
        codec = self.memory.codec
        if codec.bits:
            for k, vector in enumerate(new):
                page.buffers[k][...] = data = codec.encode(self.layout, vector)
                page.new_scale[k] = codec.read_scales(self.layout, data)
                stored = codec.decode(self.layout, data)
                self.memory.total += after[k] * stored - page.before[k] * own[k].astype(float)

    def load_state_dict(self, state: Any) -> None:
        """Not possible: see the class."""
        raise ValueError(f"{self.name} is for a study: it cannot go on from a checkpoint")


@register("plus-tensor-trust")
class TensorTrust(Plain):
    """Trust per tensor: each tensor's products are its own, and so is its alpha."""

    def __post_init__(self) -> None:
        super().__post_init__()
        fixed = None if isinstance(self.trust, str) else float(self.trust)
        self.learners = [
            Trust(len(self.memories), fixed, self.trust_decay) for _ in self.layout.shapes
        ]

    def coefficients(self) -> tuple[Any, Any]:
        """One for each coordinate, the same within a tensor."""
        alpha = np.array([learner.alpha for learner in self.learners])
        sizes, names = np.diff(self.layout.offsets), list(self.memories)
        own, centers = (
            np.repeat(alpha[:, names.index(name)], sizes) if name in names else 0.0
            for name in MEMORIES
        )
        return own, centers

    def learn_from(self, cohort: Cohort, products: Floats) -> None:
        """Each tensor learns for itself; the report's one number is learned beside them."""
        super().learn_from(cohort, products)
        chosen = [["g", *MEMORIES].index(name) for name in ("g", *self.memories)]
        if len(cohort) > 1:
            for learner, mine in zip(self.learners, products, strict=True):
                learner.learn(mine[np.ix_(chosen, chosen)])


@register("plus-layer-centers")
class LayerCenters(Plain):
    """Centers per layer: weight and bias together have their own centers, assignment and shares."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampler != "uniform":
            raise ValueError(f"{self.name} has no kinds of whole clients: sampler must be uniform")
        self.vectors = None  # a client has a kind in each layer, and none as a whole

    def _furnish(self) -> list[tuple[slice, Kinds]]:
        if self.vectors is None:
            return []
        layers: dict[str, dict[str, tuple[int, ...]]] = {}
        for name, shape in self.layout.shapes.items():
            layers.setdefault(name.rpartition(".")[0], {})[name] = shape
        rooms, start = [], 0
        for shapes in layers.values():
            layout = Layout(shapes)
            kinds = Kinds(layout, self.centers, self.center_similarity, self.center_rate)
            rooms.append((slice(start, start + layout.size), kinds))
            start += layout.size
        return rooms


@register("plus-offset")
class Offset(Plain):
    """Own memory as an offset from the client's center: y_i = center now + what it differed by.

    The record is g_i - c, with c the center after the round; the two are trusted apart.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memories != MEMORIES:
            raise ValueError(f"{self.name} needs both memories, own and centers")

    def remembered(self, g: Vector, centers: Vector) -> Vector:
        """The offset from the center that the reply has just moved."""
        return g - centers


class ReplacingKinds(Kinds):
    """Centers of which the one not fed for longest is given up for a reply that is like none.

    Only if all places are taken, and it was not fed for as many rounds as there are centers.
    """

    now = 0  # the last round
    left: Sequence[int] = ()  # the centers given up in this round

    def assign(self, w: Vector, replies: Sequence[Any], inverse: Any, sketch: Any) -> Assignment:
        """The kind of each reply; a center that is taken over predicts nothing in this round."""
        left = []
        for x, factor in zip(replies, inverse, strict=True) if len(self) == self.most else ():
            g = (w - x) * factor
            size = np.linalg.norm(self.vectors, axis=1) * np.linalg.norm(g)
            cosines = np.divide(self.vectors @ g, size, out=np.zeros_like(size), where=size > 0)
            oldest = int(np.argmin(self.fed))
            stale = self.now + 1 - self.fed[oldest] >= self.most
            if cosines.max() < self.similarity and g.any() and stale:
                self.vectors[oldest], self.fed[oldest] = g, self.now + 1
                left.append(oldest)
        told = super().assign(w, replies, inverse, sketch)
        for k in left:
            mine = told.of == k
            told.keep[k], told.push[mine] = 0.0, 1 / mine.sum()
            self.vectors[k] = 0.0
        self.left = left
        return told

    def learned(self, assignment: Assignment, round: int) -> None:
        """The centers have moved: note when."""
        super().learned(assignment, round)
        self.now = round


@register("plus-replace")
class Replace(Plain):
    """A center that nobody has fed for long makes room for a kind that has none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vectors is None or self.sampler != "uniform":
            raise ValueError(f"{self.name} needs the memory of centers and uniform cohorts")
        self.replacing = ReplacingKinds(
            self.layout, self.centers, self.center_similarity, self.center_rate
        )
        self.vectors = self.replacing
        self.rooms = self._furnish()

    def make_room(self) -> None:
        """Who belonged to a center that was given up counts as not met."""
        for client in [c for c, (_, of) in self.members.items() if of[0] in self.replacing.left]:
            del self.members[client]

    def _population_shares(self, count: int) -> Any:
        return self._shares(0, count)


class RoundedKinds(Kinds):
    """Centers that are stored with a codec; cosines and predictions see what was stored."""

    codec = find_codec("fp32")

    def learned(self, assignment: Assignment, round: int) -> None:
        """The kernels have moved the centers: store those that were fed."""
        super().learned(assignment, round)
        for k in np.unique(assignment.of):
            data = self.codec.encode(self.layout, self.vectors[k])
            self.vectors[k] = self.codec.decode(self.layout, data)


@register("plus-fp16-centers")
class Fp16Centers(FedAdaVRPlus):
    """Centers stored in fp16."""

    center_codec: str = "fp16"
    """How centers are stored: fp32, fp16, int8 or int4."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vectors is None:
            raise ValueError(f"{self.name} needs the memory of centers")
        kinds = RoundedKinds(self.layout, self.centers, self.center_similarity, self.center_rate)
        kinds.codec = find_codec(self.center_codec)
        self.vectors = kinds


@register("plus-int8-centers")
class Int8Centers(Fp16Centers):
    """Centers stored in int8, one scale a tensor."""

    center_codec: str = "int8"


@register("plus-explore")
class Explore(FedAdaVRPlus):
    """Cohorts by kinds, but uniform ones while there are kinds to be found.

    The share of the population whose kind was not met yet is about the kinds met in one client only
    over the clients met (Good and Turing). While a uniform cohort may be expected to bring half a
    new kind or more, it is drawn; then kinds are covered, with one uniform draw left in five.
    """

    sampler: Literal["uniform", "kinds"] = "kinds"

    def sample(self, seed: int, round: int, everyone: Sequence[str], size: int) -> list[str]:
        """Uniform while kinds are being found, by kinds after that."""
        met = Counter(self._kind_of().values())
        once = sum(number == 1 for number in met.values())
        if self.sampler == "kinds" and 2 * size * once >= met.total():
            return super(FedAdaVRPlus, self).sample(seed, round, everyone, size)
        return super().sample(seed, round, everyone, size)


@register("plus-shrink")
class Shrink(FedAdaVRPlus):
    """Cohorts by kinds, with shares drawn to equal ones as far as chance may explain them.

    The kinds of n clients tell the shares with a variance of p (1 - p) / n. This is James and
    Stein's estimate for them; with many clients it is the share that was counted.
    """

    sampler: Literal["uniform", "kinds"] = "kinds"

    def _population_shares(self, count: int) -> Any:
        return shrunk(super()._population_shares(count), len(self.memory))


@register("plus-explore-shrink")
class ExploreShrink(Explore, Shrink):
    """Both: find the kinds first, and do not take their shares for more than they tell."""


def shrunk(shares: Floats, clients: int) -> Floats:
    """Shares counted among so many clients, drawn to equal ones as far as they may be by chance.

    >>> shrunk(np.array([0.3, 0.7]), 10).round(2).tolist()
    [0.42, 0.58]
    >>> shrunk(np.array([0.3, 0.7]), 1000).round(2).tolist()
    [0.3, 0.7]
    """
    if not shares.any():
        return shares
    equal = 1 / len(shares)
    chance = 1 - float(shares @ shares)
    apart = (clients - 1) * float(np.square(shares - equal).sum())
    pull = min(1.0, chance / apart) if apart > 0 else 1.0
    return pull * equal + (1 - pull) * shares
