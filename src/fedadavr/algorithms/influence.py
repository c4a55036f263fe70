"""How much one reply may do: running scales of lengths, examples and steps, and their bounds.

A reply is never trusted for its size. Its length |w - w_i| may be a lenient multiple (`clip`) of
the median length of late. What is longer is no healthy client's, and is clipped to that median: it
then moves the model, and stays in the memory of a client that never comes again, no more than any
other. It is counted with a tenth of the bound, so that the scale follows if everybody's lengths
have changed for good. What is remembered of a reply acts for as long as its client stays away, and
has a bound of its own, a few times the median. The numbers of examples and steps that it claims may
be a thousand times the median known; what is more is refused, unless most of the cohort claim it:
then what was known was odd, and they count with the bound. A client that comes once is remembered
with a weight of a few times the median at most, whatever it claims; when it comes again, with more.
Medians, since a minority cannot move them; of what was accepted, as it was accepted, since what is
sent costs nothing to make huge. The state is three histograms of fixed size, two counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedadavr import kernels
from fedadavr.memory.population import in_units, unit_of

Floats = npt.NDArray[np.float64]

HISTOGRAMS = ("lengths", "examples", "steps")
BINS = 256  # two per octave, from 2^-64 to 2^64
FEWEST = 2.5  # three lengths, the first two of which may have faded a little
LITTLE = 10.0  # lengths, below which a cohort says more of itself than its history does
EARLY = 3  # rounds, in which a server that starts too fast changes all lengths a thousandfold
LEAP = 10.0  # how much longer than its history a whole cohort may be, later
LEAP_EARLY = 1000.0
REMEMBERED = 5.0  # times the usual length, that a reply is remembered with at most
COUNTED = 0.1  # of the bound: the length that a clipped update is learned with
CLAIM = 1000.0  # sizes of real clients are heavy-tailed
CLAIM_FIRST, CLAIM_MOST = 1e6, 1e9  # times the least known, and at all: with fewer than three known
GROWTH = 10.0  # times the median, with which a client that came once is remembered at most
AGAIN = 3.0  # times its last weight, when it comes again
USUAL = 2.0  # times the median, which anybody may weigh
PORTION = 0.25  # of all others together, which one client may weigh that came only once
FADE = 2.0 ** (-1 / 20)  # per round: half of the weight is gone after twenty


class Scale:
    """A histogram of logarithms that forgets slowly. Values of zero tell nothing of a scale.

    `known` is how many values it holds, those of older rounds faded; `median` is their lower
    median, rounded up to the end of its bin, and zero if nothing is known.

    >>> scale = Scale()
    >>> scale.add(np.array([0.9, 1.0, 1e30]))
    >>> scale.known, round(scale.median, 2)
    (3.0, 1.41)
    """

    def __init__(self, bins: Floats | None = None) -> None:
        self.bins = np.zeros(BINS) if bins is None else bins.copy()
        self._told = np.zeros(2)
        self._tally(np.zeros(0), 1.0)

    def add(self, values: Floats) -> None:
        """A round's values; what was there fades."""
        self._tally(values, FADE)

    def joined(self, values: Floats) -> Scale:
        """Another one, that also holds these values."""
        both = Scale(self.bins)
        both._tally(values, 1.0)
        return both

    def least(self) -> float:
        """The start of the lowest bin that is not empty; zero if nothing is known."""
        lowest = np.flatnonzero(self.bins)[:1]
        return float(2.0 ** ((lowest[0] - BINS // 2) / 2 - 1)) if len(lowest) else 0.0

    def pairs(self) -> list[list[float]]:
        """The bins that are not empty, and their weights."""
        return [[place, float(self.bins[place])] for place in np.flatnonzero(self.bins).tolist()]

    def _tally(self, values: Floats, fade: float) -> None:
        kernels.call(kernels.tally, values, fade, self.bins, self._told)
        self.known, self.median = self._told.tolist()


class Influence:
    """What was accepted so far, and what is therefore acceptable.

    The order of replies does not matter, here or anywhere in it.
    """

    def __init__(self) -> None:
        self.lengths, self.examples, self.steps = Scale(), Scale(), Scale()
        self.clipped = 0  # replies, in all
        self.refused = 0  # rounds without a single acceptable reply, in a row

    @property
    def history(self) -> float:
        """The median length of late; zero while fewer than three are known."""
        return self.lengths.median if self.lengths.known > FEWEST else 0.0

    def scale(self, lengths: Floats, model: float, rounds: int, *, blank: bool = False) -> float:
        """The scale of a cohort's lengths.

        It is the median of those accepted of late, or the cohort's own lower median where that is
        larger: lengths grow with the model's health, too, and then all of them do. But a cohort
        of fewer than three says nothing, and no cohort raises the scale more than `LEAP` times,
        since its majority may be hostile. With little history a cohort may go further; a small
        one goes by the model then, since the first few replies may be tiny, or by the shorter of
        two where that is longer.

        Parameters
        ----------
        lengths : Floats
            Of the cohort's updates.
        model : float
            The length of the model, which is the scale while little is known.
        rounds : int
            How many have been applied.
        blank : bool
            Whether the model is all zeros, as linear ones begin: then it is no scale, and three
            replies or more are their own.
        """
        early = self.lengths.known < LITTLE or rounds < EARLY
        history = self.history
        cohort = Scale().joined(lengths)
        if cohort.known < 3:
            both = self.lengths.joined(lengths)
            if both.known < LITTLE:
                pair = cohort.median if cohort.known == 2 else 0.0  # the shorter of the two
                pair = min(pair, LEAP_EARLY * (history or model))
                return max(history, both.median if both.known > FEWEST else 0.0, model, pair)
            return both.median if history == 0.0 else history
        if blank and not history:
            return cohort.median
        anchor, leap = history or model, LEAP_EARLY if early else LEAP
        return max(history, min(cohort.median, leap * anchor))

    def most(self, what: str, claims: Sequence[float]) -> tuple[float, str]:
        """The largest number of examples or steps to accept, and why so many."""
        scale: Scale = getattr(self, what)
        if scale.known < LITTLE:
            scale = scale.joined(np.array(claims, np.float64))
        if scale.known > FEWEST:
            return CLAIM * scale.median, "a thousand times the median known"
        return min(CLAIM_FIRST * scale.least(), CLAIM_MOST), "so few being known"

    def usual_examples(self, claims: Floats) -> tuple[float, float]:
        """The median number of examples, and so many that anybody may be remembered with.

        While fewer than three are known it is the least, and ten times of it are usual.
        """
        scale = self.examples
        if scale.known < LITTLE:
            scale = scale.joined(claims)
        if scale.known > FEWEST:
            return scale.median, USUAL * scale.median
        return scale.least(), GROWTH * scale.least()

    def learn(self, lengths: Floats, examples: Floats, steps: Floats, clipped: int) -> None:
        """A round was applied, with these lengths (as they were used), examples and steps."""
        self.lengths.add(lengths)
        self.examples.add(examples)
        if steps.any():
            self.steps.add(steps)
        self.clipped += clipped

    # --- state ---

    def state_dict(self) -> dict[str, Any]:
        """Each histogram as pairs of a bin that is not empty and its weight; the counts."""
        scales = {name: getattr(self, name).pairs() for name in HISTOGRAMS}
        return {**scales, "clipped": self.clipped, "refused": self.refused}

    def check_state(self, state: Mapping[str, Any] | None) -> None:
        """Raise unless the state fits; changes nothing. None is that of an older version."""
        if state is not None:
            for name in HISTOGRAMS:
                _bins(state.get(name), name)

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Take over a state made by `state_dict`; of an older version's there is no history."""
        if state is None:
            state = Influence().state_dict()
        self.lengths, self.examples, self.steps = (Scale(_bins(state[k], k)) for k in HISTOGRAMS)
        self.clipped, self.refused = int(state["clipped"]), int(state["refused"])


def _bins(pairs: Any, name: str) -> Floats:
    bins = np.zeros(BINS)
    try:
        for place, weight in pairs:
            if not (0 <= int(place) < BINS and 0 <= float(weight) < np.inf):
                raise ValueError
            bins[int(place)] = weight
    except (TypeError, ValueError):
        raise ValueError(
            f"the state's {name} must be pairs of a place below {BINS} and a finite weight"
        ) from None
    return bins


def shared_out(examples: Floats, most: float) -> Floats:
    """Examples as they count when no client may have more than the share `most` of them all.

    Those above a level count as that level, rounded down: the largest level c for which
    c <= most * sum_j min(n_j, c). Where there are too few clients for that, all count the same.

    >>> shared_out(np.array([10.0, 10.0, 10.0, 1000.0]), 0.4).tolist()
    [10.0, 10.0, 10.0, 20.0]
    """
    if most * len(examples) <= 1:
        return np.full_like(examples, examples.min())
    sizes = np.sort(examples)[::-1]
    if sizes[0] <= most * sizes.sum():
        return examples
    for above in range(1, len(sizes)):  # so many count as the level
        if most * above >= 1:
            break
        level = most * sizes[above:].sum() / (1 - most * above)
        if level >= sizes[above]:
            return np.minimum(examples, in_units(level, unit_of(examples.tolist())))
    return np.full_like(examples, examples.min())
