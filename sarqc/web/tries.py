"""Wrong tokens and passwords, counted by address: on the page for signing in and in the headers of programs alike."""

from __future__ import annotations

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from sarqc.errors import TooMany

AT_MOST = RateLimitItemPerMinute(10)


class Tries:
    """The wrong ones of the last minute."""

    def __init__(self) -> None:
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def check(self, address: str, where: str) -> None:
        """Raises ``TooMany`` for an address from which too many have come."""
        if not self._limiter.test(AT_MOST, address):
            raise TooMany("too many wrong tokens or passwords have come from this address", where, "Wait a minute.")

    def was_wrong(self, address: str) -> None:
        """Counts one."""
        self._limiter.hit(AT_MOST, address)
