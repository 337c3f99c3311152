"""How a link introduces itself to its receiver: title, sentence and picture of what it shows, to those who may
see that; the site's own to all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from html import escape
from pathlib import Path
from threading import Lock
from typing import get_args
from urllib.parse import parse_qsl, urlencode

import resvg_py
from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import Scope

from sarqc.errors import SarqcError
from sarqc.figures.card import (
    FAMILY,
    HEIGHT,
    SITE,
    WIDTH,
    CardPoint,
    point_aria,
    point_card,
    point_picture,
    point_sentence,
    point_title,
    site_card,
)
from sarqc.figures.hero import Shown
from sarqc.figures.plotly_figure import colours_of
from sarqc.figures.scales import scales_of
from sarqc.figures.sentence import Piece, sentence
from sarqc.figures.titles import finding_at
from sarqc.figures.view import default_line, first_figure, line_title, start_of
from sarqc.jobs.links import Link
from sarqc.language import ENGLISH, language
from sarqc.settings import Settings
from sarqc.study.document import one_draw
from sarqc.study.facts import LineFacts, line_facts
from sarqc.study.library import first_study
from sarqc.web.access import Access, visitor_of
from sarqc.web.limits import Planning
from sarqc.web.profile import own_address
from sarqc.web.responses import ApiRoute, body_response
from sarqc.web.visitor import Visitor

TAGLINE = "What a little regularisation buys"
ABOUT = (
    "Rounding the weights of a language model to a few bits: what λ does to its error, to the drift of its weights "
    "and to its answers, measured on real models."
)
_ALT = "A curve that falls and rises again with λ, and the band of its best values."
PICTURE, SITE_PICTURE = "/picture.png", "/site.png"
SHOWN = ("study", "method", "bits", "layer", "lambda", "gamma", "scale", "draw", "show")  # what a picture depends on
FACTS_KEPT = 8
WORDS_KEPT = 64  # of points, a few hundred characters each
SIGHTS_KEPT = 16  # of points, some 40 KB each
WIDE, NARROW = (680, 382), (356, 346)  # pixels of the main figure in a window of 1280 × 800 and of 390 × 844

Query = Mapping[str, str]
FactsKey = tuple[str, str, str, int, int | None, int | None]  # study, its content, line, bits, layer, draw
PICTURES_KEPT = 64  # pictures, of some 100 KB each
DRAWN_AT_ONCE, DRAWINGS_WAITING = 1, 16
FACES = ("Inter_400Regular.ttf", "Inter_600SemiBold.ttf")


@dataclass(frozen=True)
class Introduction:
    """What the head of a page says of it, in the language spoken. ``picture`` is an address within this site."""

    title: str  # of the document, before the site's name
    name: str = field(default_factory=lambda: TAGLINE)  # what is shown, to the point
    about: str = field(default_factory=lambda: ABOUT)
    picture: str = field(default_factory=lambda: f"{SITE_PICTURE}{_asking({})}")
    alt: str = field(default_factory=lambda: _ALT)


def _asking(query: Query) -> str:
    """Return the end of an address with these parameters, in the language spoken; empty without any."""
    asked = urlencode({**query, **({} if language() == ENGLISH else {"lang": language()})})
    return asked and f"?{asked}"


def query_of(text: str) -> dict[str, str]:
    """The parameters of an address; of one that is given twice the first, as the pages read it."""
    return dict(reversed(parse_qsl(text)))


def head_of(told: Introduction, own: str, address: str) -> str:
    """Elements of a document's head. ``own``: see ``Introductions.own``; ``address``: of the page, from its “/”."""
    open_graph = {
        "og:site_name": "sarqc", "og:type": "website", "og:title": told.name, "og:description": told.about,
        "og:url": f"{own}{address}" if "://" in own else "", "og:image": f"{own}{told.picture}",
        "og:image:type": "image/png",
        "og:image:width": str(WIDTH), "og:image:height": str(HEIGHT), "og:image:alt": told.alt,
    }  # fmt: skip
    named = {
        "description": told.about, "twitter:card": "summary_large_image", "twitter:title": told.name,
        "twitter:description": told.about, "twitter:image": f"{own}{told.picture}", "twitter:image:alt": told.alt,
    }  # fmt: skip
    metas = [
        f'<meta {kind}="{key}" content="{escape(value)}">'
        for kind, pairs in (("property", open_graph), ("name", named))
        for key, value in pairs.items()
        if value
    ]
    return "\n".join([f"<title>{escape(document_title(told))}</title>", *metas])


def document_title(told: Introduction) -> str:
    """As a tab of the browser shows it."""
    return f"{told.title} – {SITE}"


@dataclass(frozen=True)
class FirstSight:
    """What the Lab shows at an address, for its page to say before any script runs."""

    model: str
    bits: int
    finding: str  # of the main figure; empty where a link hides findings
    title: str  # of the main figure
    sentence: Sequence[Piece]
    figures: tuple[str, ...]  # the main figure as SVG elements, for a wide and a narrow screen


class Introductions:
    """Finds out what an address shows, as far as a visitor may see it."""

    def __init__(self, settings: Settings, access: Access) -> None:
        self._settings, self._access = settings, access
        self._pictures = Pictures(settings.assets_dir)
        self._facts = lru_cache(maxsize=FACTS_KEPT)(self._facts_of)
        self._words = lru_cache(maxsize=WORDS_KEPT)(self._words_of)
        self._sights = lru_cache(maxsize=SIGHTS_KEPT)(self._sight_of)

    def own(self, scope: Scope) -> str:
        """What stands before an address of the site: see ``own_address``, and the path below which the app is."""
        address = own_address(scope["scheme"], Headers(scope=scope).get("host", ""), self._settings)
        return address + self._settings.root()

    def of(self, visitor: Visitor, path: str, query: Query, page: Introduction) -> Introduction:
        """What an address shows; ``page`` is what that page says of itself where it shows nothing further."""
        study_id = {"/": query.get("study") or self._first(), "/calibrate": query.get("run")}.get(path)
        if not study_id:
            return page
        try:
            return self._of_study(visitor, study_id, query)
        except SarqcError:  # there is no such study, or not for them
            return self._of_run(visitor, study_id, page) if path == "/calibrate" else page

    def first_sight(self, visitor: Visitor, query: Query) -> FirstSight | None:
        """What the Lab will show at an address; None where that is not known before its scripts run."""
        study_id = query.get("study") or self._first()
        try:
            key = self._key(visitor, study_id or "", query)
            return self._sights(
                language(), key, self._point(key, query), "band" not in query.get("hide", "").split(",")
            )
        except (SarqcError, ValueError):  # no such study, or not for them; a figure that the server can't draw
            return None

    def _sight_of(self, spoken: str, key: FactsKey, at: CardPoint, banded: bool) -> FirstSight:
        return sight_of(self._facts(language(), *key), at, banded=banded)

    def of_link(self, visitor: Visitor, secret: str, link: Link, query: Query) -> Introduction:
        """What a share link shows to ``visitor``, who has it; the picture has the link's own address."""
        path = "/calibrate" if link.kind == "run" else "/"
        told = self.of(visitor, path, {**query, "study": link.target, "run": link.target}, Introduction("A link"))
        return replace(told, picture=told.picture.replace(PICTURE, f"/share/{secret}{PICTURE}"))

    async def picture(self, visitor: Visitor, query: Query) -> bytes:
        """The PNG of what an address of the Lab shows. Raises ``NotFound`` for a study that a visitor may not see, and
        ``Busy``."""
        study_id = query.get("study") or self._first() or ""
        key = await run_in_threadpool(self._key, visitor, study_id, query)
        at = self._point(key, query)
        return await self._pictures.png(
            (language(), key, at), lambda: point_card(self._facts(language(), *key), at, self._colours())
        )

    async def site_picture(self) -> bytes:
        """The PNG of the site itself."""
        return await self._pictures.png((language(), SITE), lambda: site_card(TAGLINE, ABOUT, self._colours()))

    def _colours(self) -> dict[str, str]:
        return colours_of(self._settings.assets_dir / "css" / "base.css")

    def of_lab(self, visitor: Visitor, query: Query) -> Introduction:
        """What an address of the Lab shows. Raises ``NotFound`` for a study that a visitor may not see."""
        return self._of_study(visitor, query.get("study") or self._first() or "", query)

    def _of_study(self, visitor: Visitor, study_id: str, query: Query) -> Introduction:
        key = self._key(visitor, study_id, query)
        shown = {name: query[name] for name in SHOWN if name in query}
        told = self._words(language(), key, self._point(key, query))
        return replace(told, picture=f"{PICTURE}{_asking(shown | {'study': study_id})}")

    def _words_of(self, spoken: str, key: FactsKey, at: CardPoint) -> Introduction:
        """All but the address of the picture: words take longer to make than the rest of a page."""
        return introduction_of(self._facts(language(), *key), at)

    def _of_run(self, visitor: Visitor, run_id: str, page: Introduction) -> Introduction:
        """A run that has left no study, or not yet."""
        try:
            run = self._access.run(visitor, run_id)
        except SarqcError:
            return page
        title = run.name or f"{run.recipe['model']} at {run.recipe['bits']} bits"
        return replace(page, title=title, name=f"{title}: {run.state}")

    def _key(self, visitor: Visitor, study_id: str, query: Query) -> FactsKey:
        """Which facts an address asks for; what the study does not have is left out, as on the page."""
        study = self._access.library.open(self._access.study(visitor, study_id))
        bits, method = _whole(query.get("bits")), query.get("method")
        if bits not in {line.bits for line in study.lines}:
            bits = None
        if not any(method in (line.name, line.method) and bits in (None, line.bits) for line in study.lines):
            method = None
        line = default_line(study, method, bits)
        layer, draw = _whole(query.get("layer")), _whole(query.get("draw"))
        if len(study.layers) == 1:
            layer = 0  # all layers of it are this one
        layer = layer if layer is not None and layer < len(study.layers) else None
        content = study.checksum or study.created
        return study_id, content, line.name, line.bits, layer, draw if draw in line.draws else None

    def _facts_of(
        self, spoken: str, study_id: str, content: str, line: str, bits: int, layer: int | None, draw: int | None
    ) -> LineFacts:
        study = self._access.library.open(study_id)
        return line_facts(study if draw is None else one_draw(study, draw), method=line, bits=bits, layer=layer)

    def _point(self, key: FactsKey, query: Query) -> CardPoint:
        return point_of(self._facts(language(), *key), query)

    def _first(self) -> str | None:
        return first_study(self._access.library.shipped())


def point_of(facts: LineFacts, query: Query) -> CardPoint:
    """The point of a line that an address shows; where it says nothing, the one that the Lab opens with."""
    start, line = start_of(facts), facts.line
    names: tuple[Shown, ...] = get_args(Shown)
    shown: Shown = next((name for name in names if name == query.get("show")), "perplexity")
    if shown == "accuracy" and facts.accuracy is None:
        shown = "perplexity"
    scale = query.get("scale", "raw")
    return CardPoint(
        _nearest(line.gammas, query.get("gamma"), start["gamma"]),
        _nearest(line.lams, query.get("lambda"), start["lambda"]),
        shown,
        scale if scale in scales_of(facts) else "raw",
    )


def introduction_of(facts: LineFacts, at: CardPoint) -> Introduction:
    """What the head of a page says of a point; the picture is still the site's own."""
    return Introduction(
        line_title(facts), point_title(facts, at), point_sentence(facts, at), alt=point_aria(facts, at)
    )  # fmt: skip


def sight_of(facts: LineFacts, at: CardPoint, *, banded: bool) -> FirstSight:
    """What the Lab shows first at a point; ``banded``: it may say which λ are best. Raises ``ValueError`` for a figure
    that the server can't draw."""
    sizes = ((WIDE, False), (NARROW, True))
    figure = first_figure(facts, at.shown, at.scale)
    return FirstSight(
        facts.study.model.name,
        facts.line.bits,
        finding_at(figure, {"gamma": at.gamma, "lambda": at.lam}) if banded else "",
        figure.get("title", ""),
        sentence(facts, at.gamma, at.lam, at.quality),
        tuple(point_picture(facts, at, *size, narrow=narrow, banded=banded) for size, narrow in sizes),
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None


def _nearest(values: Sequence[float | None], text: str | None, otherwise: int) -> int:
    """The position of the value that is nearest to a number; ``otherwise`` where there is none."""
    try:
        wanted = float(text) if text is not None else math.nan
    except ValueError:
        wanted = math.nan
    known = [(abs(value - wanted), at) for at, value in enumerate(values) if value is not None]
    return min(known)[1] if known and math.isfinite(wanted) else otherwise


def introduction_router(introductions: Introductions) -> APIRouter:
    """The routes of the pictures."""
    router = APIRouter(include_in_schema=False, route_class=ApiRoute)

    @router.api_route(SITE_PICTURE, methods=["GET", "HEAD"])
    async def site(request: Request) -> Response:
        """Of the site: the same for everybody."""
        return body_response(request, await introductions.site_picture(), "image/png")

    @router.api_route(PICTURE, methods=["GET", "HEAD"])
    async def shown(request: Request) -> Response:
        """Of what an address of the Lab with the same query shows, for those who may see it."""
        query = query_of(request.url.query)
        return body_response(request, await introductions.picture(visitor_of(request), query), "image/png")

    return router


def png_of(svg: str, assets: Path) -> bytes:
    """An SVG document as PNG, with the typefaces that come with the app."""
    faces = [str(assets / "vendor" / "inter" / name) for name in FACES]
    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=svg, font_files=faces, skip_system_fonts=True, font_family=FAMILY, sans_serif_family=FAMILY
        )
    )


class Pictures:
    """Draws SVG documents with the typefaces that come with the app, and none of the host's."""

    def __init__(self, assets: Path) -> None:
        self._assets = assets
        self._kept: dict[object, bytes] = {}  # the last used one last
        self._lock = Lock()
        self._drawing = Planning("{most} pictures are being drawn or wait", DRAWN_AT_ONCE, DRAWINGS_WAITING)

    async def png(self, content: object, svg: Callable[[], str]) -> bytes:
        """The picture of ``content``, which is equal for equal pictures; ``svg`` makes its document.

        Raises ``Busy`` where too many wait already.
        """
        kept = self._known(content)
        return kept if kept is not None else await self._drawing.run(lambda: self._drawn(content, svg))

    def _drawn(self, content: object, svg: Callable[[], str]) -> bytes:
        if (kept := self._known(content)) is not None:  # drawn while this one waited
            return kept
        made = png_of(svg(), self._assets)
        with self._lock:
            self._kept[content] = made
            for oldest in list(self._kept)[:-PICTURES_KEPT]:
                del self._kept[oldest]
        return made

    def _known(self, content: object) -> bytes | None:
        with self._lock:
            if (kept := self._kept.pop(content, None)) is not None:
                self._kept[content] = kept
            return kept
