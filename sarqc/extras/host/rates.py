"""How many requests a minute an address may send, and a crowd."""

from __future__ import annotations

from collections.abc import Sequence

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from sarqc.errors import TooMany
from sarqc.extras.host.settings import HostSettings
from sarqc.settings import Settings
from sarqc.web.gate import Crowd
from sarqc.web.profile import is_private


class RateLimits:
    """Counts requests, of a crowd by its group and of all others by their address."""

    def __init__(self, settings: Settings, crowds: Sequence[Crowd]) -> None:
        self._is_private, self._crowds = is_private(settings), crowds
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._each = RateLimitItemPerMinute(settings.of(HostSettings).requests_per_minute)

    def check(self, method: str, path: str, address: str) -> None:
        """Raise ``TooMany`` for one request too many from an address; a private host has no limit."""
        if not (self._is_private or self._is_of_a_group(path) or self._limiter.hit(self._each, address)):
            where = f"{method} {path}"[:200]
            raise TooMany("too many requests have come from this address", where, "Wait a minute.")

    def _is_of_a_group(self, path: str) -> bool:
        """Count a request with those of its group; a group that has had too many has those of the address."""
        for name, most in filter(None, (crowd.group(path) for crowd in self._crowds)):
            return self._limiter.hit(RateLimitItemPerMinute(most, namespace="crowd"), name)
        return False
