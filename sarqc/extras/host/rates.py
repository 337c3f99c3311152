"""Requests that an address or a crowd may send in a minute."""

from collections.abc import Callable, Sequence

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from sarqc.errors import TooMany
from sarqc.web.gate import Crowd


def rate_check(per_minute: int, crowds: Sequence[Crowd]) -> Callable[[str, str, str], None]:
    """Return the check that counts requests, of a crowd by its group and of all others by their address.

    A group that has had too many has those of the address.
    """
    limiter, each = SlidingWindowCounterRateLimiter(MemoryStorage()), RateLimitItemPerMinute(per_minute)

    def check(method: str, path: str, address: str) -> None:
        for name, most in filter(None, (crowd.group(path) for crowd in crowds)):
            if limiter.hit(RateLimitItemPerMinute(most, namespace="crowd"), name):
                return
        if not limiter.hit(each, address):
            where = f"{method} {path}"[:200]
            raise TooMany("too many requests have come from this address", where, "Wait a minute.")

    return check
