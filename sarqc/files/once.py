"""Values computed once for each key, also for concurrent callers; refusals are remembered for some minutes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from copy import copy
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from sarqc.errors import Refused

REFUSAL_SECONDS = 300.0

P = ParamSpec("P")
T = TypeVar("T")


def once(most: int) -> Callable[[Callable[P, T]], Once[P, T]]:
    """Return a decorator that makes a function ``Once`` and remembers that number of its latest results."""
    return partial(Once, most)


class Once(Generic[P, T]):
    """A function of hashable arguments that remembers its latest results.

    Unlike those of ``functools.lru_cache``, callers with the same arguments wait for one computation, and a refusal is
    raised again without another attempt. Other errors are not remembered.
    """

    def __init__(self, most: int, function: Callable[P, T]) -> None:
        self._most, self._function = most, function
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, tuple[Future[T], float]] = OrderedDict()  # and when each expires

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of the function, perhaps remembered."""
        key = args, tuple(sorted(kwargs.items()))
        with self._lock:
            result, expires = self._results.get(key, (None, 0.0))
            is_new = result is None or time.monotonic() > expires
            if result is None or is_new:
                result = Future()
                self._results[key] = result, float("inf")
            self._results.move_to_end(key)
            if len(self._results) > self._most:
                self._results.popitem(last=False)
        if is_new:
            self._settle(key, result, partial(self._function, *args, **kwargs))
        error = result.exception()
        if isinstance(error, Refused):
            raise copy(
                error
            ) from None  # each raising would add its frames, with all that they hold, to a remembered one
        return result.result()

    def _settle(self, key: Hashable, result: Future[T], work: Callable[[], T]) -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # for all who wait
            with self._lock:
                if isinstance(error, Refused):
                    error.__traceback__ = error.__cause__ = error.__context__ = None
                    self._results[key] = result, time.monotonic() + REFUSAL_SECONDS
                else:
                    self._results.pop(key, None)
            result.set_exception(error)

    def cache_clear(self) -> None:
        """Forget all results."""
        with self._lock:
            self._results.clear()
