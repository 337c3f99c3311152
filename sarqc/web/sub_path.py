"""The app below a path of another site (``SARQC_ROOT_PATH``), behind a proxy that hands that path on or takes it off.

Inside, the app stands at “/”. What it writes into pages begins with the path by itself; the headers of answers get it
here, so that no route has to think of it.
"""

from __future__ import annotations

import re

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_COOKIE_PATH = re.compile(rb"(?i)(;\s*path=)/(?=;|\s*$)")


class SubPath:
    """Takes the path off requests, and puts it before the addresses in ``Location`` and the paths of cookies."""

    def __init__(self, app: ASGIApp, root: str) -> None:
        self.app, self._root = app, root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["path"] == self._root and scope["method"] in ("GET", "HEAD"):  # relative addresses need the “/”
            await RedirectResponse(f"{self._root}/", 307)(scope, receive, send)
            return
        if scope["path"].startswith(f"{self._root}/"):
            raw = scope.get("raw_path")
            inside = {"path": scope["path"][len(self._root) :], "raw_path": raw and raw[len(self._root) :]}
            scope = {**scope, **inside}

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {
                    **message,
                    "headers": [(name, self._outside(name, value)) for name, value in message["headers"]],
                }
            await send(message)

        await self.app(scope, receive, send_on)

    def _outside(self, name: bytes, value: bytes) -> bytes:
        root = self._root.encode()
        if name.lower() == b"location" and value.startswith(b"/") and not value.startswith(b"//"):
            return root + value
        if name.lower() == b"set-cookie":
            return _COOKIE_PATH.sub(rb"\1" + root + b"/", value)
        return value
