"""Threads of their own for plans, which ask the Hub, read texts and count tokens: while they wait, pages go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from sarqc.errors import Busy

THREADS = 4
WAITING = 32  # plans under way or waiting; one more is told to come back

Answer = TypeVar("Answer")


class Planning:
    """Runs what makes plans."""

    def __init__(self) -> None:
        self._threads, self._under_way = CapacityLimiter(THREADS), 0

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """The answer of ``work``. Raises ``Busy`` where too many plans wait already."""
        if self._under_way >= WAITING:
            raise Busy(f"{WAITING} plans are being made or wait", "plan", "Try again in a moment.")
        self._under_way += 1
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        finally:
            self._under_way -= 1
