"""FedAdaVR+: remembers kinds of clients, too, and learns how far to trust each memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar, Literal

import numpy as np

from fedadavr.algorithms.base import Adaptive, Fading
from fedadavr.algorithms.cohort import Cohort, Direction, Floats
from fedadavr.algorithms.registry import register
from fedadavr.algorithms.trust import Trust
from fedadavr.memory import ClientMemory
from fedadavr.memory.own import Weighting
from fedadavr.memory.vectors import MEMORIES
from fedadavr.optimizers import Rate
from fedadavr.sampling import TRAIN
from fedadavr.stores.store import Record

OWN = "own"
FROM_KINDS = 0.8  # of a cohort that is drawn by kinds


@register("fedadavr-plus")
class FedAdaVRPlus(Adaptive, Fading):
    """r = sum_S p_i (g_i - sum_m alpha_m y_i^m) + sum_m alpha_m Y^m, with p_i = n_i/a.

    y^own is what is remembered of the client itself, y^centers the center of its kind; Y^m is the
    mean of y^m over the population. alpha is learned so that r varies least.
    """

    learns: ClassVar[bool] = True
    beta2_learned: ClassVar[float | None] = 0.99

    server_lr: Rate | None = None  # type: ignore[assignment]
    """Rate of the server's step; learned: from round to round, which None is, too, if it can be."""
    averaging: bool | None = None
    """Serve a mean of the models so far, late ones most; None: where the rate is learned."""
    beta2: float | None = None
    """Decay of the second moment; None: 0.99 where the rate is learned, else the optimizer's."""
    memories: Sequence[str] | str = "own+centers"
    """own, centers, or both; in place of centers, any other memory by its name."""
    centers: int = 10
    """How many kinds of clients there are at most."""
    center_similarity: float = 0.5
    """A reply whose cosine with every center is less opens a new one."""
    center_rate: float = 0.5
    """How far one reply moves its center."""
    trust: float | Literal["learned"] = "learned"
    """How far the memories are trusted: learned, or a number from 0 to 1."""
    trust_decay: float = 0.9
    """Decay of the average that trust is learned from."""
    sampler: Literal["uniform", "kinds"] = "uniform"
    """Cohorts drawn uniformly, or with clients of the kinds whose centers are oldest in them."""

    learner: Trust = field(init=False, repr=False)
    vectors: Any = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        self.memories = self._named()
        if not 0 <= self.trust_decay < 1:
            raise ValueError(f"trust_decay must lie in [0, 1), got {self.trust_decay!r}")
        if isinstance(self.trust, str):
            try:  # a number, as it is typed
                self.trust = self.trust if self.trust == "learned" else float(self.trust)
            except ValueError:
                raise ValueError(
                    f"trust must be 'learned' or a number from 0 to 1, got {self.trust!r}"
                ) from None
        if self.trust != "learned" and not 0 <= self.trust <= 1:
            raise ValueError(f"trust must be 'learned' or from 0 to 1, got {self.trust!r}")
        if self.sampler not in ("uniform", "kinds"):
            raise ValueError(f"sampler must be 'uniform' or 'kinds', got {self.sampler!r}")
        if self.sampler == "kinds" and "centers" not in self.memories:
            raise ValueError("sampler 'kinds' needs the memory of centers")
        settings = {name: getattr(self, name)
                    for name in ("centers", "center_similarity", "center_rate")}  # fmt: skip
        MEMORIES.find("centers")(self.layout, settings)  # wrong settings are said at any rate
        super().__post_init__()
        fixed = None if isinstance(self.trust, str) else float(self.trust)
        self.learner = Trust(len(self.memories), fixed, self.trust_decay)
        self._told: dict[str, Any] = {}  # trust and shares after the last round
        self._known: dict[str, int] = {}
        for name in self.memories:
            if name != OWN:
                self.vectors = MEMORIES.find(name)(self.layout, settings)

    def _named(self) -> tuple[str, ...]:
        """The memories in order, the clients' own updates first."""
        words = self.memories
        given = tuple(re.split("[,+]", words) if isinstance(words, str) else words)
        known = [OWN, *MEMORIES.names()]
        if not given or set(given) - set(known) or len(set(given)) < len(given):
            raise ValueError(f"memories must be {', '.join(known)} or own+NAME, got {given!r}")
        if len(set(given) - {OWN}) > 1:
            raise ValueError(f"memories can be own and one other, got {given!r}")
        return tuple(sorted(given, key=lambda name: name != OWN))

    def _weights(self) -> Weighting:
        return "examples"

    def _build_memory(self) -> ClientMemory:
        memory = super()._build_memory()  # which checks the codec
        # Without own memory, only the kind and the weight of a client are kept.
        return memory if OWN in self.memories else self._memory("none")

    def _alpha(self, memory: str) -> float:
        names = list(self.memories)
        return float(self.learner.alpha[names.index(memory)]) if memory in names else 0.0

    def weights_of(self, cohort: Cohort) -> Any:
        """Each reply's weight: its share of the cohort; by kinds, its share within its kind.

        A sampler that prefers kinds would pull the model to them. So each kind that is there counts
        by its share of the population, however many of its clients came.
        """
        if self.sampler == "uniform" or cohort.assignment is None:
            return cohort.shares
        of = cohort.assignment.of
        within = cohort.assignment.shares(cohort.examples)[of]
        share = self._population_shares(len(cohort.assignment.keep))
        there = share[np.unique(of)].sum()
        return cohort.examples / within * share[of] / there

    def _population_shares(self, count: int) -> Any:
        """N_k / sum N_k, by examples, among the clients whose kind is known."""
        weights = np.array([self.memory.label_weight.get(k + 1, 0) for k in range(count)], float)
        return weights / weights.sum() if weights.any() else weights

    def direction(self, cohort: Cohort) -> Direction:
        """The cohort's news against all memories, and their means over the population."""
        gain = self.weights_of(cohort)
        own = self._alpha(OWN)
        pull = None
        if cohort.assignment is not None:
            share = self._population_shares(len(cohort.assignment.keep))
            pull = self._alpha(self.memories[-1]) * (share - cohort.assignment.shares(gain))
            pull[cohort.assignment.known :] = (
                0.0  # a vector that is opened now predicts nothing yet
            )
        base = own / cohort.weight if own else 0.0
        return Direction(gain=gain, recall=own * gain, base=base, pull=pull)

    def sample(self, seed: int, round: int, everyone: Sequence[str], size: int) -> list[str]:
        """By kinds: most of the cohort from those whose centers are oldest, the rest anybody."""
        if self.sampler == "uniform" or not self.vectors:
            return super().sample(seed, round, everyone, size)
        rng = np.random.default_rng([seed, round, TRAIN])
        members: dict[int, list[str]] = {}
        kind_of = self._kind_of()
        for client in everyone:
            members.setdefault(kind_of.get(client, 0), []).append(client)
        fed = self.vectors.fed
        oldest = sorted(range(len(fed)), key=lambda k: (fed[k], k))
        chosen: list[str] = []
        wanted = size - max(1, int(size * (1 - FROM_KINDS) + 0.5))
        lots = [list(rng.permutation(members[k + 1])) for k in oldest if members.get(k + 1)]
        while len(chosen) < wanted and any(lots):  # one of each kind, and round again
            for lot in lots:
                if lot and len(chosen) < wanted:
                    chosen.append(str(lot.pop()))
        taken = set(chosen)
        rest = [client for client in everyone if client not in taken]
        return chosen + [str(c) for c in rng.choice(rest, size - len(chosen), replace=False)]

    def _kind_of(self) -> dict[str, int]:
        """Each client's kind; read from the memory once, and again if others have changed it."""
        for client in self.memory.gone:
            self._known.pop(client, None)
        if len(self._known) != len(self.memory):
            self._known = {
                client: record.label
                for client, record in self.memory.all(data=False)
                if isinstance(record, Record)
            }
        return self._known

    def product_weights(self, go: Direction) -> Floats | None:
        """Each reply's own weight, unless there is nothing to learn."""
        return go.gain if self.learner.fixed is None else None

    def learn(self, cohort: Cohort, products: Any) -> None:
        """The round's products of (g, own, centers): learn from them, for the next round."""
        chosen = [0, *(1 if name == OWN else 2 for name in self.memories)]
        if self.sampler == "kinds" and cohort.assignment is not None:
            for client in self.memory.gone:  # pruned in this round
                self._known.pop(client, None)
            self._known |= dict(
                zip(cohort.clients, (cohort.assignment.of + 1).tolist(), strict=True)
            )
        if len(cohort) > 1:
            self.learner.learn(products[np.ix_(chosen, chosen)])
        alpha = map(float, self.learner.alpha)
        self._told = {"trust": dict(zip(self.memories, alpha, strict=True))}
        if self.vectors is not None:
            self._told["shares"] = [float(x) for x in self._population_shares(len(self.vectors))]

    def report(self) -> dict[str, Any]:
        """What a round tells beside its model: the trust in each memory, the kinds' shares."""
        return super().report() | self._told

    # --- state ---

    def state_dict(self, *, copy: bool = True) -> dict[str, Any]:
        """The base's, and what was learned."""
        told = {"memories": list(self.memories)}
        return super().state_dict(copy=copy) | {"trust": self.learner.state_dict() | told}

    def load_state_dict(self, state: Any) -> None:
        """Take over a state made by `state_dict`; one that does not fit changes nothing."""
        trust = state.get("trust")
        if trust is None:
            raise ValueError("the state lacks trust; nothing was changed")
        if trust["memories"] != list(self.memories):
            raise ValueError(
                f"the state has the memories {trust['memories']}, this server "
                f"{list(self.memories)}; nothing was changed"
            )
        self.learner.check_state(trust)
        super().load_state_dict(state)
        self._known = {}
        self.learner.load_state_dict(trust)
        self._told = {}
