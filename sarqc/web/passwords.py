"""Passwords and tokens: judged a few at a time in threads of their own, and wrong ones counted by address and by name.

A guess costs 16 MiB and some 50 ms. The count holds for the sign-in page and for the headers of programs alike.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sarqc.errors import Busy, TooMany
from sarqc.web.users import User, user_of

AT_ONCE = 2
WAITING = 32  # being judged or waiting; one more is told to come back
RIGHT_KEPT = 64  # of programs, which send theirs with each request
OF_AN_ADDRESS = 10  # a minute
OF_A_NAME = 30  # from wherever they come: addresses are cheap
MINUTE = 60.0
NAMES_KNOWN = 1024
LONGEST_NAME = 64  # characters of a name that tell it from others


class Passwords:
    """Judges names and passwords. Used by the event loop alone."""

    def __init__(self, tries: LoginThrottle) -> None:
        self._tries, self._under_way = tries, 0
        # The same two threads each time: what a guess takes of the memory is used again by the next.
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, None] = {}  # the last used one last

    async def user(self, users: Mapping[str, User], name: str, password: str, address: str, where: str) -> User | None:
        """The user of a name and a password. Raises ``TooMany`` and, where too many are being judged, ``Busy``."""
        mark, known = self._mark(users, name, password), users.get(name)
        is_kept = known is not None and mark in self._right
        if not is_kept and self._under_way >= WAITING:  # and it is not counted: nothing was found out
            raise Busy(f"{WAITING} passwords are being checked or wait", where, "Try again in a moment.")
        with self._tries.one(where, address, name) as judged:
            user = known if is_kept else await self._judged(users, name, password)
            judged.is_right = user is not None
        if user is not None:
            _remember(self._right, mark, RIGHT_KEPT)
        return user

    async def _judged(self, users: Mapping[str, User], name: str, password: str) -> User | None:
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, user_of, users, name, password)
        finally:
            self._under_way -= 1

    def _mark(self, users: Mapping[str, User], name: str, password: str) -> bytes:
        """What is kept of a password that was right: nothing without this process, and worth nothing with another."""
        digest = users[name].digest if name in users else ""
        return hmac.digest(self._key, "\0".join((name, digest, password)).encode(), "sha256")


@dataclass
class Try:
    """A token or a password that is being judged."""

    is_right: bool = False


class LoginThrottle:
    """The wrong ones of the last minute, and those that are not judged yet, which count as wrong until they are.

    Used by the event loop alone.
    """

    def __init__(self) -> None:
        self._wrong: deque[tuple[float, tuple[str, ...]]] = deque()  # when (monotonic), the last one last
        self._count: Counter[tuple[str, ...]] = Counter()  # of these and of those under way
        self._known: dict[tuple[str, str], None] = {}  # address and name of those who came in, the last one last

    @contextmanager
    def one(self, where: str, address: str, name: str = "") -> Iterator[Try]:
        """For as long as one is judged. Raises ``TooMany`` where too many have come from the address, or for the name.

        A person at an address from which they have come in is counted apart: there, guesses at other names don't lock
        them out, nor do guesses at theirs from elsewhere.
        """
        name = name[:LONGEST_NAME]
        limits: list[tuple[int, tuple[str, ...]]] = [(OF_AN_ADDRESS, ("address", address))]
        if (address, name) in self._known:
            limits = [(OF_AN_ADDRESS, ("person", address, name))]
        elif name:
            limits.append((OF_A_NAME, ("name", name)))
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
                    _remember(self._known, (address, name), NAMES_KNOWN)

    def _uncount(self, keys: Sequence[tuple[str, ...]]) -> None:
        for key in keys:
            self._count[key] -= 1
            if not self._count[key]:
                del self._count[key]


def _remember(known: dict[Any, None], key: object, most: int) -> None:
    """Put a key last, and forget the first of too many."""
    known.pop(key, None)
    known[key] = None
    if len(known) > most:
        known.pop(next(iter(known)))
