"""day-night: p_i(t) = p (1 + swing sin(2 pi (t / period + z_i / zones))), z_i the time zone."""

from typing import Literal

import numpy as np

from fedadavr.availability.base import Availability, Clients, Floats, Mask, check_share
from fedadavr.availability.registry import availability


@availability("day-night")
class DayNight(Availability):
    """Devices that are idle at night, each in its time zone."""

    p: float = 0.2
    """Probability that a client is there, in the mean over a day."""
    swing: float = 1.0
    """How far it swings, as a share of p; p (1 + swing) is at most 1."""
    period: float = 24.0
    """Rounds in a day."""
    zones: int = 24
    """Time zones; with 1 it is night for all at once."""
    zone: Literal["random", "label"] = "random"
    """A client's zone: drawn by seed, or by the label that most of its examples have."""

    def check(self) -> None:
        """A probability all day long."""
        check_share("p", self.p)
        check_share("swing", self.swing)
        if self.p * (1 + self.swing) > 1:
            raise ValueError(
                f"p (1 + swing) must be at most 1, got {self.p:g} (1 + {self.swing:g})"
            )
        if not 1 < self.period < np.inf:
            raise ValueError(f"period must be a finite number above 1, got {self.period:g}")
        if not 1 <= self.zones <= 10**6:
            raise ValueError(f"zones must lie between 1 and 10^6, got {self.zones}")

    def offsets(self, clients: Clients) -> Floats:
        """Where in the day each client is, as a share of it."""
        return clients.once((self, "zone"), lambda: self._offsets(clients))

    def _offsets(self, clients: Clients) -> Floats:
        if self.zone == "random":
            found = clients.draws(0).integers(self.zones, size=clients.number)
        else:
            found = clients.counts.argmax(axis=0) * self.zones // len(clients.counts)
        return np.asarray(found / self.zones, np.float64)

    def there(self, round: int, clients: Clients) -> Mask:
        """A draw for each, at its time of day."""
        angle = 2 * np.pi * (round / self.period + self.offsets(clients))
        chance = self.p * (1 + self.swing * np.sin(angle))
        return clients.draws(round).random(clients.number) < chance
