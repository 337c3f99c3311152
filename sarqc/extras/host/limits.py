"""Limits on requests, streams and bodies by address, and on idle connections.

uvicorn's own limits don't do the same: ``timeout_keep_alive`` begins after the first request, so that a connection
which sends nothing, or half a request, stays for ever; ``limit_concurrency`` counts all connections, however idle, and
knows no address.
"""

from __future__ import annotations

import asyncio
import logging
import select
from collections import Counter
from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from sarqc.errors import Busy
from sarqc.extras import Host
from sarqc.extras.host.process import OnceAMinute, raise_file_limit
from sarqc.extras.host.settings import HostSettings
from sarqc.web.gate import Crowd
from sarqc.web.middleware import HttpMiddleware
from sarqc.web.responses import error_response, where

BODY_SECONDS = 30.0  # without a byte
WHOLE_BODY_SECONDS = 900.0
HEAD_SECONDS = 30.0  # for a request to arrive up to its body, and between two requests
WAITED_SECONDS = 3.0  # without a request, after which a connection may be closed to make room
RESERVED_FILES = 128  # descriptors for everything that is not a connection


class RequestLimits(HttpMiddleware):
    """Refuses excessive requests, and ends those that do not arrive."""

    def __init__(self, app: ASGIApp, settings: HostSettings, crowds: Sequence[Crowd] = ()) -> None:
        super().__init__(app)
        self.settings, self._crowds = settings, crowds
        self._requests: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = scope["client"][0] if scope["client"] else ""
        path = scope["path"]
        if is_stream_to_a_crowd(path, self._crowds):
            await self.app(scope, _limit_time(receive), send)
            return
        is_stream = path.startswith("/api/") and path.endswith("/events")
        counter, limit = self._requests, self.settings.max_connections_per_address
        kind, name = "requests", "SARQC_MAX_CONNECTIONS_PER_ADDRESS"
        if is_stream:
            counter, limit = self._streams, self.settings.max_streams_per_address
            kind, name = "streams of events", "SARQC_MAX_STREAMS_PER_ADDRESS"
        if counter[address] >= limit:
            what = f"this address has {limit} {kind} open, as many as it may"
            error = Busy(what, f"{scope['method']} {path}", f"Close some of them, or raise {name}.")
            await error_response(error)(scope, receive, send)
            return
        counter[address] += 1
        try:
            await self.app(scope, _limit_time(receive), send)
        finally:
            counter[address] -= 1
            if not counter[address]:
                del counter[address]


def _limit_time(receive: Receive) -> Receive:
    """Return the same body, which has to keep arriving. What follows it (a disconnect) may take for ever."""
    deadline = asyncio.get_running_loop().time() + WHOLE_BODY_SECONDS
    more = True

    async def receive_in_time() -> Message:
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

    return receive_in_time


class _Connection(H11Protocol):
    """A connection of uvicorn's that is closed when no request comes.

    Where there are too many, one that has waited for some seconds makes room for a new one. If there is none, requests
    of the new one are refused in words, and nobody else loses one. Streams to crowds are not counted here, and
    requests under way by ``RequestLimits``.
    """

    at_most: int
    at_most_per_address: int
    at_root: str
    crowds: Sequence[Crowd]
    _timer: asyncio.TimerHandle | None = None
    _waits_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        super().connection_made(transport)
        self._wait()
        for group, limit, most in self._groups():
            if len(group) > limit:
                self._make_room(group, most)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if not self._is_idle():
            self._end_waiting()

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._end_waiting()
        self._waits_since = self.loop.time()
        self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _end_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _groups(self) -> tuple[tuple[list[_Connection], int, int], ...]:
        """Return the connections of this address and of all, each with the limits to serve and to keep open."""
        everybody = [other for other in self.connections if isinstance(other, _Connection)]
        neighbours = [
            other for other in everybody if other._address() == self._address() and not other._streams_to_a_crowd()
        ]
        each = self.at_most_per_address
        return (neighbours, each, 2 * each), (everybody, self.at_most, self.at_most + RESERVED_FILES // 4)

    def _make_room(self, group: list[_Connection], most: int) -> None:
        by_age = sorted((other for other in group if other is not self), key=lambda other: other._waits_since)
        oldest = next((other for other in by_age if other._is_quiet()), None)
        has_waited = oldest is not None and self.loop.time() - oldest._waits_since >= WAITED_SECONDS
        if not has_waited:
            self.app = self._answer_with_room
        if has_waited or len(group) > most:
            given_up = oldest or self
            self.connections.discard(given_up)
            given_up.transport.close()

    async def _answer_with_room(self, scope: Scope, receive: Receive, send: Send) -> None:
        app: ASGIApp = self.config.loaded_app
        if not self._streams_to_a_crowd() and any(len(group) > limit for group, limit, _ in self._groups()):
            what = "there are as many connections, of this address or of all, as there may be"
            app = error_response(Busy(what, where(scope), "Try again in a moment."))
            app.headers["Connection"] = "close"
        await app(scope, receive, send)

    def _is_quiet(self) -> bool:
        """Return whether nothing is under way, has come unread or waits to be sent."""
        if not self._is_idle() or self.transport.get_write_buffer_size():
            return False
        unread = select.poll()
        unread.register(self.transport.get_extra_info("socket"), select.POLLIN)
        return not unread.poll(0)

    def _streams_to_a_crowd(self) -> bool:
        return not self._is_idle() and is_stream_to_a_crowd(
            self.cycle.scope["path"].removeprefix(self.at_root), self.crowds
        )

    def _address(self) -> str | None:
        return self.client[0] if self.client else None


def is_stream_to_a_crowd(path: str, crowds: Sequence[Crowd]) -> bool:
    """Return whether a path is that of a stream which is not counted by address."""
    return any(crowd.is_stream(path) for crowd in crowds)


def connection_class(
    settings: HostSettings, open_files: int, crowds: Sequence[Crowd] = (), root: str = ""
) -> type[asyncio.Protocol]:
    """Return the protocol of a server, by its settings and by the files that its process may have open."""
    limits = {
        "at_most": max(16, min(settings.max_connections, open_files - RESERVED_FILES)),
        "at_most_per_address": settings.max_connections_per_address,
        "at_root": root,
        "crowds": crowds,
    }
    return type("Connection", (_Connection,), limits)


def server_limits(host: Host) -> dict[str, Any]:
    """Return the arguments of uvicorn's configuration; the process may have more files, and its log does not flood."""
    settings = host.settings
    for name in ("asyncio", "uvicorn.error"):  # their messages, which any client can provoke
        logging.getLogger(name).addFilter(OnceAMinute())
    return {"http": connection_class(settings.of(HostSettings), raise_file_limit(), host.crowds, settings.root())}
