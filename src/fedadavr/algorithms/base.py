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
from fedadavr.memory import ClientMemory, Store
from fedadavr.memory.codecs import codec as find_codec
from fedadavr.memory.kinds import NO_CENTERS, NO_SKETCH, Assignment, Kinds
from fedadavr.memory.memory import Page, Weights
from fedadavr.memory.population import check_examples
from fedadavr.optimizers import Optimizer, TrustRatio, positive
from fedadavr.sampling import TRAIN, sample
from fedadavr.vector import Layout, Vector

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Update:
    """What a client sends back: the weights it ends with, its number of examples and of steps.

    The weights are one flat vector, or a list of the tensors, each flat, which are read in place.
    """

    client: str
    weights: Vector | Sequence[Vector]
    examples: int
    steps: int | None = None
    owner: int = 0  # the node it came from, if its ids can be relied on; 0: not known


class Rejected(ValueError):
    """Updates that the server does not take. Nothing was changed; `reasons` says why, by client.

    Leave these clients out and the rest of the round can be stepped as it is.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        listed = "; ".join(f"client {client!r}: {why}" for client, why in reasons.items())
        super().__init__(f"{listed}; nothing was changed")


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
    max_norm: float | None = None
    """Reject an update whose |w - w_i| is larger; None: no bound."""
    store: Store | None = None
    """Where the client memory lives and `commit` writes; None: in RAM, and nothing is kept."""

    memory: ClientMemory | None = field(init=False, repr=False, default=None)
    stepper: Optimizer = field(init=False, repr=False)
    kinds: Kinds | None = field(init=False, repr=False, default=None)
    learner: Any = field(init=False, repr=False, default=None)
    staleness: float = field(init=False, repr=False, default=0.0)
    """For how many rounds the last cohort had not been seen, in the mean over those known."""

    def __post_init__(self) -> None:
        if not isinstance(self.layout, Layout):
            raise TypeError(f"layout must be a Layout, got {type(self.layout).__name__}")
        self._check_rates()
        self.memory = self._build_memory()
        self.stepper = self._build_stepper()

    def _check_rates(self) -> None:
        self.client_lr = positive("client_lr", self.client_lr)
        if not np.isfinite(np.float32(1 / self.client_lr)):
            raise ValueError(f"client_lr {self.client_lr!r} is too small to divide by in float32")
        if self.max_norm is not None:
            positive("max_norm", self.max_norm)

    # --- what an algorithm says of itself ---

    def _build_stepper(self) -> Optimizer:
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
        return {}

    @abstractmethod
    def direction(self, cohort: Cohort) -> Direction:
        """Where the server steps; called after the cohort is counted in the population."""

    # --- one round ---

    @property
    def round(self) -> int:
        """The number of rounds applied so far."""
        return self.stepper.steps

    def step(self, w: Vector, updates: Iterable[Update], *, out: Vector | None = None) -> Vector:
        """The next model, from this one and the clients' updates; moves the state.

        Parameters
        ----------
        w : the model that the clients started from
        updates : their replies, in any order: the result does not depend on it
        out : where to put the next model (may be `w` itself); a new array if not given

        Raises `Rejected` if an update is not acceptable; then nothing was changed.
        """
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
            self.staleness = 0.0
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
        replies = self._addresses(weights)
        common = (
            layout.offsets, w, replies, np.float32(1 / self.client_lr), cohort.first,
            stored.share, stored.keep, stored.lean, codec, page.old, page.old_scale, offsets, total,
        )  # fmt: skip

        squares = np.empty((len(cohort), len(blocks)))
        peaks = np.empty((len(cohort.keys), len(blocks)), np.int32)
        sketching = NO_SKETCH if self.kinds is None else self.kinds.sketching(len(cohort))
        kernels.run(kernels.measure, blocks, *common, squares, peaks, *sketching)
        self._check_updates(w, cohort, squares)
        if self.kinds is not None:
            inverse = np.float32(1 / self.client_lr)
            cohort = replace(cohort, kinds=self.kinds.assign(w, weights, inverse, sketching[2]))

        after = page.before
        if memory is not None:
            tops = np.maximum.reduceat(peaks, blocks.first, axis=1).view(np.float32)
            memory.codec.warn_if_saturated(tops, f"round {self.round + 1}")
            page.new_scale[...] = memory.codec.scales(tops)
            kinds = None if cohort.kinds is None else (cohort.kinds.of + 1).tolist()
            after = memory.admit(page, self.sizes(cohort), kinds)
        try:
            go = self.direction(self._counted(cohort))
        except BaseException:
            if memory is not None:
                memory.dismiss(page)
            raise
        # Sizes reported now count at once: r has base * (total + (after - before) * old).
        recall = go.recall - go.base * (after - page.before)
        step = self.stepper.next()
        norms = np.zeros((2, len(blocks)))
        centers = self._centers(cohort, go)
        kernels.run(
            kernels.advance, blocks, *common, go.gain, recall, go.base, page.before, after,
            page.new, page.new_scale, step.kind, step.hyper, step.rate, self.client_lr,
            self.stepper.m, self.stepper.v, out, norms, step.hold, *centers,
        )  # fmt: skip
        if memory is not None:
            ages = [memory.round + 1 - record.round for record in page.records if record]
            self.staleness = float(np.mean(ages)) if ages else 0.0
            memory.close(page, after, self._owners(cohort))
        self.stepper.done(step, w, out, norms)
        if cohort.kinds is not None and self.kinds is not None:
            self.kinds.done(cohort.kinds, self.round)
        if self.learner is not None:
            gg, gy, gc, yy, yc, cc = centers[-1].sum(axis=1)
            self.learn(cohort, np.array([[gg, gy, gc], [gy, yy, yc], [gc, yc, cc]]))
        return out

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
        starts = self.layout.offsets[:-1]
        return np.array(
            [
                kernels.address(x) + 4 * starts
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
        return replace(cohort, count=self.memory.count, weight=self.memory.weight)

    def _check_model(self, name: str, w: Vector) -> None:
        why = _bad_vector(w, self.layout.size)
        if why:
            raise ValueError(f"{name}: {why}; nothing was changed")

    def _gather(self, updates: list[Update]) -> tuple[Cohort, list[Vector | Sequence[Vector]]]:
        """Sort and check what can be checked without reading the weights."""
        reasons: dict[str, str] = {}
        seen: set[str] = set()
        keyed = []
        for update in updates:
            if not isinstance(update, Update):
                raise TypeError(
                    f"updates must be Update objects, got {type(update).__name__}; "
                    "nothing was changed"
                )
            client = update.client
            why = self._refusal(update, client in seen)
            if why:
                reasons[str(client)] = why
            else:
                seen.add(client)
                keyed.append((self.record_of(client), client, update))
        if reasons:
            raise Rejected(reasons)
        keyed.sort(key=lambda item: item[:2])
        keys = [item[0] for item in keyed]
        first = [k for k, key in enumerate(keys) if k == 0 or key != keys[k - 1]]
        cohort = Cohort(
            clients=[item[1] for item in keyed],
            examples=np.array([item[2].examples for item in keyed], np.float64),
            steps=np.array([item[2].steps or 0 for item in keyed], np.float64),
            owners=[item[2].owner for item in keyed],
            keys=[keys[k] for k in first],
            first=np.array([*first, len(keys)], np.int64),
        )
        return cohort, [
            np.ascontiguousarray(x) if isinstance(x, np.ndarray)
            else [np.ascontiguousarray(t) for t in x]
            for x in (item[2].weights for item in keyed)
        ]  # fmt: skip

    def _refusal(self, update: Update, twice: bool) -> str | None:
        if not isinstance(update.client, str):
            return f"a client's id must be a string, got {type(update.client).__name__}"
        if twice:
            return "came twice in one round"
        why = None if self.store is None else self.store.refuses(update.client)
        if why:
            return why
        try:
            self.record_of(update.client)
            check_examples(update.examples, "update")
            if not 0 <= update.owner < 2**64:
                return f"a node's id must fit 64 bits, got {update.owner}"
            if update.steps is not None or self.needs.steps:
                _check_steps(update.steps, self.name)
        except (TypeError, ValueError) as error:
            return str(error).removeprefix("update: ")
        if isinstance(update.weights, (list, tuple)) and all(
            isinstance(tensor, np.ndarray) for tensor in update.weights
        ):
            return _bad_tensors(update.weights, self.layout)
        return _bad_vector(update.weights, self.layout.size)

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

    def _check_updates(self, w: Vector, cohort: Cohort, squares: Floats) -> None:
        """The part of the check that needs the first pass: finite, and not too long."""
        norms = np.sqrt(squares.sum(axis=1)) * self.client_lr
        bound = np.inf if self.max_norm is None else self.max_norm
        if (norms <= bound).all() and np.isfinite(norms).all():
            return
        if not np.isfinite(w).all():
            raise ValueError("w: the model holds NaN or infinity; nothing was changed")
        raise Rejected({
            client: f"|w - w_i| is {norm:.3g}, above max_norm {bound:g}"
            if np.isfinite(norm) else "the weights hold NaN or infinity"
            for client, norm in zip(cohort.clients, norms, strict=True)
            if not norm <= bound or not np.isfinite(norm)
        })  # fmt: skip

    # --- state ---

    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """All of the state but the records of the client memory, which its store holds.

        Plain numbers, strings, lists, dictionaries and arrays; the arrays are copies unless told.
        """
        return {
            "algorithm": self.name,
            "layout": self.layout.digest,
            "optimizer": self.stepper.state_dict(copy=copy),
            "memory": None if self.memory is None else self.memory.state_dict(copy=copy),
            "kinds": None if self.kinds is None else self.kinds.state_dict(copy=copy),
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
        self.stepper.check_state(state["optimizer"])
        if self.kinds is not None:
            self.kinds.check_state(state["kinds"])
        if self.memory is not None:
            self.memory.check_state(state["memory"])
            self.memory.load_state_dict(state["memory"])
        self.stepper.load_state_dict(state["optimizer"])
        if self.kinds is not None:
            self.kinds.load_state_dict(state["kinds"])

    def commit(self, w: Vector, **extra: Any) -> None:
        """Write the model, the state, the memory and whatever else to the store, all or nothing.

        Without a durable store it does nothing. If it fails, the last commit is as it was, nothing
        is lost here, and it can be tried again, also after more rounds.
        """
        if self.store is None or not self.store.durable:
            return
        state = {
            "layout": {name: list(shape) for name, shape in self.layout.shapes.items()},
            "w": w,
            "server": self.state_dict(copy=False),
            "extra": extra,
        }
        if self.memory is not None:
            self.memory.commit(state)
        else:
            self.store.commit({}, state)

    def restore(self) -> tuple[Vector, dict[str, Any]] | None:
        """Take over the store's last commit: its model and its extra; None if there is none."""
        state = None if self.store is None else self.store.state()
        if state is None:
            return None
        self.load_state_dict(state["server"])
        return state["w"], state["extra"]


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

    def _weights(self) -> Weights:
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

    def _build_stepper(self) -> Optimizer:
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


def _bad_vector(x: Any, size: int) -> str | None:
    """Why this is not a model of that size; None if it is."""
    if not isinstance(x, np.ndarray):
        return f"the weights must be a NumPy array, got {type(x).__name__}"
    if x.dtype != np.float32:
        return f"the weights must be float32, got {x.dtype}"
    if x.shape != (size,):
        return f"the weights must be a flat vector of {size} numbers, got shape {x.shape}"
    return None


def _bad_tensors(tensors: Sequence[Any], layout: Layout) -> str | None:
    """Why these are not a model's tensors; None if they are."""
    if len(tensors) != len(layout.shapes):
        return f"the weights must be {len(layout.shapes)} tensors, got {len(tensors)}"
    for name, tensor, size in zip(layout.shapes, tensors, np.diff(layout.offsets), strict=True):
        why = _bad_vector(tensor, int(size))
        if why:
            return f"tensor {name!r}: {why}"
    return None


def _check_steps(steps: Any, name: str) -> None:
    if steps is None:
        raise ValueError(f"{name} needs the number of local steps, and there is none")
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1:
        raise ValueError(f"the number of local steps must be a whole number above 0, got {steps!r}")
