"""Who is there in a round, and whose replies come: one short file each, drawn by seed and round."""

from fedadavr.availability.base import Availability, Clients, DataNeeded, Dropout, Mask
from fedadavr.availability.registry import (
    AVAILABILITIES,
    DROPOUTS,
    availability,
    dropout,
    find_availability,
    find_dropout,
)
from fedadavr.availability.specs import spec_of

__all__ = [
    "AVAILABILITIES", "DROPOUTS", "Availability", "Clients", "DataNeeded", "Dropout", "Mask",
    "availability", "dropout", "find_availability", "find_dropout", "spec_of",
]  # fmt: skip
