"""Who was there over the rounds of a run: found again from its settings, not recorded."""

from __future__ import annotations

import io

from fedadavr.availability import Clients, DataNeeded, find_availability, find_dropout
from fedadavr.availability.picture import Raster, draw, raster, told
from fedadavr.data import Federation
from fedadavr.experiments.experiment import Experiment

__all__ = ["draw", "is_full", "picture_of", "presence", "title_of", "told"]


def is_full(experiment: Experiment) -> bool:
    """Whether everybody is always there and answers."""
    return (experiment.availability, experiment.dropout) == ("uniform", "none")


def title_of(experiment: Experiment) -> str:
    """Who is there and whose replies come, as they are typed."""
    lost = "" if experiment.dropout == "none" else f", dropout {experiment.dropout}"
    return f"{experiment.availability}{lost}"


def presence(experiment: Experiment, federation: Federation | None = None) -> Raster:
    """Clients by rounds; the data is loaded only if who is there depends on it."""
    assert experiment.clients is not None
    assert experiment.local_epochs is not None
    assert experiment.rounds is not None
    who, lost = find_availability(experiment.availability), find_dropout(experiment.dropout)
    clients = Clients(experiment.clients, experiment.seed)
    who.check_clients(clients)
    lost.check_clients(clients)
    try:
        return raster(who, lost, clients, experiment.rounds)
    except DataNeeded:
        from fedadavr.experiments.run import make_federation
        from fedadavr.simulation.participation import clients_of

        federation = federation or make_federation(experiment)
        clients = clients_of(federation, experiment.seed, experiment.local_epochs)
        return raster(who, lost, clients, experiment.rounds)


def picture_of(experiment: Experiment) -> tuple[bytes, str]:
    """The picture of a run as PNG, and in words."""
    found, out = presence(experiment), io.BytesIO()
    draw(found, f"{title_of(experiment)}, seed {experiment.seed}", out)
    return out.getvalue(), told(found)
