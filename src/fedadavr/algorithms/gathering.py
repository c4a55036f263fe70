"""A round's replies, checked as far as one sees without reading them, and put in order."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedadavr.algorithms.bounds import excessive_claims
from fedadavr.algorithms.cohort import Cohort, Floats
from fedadavr.algorithms.influence import shared_out
from fedadavr.algorithms.replies import Rejected, Update, check_reply, key_of
from fedadavr.algorithms.round import Weights
from fedadavr.memory.population import UNIT

if TYPE_CHECKING:
    from fedadavr.algorithms.base import Algorithm

Keyed = list[tuple[str, str, Update]]
"""Updates with the record that each writes, and its client."""


def gather(server: Algorithm, updates: list[Update]) -> tuple[Cohort, Weights]:
    """The cohort, in the order of records and ids, and each client's weights.

    Raises `Rejected` where an update is not acceptable.
    """
    for update in updates:
        if not isinstance(update, Update):
            raise TypeError(
                f"updates must be Update objects, got {type(update).__name__}; nothing was changed"
            )
    keyed = _checked(server, updates)
    keyed.sort(key=lambda item: (*item[:2], item[2].visit))
    keys, replies = [item[0] for item in keyed], [item[2] for item in keyed]
    first = [k for k, key in enumerate(keys) if k == 0 or key != keys[k - 1]]
    examples = np.array([u.examples for u in replies], np.float64)
    whole = np.floor(examples) == examples
    if not whole.all():
        examples = np.where(whole, examples, np.maximum(1.0, np.rint(examples / UNIT)) * UNIT)
    if server.max_share is not None and len(keyed):
        examples = _shared_out(examples, [u.client for u in replies], server.max_share)
    cohort = Cohort(
        clients=[u.client for u in replies],
        examples=examples,
        steps=np.array([u.steps or 0 for u in replies], np.float64),
        owners=[int(u.owner) for u in replies],
        differences=np.array([bool(u.difference) for u in replies]),
        ages=np.array([u.age for u in replies], np.float64),
        keys=[keys[k] for k in first],
        first=np.array([*first, len(keys)], np.int64),
    )
    weights: Weights = [
        np.ascontiguousarray(u.weights) if isinstance(u.weights, np.ndarray)
        else [np.ascontiguousarray(t) for t in u.weights]
        for u in replies
    ]  # fmt: skip
    return cohort, weights


def _counted(update: Update, what: str, most: float) -> Update:
    """An update whose claim is no more than that."""
    whole = max(1, math.floor(most))
    if what == "steps":
        return replace(update, steps=min(update.steps or 0, whole) or None)
    return replace(update, examples=min(update.examples, whole if most >= 1 else most))


def _shared_out(examples: Floats, clients: list[str], most: float) -> Floats:
    """`shared_out`, where a client's replies count together."""
    once = list(dict.fromkeys(clients))
    if len(once) == len(clients):
        return shared_out(examples, most)
    place = np.array([once.index(client) for client in clients])
    sums = np.bincount(place, examples).astype(np.float64)
    return examples * (shared_out(sums, most) / sums)[place]


def _checked(server: Algorithm, updates: list[Update]) -> Keyed:
    """The updates that are well formed, if all are."""
    reasons: dict[str, str] = {}
    keyed: Keyed = []
    ids = [u.client for u in updates if isinstance(u.client, str)]
    visits = Counter((u.client, str(u.visit)) for u in updates if isinstance(u.client, str))
    needs_steps = server.name if server.needs.steps else None
    for update in updates:
        client = update.client
        try:
            if not isinstance(client, str):
                raise TypeError(f"a client's id must be a string, got {type(client).__name__}")
            if visits[client, str(update.visit)] > 1:
                raise ValueError("came twice in one round")
            why = None if server.store is None else server.store.refuses(client)
            if why:
                raise ValueError(why)
            check_reply(update, server.layout, needs_steps)
            keyed.append((server.record_of(client), client, update))
        except (TypeError, ValueError) as error:
            reasons[key_of(client, ids)] = str(error)
    for what in ("examples", "steps"):
        wrong, most = excessive_claims(server, what, [update for _, _, update in keyed])
        reasons |= wrong
        if most is not None:
            keyed = [(key, client, _counted(u, what, most)) for key, client, u in keyed]
    if reasons:
        raise Rejected(reasons)
    return keyed
