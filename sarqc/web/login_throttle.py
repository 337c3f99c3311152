"""Wrong tokens and passwords, counted by address and by name: on the page for signing in and in the headers of programs
alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from sarqc.errors import TooMany

OF_AN_ADDRESS = RateLimitItemPerMinute(10)
OF_A_NAME = RateLimitItemPerMinute(30)  # from wherever they come: addresses are cheap
NAMES_KNOWN = 1024
LONGEST_NAME = 64  # characters of a name that tell it from others


@dataclass
class Try:
    """A token or a password that is being judged."""

    is_right: bool = False


class LoginThrottle:
    """The wrong ones of the last minute, and those that are not judged yet, which count as wrong until they are.

    Used by the event loop alone.
    """

    def __init__(self) -> None:
        self._limiter = MovingWindowRateLimiter(MemoryStorage())
        self._under_way: Counter[tuple[str, str]] = Counter()
        self._known: dict[tuple[str, str], None] = {}  # address and name of those who came in, the last one last

    @contextmanager
    def one(self, where: str, address: str, name: str = "") -> Iterator[Try]:
        """For as long as one is judged. Raises ``TooMany`` where too many have come from the address, or for the name:
        but strangers can't lock out a person at an address from which they have come in."""
        name = name[:LONGEST_NAME]
        limits = [(OF_AN_ADDRESS, ("address", address))]
        if name and (address, name) not in self._known:
            limits.append((OF_A_NAME, ("name", name)))
        for limit, key in limits:
            if not self._limiter.test(limit, *key, cost=self._under_way[key] + 1):
                whose = "from this address" if key[0] == "address" else "for this name"
                raise TooMany(f"too many wrong tokens or passwords have come {whose}", where, "Wait a minute.")
        self._under_way.update(key for _, key in limits)
        judged = Try()
        try:
            yield judged
        finally:
            self._under_way.subtract(key for _, key in limits)
            self._under_way += Counter()  # keeps what is more than none
            if not judged.is_right:
                for limit, key in limits:
                    self._limiter.hit(limit, *key)
            elif name:
                self._remember(address, name)

    def _remember(self, address: str, name: str) -> None:
        self._known.pop((address, name), None)
        self._known[address, name] = None
        if len(self._known) > NAMES_KNOWN:
            self._known.pop(next(iter(self._known)))
