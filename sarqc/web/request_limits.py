"""How many requests and streams an address may have at once, and how long a body may take to arrive."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sarqc.errors import Busy
from sarqc.settings import Settings
from sarqc.web.responses import error_response

BODY_SECONDS = 30.0  # without a byte
WHOLE_BODY_SECONDS = 900.0


class RequestLimits:
    """Turns away what is too much at once, and ends what does not arrive. Plain ASGI, so that streams stay streams."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self._requests: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        address = scope["client"][0] if scope["client"] else ""
        is_stream = scope["path"].startswith("/api/") and scope["path"].endswith("/events")
        counter, limit, name = (
            (self._streams, self.settings.max_streams_per_address, "SARQC_MAX_STREAMS_PER_ADDRESS")
            if is_stream
            else (self._requests, self.settings.max_connections_per_address, "SARQC_MAX_CONNECTIONS_PER_ADDRESS")
        )
        if counter[address] >= limit:
            what = (
                f"this address has {limit} {'streams of events' if is_stream else 'requests'} open, as many as it may"
            )
            error = Busy(what, f"{scope['method']} {scope['path']}", f"Close some of them, or raise {name}.")
            await error_response(error)(scope, receive, send)
            return
        with _counted(counter, address):
            await self.app(scope, _in_time(receive), send)


@contextmanager
def _counted(counter: Counter[str], address: str) -> Iterator[None]:
    counter[address] += 1
    try:
        yield
    finally:
        counter[address] -= 1
        if not counter[address]:
            del counter[address]


def _in_time(receive: Receive) -> Receive:
    """The same body, which has to go on arriving. What follows it (that somebody left) may take for ever."""
    deadline = asyncio.get_running_loop().time() + WHOLE_BODY_SECONDS
    more = True

    async def received() -> Message:
        nonlocal more
        if not more:
            return await receive()
        left = deadline - asyncio.get_running_loop().time()
        try:
            message = await asyncio.wait_for(receive(), min(BODY_SECONDS, left))
        except TimeoutError:
            raise HTTPException(408, "the body did not arrive in time") from None
        more = message["type"] == "http.request" and message.get("more_body", False)
        return message

    return received
