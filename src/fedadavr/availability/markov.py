"""markov: each client is a chain of two states, there and away, with memory of one round.

The state in round t is a function of the draws u_1 ... u_t, one per client and round: who is there
goes if u >= 1 - off, who is away comes if u < on. Where u < min(on, 1 - off) both come to be there,
and where u >= max(on, 1 - off) both come to be away: the past does not matter any more. So the
state is found by looking back to the last such round, some 1 / (on + off) rounds in the mean, and
not by replaying the run; nothing of it is kept in a commit. The first state is drawn from the
stationary distribution, so that the share of those there, on / (on + off), holds from round 1 on.
"""

import numpy as np

from fedadavr.availability.base import Availability, Clients, Mask, check_share
from fedadavr.availability.registry import availability


@availability("markov")
class Markov(Availability):
    """Comes and goes, and stays for a while."""

    on: float = 0.05
    """Probability that a client that is away comes, in a round."""
    off: float = 0.2
    """Probability that a client that is there goes, in a round."""

    def check(self) -> None:
        """Probabilities, of which one at least is above 0."""
        check_share("on", self.on)
        check_share("off", self.off)
        if self.on == self.off == 0:
            raise ValueError("on and off are both 0, so nobody would ever come or go")

    def there(self, round: int, clients: Clients) -> Mask:
        """One step from the round before, if that was the last asked for; else looking back."""
        last, state = clients.kept.get(self, (None, None))
        if last is not None and last == round - 1:
            u = clients.draws(round).random(clients.number)
            state = u < np.where(state, 1 - self.off, self.on)
        elif last != round:
            state = self.looking_back(round, clients)
        clients.kept[self] = round, state
        found: Mask = state.copy()
        return found

    def looking_back(self, round: int, clients: Clients) -> Mask:
        """The state from as many draws as it takes."""
        low, high = sorted((self.on, 1 - self.off))
        swaps = self.on > 1 - self.off  # what a draw between the two does, else nothing
        state, swapped = np.zeros(clients.number, bool), np.zeros(clients.number, bool)
        unknown = np.ones(clients.number, bool)
        for t in range(round, -1, -1):
            u = clients.draws(t).random(clients.number)
            if t == 0:
                low = high = self.on / (self.on + self.off)
            found = unknown & ((u < low) | (u >= high))
            state[found] = (u < low)[found] ^ swapped[found]
            unknown &= ~found
            if swaps:
                swapped ^= unknown
            if not unknown.any():
                break
        return state
