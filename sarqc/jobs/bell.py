"""A bell: all who wait for news of a topic are woken."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Bell:
    """Wakes coroutines that listen to a topic. Rung from any thread; a ring in between is not lost."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._listeners: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        self.closed = False

    @contextmanager
    def listen(self, topic: str) -> Iterator[asyncio.Event]:
        """Return an event that is set when the topic rings; for the running loop."""
        listener = (asyncio.get_running_loop(), asyncio.Event())
        with self._mutex:
            self._listeners.setdefault(topic, set()).add(listener)
        try:
            yield listener[1]
        finally:
            with self._mutex:
                listeners = self._listeners[topic]
                listeners.discard(listener)
                if not listeners:
                    del self._listeners[topic]

    def listeners(self) -> int:
        """Return the number of listeners, to whatever topic."""
        with self._mutex:
            return sum(map(len, self._listeners.values()))

    def ring(self, *topics: str) -> None:
        with self._mutex:
            matching = [listener for topic in topics for listener in self._listeners.get(topic, ())]
        for loop, event in matching:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        """End all streams: the app goes down, and would otherwise wait for its listeners."""
        self.closed = True
        with self._mutex:
            topics = list(self._listeners)
        self.ring(*topics)


ALL_RUNS = "all runs"  # the topic of the changes of any run; a run's own topic is its id
