"""``/healthz``: whether the app works, for whatever watches over it. Answered before anything else is asked."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/healthz"


class Healthz:
    """Answers 200 while all is well and 503 when there is trouble, without a thread, a login or a place in a queue.

    What the trouble is stands in ``GET /api/health``, which has readers who may know.
    """

    def __init__(self, app: ASGIApp, trouble: Callable[[], str | None]) -> None:
        self.app, self.trouble = app, trouble

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] not in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        is_well = self.trouble() is None
        status, code = ("ok", 200) if is_well else ("trouble", 503)
        await JSONResponse({"status": status}, code, headers={"Cache-Control": "no-store"})(scope, receive, send)
