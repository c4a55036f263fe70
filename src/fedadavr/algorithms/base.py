"""The server side of an algorithm: its settings, what it asks of clients, and one step."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedadavr.algorithms import bounds
from fedadavr.algorithms.cohort import ClientNeeds, Cohort, Direction, Floats, Stored
from fedadavr.algorithms.gathering import gather
from fedadavr.algorithms.influence import Influence
from fedadavr.algorithms.replies import Rejected, Update, bad_vector
from fedadavr.algorithms.round import Round
from fedadavr.algorithms.server_state import ServerState
from fedadavr.checks import number, positive
from fedadavr.codecs import NOTHING
from fedadavr.codecs import codec as find_codec
from fedadavr.memory import ClientMemory
from fedadavr.memory.average import ModelAverage
from fedadavr.memory.cohort_records import CohortRecords
from fedadavr.memory.own import Weighting
from fedadavr.memory.vectors import VectorMemory
from fedadavr.optimizers import OPTIMIZERS, Optimizer, Rate, TrustRatio
from fedadavr.sampling import TRAIN, sample
from fedadavr.stores import Store
from fedadavr.vector import Layout, Vector

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Algorithm(ServerState, ABC):
    """A server: settings, an optimizer, perhaps a memory, and `step`.

    A new algorithm is a subclass with its settings as fields and a `direction`; see CONTRIBUTING.
    """

    name: ClassVar[str]
    waits: ClassVar[bool] = False
    """Whether it only makes sense where the server waits for all replies of a round."""

    layout: Layout
    _: KW_ONLY
    server_lr: float | None = None
    """Rate of the server's step; None: 1 for plain steps, the optimizer's own for adaptive ones."""
    client_lr: float = 1.0
    """Rate of the clients' steps: g_i = (w - w_i) / client_lr. May change between rounds."""
    clip: float = 50.0
    """Clip to the median length of late an update that is so many times longer; 0: never."""
    max_norm: float | None = None
    """Reject an update whose |w - w_i| is larger; None: no bound beside `clip`."""
    max_examples: int | None = None
    """Reject a reply that claims more examples; None: than a thousand times the median known."""
    max_steps: int | None = None
    """Reject a reply that claims more local steps; None: as with `max_examples`."""
    max_share: float | None = None
    """The largest share of a cohort's examples that one client counts with; None: any."""
    averaging: bool | None = False
    """Serve a mean of the models so far, in which late ones count most; train on the last."""
    store: Store | None = None
    """Where the client memory lives and `commit` writes; None: in RAM, and nothing is kept."""
    snapshot_every: int | None = None
    """Keep the store as it is every so many rounds, to be able to go back; None: never."""

    memory: ClientMemory | None = field(init=False, repr=False, default=None)
    server_optimizer: Optimizer = field(init=False, repr=False)
    vectors: VectorMemory | None = field(init=False, repr=False, default=None)
    """A memory beside the clients' own updates."""
    staleness: float = field(init=False, repr=False, default=0.0)
    """For how many rounds the last cohort had not been seen, in the mean over those known."""
    torn: bool = field(init=False, repr=False, default=False)
    """Whether a step was broken off half-way: the state is then no round's, and never committed."""
    influence: Influence = field(init=False, repr=False, default_factory=Influence)
    average: ModelAverage | None = field(init=False, repr=False, default=None)
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
        if self.averaging is None:
            self.averaging = self.server_optimizer.learned is not None
        self.average = ModelAverage(self.layout) if self.averaging else None

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

    def check_buffered(self) -> None:
        """Raise unless it can step with replies that started from different models."""
        needs = self.needs
        if self.waits or needs.correction or needs.everyone_first:
            raise ValueError(
                f"{self.name} needs a server that waits for a round's replies: run it without a "
                "buffer, or take fedbuff, fedavg, fedvarp, fedadavr or fedadavr-plus"
            )

    def record_of(self, client: str) -> str:
        """The record that a client writes: its own."""
        return client

    def sizes(self, cohort: Cohort, records: CohortRecords) -> list[float]:
        """The number of examples behind each record of the cohort."""
        return bounds.remembered_sizes(self, cohort, records)

    def labels(self, cohort: Cohort) -> list[int] | None:
        """A number to keep with each record: which vector predicts it, from 1; None: none does."""
        if cohort.assignment is None:
            return None
        return (cohort.assignment.of[cohort.first[1:] - 1] + 1).tolist()

    def stored(self, cohort: Cohort) -> Stored:
        """What a round remembers; called before the cohort is counted in the population."""
        return Stored(share=cohort.last)

    def product_weights(self, go: Direction) -> Floats | None:
        """Each reply's weight in the products that `learn` gets; None: it needs none."""
        return None

    def learn(self, cohort: Cohort, products: Floats) -> None:
        """After a round: the products of (g, own memory, vectors) over the cohort."""

    def sample(self, seed: int, round: int, everyone: Sequence[str], size: int) -> list[str]:
        """The clients of a round, out of all that are there."""
        if round == 1 and self.needs.everyone_first:
            return list(everyone)
        chosen = sample(seed, round, TRAIN, len(everyone), size)
        return [everyone[place] for place in chosen]

    def report(self) -> dict[str, Any]:
        """What a round tells beside its model."""
        told: dict[str, Any] = {"clipped": len(self.clipped)} if self.clipped else {}
        learned = self.server_optimizer.learned
        if learned is not None and learned.used is not None:
            told["server_lr"] = learned.used
        return told

    @abstractmethod
    def direction(self, cohort: Cohort) -> Direction:
        """Where the server steps; called after the cohort is counted in the population."""

    # --- one round ---

    def step(self, w: Vector, updates: Iterable[Update], *, out: Vector | None = None) -> Vector:
        """The next model, from this one and the clients' updates; moves the state.

        Parameters
        ----------
        w : Vector
            The model that the clients started from.
        updates : Iterable[Update]
            Their replies, in any order: the result does not depend on it.
        out : Vector, optional
            Where to put the next model (may be `w` itself); a new array if not given.

        Raises
        ------
        Rejected
            If an update is not acceptable; then nothing was changed.
        """
        w = self._check_models(w, out)
        cohort, weights = gather(self, list(updates))
        out = np.empty_like(w) if out is None else out
        if not len(cohort):
            return self._skip(w, out)
        round = Round(self, w, cohort, weights)
        round.measure()
        round.bound()
        self.torn = True  # until the round is whole
        round.admit()
        reach = float(np.median(round.lengths))
        step = self.server_optimizer.next(self.client_lr, w, reach, round.moved)
        try:
            go = self.direction(round.cohort)
            bounds.check_step(self, cohort, step.rate, go.gain, round.lengths)
        except BaseException:
            round.dismiss()
            self.torn = False
            raise
        if self.average is not None and self.round:  # the first model is nobody's result
            self.average.take(w)
        round.advance(go, step, out)
        self.clipped = round.close()
        self.staleness = round.staleness
        note = self.report()
        if note and self.store is not None and self.store.durable:
            self._notes[self.round] = note
        self.torn = False
        return out

    def served(self, w: Vector) -> Vector:
        """What is evaluated and handed out where w is the newest model: w, or the average."""
        if self.average is None or not self.round:
            return w
        return self.average.served(w)

    def _check_models(self, w: Vector, out: Vector | None) -> Vector:
        """Raise unless the server can step from `w` to `out`; `w`, copied where it must be."""
        self._check_whole()
        self._check_rates()
        for name, model in (("w", w), ("out", out)):
            why = None if model is None and name == "out" else bad_vector(model, self.layout.size)
            if why:
                raise ValueError(f"{name}: {why}; nothing was changed")
        if out is not None and not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError("out must be contiguous and writable; nothing was changed")
        return np.require(w, requirements=["C", "W"])

    def _skip(self, w: Vector, out: Vector) -> Vector:
        log.warning("round %d has no updates: skipped, nothing changes", self.round + 1)
        self.staleness, self.clipped = 0.0, {}
        if self.server_optimizer.learned is not None:
            self.server_optimizer.learned.used = None  # there was no step
        out[...] = w
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

        Returns the next model, and why each of the others was omitted, beside those that came
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


@dataclass(eq=False)
class Remembering(Algorithm):
    """An algorithm whose server remembers every client's last update."""

    _: KW_ONLY
    codec: str = "fp32"
    """Stored as fp32, fp16, int8, int4, int8-block, int4-block, nf4, rot4, rot3, rot2 or rot1."""
    population: int | Mapping[str, int] | None = None
    """How many clients there are, or their sizes; None: those seen so far."""
    prune_after: int | None = None
    """Forget a client that was not seen for so many rounds; None: never."""
    rounding_seed: int | None = None
    """Round what is stored up or down at random, by this seed; None: to the nearest."""

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
            staleness_half_life=self._half_life(),
            rounding_seed=None if codec == NOTHING.name else self.rounding_seed,
        )

    def _half_life(self) -> float | None:
        return None

    def _weights(self) -> Weighting:
        """Whether the total weighs clients by their examples or each by one."""
        return "clients"

    def _population(self) -> int | Mapping[str, int] | None:
        return self.population


@dataclass(eq=False)
class RateLearning(Algorithm):
    """An algorithm whose server may learn the rate of its steps."""

    _: KW_ONLY
    server_lr: Rate | None = None  # type: ignore[assignment]
    """Rate of the server's step; learned: from round to round; None: the optimizer's own."""
    server_lr_start: float | None = None
    """The first rate of one that is learned; None: as large as is safe."""


@dataclass(eq=False)
class Fading(Remembering):
    """One that may let what it remembers count less, the older it is, wherever it enters."""

    _: KW_ONLY
    staleness_half_life: float | None = None
    """After so many rounds what is remembered of a client counts half; None: always the same."""

    def _half_life(self) -> float | None:
        return self.staleness_half_life


@dataclass(eq=False)
class Adaptive(RateLearning):
    """An algorithm whose server steps with an optimizer of choice."""

    learns: ClassVar[bool] = False
    """Whether a rate that nobody tells is learned, where the optimizer can."""
    beta2_learned: ClassVar[float | None] = None
    """The decay of the second moment where the rate is learned; None: the optimizer's default."""

    _: KW_ONLY
    optimizer: str = "adam"
    """sgd, momentum, adagrad, adam, adabelief, yogi or lamb."""
    beta1: float | None = None
    """Decay of the first moment; None: the optimizer's default."""
    beta2: float | None = None
    """Decay of the second moment; None: the optimizer's default."""
    eps: float | None = None
    """Added to the denominator; None: the optimizer's default."""
    weight_decay: float = 0.0
    """Added to the pseudo-gradient, times w."""
    trust_ratio: TrustRatio = "tensor"
    """LAMB only: one ratio per tensor, or one for the model."""

    def _build_optimizer(self) -> Optimizer:
        if self.server_lr is None and self.learns and OPTIMIZERS.find(self.optimizer).adapts:
            self.server_lr = "learned"
        beta2 = self.beta2
        if beta2 is None and self.server_lr == "learned":
            beta2 = self.beta2_learned
        return Optimizer(
            self.optimizer,
            self.layout,
            lr=self.server_lr,
            lr_start=self.server_lr_start,
            beta1=self.beta1,
            beta2=beta2,
            eps=self.eps,
            weight_decay=self.weight_decay,
            trust_ratio=self.trust_ratio,
        )
