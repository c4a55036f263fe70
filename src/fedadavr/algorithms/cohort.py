"""What an algorithm sees of a round, and what it says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedadavr.memory.vectors import Assignment
from fedadavr.stores.store import Record

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ClientNeeds:
    """What an algorithm asks of the client's local training, so that any engine can serve it."""

    proximal_mu: float = 0.0
    """Add proximal_mu * (w - w_start) to each gradient."""

    gradient_scale: float = 1.0
    """Multiply each gradient by it, before anything is added."""

    correction: bool = False
    """Add the vector `algorithm.correction(client)` to each gradient, before momentum."""

    steps: bool = False
    """Report the number of local steps in `Update.steps`."""

    momentum: float | None = None
    """Local SGD has exactly this momentum, since the server reckons with it; None: any."""

    everyone_first: bool = False
    """The first round takes every client."""

    echo: float = 0.0
    """Start from x, the model after the client's last round, and send x - echo * a * (x - w_i), a
    the rounds since then; 0: start from the newest model, and send w_i."""


@dataclass(frozen=True)
class Cohort:
    """The clients of one round, in the order of the records they write, then of their ids."""

    clients: Sequence[str]
    examples: Floats
    steps: Floats  # local steps, 0 where not reported
    keys: Sequence[str]  # the records they write, in order, each once
    first: npt.NDArray[np.int64]  # each record's first client; at the end, the number of clients
    owners: Sequence[int] = ()  # the nodes they came from, 0 where not known
    differences: npt.NDArray[np.bool_] | bool = False  # whose replies are w - w_i, not w_i
    ages: Floats = field(default_factory=lambda: np.zeros(0))  # steps since their models were sent
    assignment: Assignment | None = None  # which vector predicts each, where there is such a memory
    lengths: Floats = field(default_factory=lambda: np.zeros(0))  # |w - w_i| after clipping
    records: Sequence[Record | None] = ()  # what is remembered under each key, None: nothing yet
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

    @property
    def last(self) -> Floats:
        """1 for each reply, but 0 for one that the same client has followed by another."""
        followed = [a == b for a, b in zip(self.clients, self.clients[1:], strict=False)]
        return 1.0 - np.array([*followed, False][: len(self)], np.float64)

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

    total is the memory's weighted sum, old_k the records of the cohort, and c_z the vectors of
    another memory, where an algorithm has one. `recall` has a number for each record, or for each
    reply: then those of a record's replies are added up.
    """

    gain: Floats
    recall: Floats | float = 0.0
    base: float = 0.0
    pull: Floats | None = None


def check_momentum(momentum: float) -> None:
    """Raise unless it is a momentum that SGD converges with."""
    if not 0 <= momentum < 1:
        raise ValueError(f"client_momentum must lie in [0, 1), got {momentum!r}")
