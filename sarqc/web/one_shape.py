"""Errors that others word, in the one shape: of routes and methods that nobody has, of byte ranges, of Gradio. To a
person who asked for a page, a page says it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sarqc.errors import Refused, SarqcError
from sarqc.web.buffered_response import held_back, is_page
from sarqc.web.responses import error_response

FOR_PROGRAMS = ("/api/", "/assets/", "/gradio_api/")
KEPT = ("allow", "content-range", "retry-after", "set-cookie", "www-authenticate")


class OneShape:
    """Says again what an app inside says in other words; pages for people, which are HTML, stay as they are.

    ``not_found`` makes the page for people who ask for one that is not there; without it they get what programs get.
    """

    def __init__(self, app: ASGIApp, not_found: Callable[[Scope], Response] | None = None) -> None:
        self.app, self._not_found = app, not_found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def worded(start: Message, body: bytes) -> None:
            if self._not_found is not None and start["status"] == 404 and _asks_for_a_page(scope):
                await self._not_found(scope)(scope, receive, send)
            elif _has_the_shape(body):
                await send(start)
                await send({"type": "http.response.body", "body": body})
            else:
                await _worded(scope, start)(scope, receive, send)

        await held_back(self.app, scope, receive, send, which=_is_an_error, instead=worded)


def _is_an_error(start: Message) -> bool:
    return start["status"] >= 400 and not is_page(start)


def _asks_for_a_page(scope: Scope) -> bool:
    is_read = scope["method"] in ("GET", "HEAD") and not scope["path"].startswith(FOR_PROGRAMS)
    return is_read and "text/html" in Headers(scope=scope).get("accept", "")


def _has_the_shape(body: bytes) -> bool:
    try:
        document = json.loads(body)
    except ValueError:
        return False
    return isinstance(document, dict) and list(document) == ["error"]


def _worded(scope: Scope, start: Message) -> Response:
    status = start["status"]
    what = HTTPStatus(status).phrase.lower() if status in set(HTTPStatus) else f"status {status}"
    answer = error_response(Refused(what, where(scope), "GET /api/openapi.json lists the routes."), status)
    for name, value in Headers(raw=start["headers"]).items():
        if name in KEPT:
            answer.headers.append(name, value)
    return answer


async def unexpected(request: Request, error: Exception) -> Response:
    """The answer to an error that nobody expected; the log of the app has what it was."""
    return error_response(SarqcError("something went wrong in the app", where(request.scope), "Its log says what."))


def where(scope: Scope) -> str:
    """The request as an error names it."""
    return f"{scope['method']} {scope['path']}"[:200]
