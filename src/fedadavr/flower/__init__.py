"""Our algorithms as Flower strategies, and the client's part of those that ask for one."""

from fedadavr.flower.client_hook import ClientHook
from fedadavr.flower.identity import answer_identity
from fedadavr.flower.strategies import (
    MIFA,
    ClusterFedVARP,
    FedAdagrad,
    FedAdam,
    FedAdaVR,
    FedAdaVRNoOpt,
    FedAdaVRNoVR,
    FedAdaVRPlus,
    FedAdaVRQuant,
    FedAvg,
    FedNova,
    FedProx,
    FedVARP,
    FedYogi,
    Scaffold,
)
from fedadavr.flower.strategy import Strategy

__all__ = [
    "MIFA",
    "ClientHook",
    "ClusterFedVARP",
    "FedAdaVR",
    "FedAdaVRNoOpt",
    "FedAdaVRNoVR",
    "FedAdaVRPlus",
    "FedAdaVRQuant",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedNova",
    "FedProx",
    "FedVARP",
    "FedYogi",
    "Scaffold",
    "Strategy",
    "answer_identity",
]  # fmt: skip
