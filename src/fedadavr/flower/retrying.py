"""A store that does not answer costs time, not a round."""

from __future__ import annotations

import time
from collections.abc import Callable
from logging import INFO, WARNING
from typing import TypeVar

from fedadavr.flower.log import log
from fedadavr.signals import Hold
from fedadavr.stores import StoreError
from fedadavr.stores.store import StoreLost

T = TypeVar("T")

SAY_EVERY = 60.0  # seconds between lines in the log
FIRST, LONGEST = 0.2, 10.0  # seconds between attempts


class Retry:
    """Tries until the store answers, for `limit` seconds; one that is lost is not waited for.

    What is tried must change nothing when it raises `StoreError`. A signal waits for the attempt
    that is under way, never for the store.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def __call__(self, what: str, attempt: Callable[[], T], kept: str = "") -> T:
        """Do it; `what` it is and what is `kept` meanwhile stand in the log."""
        began, said, pause = time.monotonic(), -SAY_EVERY, FIRST
        while True:
            try:
                with Hold():
                    done = attempt()
            except StoreLost:
                raise
            except StoreError as error:
                waited = time.monotonic() - began
                if waited >= self.limit:
                    raise StoreError(
                        f"{what}: gave up waiting for the store after {waited:.0f} s "
                        f"(store_timeout): {error}{kept and f'; {kept}'}"
                    ) from None
                if waited - said >= SAY_EVERY:
                    said = waited
                    log(WARNING, "%s waits for the store, up to %.0f s in all: %s%s", what,
                        self.limit, error, kept and f"; {kept}")  # fmt: skip
                time.sleep(min(pause, self.limit - waited))
                pause = min(2 * pause, LONGEST)
            else:
                if said >= 0:
                    log(INFO, "%s: the store answers again, after %.0f s", what,
                        time.monotonic() - began)  # fmt: skip
                return done
