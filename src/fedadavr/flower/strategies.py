"""Each algorithm as a strategy of its own name."""

from __future__ import annotations

from fedadavr.flower.strategy import Strategy


class FedAdaVR(Strategy):
    """FedAdaVR: remembers every client's last update, and steps with an adaptive optimizer."""

    name = "fedadavr"


class FedAdaVRQuant(Strategy):
    """FedAdaVR with its memory quantized (`codec`)."""

    name = "fedadavr-quant"


class FedAdaVRNoVR(Strategy):
    """FedAdaVR without its memory."""

    name = "fedadavr-novr"


class FedAdaVRNoOpt(Strategy):
    """FedAdaVR without its optimizer."""

    name = "fedadavr-noopt"


class FedAdaVRPlus(Strategy):
    """FedAdaVR with a memory of kinds of clients, and a trust that is learned."""

    name = "fedadavr-plus"


class FedVARP(Strategy):
    """FedVARP: a memory of every client, plain steps."""

    name = "fedvarp"


class FedStale(Strategy):
    """FedVARP that trusts its memory by a fixed share (`beta`)."""

    name = "fedstale"


class ClusterFedVARP(Strategy):
    """FedVARP with one memory a cluster (`clusters`)."""

    name = "cluster-fedvarp"


class MIFA(Strategy):
    """MIFA: the mean of all remembered updates."""

    name = "mifa"


class Scaffold(Strategy):
    """SCAFFOLD; its clients train with `fedadavr.flower.ClientHook`."""

    name = "scaffold"


class FedDyn(Strategy):
    """FedDyn; its clients train with `fedadavr.flower.ClientHook`."""

    name = "feddyn"


class FedCM(Strategy):
    """FedCM; its clients train with `fedadavr.flower.ClientHook`."""

    name = "fedcm"


class GHBM(Strategy):
    """GHBM; its clients train with `fedadavr.flower.ClientHook`."""

    name = "ghbm"


class FedNova(Strategy):
    """FedNova; its clients report `num-steps`, which `fedadavr.flower.ClientHook` counts."""

    name = "fednova"


class FedProx(Strategy):
    """FedProx; its clients get `proximal-mu`, as from Flower's, which `ClientHook` applies."""

    name = "fedprox"


class FedAvg(Strategy):
    """FedAvg, with resume and replies checked one by one."""

    name = "fedavg"


class FedAvgM(Strategy):
    """FedAvgM, as Flower computes it, with the momentum 0.9 unless told (`server_momentum`)."""

    name = "fedavgm"


class FedExP(Strategy):
    """FedExP: FedAvg that steps further where the clients' updates differ."""

    name = "fedexp"


class FedAU(Strategy):
    """FedAU: clients that come seldom count for more; keeps when they came, and no update."""

    name = "fedau"


class FedAdagrad(Strategy):
    """FedAdagrad, as Flower computes it."""

    name = "fedadagrad"


class FedAdam(Strategy):
    """FedAdam, as Flower computes it."""

    name = "fedadam"


class FedYogi(Strategy):
    """FedYogi, as Flower computes it."""

    name = "fedyogi"
