"""The gate: every request passes here first. Plain ASGI, so that streams stay streams.

It refuses requests under a foreign host name, writes to Gradio's own routes (no page here needs one), floods from one
address, and visitors who have to sign in first. Routes behind it read ``request.state.visitor``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from sarqc import logs
from sarqc.errors import Misdirected, NotAllowed, NotFound, NotSignedIn, SarqcError, TooLong
from sarqc.settings import Settings
from sarqc.web.accounts import Sender
from sarqc.web.embed import is_framed_card
from sarqc.web.identity import Identity
from sarqc.web.profile import host_is_ours, is_private
from sarqc.web.responses import error_response
from sarqc.web.static import PICTURE
from sarqc.web.visitor import COOKIE, GUEST, Visitor, new_guest

READS = ("GET", "HEAD", "OPTIONS")
METHODS = (*READS, "POST", "PUT", "PATCH", "DELETE")
OURS = ("/api/", "/sign-in", "/sign-out")  # where something may be written
OPEN = ("/assets/", "/sign-in", "/share/", f"/{PICTURE}", "/favicon.ico")  # before signing in
LONGEST_ADDRESS = 8192  # with its parameters; runs are named by 26 letters each, and 200 at once
LONGEST_NAME, LONGEST_PATH = 255, 2048  # bytes, characters: no name of a file is longer
FORWARDED = ("x-forwarded-", "forwarded")


@dataclass(frozen=True)
class Crowd:
    """Visitors without an account or a cookie, who are often many at one address: their requests are not its.

    ``group`` gives the name of the group that a path belongs to, if there is one now, and how many requests a minute
    its visitors have together. ``is_stream`` says of which paths the answers last.
    """

    below: tuple[str, ...]  # beginnings of their paths
    group: Callable[[str], tuple[str, int] | None]
    is_stream: Callable[[str], bool]


class Gate:
    """Wraps the whole app. ``identity`` finds the visitor, each of ``checks`` may refuse a method, path and address."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        identity: Identity,
        checks: Sequence[Callable[[str, str, str], None]] = (),
        crowds: Sequence[Crowd] = (),
    ) -> None:
        self._settings, self._identity, self._cookies = settings, identity, identity.cookies
        self._checks, self._crowds = checks, crowds
        self._private = is_private(settings)
        self._proxies = {part.strip() for part in settings.proxy_addresses.split(",") if part.strip()}
        self._app = app
        self._behind_proxy: Any = ProxyHeadersMiddleware(self._enter, trusted_hosts=sorted(self._proxies))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing here speaks WebSocket
            await send({"type": "websocket.close", "code": 1008})
            return
        peer = (scope.get("client") or ("", 0))[0]
        scope.setdefault("state", {})["from_proxy"] = peer in self._proxies
        if peer in self._proxies:
            await self._behind_proxy(scope, receive, send)
            return
        scope["headers"] = [
            pair for pair in scope["headers"] if not pair[0].decode("latin-1").lower().startswith(FORWARDED)
        ]
        await self._enter(scope, receive, send)

    async def _enter(self, scope: Any, receive: Any, send: Any) -> None:
        headers, path = Headers(scope=scope), scope["path"]
        address = (scope.get("client") or ("", 0))[0]
        try:
            self._check(scope["method"], path, scope["query_string"], headers, address)
            where = f"{scope['method']} {path}"[:200]
            visitor = await self._identity.of(Sender(headers, scope["state"]["from_proxy"], address, where))
            if visitor is None and not self._is_open(path):
                raise NotSignedIn("you have not signed in", where, "Sign in at /sign-in.")
        except SarqcError as error:
            await self._refusal(error, scope, headers)(scope, receive, send)
            return
        scope["state"]["visitor"] = visitor
        cookie = self._new_cookie(scope, headers, visitor)

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name in [name for name in answer if name.startswith("access-control-")]:
                    del answer[name]  # no other site may read anything here, though Gradio allows it
                given = any(value.startswith(f"{COOKIE}=") for value in answer.getlist("set-cookie"))
                if cookie and not given:
                    answer.append("set-cookie", cookie)
            await send(message)

        with logs.about(**({} if visitor is None else {"owner": visitor.owner})):
            await self._app(scope, receive, send_on)

    def _check(self, method: str, path: str, query: bytes, headers: Headers, address: str) -> None:
        where = f"{method} {path}"[:200]
        if not host_is_ours(headers.get("host", ""), self._settings):
            raise Misdirected(
                "this app has another name", "Host", "Use its own address; the operator may add names to SARQC_HOSTS."
            )
        if len(path) + len(query) > LONGEST_ADDRESS:
            what = f"the address has more than {LONGEST_ADDRESS} characters"
            raise TooLong(what, where, "Leave parameters out, or send them in parts.")
        parts = path.encode("utf-8", "surrogatepass").split(b"/")
        if len(path) > LONGEST_PATH or max(map(len, parts)) > LONGEST_NAME:
            raise NotFound("no such route", where, "GET /api/openapi.json lists the routes.")
        if method not in READS and not path.startswith(OURS):
            raise NotAllowed("nothing here takes this", where, "GET /api/openapi.json lists the routes.")
        for check in self._checks:
            check(method, path, address)

    def _is_open(self, path: str) -> bool:
        return path.startswith(OPEN) or self._is_of_a_crowd(path)

    def _is_of_a_crowd(self, path: str) -> bool:
        return any(path.startswith(crowd.below) for crowd in self._crowds)

    def _new_cookie(self, scope: Scope, headers: Headers, visitor: Visitor | None) -> str | None:
        """Return a cookie for a browser without one, and for a program that writes something as a guest."""
        is_page, writes = _is_page(scope, headers), scope["method"] not in READS
        is_guest = visitor is not None and visitor.owner.startswith(GUEST)
        needs_cookie = (is_page and self._private) or (is_guest and (is_page or writes))
        # Crowds and frames get no cookie.
        if self._is_of_a_crowd(scope["path"]) or is_framed_card(scope, self._settings):
            return None
        if visitor is None or not needs_cookie or self._cookies.of(headers) is not None:
            return None
        return self._cookies.header(scope["scheme"], visitor.owner if is_guest else new_guest())

    def _refusal(self, error: SarqcError, scope: Scope, headers: Headers) -> Response:
        if isinstance(error, NotSignedIn) and _is_page(scope, headers) and not self._is_open(scope["path"]):
            query = scope["query_string"].decode("latin-1")
            target = scope["path"] + (f"?{query}" if query else "")
            return RedirectResponse(f"/sign-in?to={quote(target)}", 303)
        return error_response(error)


def _is_page(scope: Scope, headers: Headers) -> bool:
    return scope["method"] == "GET" and "text/html" in headers.get("accept", "")
