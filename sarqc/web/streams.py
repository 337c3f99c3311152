"""Server-sent events: the log of one run, and the changes of all runs, replayed from the store and then live; and the
state of something in memory, such as a lecture.

What a listener gets is read from the store each time; a bell only says that there is news. So nothing is lost between
replay and live, a listener that is slow costs no memory, and any number of them may listen. A browser that comes back
sends ``Last-Event-ID`` and goes on where it was.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from fastapi.concurrency import run_in_threadpool
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from sarqc.errors import NotFound
from sarqc.jobs.bell import ALL_RUNS, Bell
from sarqc.jobs.run import Removed, Run
from sarqc.jobs.store import Store

HEARTBEAT_SECONDS = 15.0
BATCH = 500  # events, or changes, read at once
BATCH_BYTES = 65_536  # of events read at once: the memory of a listener that doesn't read
COALESCE_SECONDS = 0.05  # news within this time are one message: a storm of events is not a storm of queries
RECONNECT_MILLISECONDS = 2000
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter for nginx


Sight = Callable[[Run | Removed], bool]


async def run_events(
    store: Store, bell: Bell, run_id: str, after: int, sight: Callable[[], Sight]
) -> AsyncIterator[bytes]:
    """Return the events of a run after a sequence number, until it is at rest. ``id`` is the sequence number.

    ``sight`` says which runs the listener may see as of now: a link may be revoked while somebody listens.
    """
    yield _first_line()
    with bell.listen(run_id) as news:
        while not bell.closed:
            news.clear()
            try:
                if not await run_in_threadpool(lambda: sight()(store.get(run_id))):
                    return
                events, complete = await run_in_threadpool(store.tail, run_id, after, BATCH, BATCH_BYTES)
            except NotFound:  # deleted meanwhile
                return
            for event in events:
                after = event.seq
                yield _message(event.to_json(), after)
            if complete:
                return
            if not events and not await _wait_for_news(news):
                yield KEEPALIVE_COMMENT


async def run_changes(
    store: Store, bell: Bell, after: int, sight: Callable[[], Sight], as_seen: Callable[[Run], Run]
) -> AsyncIterator[bytes]:
    """Yield each run and export after a change, and each removal. ``id`` is the revision. Never ends.

    Runs that the listener may not see are skipped, see ``run_events``; ``as_seen`` is the visible part of the rest.
    """
    yield _first_line()
    with bell.listen(ALL_RUNS) as news:
        while not bell.closed:
            news.clear()
            changes = await run_in_threadpool(store.changed_since, after, BATCH)
            seen = await run_in_threadpool(sight)
            for change in changes:
                after = change.revision
                if not seen(change):
                    continue
                if isinstance(change, Removed):
                    yield _message({"type": "removed", "id": change.id}, after)
                else:
                    kind = "run" if change.parent is None else "export"
                    yield _message({"type": kind, "run": as_seen(change).to_json()}, after)
            if len(changes) < BATCH and not await _wait_for_news(news):
                yield KEEPALIVE_COMMENT


async def states(
    bell: Bell, topic: str, state: Callable[[], tuple[Mapping[str, Any], bool] | None]
) -> AsyncIterator[bytes]:
    """Yield a state, and again whenever its topic rings.

    ``state``: the document, and whether it is the last one; None ends the stream without a word.
    """
    yield _first_line()
    with bell.listen(topic) as news:
        number = 0
        while not bell.closed:
            news.clear()
            current = state()
            if current is None:
                return
            document, is_last = current
            number += 1
            yield _message(document, number)
            if is_last:
                return
            while not await _wait_for_news(news):
                yield KEEPALIVE_COMMENT


async def _wait_for_news(news: asyncio.Event) -> bool:
    """Wait for the bell; False when it stayed silent for a heartbeat."""
    try:
        await asyncio.wait_for(news.wait(), HEARTBEAT_SECONDS)
    except TimeoutError:
        return False
    await asyncio.sleep(COALESCE_SECONDS)
    return True


def _first_line() -> bytes:
    """Return the first line, which sets the browser's retry time and sends the headers before there is news."""
    return f"retry: {RECONNECT_MILLISECONDS}\n\n".encode()


def _message(data: Mapping[str, Any], number: int) -> bytes:
    return format_sse_event(data_str=json.dumps(data, ensure_ascii=False, separators=(",", ":")), id=str(number))
