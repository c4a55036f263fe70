"""The server side of each algorithm."""

from fedadavr.algorithms.base import Algorithm, ClientNeeds
from fedadavr.algorithms.replies import Rejected, Update

# The order of these imports is the order in which `algorithms()` lists them.
from fedadavr.algorithms.fedavg import FedAvg, FedProx
from fedadavr.algorithms.scaffold import Scaffold
from fedadavr.algorithms.fednova import FedNova
from fedadavr.algorithms.fedopt import FedAdagrad, FedAdam, FedYogi
from fedadavr.algorithms.mifa import MIFA
from fedadavr.algorithms.fedvarp import ClusterFedVARP, FedVARP
from fedadavr.algorithms.fedadavr import FedAdaVR, FedAdaVRNoOpt, FedAdaVRNoVR, FedAdaVRQuant
from fedadavr.algorithms.fedadavr_plus import FedAdaVRPlus
from fedadavr.algorithms.registry import algorithm, algorithms, register, settings_of

__all__ = [
    "MIFA", "Algorithm", "ClientNeeds", "ClusterFedVARP", "FedAdaVR", "FedAdaVRNoOpt",
    "FedAdaVRNoVR", "FedAdaVRPlus", "FedAdaVRQuant", "FedAdagrad", "FedAdam", "FedAvg", "FedNova",
    "FedProx", "FedVARP", "FedYogi", "Rejected", "Scaffold", "Update", "algorithm", "algorithms",
    "register", "settings_of",
]  # fmt: skip
