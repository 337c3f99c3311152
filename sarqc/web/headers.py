"""Headers that tell a browser what this app does not do."""

from __future__ import annotations

import secrets

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# What matters most is that no page can load from, or send to, another origin. Styles are inline all over: plotly's and
# Gradio's. Scripts are files of ours, or carry the nonce of their answer.
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
    "accelerometer", "browsing-topics", "camera", "display-capture", "geolocation", "gyroscope", "hid", "magnetometer",
    "microphone", "midi", "payment", "serial", "usb",
)  # fmt: skip


def content_security_policy(nonce: str, frame_ancestors: str, *, evaluates: bool = False) -> str:
    """The policy of an answer. ``evaluates``: for pages with Gradio's elements, which compile their templates, and what
    is given to them as scripts, from text."""
    scripts = f"'self' 'nonce-{nonce}'" + (" 'unsafe-eval'" if evaluates else "")
    every = {**_POLICY, "script-src": scripts, "frame-ancestors": frame_ancestors}
    return "; ".join(f"{name} {value}" for name, value in every.items())


def nonce_of(scope: Scope) -> str:
    """What a script within a document carries that this very answer has put there."""
    nonce: str = scope["state"]["nonce"]
    return nonce


class SecurityHeaders:
    """Adds the headers that tell a browser what this app does not do, where an answer has none of its own, and gives
    each answer its nonce. Plain ASGI, so that streams stay streams."""

    def __init__(self, app: ASGIApp, frame_ancestors: str) -> None:
        self.app, self._frame_ancestors = app, frame_ancestors
        self._headers = {
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
            "Permissions-Policy": ", ".join(f"{name}=()" for name in UNUSED_FEATURES),
            "Cross-Origin-Opener-Policy": "same-origin",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        nonce = scope.setdefault("state", {})["nonce"] = secrets.token_urlsafe(16)
        own = {"Content-Security-Policy": content_security_policy(nonce, self._frame_ancestors), **self._headers}

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in own.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)
