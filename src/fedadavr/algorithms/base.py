"""The server side of an algorithm: its settings, what it asks of clients, and one step."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.algorithms.influence import FEWEST, LEFT, Influence, shared_out
from fedadavr.algorithms.replies import Rejected, Update, bad_vector, check_reply, key_of
from fedadavr.codecs import codec as find_codec
from fedadavr.memory import ClientMemory
from fedadavr.memory.kinds import NO_CENTERS, NO_SKETCH, Assignment, Kinds
from fedadavr.memory.own import Page, Weighting, stored_state
from fedadavr.naming import shown
from fedadavr.optimizers import Optimizer, TrustRatio, number, positive
from fedadavr.sampling import TRAIN, sample
from fedadavr.stores import Store, StoreError
from fedadavr.vector import Layout, Vector

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]

MODEL = 0.1  # of the model's length: the scale of updates while fewer than three are known
ZERO = 1e-3  # the magnitude of weights below which a model says nothing of a scale
FINITE = float(np.finfo(np.float64).max)


class Torn(RuntimeError):
    """A server whose last step was broken off half-way: it neither steps nor commits any more."""

    def __init__(self) -> None:
        super().__init__(
            "a step of this server was broken off half-way, so that its state is no round's: open "
            "its store again, and go on from the last commit"
        )


@dataclass(frozen=True)
class ClientNeeds:
    """What an algorithm asks of the client's local training, so that any engine can serve it."""

    proximal_mu: float = 0.0
    """Add proximal_mu * (w - w_start) to each gradient."""

    correction: bool = False
    """Add the vector `algorithm.correction(client)` to each gradient, before momentum."""

    steps: bool = False
    """Report the number of local steps in `Update.steps`."""

    momentum: float | None = None
    """Local SGD has exactly this momentum, since the server reckons with it; None: any."""

    everyone_first: bool = False
    """The first round takes every client."""


@dataclass(frozen=True)
class Cohort:
    """The clients of one round, in the order of the records they write, then of their ids."""

    clients: Sequence[str]
    examples: Floats
    steps: Floats  # local steps, 0 where not reported
    keys: Sequence[str]  # the records they write, in order, each once
    first: npt.NDArray[np.int64]  # each record's first client; at the end, the number of clients
    owners: Sequence[int] = ()  # the nodes they came from, 0 where not known
    kinds: Assignment | None = None  # what kinds of clients they are, where that is remembered
    count: int = 0  # N, the clients of the population
    weight: float = 0.0  # P, the sum of the population's weights in the memory's total

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def shares(self) -> Floats:
        """n_i / a, each client's share of the cohort's examples."""
        return self.examples / self.examples.sum()

    @property
    def even(self) -> Floats:
        """1 / |S| for each client."""
        return np.full(len(self), 1 / len(self))

    def effective_steps(self, momentum: float) -> Floats:
        """a_i: how many gradients' length K steps of SGD with momentum m move the model.

        The k-th gradient stays in the velocity for the rest of the steps, so that it moves the
        model by 1 + m + ... + m^(K-k); a_i sums these. Without momentum it is K.
        """
        m = momentum
        return (self.steps - m * (1 - m**self.steps) / (1 - m)) / (1 - m)


@dataclass(frozen=True)
class Stored:
    """What is remembered: record k gets sum_i share_i g_i + keep * old_k + lean * total."""

    share: Floats
    keep: float = 0.0
    lean: float = 0.0


@dataclass(frozen=True)
class Direction:
    """Where to go: r = base * total + sum_i gain_i g_i - sum_k recall_k old_k + sum_z pull_z c_z.

    c_z are the centers of the kinds of clients, where an algorithm remembers them.
    """

    gain: Floats
    recall: Floats | float = 0.0
    base: float = 0.0
    pull: Floats | None = None


@dataclass(eq=False)
class Algorithm(ABC):
    """A server: settings, an optimizer, perhaps a memory, and `step`.

    A new algorithm is a subclass with its settings as fields and a `direction`; see CONTRIBUTING.
    """

    name: ClassVar[str]

    layout: Layout
    _: KW_ONLY
    server_lr: float | None = None
    """Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones."""
    client_lr: float = 1.0
    """Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds."""
    clip: float = 50.0
    """Clip an update longer than so many times the median length of late to a tenth; 0: never."""
    max_norm: float | None = None
    """Reject an update whose |w - w_i| is larger; None: no bound beside `clip`."""
    max_examples: int | None = None
    """Reject a reply that claims more examples; None: than a thousand times the median known."""
    max_steps: int | None = None
    """Reject a reply that claims more local steps; None: as with `max_examples`."""
    max_share: float | None = None
    """The largest share of a cohort's examples that one client counts with; None: any."""
    store: Store | None = None
    """Where the client memory lives and `commit` writes; None: in RAM, and nothing is kept."""
    snapshot_every: int | None = None
    """Keep the store as it is every so many rounds, to be able to go back; None: never."""

    memory: ClientMemory | None = field(init=False, repr=False, default=None)
    server_optimizer: Optimizer = field(init=False, repr=False)
    kinds: Kinds | None = field(init=False, repr=False, default=None)
    learner: Any = field(init=False, repr=False, default=None)
    staleness: float = field(init=False, repr=False, default=0.0)
    """For how many rounds the last cohort had not been seen, in the mean over those known."""
    torn: bool = field(init=False, repr=False, default=False)
    """Whether a step was broken off half-way: the state is then no round's, and never committed."""
    influence: Influence = field(init=False, repr=False, default_factory=Influence)
    clipped: dict[str, float] = field(init=False, repr=False, default_factory=dict)
    """The clients whose updates the last round clipped, and how long they were."""

    def __post_init__(self) -> None:
        if not isinstance(self.layout, Layout):
            raise TypeError(f"layout must be a Layout, got {type(self.layout).__name__}")
        self._check_rates()
        self._check_bounds()
        every = self.snapshot_every
        if every is not None and (type(every) is not int or every < 1):
            raise ValueError(f"snapshot_every must be a whole number from 1 up, got {every!r}")
        self._notes: dict[int, Any] = {}  # what rounds have reported since the last commit
        self.memory = self._build_memory()
        self.server_optimizer = self._build_optimizer()

    def _check_rates(self) -> None:
        self.client_lr = positive("client_lr", self.client_lr)
        if not self.client_lr >= 1e-38:
            raise ValueError(f"client_lr {self.client_lr!r} is too small to divide by in float32")
        if self.max_norm is not None:
            positive("max_norm", self.max_norm)

    def _check_bounds(self) -> None:
        self.clip = number("clip", self.clip)
        if not (self.clip == 0 or 1 <= self.clip < np.inf):
            raise ValueError(f"clip must be a finite number from 1 up, or 0, got {self.clip!r}")
        for name, value in (("max_examples", self.max_examples), ("max_steps", self.max_steps)):
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} must be a whole number from 1 up, got {value!r}")
        if self.max_share is not None and not 0 < number("max_share", self.max_share) <= 1:
            raise ValueError(f"max_share must lie in (0, 1], got {self.max_share!r}")

    # --- what an algorithm says of itself ---

    def _build_optimizer(self) -> Optimizer:
        return Optimizer("sgd", self.layout, lr=self.server_lr)

    def _build_memory(self) -> ClientMemory | None:
        return None

    @property
    def needs(self) -> ClientNeeds:
        """What it asks of the client's training."""
        return ClientNeeds()

    def correction(self, client: str) -> Vector:
        """The vector to add to the client's gradients, where `needs.correction` asks for it."""
        raise TypeError(f"{self.name} has no correction for its clients: needs.correction is False")

    def record_of(self, client: str) -> str:
        """The record that a client writes: its own."""
        return client

    def sizes(self, cohort: Cohort) -> list[int]:
        """The number of examples behind each record of the cohort."""
        return [int(n) for n in cohort.examples]

    def stored(self, cohort: Cohort) -> Stored:
        """What a round remembers; called before the cohort is counted in the population."""
        return Stored(share=np.ones(len(cohort)))

    def learn(self, cohort: Cohort, products: Floats) -> None:  # noqa: B027, most need not
        """After a round: the products of (g, own memory, centers) over the cohort."""

    def sample(self, seed: int, round: int, everyone: Sequence[str], size: int) -> list[str]:
        """The clients of a round, out of all that are there."""
        if round == 1 and self.needs.everyone_first:
            return list(everyone)
        chosen = sample(seed, round, TRAIN, len(everyone), size)
        return [everyone[place] for place in chosen]

    def report(self) -> dict[str, Any]:
        """What a round tells beside its model."""
        return {"clipped": len(self.clipped)} if self.clipped else {}

    @abstractmethod
    def direction(self, cohort: Cohort) -> Direction:
        """Where the server steps; called after the cohort is counted in the population."""

    # --- one round ---

    @property
    def round(self) -> int:
        """The number of rounds applied so far."""
        return self.server_optimizer.steps

    def step(self, w: Vector, updates: Iterable[Update], *, out: Vector | None = None) -> Vector:
        """The next model, from this one and the clients' updates; moves the state.

        Parameters
        ----------
        w : the model that the clients started from
        updates : their replies, in any order: the result does not depend on it
        out : where to put the next model (may be `w` itself); a new array if not given

        Raises `Rejected` if an update is not acceptable; then nothing was changed.
        """
        self._check_whole()
        self._check_rates()
        self._check_model("w", w)
        w = np.require(w, requirements=["C", "W"])  # a copy, if it is neither
        if out is not None:
            self._check_model("out", out)
            if not (out.flags.c_contiguous and out.flags.writeable):
                raise ValueError("out must be contiguous and writable; nothing was changed")
        cohort, weights = self._gather(list(updates))
        if not len(cohort):
            log.warning("round %d has no updates: skipped, nothing changes", self.round + 1)
            self.staleness, self.clipped = 0.0, {}
            out = np.empty_like(w) if out is None else out
            out[...] = w
            return out
        memory, layout, blocks = self.memory, self.layout, self.layout.blocks
        page = Page.blank(cohort.keys) if memory is None else memory.open(cohort.keys)
        self._check_owners(cohort, page)
        codec, offsets, total = (
            (kernels.NONE, layout.offsets, np.zeros(0))
            if memory is None
            else (memory.codec.code, memory.offsets, memory.total)
        )
        stored = self.stored(self._counted(cohort))
        out = np.empty_like(w) if out is None else out
        inverse = np.full(len(cohort), 1 / self.client_lr, np.float32)
        common = (
            layout.offsets, w, self._addresses(weights), inverse, cohort.first,
            stored.share, stored.keep, stored.lean, codec, page.old, page.old_scale, offsets, total,
        )  # fmt: skip

        squares = np.empty((len(cohort), len(blocks)))
        peaks = np.empty((len(cohort.keys), len(blocks)), np.int32)
        sketching = NO_SKETCH if self.kinds is None else self.kinds.sketching(len(cohort))
        kernels.run(kernels.measure, blocks, *common, squares, peaks, *sketching)
        sent = self._lengths(squares)
        self._check_updates(w, cohort, weights, sent)
        clipped, lengths = self._clip(w, sent, self._fractions(cohort), inverse), sent
        if clipped is not None:
            self._measure_again(clipped, cohort.first, common, squares, peaks, sketching)
            lengths = self._lengths(squares)
        tops = np.maximum.reduceat(peaks, blocks.first, axis=1).view(np.float32)
        top = tops.max(axis=1)
        self._check_magnitudes(cohort, lengths, top)
        self.torn = True  # until the round is whole
        if self.kinds is not None:
            cohort = replace(cohort, kinds=self.kinds.assign(w, weights, inverse, sketching[2]))

        after = page.before
        if memory is not None:
            memory.codec.warn_if_saturated(tops, f"round {self.round + 1}")
            page.new_scale[...] = memory.codec.scales(tops)
            kinds = None if cohort.kinds is None else (cohort.kinds.of + 1).tolist()
            after = memory.admit(page, self.sizes(cohort), kinds)
        step = self.server_optimizer.next()
        try:
            go = self.direction(self._counted(cohort))
            self._check_step(cohort, step.rate, go.gain, lengths)
        except BaseException:
            if memory is not None:
                memory.dismiss(page)
            self.torn = False
            raise
        # Sizes reported now count at once: r has base * (total + (after - before) * old).
        recall = go.recall - go.base * (after - page.before)
        norms = np.zeros((2, len(blocks)))
        centers = self._centers(cohort, go)
        kernels.run(
            kernels.advance, blocks, *common, go.gain, recall, go.base, page.before, after,
            page.new, page.new_scale, step.kind, step.hyper, step.rate, self.client_lr,
            self.server_optimizer.m, self.server_optimizer.v, out, norms, step.hold, *centers,
        )  # fmt: skip
        if memory is not None:
            ages = [memory.round + 1 - record.round for record in page.records if record]
            self.staleness = sum(ages) / len(ages) if ages else 0.0
            memory.close(page, after, self._owners(cohort))
            memory.settle(max((after * top).tolist()))
        self._note_clipped(cohort, clipped, sent, lengths)
        self.influence.learn(
            lengths / self.client_lr, cohort.examples, cohort.steps, len(self.clipped)
        )
        self.server_optimizer.done(step, w, out, norms)
        if cohort.kinds is not None and self.kinds is not None:
            self.kinds.done(cohort.kinds, self.round)
        if self.learner is not None:
            gg, gy, gc, yy, yc, cc = centers[-1].sum(axis=1)
            self.learn(cohort, np.array([[gg, gy, gc], [gy, yy, yc], [gc, yc, cc]]))
        note = self.report()
        if note and self.store is not None and self.store.durable:
            self._notes[self.round] = note
        self.torn = False
        return out

    def step_good(
        self,
        w: Vector,
        updates: Iterable[Update],
        *,
        rejected: Mapping[str, str] | None = None,
        out: Vector | None = None,
    ) -> tuple[Vector, dict[str, str]]:
        """`step` with the updates that are acceptable; the others cost only themselves.

        Returns the next model, and why each of the others was left out, beside those that came
        to nothing before (`rejected`). If nobody's is acceptable the model stays as it is, and
        `influence.refused` counts such rounds in a row.
        """
        good, rejected = list(updates), dict(rejected or {})
        while True:
            try:
                out = self.step(w, good, out=out)
                break
            except Rejected as error:
                rejected |= error.reasons
                good = [u for u in good if isinstance(u.client, str) and u.client not in rejected]
        self.influence.refused = self.influence.refused + 1 if rejected and not good else 0
        return out, rejected

    # --- bounds on what one reply does ---

    def _lengths(self, squares: Floats) -> Floats:
        """|w - w_i| of each client, from the squares of its g_i."""
        lengths: Floats = np.sqrt(squares.sum(axis=1)) * self.client_lr
        return lengths

    def _fractions(self, cohort: Cohort) -> Floats:
        """How long each update may be, of the bound: less for fewer steps, where they divide it."""
        if not self.needs.steps:
            return np.ones(len(cohort))
        known = self.influence.steps
        typical = known.median if known.known > FEWEST else np.sort(cohort.steps)[
            (len(cohort) - 1) // 2]  # fmt: skip
        usual = replace(cohort, steps=np.full(len(cohort), float(typical)))
        momentum = self.needs.momentum or 0.0
        ratio = cohort.effective_steps(momentum) / usual.effective_steps(momentum)
        return np.minimum(1.0, ratio)

    def _clip(
        self, w: Vector, lengths: Floats, fractions: Floats, inverse: Vector
    ) -> npt.NDArray[np.bool_] | None:
        """Whose updates are too long; their factors in `inverse` become what makes them fit."""
        rate, history = self.client_lr, self.influence.history
        longest = max((lengths / fractions).tolist())
        if not self.clip or longest <= self.clip * rate * history:
            return None  # so it is nearly always
        model = 0.0
        if not history:
            # A tenth, since a client's update is hardly as long as the model; one that starts at
            # zero counts as if its weights were of magnitude one.
            length, root = float(np.linalg.norm(w.astype(np.float64))), float(np.sqrt(len(w)))
            model = MODEL * (length if length > ZERO * root else root)
        bound = self.clip * rate * self.influence.scale(lengths / rate, model / rate, self.round)
        clipped: npt.NDArray[np.bool_] = lengths > bound * fractions
        if not clipped.any():
            return None
        exact = (LEFT * bound * fractions[clipped] / lengths[clipped]) / rate
        factor = exact.astype(np.float32)
        # Never longer than the bound, also where float32 has few digits left or none.
        inverse[clipped] = np.where(factor > exact, np.nextafter(factor, np.float32(0)), factor)
        return clipped

    def _measure_again(
        self, clipped: Any, first: Any, common: Any, squares: Floats, peaks: Any, sketching: Any
    ) -> None:
        """The first pass once more, only for the records that a clipped client writes."""
        origin, w, replies, inverse, _, share, keep, lean, codec, old, scale, *rest = common
        records = np.flatnonzero(np.logical_or.reduceat(clipped, first[:-1]))
        sizes = np.diff(first)[records]
        clients = np.concatenate([np.arange(first[k], first[k + 1]) for k in records])
        mine = np.cumsum([0, *sizes]).astype(np.int64)
        if len(old):
            old, scale = old[records], scale[records]
        again = np.empty((len(clients), squares.shape[1]))
        tops = np.empty((len(records), peaks.shape[1]), np.int32)
        sign, turn, sketch = sketching
        anew = np.zeros_like(sketch[:, clients]) if sketch.size else sketch
        kernels.run(
            kernels.measure, self.layout.blocks, origin, w, replies[clients], inverse[clients],
            mine, share[clients], keep, lean, codec, old, scale, *rest, again, tops,
            sign, turn, anew,
        )  # fmt: skip
        squares[clients], peaks[records] = again, tops
        if sketch.size:
            sketch[:, clients] = anew

    def _note_clipped(self, cohort: Cohort, clipped: Any, sent: Floats, lengths: Floats) -> None:
        places = [] if clipped is None else np.flatnonzero(clipped).tolist()
        self.clipped = {cohort.clients[i]: float(sent[i]) for i in places}
        if self.clipped:
            i = max(places, key=lambda place: sent[place])
            log.warning(
                "round %d: %d of %d updates clipped, the longest that of client %s from length "
                "%.3g to %.3g",
                self.round + 1, len(places), len(cohort), shown(cohort.clients[i]), sent[i],
                lengths[i],
            )  # fmt: skip

    def _check_magnitudes(self, cohort: Cohort, lengths: Floats, top: Vector) -> None:
        """Refuse what float32 cannot carry: squares in moments and cosines, or a new record."""
        squared = self.server_optimizer.v.size > 0 or self.kinds is not None
        largest = float(kernels.LARGEST)
        most = float(kernels.LARGEST_SQUARED) if squared else largest
        most *= min(1.0, self.client_lr)  # since g_i is longer
        reasons = {
            client: f"|w - w_i| is {length:.3g}, more than this server can carry in float32"
            for client, length in zip(cohort.clients, lengths.tolist(), strict=True)
            if not length <= most
        }
        for k, magnitude in enumerate(top.tolist() if self.memory is not None else ()):
            if not magnitude <= largest:
                for client in cohort.clients[cohort.first[k] : cohort.first[k + 1]]:
                    reasons[client] = "what would be stored of it is more than float32 can carry"
        if reasons:
            raise Rejected(reasons)

    def _check_step(self, cohort: Cohort, rate: float, gain: Floats, lengths: Floats) -> None:
        """Refuse a round as a whole whose step could leave the finite numbers.

        The memory's part in it was bounded when it was stored.
        """
        news = float(np.abs(gain) @ lengths)
        squared = self.server_optimizer.v.size > 0
        most = float(kernels.LARGEST_SQUARED) if squared else float(kernels.LARGEST) / rate
        if not news <= most:
            why = f"the round's step, of length {news:.3g}, is more than float32 can carry"
            raise Rejected(dict.fromkeys(cohort.clients, why))

    # --- one round, in parts ---

    def _centers(self, cohort: Cohort, go: Direction) -> tuple[Any, ...]:
        """What `advance` needs for the kinds of clients, and to learn how far to trust memories."""
        if self.learner is None:
            return NO_CENTERS
        center, keep, pull, of, push, _, _ = NO_CENTERS
        if cohort.kinds is not None and self.kinds is not None:
            center, keep = self.kinds.addresses(cohort.kinds), cohort.kinds.keep
            of, push = cohort.kinds.of, cohort.kinds.push
            pull = np.zeros(len(keep)) if go.pull is None else go.pull
        part = go.gain if self.learner.fixed is None else np.zeros(0)
        return center, keep, pull, of, push, part, np.zeros((6, len(self.layout.blocks)))

    def _addresses(self, weights: Sequence[Vector | Sequence[Vector]]) -> npt.NDArray[np.int64]:
        """Where each client's tensors begin."""
        starts = 4 * self.layout.offsets[:-1]
        if all(isinstance(x, np.ndarray) for x in weights):  # and one sum for all of them
            return np.array([[kernels.address(x)] for x in weights], np.int64) + starts  # type: ignore[arg-type]
        return np.array(
            [
                kernels.address(x) + starts
                if isinstance(x, np.ndarray)
                else [kernels.address(t) for t in x]
                for x in weights
            ],
            np.int64,
        )

    def _counted(self, cohort: Cohort) -> Cohort:
        """The cohort, with the population as it is now."""
        if self.memory is None:
            return cohort
        return Cohort(  # `replace` would take ten times as long
            cohort.clients, cohort.examples, cohort.steps, cohort.keys, cohort.first,
            cohort.owners, cohort.kinds, self.memory.count, self.memory.weight,
        )  # fmt: skip

    def _check_whole(self) -> None:
        if self.torn:
            raise Torn

    def _check_model(self, name: str, w: Vector) -> None:
        why = bad_vector(w, self.layout.size)
        if why:
            raise ValueError(f"{name}: {why}; nothing was changed")

    def _gather(self, updates: list[Update]) -> tuple[Cohort, list[Vector | Sequence[Vector]]]:
        """Sort and check what can be checked without reading the weights."""
        reasons: dict[str, str] = {}
        keyed = []
        for update in updates:
            if not isinstance(update, Update):
                raise TypeError(
                    f"updates must be Update objects, got {type(update).__name__}; "
                    "nothing was changed"
                )
        ids = [u.client for u in updates if isinstance(u.client, str)]
        once = len(set(ids)) == len(ids)
        needs_steps = self.name if self.needs.steps else None
        for update in updates:
            client = update.client
            try:
                if not isinstance(client, str):
                    raise TypeError(f"a client's id must be a string, got {type(client).__name__}")
                if not once and ids.count(client) > 1:
                    raise ValueError("came twice in one round")
                why = None if self.store is None else self.store.refuses(client)
                if why:
                    raise ValueError(why)
                check_reply(update, self.layout, needs_steps)
                keyed.append((self.record_of(client), client, update))
            except (TypeError, ValueError) as error:
                reasons[key_of(client, ids)] = str(error)
        for what in ("examples", "steps"):
            reasons |= self._excessive(what, [update for _, _, update in keyed])
        if reasons:
            raise Rejected(reasons)
        keyed.sort(key=lambda item: item[:2])
        keys = [item[0] for item in keyed]
        first = [k for k, key in enumerate(keys) if k == 0 or key != keys[k - 1]]
        examples = np.array([item[2].examples for item in keyed], np.float64)
        if self.max_share is not None and len(keyed):
            examples = shared_out(examples, self.max_share)
        cohort = Cohort(
            clients=[item[1] for item in keyed],
            examples=examples,
            steps=np.array([item[2].steps or 0 for item in keyed], np.float64),
            owners=[int(item[2].owner) for item in keyed],
            keys=[keys[k] for k in first],
            first=np.array([*first, len(keys)], np.int64),
        )
        return cohort, [
            np.ascontiguousarray(x) if isinstance(x, np.ndarray)
            else [np.ascontiguousarray(t) for t in x]
            for x in (item[2].weights for item in keyed)
        ]  # fmt: skip

    def _excessive(self, what: str, updates: list[Update]) -> dict[str, str]:
        """Whose claims of examples or steps are beyond all that is known, and why."""
        claims = [getattr(u, what) or 0 for u in updates]
        largest = max(claims, default=0)
        if not largest:
            return {}
        most, why = getattr(self, f"max_{what}"), f"max_{what}"
        if most is None:
            most, why = self.influence.most(what, claims)
        if largest <= most:
            return {}
        return {
            u.client: f"it claims {n} {what}, more than {most:.15g} ({why})"
            for u, n in zip(updates, claims, strict=True)
            if n > most
        }

    def _owners(self, cohort: Cohort) -> list[int] | None:
        """The node of each record's client; None where a record is not one client's."""
        return list(cohort.owners) if list(cohort.keys) == list(cohort.clients) else None

    def _check_owners(self, cohort: Cohort, page: Page) -> None:
        """A client's id stays with the node that first used it."""
        owners = self._owners(cohort) or [0] * len(page.records)
        reasons = {
            client: f"this id belongs to node {record.owner}, and node {owner} claims it"
            for client, record, owner in zip(page.clients, page.records, owners, strict=True)
            if record is not None and owner and record.owner not in (0, owner)
        }
        if reasons:
            raise Rejected(reasons)

    def _check_updates(
        self, w: Vector, cohort: Cohort, weights: Sequence[Any], lengths: Floats
    ) -> None:
        """The part of the check that needs the first pass: finite, and not above `max_norm`."""
        bound = FINITE if self.max_norm is None else self.max_norm
        if all(length <= bound for length in lengths.tolist()):
            return
        if not np.isfinite(w).all():
            raise ValueError("w: the model holds NaN or infinity; nothing was changed")
        reasons = {}
        for client, reply, length in zip(cohort.clients, weights, lengths, strict=True):
            tensors = [reply] if isinstance(reply, np.ndarray) else reply
            if not all(np.isfinite(tensor).all() for tensor in tensors):
                reasons[client] = "the weights hold NaN or infinity"
            elif not np.isfinite(length):
                reasons[client] = "w - w_i, or it divided by client_lr, is beyond float32"
            elif length > bound:
                reasons[client] = f"|w - w_i| is {length:.3g}, above max_norm {bound:g}"
        raise Rejected(reasons)

    # --- state ---

    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """All of the state but the records of the client memory, which its store holds.

        Plain numbers, strings, lists, dictionaries and arrays; the arrays are copies unless told.
        """
        return {
            "algorithm": self.name,
            "layout": self.layout.digest,
            "optimizer": self.server_optimizer.state_dict(copy=copy),
            "memory": None if self.memory is None else self.memory.state_dict(copy=copy),
            "kinds": None if self.kinds is None else self.kinds.state_dict(copy=copy),
            "influence": self.influence.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state made by `state_dict`; one that does not fit changes nothing."""
        missing = [
            key
            for key in ("algorithm", "layout", "optimizer", "memory", "kinds")
            if key not in state
        ]
        if missing:
            raise ValueError(f"the state lacks {', '.join(missing)}; nothing was changed")
        for key, mine in (("algorithm", self.name), ("layout", self.layout.digest)):
            if state.get(key) != mine:
                raise ValueError(
                    f"the state is of {key} {state.get(key)!r}, this server has {mine!r}; "
                    "nothing was changed"
                )
        self.server_optimizer.check_state(state["optimizer"])
        self.influence.check_state(state.get("influence"))  # states of 0.1 have none
        if self.kinds is not None:
            self.kinds.check_state(state["kinds"])
        if self.memory is not None:
            self.memory.check_state(state["memory"])
            self.memory.load_state_dict(state["memory"])
        self.server_optimizer.load_state_dict(state["optimizer"])
        self.influence.load_state_dict(state.get("influence"))
        self.clipped = {}
        if self.kinds is not None:
            self.kinds.load_state_dict(state["kinds"])
        self.torn = False

    def commit(self, w: Vector, **extra: Any) -> None:
        """Write the model, the state, the memory and whatever else to the store, all or nothing.

        Without a durable store it does nothing. If it fails, the last commit is as it was, nothing
        is lost here, and it can be tried again, also after more rounds.
        """
        self._check_whole()
        if self.store is None or not self.store.durable:
            return
        state = {
            "layout": {name: list(shape) for name, shape in self.layout.shapes.items()},
            "w": w,
            "server": self.state_dict(copy=False),
            "extra": extra,
        }
        round = int(extra.get("round", self.round))
        every, newest = self.snapshot_every, max(self.store.snapshots, default=0)
        due = every is not None and round // every > newest // every  # the first commit after it
        kept: dict[str, Any] = {"rounds": self._notes, "snapshot": round if due else None}
        if self.memory is not None:
            self.memory.commit(state, **kept)
        else:
            self.store.commit({}, state, **kept)
        self._notes = {}

    def restore(self) -> tuple[Vector, dict[str, Any]] | None:
        """Take over the store's last commit: its model and its extra; None if there is none."""
        state = None if self.store is None else stored_state(self.store)
        if state is None:
            return None
        why = bad_vector(state.get("w"), self.layout.size)
        if why:
            raise StoreError(f"the model in the store does not fit: {why}")
        try:
            self.load_state_dict(state["server"])
            extra = dict(state["extra"])
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError):
            raise StoreError(
                f"{getattr(self.store, 'where', 'the store')}: its state is not one of this "
                "program: restore it from a backup"
            ) from None
        if self.memory is not None:
            self.memory.population.changed.clear()
        self._notes = {}
        return state["w"], extra


@dataclass(eq=False)
class Remembering(Algorithm):
    """An algorithm whose server remembers every client's last update."""

    _: KW_ONLY
    codec: str = "fp32"
    """How updates are stored: fp32, fp16, int8 or int4."""
    population: int | Mapping[str, int] | None = None
    """How many clients there are, or their sizes; None: those seen so far."""
    prune_after: int | None = None
    """Forget a client that was not seen for so many rounds; None: never."""

    memory: ClientMemory = field(init=False, repr=False)

    def _build_memory(self) -> ClientMemory:
        return self._memory(find_codec(self.codec).name)

    def _memory(self, codec: str) -> ClientMemory:
        return ClientMemory(
            self.layout,
            codec,
            weights=self._weights(),
            population=self._population(),
            store=self.store,
            prune_after=self.prune_after,
        )

    def _weights(self) -> Weighting:
        """Whether the total weighs clients by their examples or each by one."""
        return "clients"

    def _population(self) -> int | Mapping[str, int] | None:
        return self.population


@dataclass(eq=False)
class Adaptive(Algorithm):
    """An algorithm whose server steps with an optimizer of choice."""

    _: KW_ONLY
    optimizer: str = "adam"
    """sgd, adagrad, adam, adabelief, yogi or lamb."""
    beta1: float | None = None
    """Decay of the first moment; None: the optimizer's default."""
    beta2: float | None = None
    """Decay of the second moment; None: the optimizer's default."""
    eps: float | None = None
    """Added to the denominator; None: the optimizer's default."""
    weight_decay: float = 0.0
    """Added to the pseudo-gradient, times w."""
    trust_ratio: TrustRatio = "tensor"
    """LAMB only: one ratio a tensor, or one for the model."""

    def _build_optimizer(self) -> Optimizer:
        return Optimizer(
            self.optimizer,
            self.layout,
            lr=self.server_lr,
            beta1=self.beta1,
            beta2=self.beta2,
            eps=self.eps,
            weight_decay=self.weight_decay,
            trust_ratio=self.trust_ratio,
        )


def check_momentum(momentum: float) -> None:
    """Raise unless it is a momentum that SGD converges with."""
    if not 0 <= momentum < 1:
        raise ValueError(f"client_momentum must lie in [0, 1), got {momentum!r}")
