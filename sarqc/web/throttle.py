"""Wrong tokens and passwords, of the sign-in page and of programs alike, counted by address and by name."""

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sarqc.errors import TooMany

ADDRESS_LIMIT = 10  # a minute
NAME_LIMIT = 30  # from wherever they come: addresses are cheap
MINUTE = 60.0
NAMES_KNOWN = 1024
LONGEST_NAME = 64  # significant characters of a name


@dataclass
class Try:
    """A token or a password under check."""

    is_right: bool = False


class LoginThrottle:
    """The wrong ones of the last minute, and those under check, which count as wrong until then.

    Used by the event loop alone.
    """

    def __init__(self) -> None:
        self._wrong: deque[tuple[float, tuple[str, ...]]] = deque()  # when (monotonic), the last one last
        self._count: Counter[tuple[str, ...]] = Counter()  # of these and of those under way
        self._known: dict[tuple[str, str], None] = {}  # address and name of successful sign-ins, the latest last

    @contextmanager
    def attempt(self, where: str, address: str, name: str = "") -> Iterator[Try]:
        """Count a token or password as wrong while it is judged. Raise ``TooMany`` for an address or a name with too
        many.

        A person at an address from which they have come in is counted apart: there, guesses at other names don't lock
        them out, nor do guesses at theirs from elsewhere.
        """
        name = name[:LONGEST_NAME]
        limits: list[tuple[int, tuple[str, ...]]] = [(ADDRESS_LIMIT, ("address", address))]
        if (address, name) in self._known:
            limits = [(ADDRESS_LIMIT, ("person", address, name))]
        elif name:
            limits.append((NAME_LIMIT, ("name", name)))
        while self._wrong and self._wrong[0][0] <= time.monotonic() - MINUTE:
            self._uncount([self._wrong.popleft()[1]])
        for limit, key in limits:
            if self._count[key] >= limit:
                whose = "from this address" if key[0] == "address" else "for this name"
                raise TooMany(f"too many wrong tokens or passwords have come {whose}", where, "Wait a minute.")
        keys = [key for _, key in limits]
        self._count.update(keys)
        judged = Try()
        try:
            yield judged
        finally:
            if not judged.is_right:
                self._wrong.extend((time.monotonic(), key) for key in keys)
            else:
                self._uncount(keys)
                if name:
                    remember(self._known, (address, name), NAMES_KNOWN)

    def _uncount(self, keys: Sequence[tuple[str, ...]]) -> None:
        for key in keys:
            self._count[key] -= 1
            if not self._count[key]:
                del self._count[key]


def remember(known: dict[Any, None], key: object, most: int) -> None:
    """Put a key last, and drop the first of too many."""
    known.pop(key, None)
    known[key] = None
    if len(known) > most:
        known.pop(next(iter(known)))
