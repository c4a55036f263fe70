"""random: a reply never comes with a probability, the same for all. `--dropout 0.2` means this."""

from fedadavr.availability.base import Clients, Dropout, Mask, check_share
from fedadavr.availability.registry import dropout
from fedadavr.sampling import ANSWERS


@dropout("random")
class RandomDropout(Dropout):
    """Replies are lost at random."""

    p: float = 0.1
    """Probability that a reply never comes."""

    def check(self) -> None:
        """A probability."""
        check_share("p", self.p)

    def answers(self, round: int, clients: Clients) -> Mask:
        """A draw for each."""
        return clients.draws(round, ANSWERS).random(clients.number) >= self.p
