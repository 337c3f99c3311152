"""Cards of the Lab in frames of other sites: which documents these sites may show, and oEmbed (https://oembed.com), by
which an editor learns the frame of an address.

A site that shows a page in a frame can lay things over it and lead clicks astray. So other sites may show a document
only if nothing in it acts for a person: the Lab with a single card (``embed=CARD``), asked for without our cookie and
not by somebody who has signed in. Such an answer sets no cookie either. Everything else, the sign-in page above all,
keeps ``SARQC_FRAME_ANCESTORS``.
"""

from __future__ import annotations

from html import escape
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Scope

from sarqc.errors import NotFound, Refused
from sarqc.settings import Settings
from sarqc.web.access import visitor_of
from sarqc.web.browser_contract import CARDS
from sarqc.web.link_preview import Introductions, query_of
from sarqc.web.responses import ApiRoute, error_response, json_body
from sarqc.web.visitor import COOKIE

ROUTE = "/oembed"
FRAME = (680, 420)  # pixels, of a frame that a consumer does not limit
FIRST_CARD = "hero"
# Of an address of the Lab, what a frame takes over; the rest is of the page.
TAKEN_OVER = (
    "study",
    "method",
    "bits",
    "layer",
    "lambda",
    "gamma",
    "scale",
    "draw",
    "quantity",
    "steps",
    "show",
    "drawing",
    "pool",
    "hide",
    "lock",
    "theme",
)
NOT_IMPLEMENTED = 501  # for a format other than JSON, as the specification asks
Pixels = Annotated[int | None, Query(ge=1, le=100_000)]


def card_of(scope: Scope) -> str:
    """The card that a document shows alone; empty for every other document."""
    if scope["type"] != "http" or scope["path"] != "/":
        return ""
    card = query_of(scope["query_string"].decode("latin-1")).get("embed", "")
    return card if card in CARDS else ""


def is_framed_card(scope: Scope, settings: Settings) -> bool:
    """Whether other sites may show a document, as far as its address says."""
    return bool(settings.embed_ancestors and card_of(scope))


def frame_ancestors(scope: Scope, settings: Settings) -> str:
    """Who may show the answer to a request in a frame, as in a content security policy."""
    has_cookie = COOKIE in cookie_parser(Headers(scope=scope).get("cookie", ""))
    if is_framed_card(scope, settings) and not has_cookie and not scope["state"]["visitor"].signed_in:
        return settings.embed_ancestors
    return settings.frame_ancestors


def discovery(path: str, own: str, address: str, title: str, settings: Settings) -> str:
    """The element of a head by which an editor finds oEmbed; empty where other sites may show nothing.

    ``own``: see ``Introductions.own``; ``address``: of the page, from its “/”.
    """
    if path != "/" or not settings.embed_ancestors or "://" not in own:
        return ""
    asked = escape(f"{own}{ROUTE}?{urlencode({'url': own + address})}")
    return f'\n<link rel="alternate" type="application/json+oembed" href="{asked}" title="{escape(title)}">'


def embed_router(settings: Settings, introductions: Introductions) -> APIRouter:
    """The route of oEmbed."""
    router = APIRouter(include_in_schema=False, route_class=ApiRoute)

    @router.api_route(ROUTE, methods=["GET", "HEAD"])
    async def oembed(
        request: Request, url: str, maxwidth: Pixels = None, maxheight: Pixels = None, format: str = "json"
    ) -> Response:
        """The frame of an address of the Lab, for those who may see it. A card that the address does not name is the
        main figure."""
        if format != "json":
            return error_response(Refused(f"no format “{format}”", ROUTE, "Ask for json."), NOT_IMPLEMENTED)
        own = introductions.own(request.scope)
        query = _query(url, own, settings)
        told = await run_in_threadpool(introductions.of_lab, visitor_of(request), query)
        card = query.get("embed", "")
        shown = {name: query[name] for name in TAKEN_OVER if name in query}
        shown["embed"] = card if card in CARDS else FIRST_CARD
        width, height = (min(size, most or size) for size, most in zip(FRAME, (maxwidth, maxheight), strict=True))
        document: dict[str, Any] = {
            "version": "1.0",
            "type": "rich",
            "title": told.name,
            "provider_name": "sarqc",
            "provider_url": f"{own}/",
            "width": width,
            "height": height,
            "html": f'<iframe src="{escape(f"{own}/?{urlencode(shown)}")}" title="{escape(told.title)}" '
            f'width="{width}" height="{height}" loading="lazy" style="border:0"></iframe>',
        }
        return json_body(request, document)

    return router


def _query(url: str, own: str, settings: Settings) -> dict[str, str]:
    """The parameters of an address of this host's Lab. Raises ``NotFound`` for any other, as oEmbed asks."""
    if not settings.embed_ancestors:
        remedy = "The operator may name the sites in SARQC_EMBED_ANCESTORS."
        raise NotFound("this host lets no other site show its cards", ROUTE, remedy)
    try:
        given, here = urlsplit(url), urlsplit(own)
    except ValueError:
        given, here = urlsplit(""), urlsplit("")
    is_ours = given.scheme in ("http", "https") and given.netloc.lower() == here.netloc and here.netloc
    if not is_ours or given.path.rstrip("/") != here.path:
        raise NotFound("the address is not one of the Lab of this host", "url", f"Give one that begins with {own}/?")
    return query_of(given.query)
