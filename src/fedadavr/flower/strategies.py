"""Each algorithm as a strategy of its own name."""

from __future__ import annotations

from fedadavr.flower.signatures import documented
from fedadavr.flower.strategy import Strategy


@documented
class FedAdaVR(Strategy):
    """FedAdaVR: remembers every client's last update, and steps with an adaptive optimizer."""

    name = "fedadavr"


@documented
class FedAdaVRQuant(Strategy):
    """FedAdaVR with its memory quantized (`codec`)."""

    name = "fedadavr-quant"


@documented
class FedAdaVRNoVR(Strategy):
    """FedAdaVR without its memory."""

    name = "fedadavr-novr"


@documented
class FedAdaVRNoOpt(Strategy):
    """FedAdaVR without its optimizer."""

    name = "fedadavr-noopt"


@documented
class FedAdaVRPlus(Strategy):
    """FedAdaVR with a memory of kinds of clients, and a trust that is learned."""

    name = "fedadavr-plus"


@documented
class FedVARP(Strategy):
    """FedVARP: a memory of every client, plain steps."""

    name = "fedvarp"


@documented
class ClusterFedVARP(Strategy):
    """FedVARP with one memory a cluster (`clusters`)."""

    name = "cluster-fedvarp"


@documented
class MIFA(Strategy):
    """MIFA: the mean of all remembered updates."""

    name = "mifa"


@documented
class Scaffold(Strategy):
    """SCAFFOLD; its clients train with `fedadavr.flower.ClientHook`."""

    name = "scaffold"


@documented
class FedNova(Strategy):
    """FedNova; its clients report `num-steps`, which `fedadavr.flower.ClientHook` counts."""

    name = "fednova"


@documented
class FedProx(Strategy):
    """FedProx; its clients get `proximal-mu`, as from Flower's, which `ClientHook` applies."""

    name = "fedprox"


@documented
class FedAvg(Strategy):
    """FedAvg, with resume and replies checked one by one."""

    name = "fedavg"


@documented
class FedAdagrad(Strategy):
    """FedAdagrad, as Flower computes it."""

    name = "fedadagrad"


@documented
class FedAdam(Strategy):
    """FedAdam, as Flower computes it."""

    name = "fedadam"


@documented
class FedYogi(Strategy):
    """FedYogi, as Flower computes it."""

    name = "fedyogi"
