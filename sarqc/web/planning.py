"""Threads of their own for what takes its time, such as plans, which ask the Hub, read texts and count tokens: while
they wait, pages go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from sarqc.errors import Busy

THREADS = 4
WAITING = 32  # plans under way or waiting; one more is told to come back

Answer = TypeVar("Answer")


class Planning:
    """Runs what makes plans, or other work: ``what`` says it in words, ``threads`` at a time."""

    def __init__(self, what: str = "plans are being made or wait", threads: int = THREADS, most: int = WAITING) -> None:
        self._threads, self._under_way = CapacityLimiter(threads), 0
        self._what, self._most = what, most

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """The answer of ``work``. Raises ``Busy`` where too many plans wait already."""
        if self._under_way >= self._most:
            raise Busy(f"{self._most} {self._what}", "app", "Try again in a moment.")
        self._under_way += 1
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        finally:
            self._under_way -= 1
