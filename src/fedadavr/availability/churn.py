"""churn: some clients join later, some leave for good; those that count may also be away.

An algorithm with a memory is told: who has not joined yet, or has left, is not in its population,
and what it remembered of those that left is forgotten.
"""

import numpy as np

from fedadavr.availability.base import Availability, Clients, Counts, Mask, check_share
from fedadavr.availability.registry import availability


@availability("churn")
class Churn(Availability):
    """A population that changes."""

    joining: float = 0.3
    """Share of the clients that are not there from the beginning."""
    leaving: float = 0.3
    """Share of the clients that leave for good."""
    rounds: int = 100
    """The last round in which anybody joins, and in which those that leave may be there."""
    p: float = 1.0
    """Probability that a client that has joined and not left is there in a round."""

    def check(self) -> None:
        """Shares, and time enough to come and go."""
        check_share("joining", self.joining)
        check_share("leaving", self.leaving)
        check_share("p", self.p)
        if not 2 <= self.rounds <= 10**9:
            raise ValueError(f"rounds must lie between 2 and 10^9, got {self.rounds}")

    def stays(self, clients: Clients) -> tuple[Counts, Counts]:
        """The first round of each client, and the first in which it has left."""
        return clients.once((self, "stays"), lambda: self._stays(clients))

    def _stays(self, clients: Clients) -> tuple[Counts, Counts]:
        # Each client has four numbers of its own, whatever the settings and how many others are.
        late, when_in, goes, when_out = clients.draws(0).random((clients.number, 4)).T
        first = np.where(late < self.joining, 2 + np.floor(when_in * (self.rounds - 1)), 1)
        after = first + 1 + np.floor(when_out * (self.rounds - first))
        left = np.where(goes < self.leaving, after, np.iinfo(np.int64).max // 2)
        return first.astype(np.int64), left.astype(np.int64)

    def members(self, round: int, clients: Clients) -> Mask:
        """Those that have joined and not left."""
        first, left = self.stays(clients)
        return (first <= round) & (round < left)

    def there(self, round: int, clients: Clients) -> Mask:
        """Those of them that are there."""
        drawn = clients.draws(round).random(clients.number) < self.p
        return drawn & self.members(round, clients)
