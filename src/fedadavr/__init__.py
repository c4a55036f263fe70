"""Federated learning when few clients show up."""

from typing import TYPE_CHECKING

from fedadavr.lazy import lazily

if TYPE_CHECKING:
    from fedadavr.algorithms import (
        Algorithm,
        ClientNeeds,
        FedAdaVR,
        Rejected,
        Update,
        algorithm,
        algorithm_names,
        register,
    )
    from fedadavr.memory import ClientMemory
    from fedadavr.vector import Layout

__version__ = "0.2.0"

__all__ = [
    "Algorithm",
    "ClientMemory",
    "ClientNeeds",
    "FedAdaVR",
    "Layout",
    "Rejected",
    "Update",
    "algorithm",
    "algorithm_names",
    "register",
]

__getattr__ = lazily(__name__, {
    "fedadavr.algorithms": ["Algorithm", "ClientNeeds", "FedAdaVR", "Rejected", "Update",
                            "algorithm", "algorithm_names", "register"],
    "fedadavr.memory": ["ClientMemory"],
    "fedadavr.vector": ["Layout"],
})  # fmt: skip


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
