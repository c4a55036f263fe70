"""The server side of each algorithm."""

from typing import Any

from fedadavr.algorithms.base import Adaptive, Algorithm, Fading, Remembering
from fedadavr.algorithms.cohort import ClientNeeds, Cohort, Direction, Stored
from fedadavr.algorithms.replies import Rejected, Update

# The order of these imports is the order in which `algorithm_names()` lists them; a file that is
# not among them is found by its @register.
from fedadavr.algorithms.fedavg import FedAvg, FedProx
from fedadavr.algorithms.scaffold import Scaffold
from fedadavr.algorithms.fedcm import FedCM
from fedadavr.algorithms.ghbm import GHBM
from fedadavr.algorithms.feddyn import FedDyn
from fedadavr.algorithms.fednova import FedNova
from fedadavr.algorithms.fedopt import FedAdagrad, FedAdam, FedYogi
from fedadavr.algorithms.fedavgm import FedAvgM
from fedadavr.algorithms.fedexp import FedExP
from fedadavr.algorithms.fedau import FedAU
from fedadavr.algorithms.mifa import MIFA
from fedadavr.algorithms.fedvarp import ClusterFedVARP, FedVARP
from fedadavr.algorithms.fedstale import FedStale
from fedadavr.algorithms.fedadavr import FedAdaVR, FedAdaVRNoOpt, FedAdaVRNoVR, FedAdaVRQuant
from fedadavr.algorithms.fedadavr_plus import FedAdaVRPlus
from fedadavr.algorithms.registry import algorithm, algorithm_names, register, settings_of

__all__ = [
    "GHBM", "MIFA", "Adaptive", "Algorithm", "ClientNeeds", "ClusterFedVARP", "Cohort",
    "Direction", "Fading", "FedAU", "FedAdaVR", "FedAdaVRNoOpt", "FedAdaVRNoVR", "FedAdaVRPlus",
    "FedAdaVRQuant", "FedAdagrad", "FedAdam", "FedAvg", "FedAvgM", "FedCM", "FedDyn", "FedExP",
    "FedNova", "FedProx", "FedStale", "FedVARP", "FedYogi", "Rejected", "Remembering", "Scaffold",
    "Stored", "Update", "algorithm", "algorithm_names", "register", "settings_of",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "algorithms":  # until 0.3
        import warnings

        warnings.warn("algorithms() is called algorithm_names()", DeprecationWarning, stacklevel=2)
        return algorithm_names
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
