"""Every request with its answer, reported at its end to the access log and the counters."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sarqc import logs
from sarqc.files.kept_out import without_secrets
from sarqc.web.gate import METHODS
from sarqc.web.middleware import HttpMiddleware

OTHER = "other"  # an unknown method or path
GONE = 499  # the client left before the answer: nginx's number
FAILED = 500
LONGEST = 200  # characters of a path in the log
UNSEEN = ("/healthz", "/readyz", "/metrics")  # asked by machines all the time: no line in the log

log = logging.getLogger("sarqc.access")


@dataclass(frozen=True)
class Exchange:
    """A request and its answer."""

    method: str
    path: str
    route: str  # the path as its route has it, “/api/runs/{run_id}”; few, whatever is asked for
    status: int
    sent: int  # bytes of the answer's body
    seconds: float  # from the first byte of the request to the last of the answer
    address: str
    owner: str  # empty without a visitor
    is_stream: bool  # of events: it lasts until the listener leaves


class Exchanges(HttpMiddleware):
    """Wraps the whole app. ``pages`` are the paths of pages, which are Gradio's to route."""

    def __init__(self, app: ASGIApp, listeners: Sequence[Callable[[Exchange], None]], pages: Sequence[str]) -> None:
        super().__init__(app)
        self._listeners, self._pages = listeners, frozenset(pages)

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        path = scope["path"]
        status, sent, is_stream = GONE, 0, False

        async def counted(message: Message) -> None:
            nonlocal status, sent, is_stream
            if message["type"] == "http.response.start":
                status = message["status"]
                is_stream = Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
            elif message["type"] == "http.response.body":
                sent += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, counted)
        except Exception:
            status = FAILED if status == GONE else status
            raise
        finally:
            visitor = scope.get("state", {}).get("visitor")
            exchange = Exchange(
                scope["method"] if scope["method"] in METHODS else OTHER,
                path,
                self._route(scope, path),
                status,
                sent,
                time.perf_counter() - began,
                (scope.get("client") or ("", 0))[0],
                "" if visitor is None else visitor.owner,
                is_stream,
            )
            for listener in self._listeners:
                listener(exchange)

    def _route(self, scope: Scope, path: str) -> str:
        if path in self._pages:
            return path
        form = getattr(scope.get("route"), "path_format", None)
        if form is None:
            return path if path in UNSEEN else OTHER
        # An included route knows only its own end of the path.
        end = form.format(**scope.get("path_params", {}))
        return path.removesuffix(end) + form if path.endswith(end) else OTHER


def log_access(exchange: Exchange) -> None:
    """Log a line for a request: its sender, its path without parameters, and its answer."""
    if exchange.path in UNSEEN:
        return
    path = without_secrets(quote(exchange.path[:LONGEST], safe="/-._~:{}@"))
    milliseconds = round(1000 * exchange.seconds, 1)
    fields: dict[str, Any] = {
        "method": exchange.method,
        "path": path,
        "status": exchange.status,
        "bytes": exchange.sent,
        "milliseconds": milliseconds,
        "address": exchange.address,
    }
    words = f"{exchange.address} {exchange.method} {path} {exchange.status} {exchange.sent} bytes {milliseconds} ms"
    with logs.about(**({"owner": exchange.owner} if exchange.owner else {})):
        log.info("%s", words, extra={"fields": fields})
