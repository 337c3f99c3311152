"""Generators of events: of work that reports its progress, and with a return value."""

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Generic, TypeVar

from sarqc.events import Advanced

T = TypeVar("T")
Item = TypeVar("Item")
Tell = Callable[[int, int], None]  # how many are done, of how many

EVENT_INTERVAL = 1.0  # seconds


class Returning(Generic[Item, T]):
    """The items of a generator; ``value`` is its return value, set at their end."""

    value: T

    def __init__(self, steps: Generator[Item, None, T]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[Item]:
        self.value = yield from self._steps


class _Stopped(BaseException):
    """The caller has stopped waiting. A ``BaseException``, so that the work does not handle it."""


def with_progress(work: Callable[[Tell], T], what: str, every: float = EVENT_INTERVAL) -> Generator[Advanced, None, T]:
    """Run ``work`` in a thread, yield its progress at regular intervals, and return its result or raise its error.

    ``what`` is the unit in the words of ``Advanced``. If the generator is closed, work ends at its next report.
    """
    latest: list[tuple[int, int]] = []
    stopped = threading.Event()

    def tell(done: int, total: int) -> None:
        if stopped.is_set():
            raise _Stopped
        latest[:] = [(done, total)]

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work, tell)
        try:
            while not wait([working], every).done:
                if latest:
                    yield Advanced(*latest[0], what)
            return working.result()
        finally:
            stopped.set()
