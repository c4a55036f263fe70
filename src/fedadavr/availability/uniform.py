"""uniform: everybody is always there, and cohorts are drawn from all with equal chances."""

import numpy as np

from fedadavr.availability.base import Availability, Clients, Mask
from fedadavr.availability.registry import availability


@availability("uniform")
class Uniform(Availability):
    """Everybody is always there."""

    def there(self, round: int, clients: Clients) -> Mask:
        """All of them."""
        return np.ones(clients.number, bool)
