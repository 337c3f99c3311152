"""Passwords: judged a few at a time in threads of their own, since a guess costs 16 MiB and some 50 ms."""

import asyncio
import hmac
import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from sarqc.errors import Busy
from sarqc.extras.host.users import User, user_of
from sarqc.web.throttle import LoginThrottle, remember

AT_ONCE = 2
WAITING = 32  # being judged or waiting; more are refused
REMEMBERED = 64  # of programs, which send theirs with each request


class Passwords:
    """Judges names and passwords. For the event loop alone."""

    def __init__(self, tries: LoginThrottle) -> None:
        self._tries, self._under_way = tries, 0
        # The same two threads each time: their memory is reused by the next guess.
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, None] = {}  # the last used one last

    async def user(self, users: Mapping[str, User], name: str, password: str, address: str, where: str) -> User | None:
        """Return the user of a name and a password. Raise ``TooMany`` and, where too many are being judged,
        ``Busy``."""
        mark, known = self._mark(users, name, password), users.get(name)
        is_remembered = known is not None and mark in self._right
        if not is_remembered and self._under_way >= WAITING:  # and it is not counted as wrong
            raise Busy(f"{WAITING} passwords are being checked or wait", where, "Try again in a moment.")
        with self._tries.attempt(where, address, name) as judged:
            user = known if is_remembered else await self._judged(users, name, password)
            judged.is_right = user is not None
        if user is not None:
            remember(self._right, mark, REMEMBERED)
        return user

    async def _judged(self, users: Mapping[str, User], name: str, password: str) -> User | None:
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, user_of, users, name, password)
        finally:
            self._under_way -= 1

    def _mark(self, users: Mapping[str, User], name: str, password: str) -> bytes:
        """Return the mark of a password that was right; worthless outside this process."""
        digest = users[name].digest if name in users else ""
        return hmac.digest(self._key, "\0".join((name, digest, password)).encode(), "sha256")
