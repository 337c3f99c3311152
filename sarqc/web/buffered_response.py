"""Answers that are read whole before anything of them is sent, and then sent otherwise. All others go through as they
are, so that streams stay streams.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send


async def held_back(
    app: ASGIApp,
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    which: Callable[[Message], bool],
    instead: Callable[[Message, bytes], Awaitable[None]],
) -> None:
    """Runs an app. ``which``: by its start, whether an answer is held back; ``instead`` then sends one, given that
    start and the whole body.
    """
    start: Message | None = None
    body = b""

    async def send_on(message: Message) -> None:
        nonlocal start, body
        if message["type"] == "http.response.start" and which(message):
            start = message
        elif start is None or message["type"] != "http.response.body":
            await send(message)
        else:
            body += message.get("body", b"")
            if not message.get("more_body", False):
                await instead(start, body)

    await app(scope, receive, send_on)


def is_page(start: Message) -> bool:
    """Whether an answer that begins so is HTML."""
    return Headers(raw=start["headers"]).get("content-type", "").startswith("text/html")
