"""Flower's parts for privacy, where they do not go with ours: said before any training."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from logging import WARNING

from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
)

from fedadavr.algorithms import Algorithm
from fedadavr.flower.log import log
from fedadavr.vector import Layout

WRAPPERS = (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
)
INSTEAD = (
    "use fedadavr.flower.FedAvg without a store, or LocalDpMod in the clients' "
    "@app.train(mods=[...]) and no wrapper: then clipping and noise come before the server"
)
SECURE_AGGREGATION = "secaggplus_"  # begins the names of records that the mods ask for


def check_wrapper(
    store: str | None, build: Callable[[Layout], Algorithm], *, first: bool = True
) -> None:
    """Refuse a wrapper for differential privacy whose noise does not cover what is done here.

    Parameters
    ----------
    store : str, optional
        The strategy's store.
    build : Callable[[Layout], Algorithm]
        Makes the strategy's server.
    first : bool
        Whether the run begins: what only weakens the guarantee is said once.
    """
    wrapper = _wrapper()
    if wrapper is None:
        return
    if store is not None:
        raise ValueError(
            f"a store does not go with {wrapper}: it holds the model before the wrapper's noise, "
            f"and a restart would send that out; {INSTEAD}"
        )
    server = build(Layout({"probe": (1,)}))
    if server.memory is not None or server.vectors is not None:
        raise ValueError(
            f"{server.name} does not go with {wrapper}: a client that is remembered counts in "
            f"every round, for which there is neither clipping nor noise; {INSTEAD}"
        )
    weaker = "; ".join(_beyond(server))
    if weaker and first:
        log(WARNING, "the guarantee of %s does not hold for %s here: %s", wrapper, server.name,
            weaker)  # fmt: skip


def _wrapper() -> str | None:
    """The name of the wrapper for differential privacy that this is called through.

    A strategy is not told that it is wrapped: the wrapper's method on the stack is the only sign.
    """
    for frame, _ in traceback.walk_stack(None):
        if frame.f_code.co_name == "configure_train":
            caller = type(frame.f_locals.get("self"))
            if issubclass(caller, WRAPPERS):
                return caller.__name__
    return None


def _beyond(server: Algorithm) -> Iterator[str]:
    """How one client's clipped update may move the model further than the noise is made for."""
    optimizer = server.server_optimizer
    if optimizer.name != "sgd":
        yield (
            f"the optimizer {optimizer.name} scales the mean of the clipped updates, which undoes "
            "the clipping"
        )
    elif optimizer.lr > 1:
        yield f"server_lr={optimizer.lr:g} makes the step longer than the noise is for"
    if server.needs.steps:
        yield "it scales each update by the number of steps that its client claims"
    if server.clip:
        yield f"clip={server.clip:g} shortens updates by what other clients sent, say clip=0"


def about_secure_aggregation(reason: str) -> str | None:
    """What to say if the clients' apps failed for this reason: their mods hide each update."""
    if SECURE_AGGREGATION not in reason:
        return None
    return (
        "the clients' apps have a mod for secure aggregation (secagg_mod or secaggplus_mod), which "
        "takes only messages of Flower's SecAggPlusWorkflow, of its former API, and would hide "
        "each client's update: remove the mod (docs/flower.md says why)"
    )
