"""Federated learning when few clients show up."""

from fedadavr.algorithms import (
    Algorithm,
    ClientNeeds,
    FedAdaVR,
    Rejected,
    Update,
    algorithm,
    algorithms,
    register,
)
from fedadavr.memory import ClientMemory
from fedadavr.vector import Layout

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "ClientMemory",
    "ClientNeeds",
    "FedAdaVR",
    "Layout",
    "Rejected",
    "Update",
    "algorithm",
    "algorithms",
    "register",
]
