"""Event loops beside those of other tests."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def run_apart(work: Coroutine[Any, Any, Any], loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> Any:
    """Return the result of work in a thread of its own: in this one another test's event loop may still be running."""

    def run() -> Any:
        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(work)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()
