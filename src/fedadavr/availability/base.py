"""What an availability and a dropout are: settings, and functions of a seed and a round alone.

Nothing here has a history. Who is there in round 500 is drawn without the 499 rounds before it, so
a run that is continued draws what it would have drawn, and so does a picture of the run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from fedadavr.sampling import ANSWERS, PRESENCE
from fedadavr.settings import settings_of

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
T = TypeVar("T")


class DataNeeded(ValueError):
    """Something depends on the clients' data, which is not at hand."""


@dataclass(frozen=True, eq=False)
class Clients:
    """What is known of the clients, who are named by their places, and how things are drawn.

    Parameters
    ----------
    number : int
        How many there are.
    seed : int
        Seed of every draw.
    examples : Sequence[int], optional
        How many each trains on; None: the data is not at hand.
    epochs : int
        How often it goes over them in a round.
    count : Callable, optional
        Makes the number of examples of each class (rows) that each client (columns) has.
    """

    number: int
    seed: int
    examples: Sequence[int] | None = None
    epochs: int = 1
    count: Callable[[], Counts] | None = None
    kept: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    """What was computed once."""

    @property
    def sizes(self) -> Sequence[int]:
        """How many examples each trains on."""
        if self.examples is None:
            raise DataNeeded("how long clients take depends on their data, which is not at hand")
        return self.examples

    @cached_property
    def counts(self) -> Counts:
        """The number of examples of each class (rows) that each client (columns) has."""
        if self.count is None:
            raise DataNeeded("who is there depends on the clients' data, which is not at hand")
        return self.count()

    def draws(self, round: int, purpose: int = PRESENCE) -> np.random.Generator:
        """The generator of a round; round 0 is for what is drawn once for all rounds."""
        return np.random.default_rng([self.seed, round, purpose])

    def once(self, whose: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns, which is called only the first time."""
        if whose not in self.kept:
            self.kept[whose] = make()
        found: T = self.kept[whose]
        return found


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Settings that are typed and checked when it is made, by keywords or from a text."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        for name, setting in settings_of(type(self)).items():
            object.__setattr__(self, name, setting.read(getattr(self, name), self.name))
        self.check()

    def check(self) -> None:
        """Raise a `ValueError` that says which setting is wrong."""

    def check_clients(self, clients: Clients) -> None:
        """Raise a `ValueError` if it does not fit these clients; their data may not be at hand."""


@dataclass(frozen=True, kw_only=True)
class Availability(Drawn, ABC):
    """Who is there, round by round. A new one is a subclass with settings and `there`."""

    @abstractmethod
    def there(self, round: int, clients: Clients) -> Mask:
        """Which clients are there in a round, from 1 on."""

    def members(self, round: int, clients: Clients) -> Mask | None:
        """Which have joined and not left for good; None: everybody, always."""
        return None

    def available(self, round: int, clients: Clients) -> list[int]:
        """The places of the clients that are there in a round, in order."""
        found: list[int] = np.flatnonzero(self.there(round, clients)).tolist()
        return found


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast clients are: a round takes examples x epochs / speed.

    A client's speed is drawn once, by seed: log-normal, median * exp(spread * z), or with a Pareto
    tail of the time that an example takes, whose exponent is 1 / spread: median * (2 u)^spread.
    With `jitter` the time of each round is multiplied by exp(jitter * z), too.
    """

    median: float = 10.0
    """Speed of a client in the middle, in examples per second."""
    tail: Literal["lognormal", "pareto"] = "lognormal"
    """How speeds are spread."""
    spread: float = 1.0
    """How far they are: the deviation of their logarithm, or one over Pareto's exponent."""
    jitter: float = 0.0
    """The same from round to round; 0: a client always takes as long."""

    def speeds(self, clients: Clients) -> Floats:
        """Examples per second, of each client."""
        return clients.once((self, "speeds"), lambda: self._speeds(clients))

    def _speeds(self, clients: Clients) -> Floats:
        rng = clients.draws(0, ANSWERS)
        if self.tail == "lognormal":
            return self.median * np.exp(self.spread * rng.standard_normal(clients.number))
        return self.median * (2 * (1 - rng.random(clients.number))) ** self.spread

    def durations(self, round: int, clients: Clients) -> Floats:
        """How long each client would take in a round."""
        lasts: Floats = np.asarray(clients.sizes) * clients.epochs / self.speeds(clients)
        if self.jitter:
            z = clients.draws(round, ANSWERS).standard_normal(clients.number)
            lasts = lasts * np.exp(self.jitter * z)
        return lasts


@dataclass(frozen=True, kw_only=True)
class Dropout(Drawn, ABC):
    """Whose replies come. A new one is a subclass with settings and `answers`."""

    @abstractmethod
    def answers(self, round: int, clients: Clients) -> Mask:
        """Which clients would answer if they were asked in a round, from 1 on."""

    def durations(self, round: int, clients: Clients) -> Floats:
        """How long each client would take in a round, in simulated seconds."""
        return Speed().durations(round, clients)

    def waits(self, round: int, clients: Clients) -> Floats:
        """How long the server waits for each of them."""
        return self.durations(round, clients)


def check_share(name: str, value: float, low: float = 0.0, high: float = 1.0) -> None:
    """Refuse what is no share or probability."""
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {value:g}")


def check_positive(name: str, value: float) -> None:
    """Refuse what is not above zero, or not finite."""
    if not 0 < value < np.inf:
        raise ValueError(f"{name} must be a finite number above 0, got {value:g}")
