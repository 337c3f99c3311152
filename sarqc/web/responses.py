"""Answers of the REST interface: one shape for every error, and bodies that are compressed and can be cached.

Every error, wherever it was noticed, is ``{"error": {"kind", "what", "where", "remedy"}}`` with a fitting status; an
error of a recipe's field names that ``field`` and has ``fixes``, each with words and values.
"""

import asyncio
import gzip
import hashlib
import json
import logging
import re
import threading
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sarqc.errors import Busy, Forbidden, Refused, SarqcError, disk_error
from sarqc.web.middleware import HttpMiddleware, intercept, is_page

BODY_BYTES = 65_536  # a recipe has a few hundred
COMPRESS_FROM = 1024  # bytes; below that gzip gains nothing
COMPRESS_LEVEL = 5
RETRY_AFTER = "5"  # seconds, for what is busy now
FOR_EVER = "public, max-age=31536000, immutable"  # public content
FOR_EVER_MINE = "private, max-age=31536000, immutable"  # private content
ASK_AGAIN = "no-cache"  # may be cached, but only used after revalidation

_ORIGIN = re.compile(r"https?://(?:[a-zA-Z0-9.-]{1,253}|\[[0-9a-fA-F:.]{2,45}\])(?::[0-9]{1,5})?")

log = logging.getLogger(__name__)
FOR_PROGRAMS = ("/api/", "/assets/", "/gradio_api/")  # paths whose errors are never pages
# Headers of an error that stay when it is worded again.
PRESERVED = ("allow", "content-range", "retry-after", "set-cookie", "www-authenticate")


class ApiRoute(APIRoute):
    """A route whose errors, all of them, have the one shape, and whose body has an end."""

    body_bytes: int | None = BODY_BYTES  # None: the route itself counts

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handler(Request(request.scope, _limit_body(request.receive, self.body_bytes)))
            except SarqcError as error:
                if error.http_status >= 500:
                    log.warning("%s %s: %s", request.method, request.url.path, error)
                return error_response(error)
            except RequestValidationError as error:
                return error_response(_invalid(request, error))
            except StarletteHTTPException as error:
                return error_response(Refused(str(error.detail), _where(request)), error.status_code)
            except OSError as error:
                if (worded := disk_error(error)) is None:
                    return _unexpected(request)
                log.warning("%s %s: %s", request.method, request.url.path, error)
                return error_response(worded)
            except Exception:
                return _unexpected(request)

        return answer


def _unexpected(request: Request) -> Response:
    # What went wrong is for the log of the app, not for the client.
    log.exception("%s %s", request.method, request.url.path)
    return error_response(SarqcError("internal error", _where(request), "See the app's log."))


class UploadRoute(ApiRoute):
    """A route that takes files, and limits its body itself, in its own words."""

    body_bytes = None


def _limit_body(receive: Receive, limit: int | None) -> Receive:
    """Return the same body, cut off with an error at the limit of a request."""
    total = 0

    async def receive_limited() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if limit is not None and total > limit:
            raise StarletteHTTPException(413, f"the body has more than {limit} bytes")
        return message

    return receive_limited


def error_response(error: SarqcError, status: int | None = None) -> JSONResponse:
    """Return an error in the one shape. The status is the error's own unless given."""
    headers = {"Cache-Control": "no-store"}
    if isinstance(error, Busy):
        headers["Retry-After"] = RETRY_AFTER
    # An error may quote the request, and JSON strings may hold half a character.
    parts = {
        name: part.encode("utf-8", "replace").decode() if isinstance(part, str) else part
        for name, part in error.to_json().items()
    }
    return JSONResponse({"error": parts}, status or error.http_status, headers=headers)


def refuse_other_sites(request: Request) -> None:
    """Refuse requests from pages of other sites: they may not change anything here, though browsers would let them send
    a plain form.

    Raises ``Forbidden``. Programs send neither header and are not browsers that could be tricked.
    """
    if request.method in ("GET", "HEAD", "OPTIONS"):
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    host = request.headers.get("host", "")
    if site not in ("same-origin", "none") if site else origin and origin.partition("://")[2] != host:
        raise Forbidden("the request comes from another site", _where(request), "Use the page of this app.")


def own_address(request: Request) -> str:
    """Return the address of this app without a path, by the browser's ``Origin``, else by the request."""
    origin = request.headers.get("origin", "")
    return origin if _ORIGIN.fullmatch(origin) else str(request.base_url).rstrip("/")


@dataclass(frozen=True)
class CachedBody:
    """The body of an answer with its tag; compressed on first use."""

    body: bytes

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.body, COMPRESS_LEVEL, mtime=0)


def body_response(request: Request, body: CachedBody, media_type: str, *, cache: str = ASK_AGAIN) -> Response:
    """Return a body with an ETag: 304 where the client has it already, gzip where it takes that."""
    etag = body.etag
    headers = {"ETag": etag, "Cache-Control": cache, "Vary": "Accept-Encoding"}
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if etag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    if len(body.body) < COMPRESS_FROM or not accepts_gzip(request):
        return Response(body.body, media_type=media_type, headers=headers)
    headers |= {"Content-Encoding": "gzip", "ETag": f"W/{etag}"}  # other bytes, same meaning
    return Response(body.packed, media_type=media_type, headers=headers)


def json_body(request: Request, document: Any) -> Response:
    """Return a document like ``body_response``. NaN in it raises: browsers can't read it."""
    return body_response(request, CachedBody(_json(document)), "application/json")


class WrittenAnswers:
    """A cache of slow answers, the last used ones, limited by the bytes of their bodies."""

    def __init__(self, at_most_bytes: int) -> None:
        self._at_most, self._bytes = at_most_bytes, 0
        self._bodies: dict[Hashable, CachedBody] = {}  # the last used one last
        self._mutex = threading.Lock()

    def respond(self, request: Request, key: Hashable, make: Callable[[], Any]) -> Response:
        """Return the document of ``make``, cached under the key, like ``json_body``."""
        with self._mutex:
            written = self._bodies.pop(key, None)
            if written is not None:
                self._bodies[key] = written
        if written is None:
            written = CachedBody(_json(make()))
            self._keep(key, written)
        return body_response(request, written, "application/json")

    def _keep(self, key: Hashable, written: CachedBody) -> None:
        with self._mutex:
            if key in self._bodies or len(written.body) > self._at_most:
                return
            self._bodies[key] = written
            self._bytes += len(written.body)
            while self._bytes > self._at_most:
                self._bytes -= len(self._bodies.pop(next(iter(self._bodies))).body)


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def accepts_gzip(request: Request) -> bool:
    """Return whether the client takes gzip."""
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, quality = part.partition(";")
        if name.strip() in ("gzip", "*") and quality.replace(" ", "") not in ("q=0", "q=0.0"):
            return True
    return False


def _where(request: Request) -> str:
    return f"{request.method} {request.url.path}"


def _invalid(request: Request, error: RequestValidationError) -> Refused:
    """Return the first complaint about a malformed request."""
    first = error.errors()[0]
    place, *path = [str(part) for part in first["loc"]]
    message = first["msg"][0].lower() + first["msg"][1:]
    if first["type"] == "json_invalid":
        return Refused(f"the body is not JSON: {first['ctx']['error']}", _where(request), "Send one JSON document.")
    if place == "body":
        return Refused(f"the body is wrong: {message}", _where(request), "Send a JSON object as application/json.")
    return Refused(f"{'.'.join(path)} is wrong: {message}", _where(request), f"Correct that part of the {place}.")


class OneShape(HttpMiddleware):
    """Rewords errors of an app inside; pages for people, which are HTML, stay unchanged.

    ``not_found`` makes the page for people at a missing address; without it they get what programs get.
    """

    def __init__(self, app: ASGIApp, not_found: Callable[[Scope], Response] | None = None) -> None:
        super().__init__(app)
        self._not_found = not_found

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def send_on(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        async def reword(start: Message, body: bytes) -> None:
            if self._not_found is not None and start["status"] == 404 and _asks_for_a_page(scope):
                await self._not_found(scope)(scope, receive, send_on)
            elif _has_shape(body):
                await send_on(start)
                await send_on({"type": "http.response.body", "body": body})
            else:
                await _reword(scope, start)(scope, receive, send_on)

        try:
            await intercept(self.app, scope, receive, send_on, which=_is_an_error, instead=reword)
        except asyncio.CancelledError:  # by the server, which ends and has waited long enough
            if has_begun:
                raise
            error = Busy("the app is being ended", where(scope), "Try again once it runs again.")
            await error_response(error)(scope, receive, send)


def _is_an_error(start: Message) -> bool:
    return start["status"] >= 400 and not is_page(start)


def _asks_for_a_page(scope: Scope) -> bool:
    is_read = scope["method"] in ("GET", "HEAD") and not scope["path"].startswith(FOR_PROGRAMS)
    return is_read and "text/html" in Headers(scope=scope).get("accept", "")


def _has_shape(body: bytes) -> bool:
    try:
        document = json.loads(body)
    except ValueError:
        return False
    return isinstance(document, dict) and list(document) == ["error"]


def _reword(scope: Scope, start: Message) -> Response:
    status = start["status"]
    what = HTTPStatus(status).phrase.lower() if status in set(HTTPStatus) else f"status {status}"
    answer = error_response(Refused(what, where(scope), "GET /api/openapi.json lists the routes."), status)
    for name, value in Headers(raw=start["headers"]).items():
        if name in PRESERVED:
            answer.headers.append(name, value)
    return answer


async def unexpected(request: Request, error: Exception) -> Response:
    """Return the answer to an unexpected error; the log of the app has the details."""
    return error_response(SarqcError("internal error", where(request.scope), "See the app's log."))


def where(scope: Scope) -> str:
    """Return the place of a request in errors."""
    return f"{scope['method']} {scope['path']}"[:200]
