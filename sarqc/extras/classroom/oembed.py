"""oEmbed (https://oembed.com): gives editors the frame of an address of the Lab, see ``sarqc.web.embed``."""

from html import escape
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from sarqc.errors import NotFound, Refused
from sarqc.settings import Settings
from sarqc.web.access import visitor_of
from sarqc.web.browser_contract import CARDS
from sarqc.web.link_preview import Introductions, query_of
from sarqc.web.responses import ApiRoute, error_response, json_body

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


def discovery(settings: Settings, path: str, own: str, address: str, title: str) -> str:
    """Return the element of a head by which an editor finds oEmbed; nothing where other sites may show nothing.

    ``own``: see ``Introductions.own``; ``address``: of the page, from its “/”.
    """
    if path != "/" or not settings.embed_ancestors or "://" not in own:
        return ""
    asked = escape(f"{own}{ROUTE}?{urlencode({'url': own + address})}")
    return f'\n<link rel="alternate" type="application/json+oembed" href="{asked}" title="{escape(title)}">'


def oembed_router(settings: Settings, introductions: Introductions) -> APIRouter:
    """Return the route of oEmbed."""
    router = APIRouter(include_in_schema=False, route_class=ApiRoute)

    @router.api_route(ROUTE, methods=["GET", "HEAD"])
    async def oembed(
        request: Request, url: str, maxwidth: Pixels = None, maxheight: Pixels = None, format: str = "json"
    ) -> Response:
        """Return the frame of an address of the Lab, for those who may see it. A card that the address does not name
        is the main figure."""
        if format != "json":
            return error_response(Refused(f"no format “{format}”", ROUTE, "Ask for json."), NOT_IMPLEMENTED)
        own = introductions.own(request.scope)
        query = _query(url, own, settings)
        introduction = await run_in_threadpool(introductions.of_lab, visitor_of(request), query)
        card = query.get("embed", "")
        shown = {name: query[name] for name in TAKEN_OVER if name in query}
        shown["embed"] = card if card in CARDS else FIRST_CARD
        width, height = (min(size, most or size) for size, most in zip(FRAME, (maxwidth, maxheight), strict=True))
        document: dict[str, Any] = {
            "version": "1.0",
            "type": "rich",
            "title": introduction.name,
            "provider_name": "sarqc",
            "provider_url": f"{own}/",
            "width": width,
            "height": height,
            "html": f'<iframe src="{escape(f"{own}/?{urlencode(shown)}")}" title="{escape(introduction.title)}" '
            f'width="{width}" height="{height}" loading="lazy" style="border:0"></iframe>',
        }
        return json_body(request, document)

    return router


def _query(url: str, own: str, settings: Settings) -> dict[str, str]:
    """Return the parameters of an address of this host's Lab. Raise ``NotFound`` for any other, as oEmbed asks."""
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
