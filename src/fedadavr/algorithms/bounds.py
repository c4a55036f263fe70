"""Bounds on what one reply does: what is clipped, and what is refused, before anything changes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.algorithms.cohort import Cohort, Floats
from fedadavr.algorithms.influence import (
    AGAIN,
    CLAIM_MOST,
    COUNTED,
    FEWEST,
    GROWTH,
    LITTLE,
    PORTION,
    REMEMBERED,
)
from fedadavr.algorithms.replies import Rejected, Update
from fedadavr.memory.cohort_records import CohortRecords
from fedadavr.memory.population import in_units, unit_of
from fedadavr.naming import shown
from fedadavr.vector import Vector

if TYPE_CHECKING:
    from fedadavr.algorithms.base import Algorithm

log = logging.getLogger(__name__)

MODEL = 0.1  # of the model's length: the scale of updates while fewer than three are known
ZERO = 1e-3  # the magnitude of weights below which a model says nothing of a scale
FINITE = float(np.finfo(np.float64).max)


def excessive_claims(
    server: Algorithm, what: str, updates: list[Update]
) -> tuple[dict[str, str], float | None]:
    """Whose claims of examples or steps are beyond all that is known, and why.

    Where they are most of the cohort it is what was known that was odd, such as one client's claim
    of next to nothing: nobody is refused then, and the second result is what they count with.
    """
    claims = [getattr(u, what) or 0 for u in updates]
    largest = max(claims, default=0)
    if not largest:
        return {}, None
    most, why = getattr(server, f"max_{what}"), f"max_{what}"
    told = most is not None
    if most is None:
        most, why = server.influence.most(what, claims)
    if largest <= most:
        return {}, None
    above = [n for n in claims if n > most]
    if not told and 2 * len(above) > len(claims) and largest <= CLAIM_MOST:
        log.warning(
            "round %d: %d of %d replies claim more %s than %.15g (%s): they count with that",
            server.round + 1, len(above), len(claims), what, most, why,
        )  # fmt: skip
        return {}, most
    return {
        u.client: f"it claims {n} {what}, more than {most:.15g} ({why})"
        for u, n in zip(updates, claims, strict=True)
        if n > most
    }, None


def owners_of(cohort: Cohort) -> list[int] | None:
    """The node of each record's client; None where a record is not one client's."""
    ends = list(pairwise(cohort.first.tolist()))
    if any(
        set(cohort.clients[a:b]) != {key} for key, (a, b) in zip(cohort.keys, ends, strict=True)
    ):
        return None
    return [cohort.owners[b - 1] for _, b in ends]


def check_owners(cohort: Cohort, records: CohortRecords) -> None:
    """A client's id stays with the node that first used it."""
    if owners_of(cohort) is None:
        return
    reasons = {}
    for record, (a, b) in zip(records.records, pairwise(cohort.first.tolist()), strict=True):
        first = record.owner if record is not None and record.owner else cohort.owners[a]
        for client, owner in zip(cohort.clients[a:b], cohort.owners[a:b], strict=True):
            if owner and first not in (0, owner):
                why = f"this id belongs to node {first}, and node {owner} claims it"
                reasons[client] = why
    if reasons:
        raise Rejected(reasons)


def check_finite(
    server: Algorithm, w: Vector, cohort: Cohort, weights: Sequence[Any], lengths: Floats
) -> None:
    """Refuse replies that are not finite, or longer than `max_norm`."""
    bound = FINITE if server.max_norm is None else server.max_norm
    if all(length <= bound for length in lengths.tolist()):
        return
    if not np.isfinite(w).all():
        raise ValueError("w: the model holds NaN or infinity; nothing was changed")
    reasons = {}
    for client, reply, length in zip(cohort.clients, weights, lengths, strict=True):
        tensors = [reply] if isinstance(reply, np.ndarray) else reply
        if not all(np.isfinite(tensor).all() for tensor in tensors):
            reasons[client] = "the weights hold NaN or infinity"
        elif not np.isfinite(length):
            reasons[client] = "w - w_i, or it divided by client_lr, is beyond float32"
        elif length > bound:
            reasons[client] = f"|w - w_i| is {length:.3g}, above max_norm {bound:g}"
    raise Rejected(reasons)


def fractions(server: Algorithm, cohort: Cohort) -> Floats:
    """How long each update may be, of the bound: less for fewer steps, where they divide it."""
    if not server.needs.steps:
        return np.ones(len(cohort))
    known = server.influence.steps
    middle = (len(cohort) - 1) // 2
    typical = known.median if known.known > FEWEST else np.sort(cohort.steps)[middle]
    usual = replace(cohort, steps=np.full(len(cohort), float(typical)))
    momentum = server.needs.momentum or 0.0
    ratio = cohort.effective_steps(momentum) / usual.effective_steps(momentum)
    return np.minimum(1.0, ratio)


def clip(
    server: Algorithm, w: Vector, cohort: Cohort, lengths: Floats, inverse: Vector
) -> tuple[npt.NDArray[np.bool_], Floats] | None:
    """Whose updates are too long, and the lengths to learn from instead of theirs.

    Their factors in `inverse` become what makes them as long as the scale.
    """
    rate, part = server.client_lr, fractions(server, cohort)
    scale = _scale(server, w, lengths, lengths / part, server.clip)
    if scale is None:
        return None
    bound = server.clip * scale
    clipped: npt.NDArray[np.bool_] = lengths > bound * part
    if not clipped.any():
        return None
    exact = (bound / server.clip * part[clipped] / lengths[clipped]) / rate
    factor = exact.astype(np.float32)
    # Never longer than that, also where float32 has few digits left or none.
    factor = np.where(factor > exact, np.nextafter(factor, np.float32(0)), factor)
    inverse[clipped] = np.copysign(factor, inverse[clipped])
    return clipped, np.where(clipped, COUNTED * bound * part, lengths)


def _scale(
    server: Algorithm, w: Vector, lengths: Floats, whole: Floats, multiple: float
) -> float | None:
    """The scale of lengths, if one of the `whole` may be so many times longer, else None."""
    rate, history = server.client_lr, server.influence.history
    if not server.clip or max(whole.tolist()) <= multiple * rate * history:
        return None  # so it is nearly always
    model, blank = 0.0, False
    if server.influence.lengths.known < LITTLE:
        # A tenth, since a client's update is hardly as long as the model; one that starts at
        # zero counts as if its weights were of magnitude one.
        length, root = float(np.linalg.norm(w.astype(np.float64))), float(np.sqrt(len(w)))
        blank = not length > ZERO * root
        model = MODEL * (root if blank else length)
    return rate * server.influence.scale(lengths / rate, model / rate, server.round, blank=blank)


def remembered_parts(
    server: Algorithm, w: Vector, cohort: Cohort, lengths: Floats
) -> Floats | None:
    """What part of each update is remembered; None: all of all.

    One that is just not clipped would otherwise act from the memory, at up to `clip` times the
    usual length, in every round that its client stays away.
    """
    part = fractions(server, cohort)
    if server.influence.lengths.known < LITTLE and np.count_nonzero(lengths) < FEWEST:
        return None  # what is usual is not known: the scale is a guess by the model
    scale = _scale(server, w, lengths, lengths / part, REMEMBERED)
    if scale is None:
        return None
    parts = np.ones(len(cohort))
    long = lengths > REMEMBERED * scale * part
    parts[long] = REMEMBERED * scale * part[long] / lengths[long]
    return parts if long.any() else None


def remembered_sizes(server: Algorithm, cohort: Cohort, records: CohortRecords) -> list[float]:
    """The number of examples that each client of the cohort is remembered with.

    It is what the client says, unless that is far more than what others say: since a record counts
    for as long as its client stays away, one reply must not be most of the memory. Sizes that the
    server was told (`population`) are believed; a client that comes again may grow threefold.
    """
    latest = cohort.first[1:] - 1
    memory, claims = server.memory, cohort.examples[latest]
    sizes: list[float] = [int(n) if n.is_integer() else n for n in claims.tolist()]
    unit = unit_of(sizes)
    usual, anybody = server.influence.usual_examples(claims)
    off = not server.clip or server.max_share is not None
    if memory is None or memory.weights == "clients" or off or max(sizes) <= anybody:
        return sizes
    everyone = max(memory.weight, float(np.minimum(claims, GROWTH * usual).sum()))
    clients = [cohort.clients[i] for i in latest]
    for i, (client, record) in enumerate(zip(clients, records.records, strict=True)):
        told = memory.population.size_of(client) or 0
        before = 0.0 if record is None else record.weight
        others = everyone - max(before, min(sizes[i], GROWTH * usual))
        most = min(GROWTH * usual, max(anybody, PORTION * others))
        most = max(most, AGAIN * before, told, unit)
        if sizes[i] > most:
            said, sizes[i] = sizes[i], in_units(most, unit)
            log.warning(
                "round %d: client %s says that it has %.15g examples; until it comes again it is "
                "remembered with %.15g", server.round + 1, shown(client), said, sizes[i],
            )  # fmt: skip
    return sizes


def check_magnitudes(server: Algorithm, cohort: Cohort, lengths: Floats, top: Vector) -> None:
    """Refuse what float32 cannot carry: squares in moments and cosines, or a new record."""
    squared = server.server_optimizer.v.size > 0 or server.vectors is not None
    largest = float(kernels.LARGEST)
    most = float(kernels.LARGEST_SQUARED) if squared else largest
    most *= min(1.0, server.client_lr)  # since g_i is longer
    reasons = {
        client: f"|w - w_i| is {length:.3g}, more than this server can carry in float32"
        for client, length in zip(cohort.clients, lengths.tolist(), strict=True)
        if not length <= most
    }
    for k, magnitude in enumerate(top.tolist() if server.memory is not None else ()):
        if not magnitude <= largest:
            for client in cohort.clients[cohort.first[k] : cohort.first[k + 1]]:
                reasons[client] = "what would be stored of it is more than float32 can carry"
    if reasons:
        raise Rejected(reasons)


def check_step(
    server: Algorithm, cohort: Cohort, rate: float, gain: Floats, lengths: Floats
) -> None:
    """Refuse a round as a whole whose step could leave the finite numbers.

    The memory's part in it was bounded when it was stored.
    """
    news = float(np.abs(gain) @ lengths)
    squared = server.server_optimizer.v.size > 0
    most = float(kernels.LARGEST_SQUARED) if squared else float(kernels.LARGEST) / rate
    if not news <= most:
        why = f"the round's step, of length {news:.3g}, is more than float32 can carry"
        raise Rejected(dict.fromkeys(cohort.clients, why))


def tell_clipped(round: int, cohort: Cohort, places: list[int], sent: Any, used: Any) -> None:
    """Say whose updates were clipped."""
    i = max(places, key=lambda place: sent[place])
    hint = "; if all are honest, clip=0 takes them as they are" if len(places) > 1 else ""
    log.warning(
        "round %d: %d of %d updates clipped, the longest that of client %s from length "
        "%.3g to %.3g%s",
        round, len(places), len(cohort), shown(cohort.clients[i]), sent[i], used[i], hint,
    )  # fmt: skip
