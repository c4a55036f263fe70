"""Our algorithms as Flower strategies, and the client's part of those that ask for one."""

import warnings
from typing import Any

from fedadavr.flower.asking import answer_identity
from fedadavr.flower.client_hook import ClientHook
from fedadavr.flower.strategies import (
    GHBM,
    MIFA,
    ClusterFedVARP,
    FedAdagrad,
    FedAdam,
    FedAdaVR,
    FedAdaVRNoOpt,
    FedAdaVRNoVR,
    FedAdaVRPlus,
    FedAdaVRQuant,
    FedAU,
    FedAvg,
    FedAvgM,
    FedCM,
    FedDyn,
    FedExP,
    FedNova,
    FedProx,
    FedStale,
    FedVARP,
    FedYogi,
    Scaffold,
)
from fedadavr.flower.strategy import Strategy

__all__ = [
    "GHBM",
    "MIFA",
    "ClientHook",
    "ClusterFedVARP",
    "FedAU",
    "FedAdaVR",
    "FedAdaVRNoOpt",
    "FedAdaVRNoVR",
    "FedAdaVRPlus",
    "FedAdaVRQuant",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedCM",
    "FedDyn",
    "FedExP",
    "FedNova",
    "FedProx",
    "FedStale",
    "FedVARP",
    "FedYogi",
    "Scaffold",
    "Strategy",
    "answer_identity",
]  # fmt: skip

_RENAMED = {"Guide": "ClientHook"}  # aliases for one release


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = _RENAMED[name]
    warnings.warn(
        f"fedadavr.flower.{name} is called {new} now; the old name goes with the next release",
        DeprecationWarning,
        stacklevel=2,
    )
    return globals()[new]
