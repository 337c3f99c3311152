"""Layers around the whole app: security headers, and a path of another site.

Below such a path (``SARQC_ROOT_PATH``) the app itself believes to be at “/”. Its pages begin addresses with the path;
the headers of answers get it here, so that no route has to.
"""

import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Above all, no page can load from, or send to, another origin. Gradio's styles are inline all over.
# Scripts are files of ours, or carry the nonce of their answer.
_POLICY = {
    "default-src": "'self'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "media-src": "'self' data: blob:",
    "worker-src": "'self' blob:",
    "connect-src": "'self' data: blob:",
    "object-src": "'none'",
    "base-uri": "'self'",
    "form-action": "'self'",
}
# Of a device, the pages ask for the clipboard and the whole screen alone.
UNUSED_FEATURES = (
    "accelerometer",
    "browsing-topics",
    "camera",
    "display-capture",
    "geolocation",
    "gyroscope",
    "hid",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "serial",
    "usb",
)
_COOKIE_PATH = re.compile(rb"(?i)(;\s*path=)/(?=;|\s*$)")


async def intercept(
    app: ASGIApp,
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    which: Callable[[Message], bool],
    instead: Callable[[Message, bytes], Awaitable[None]],
) -> None:
    """Run an app. ``which`` selects, by their start, answers that are held back; ``instead`` then sends one, given that
    start and the whole body."""
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
    """Return whether an answer that begins so is HTML."""
    return Headers(raw=start["headers"]).get("content-type", "").startswith("text/html")


def content_security_policy(nonce: str, frame_ancestors: str, *, evaluates: bool = False) -> str:
    """Return the policy of an answer. ``evaluates``: for pages with Gradio's elements, which compile templates and
    scripts from text."""
    scripts = f"'self' 'nonce-{nonce}'" + (" 'unsafe-eval'" if evaluates else "")
    every = {**_POLICY, "script-src": scripts, "frame-ancestors": frame_ancestors}
    return "; ".join(f"{name} {value}" for name, value in every.items())


def nonce_of(scope: Scope) -> str:
    """Return the nonce of this answer's own scripts."""
    nonce: str = scope["state"]["nonce"]
    return nonce


class HttpMiddleware(ABC):
    """An app around another one: ``http`` has its requests, all else goes through. Plain ASGI: streams stay streams."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.http if scope["type"] == "http" else self.app)(scope, receive, send)

    @abstractmethod
    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""


class SecurityHeaders(HttpMiddleware):
    """Adds security headers, where an answer has none of its own, and gives each answer its nonce."""

    def __init__(self, app: ASGIApp, frame_ancestors: str) -> None:
        super().__init__(app)
        self._frame_ancestors = frame_ancestors
        self._headers = {
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
            "Permissions-Policy": ", ".join(f"{name}=()" for name in UNUSED_FEATURES),
            "Cross-Origin-Opener-Policy": "same-origin",
        }

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        nonce = scope.setdefault("state", {})["nonce"] = secrets.token_urlsafe(16)
        own = {"Content-Security-Policy": content_security_policy(nonce, self._frame_ancestors), **self._headers}

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in own.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)


class SubPath(HttpMiddleware):
    """Takes the path off requests, and puts it before the addresses in ``Location`` and the paths of cookies."""

    def __init__(self, app: ASGIApp, root: str) -> None:
        super().__init__(app)
        self._root = root

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
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
                    "headers": [(name, self._with_root(name, value)) for name, value in message["headers"]],
                }
            await send(message)

        await self.app(scope, receive, send_on)

    def _with_root(self, name: bytes, value: bytes) -> bytes:
        root = self._root.encode()
        if name.lower() == b"location" and value.startswith(b"/") and not value.startswith(b"//"):
            return root + value
        if name.lower() == b"set-cookie":
            return _COOKIE_PATH.sub(rb"\1" + root + b"/", value)
        return value
