"""The host's time, and whether it can be trusted where something is deleted by it: a clock that was set wrong may be
forty days ahead."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from sarqc.errors import SarqcError
from sarqc.jobs.links import DAY
from sarqc.jobs.store import Store

AT_A_START = 3600.0  # seconds for which a time is not trusted that is long after the last one: a network corrects it
NOTED_SECONDS = 3600.0  # between two notes of the time

log = logging.getLogger(__name__)


# A count of seconds that nobody sets; those in which the host slept count too where it has such a count.
elapsed = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class HostTime:
    """Compares the time with the seconds that passed, and at the start with the time that was noted last.

    A time that is more than a day ahead is not trusted for a day, at the start for an hour; then it is the time. One
    that goes back makes everything younger, and is trusted.
    """

    def __init__(self, store: Store, elapsed: Callable[[], float] = elapsed) -> None:
        self._store, self._elapsed, self._wait = store, elapsed, AT_A_START
        self._noted = store.trusted()
        self._last: tuple[float, float] | None = None  # a trusted time, and the count of seconds then
        self._since: float | None = None  # the count when the time was first ahead

    def is_trusted(self, now: float) -> bool:
        """Return whether something may be deleted by a time (seconds since 1970)."""
        count = self._elapsed()
        last, then = self._last = self._last or (self._noted or now, count)
        if (ahead := now - last - (count - then)) <= DAY:
            self._since = None
        elif self._since is None:
            self._since = count
            words = "the clock is %.1f days ahead of what was expected: nothing is deleted by age for %d hours"
            log.warning(words, ahead / DAY, self._wait // 3600)
        if self._since is not None and count - self._since < self._wait:
            return False
        self._last, self._since, self._wait = (now, count), None, DAY
        if self._noted is None or abs(now - self._noted) >= NOTED_SECONDS:
            with suppress(SarqcError):  # on a full disk: in the next turn
                self._store.trust(now)
                self._noted = now
        return True
