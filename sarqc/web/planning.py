"""Slow work, such as plans, in a few threads, with a share for each person."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from sarqc.errors import Busy, TooMany

THREADS = 4
AT_ONCE_EACH = THREADS // 2  # plans of one person, or of the strangers at one address, that are made at a time
WAITING, WAITING_EACH = 32, 8  # plans under way or waiting, in all and of a person; more are refused

Answer = TypeVar("Answer")


class Planning:
    """Runs slow work in a few ``threads``, so that pages go on meanwhile; ``what`` describes it.

    Those who wait for work of their own take no thread from others.
    """

    def __init__(self, what: str = "plans are being made or wait", threads: int = THREADS, most: int = WAITING) -> None:
        self._threads, self._what, self._most = CapacityLimiter(threads), what, most
        self._under_way: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def run(self, work: Callable[[], Answer], holder: str | None = None) -> Answer:
        """Return the result of ``work``. Raise ``Busy`` where too much work waits already, ``TooMany`` for a single
        holder; without a holder it is everybody's."""
        if self._under_way.total() >= self._most:
            raise Busy(f"{self._most} {self._what}", "app", "Try again in a moment.")
        if holder is not None and self._under_way[holder] >= WAITING_EACH:
            raise TooMany(f"{WAITING_EACH} of your plans are being made or wait", "app", "Wait for one of them.")
        key = holder or ""
        turn = self._turns.setdefault(key, asyncio.Semaphore(AT_ONCE_EACH)) if holder is not None else nullcontext()
        self._under_way[key] += 1
        try:
            async with turn:
                return await to_thread.run_sync(work, limiter=self._threads)
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]
                self._turns.pop(key, None)
