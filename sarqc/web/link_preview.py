"""Link previews (Open Graph): title and sentence of a link's content, for those who may see it, and of the site for all
others. The picture is the same for every link."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import get_args
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.types import Scope

from sarqc.errors import SarqcError
from sarqc.figures.hero import Shown
from sarqc.figures.numbers import accuracy_text, lam_text, perplexity_text
from sarqc.figures.sentence import Piece, QualityName, plain, sentence
from sarqc.figures.titles import finding_at
from sarqc.figures.view import default_line, first_figure, line_title, start_of
from sarqc.jobs.links import Link
from sarqc.settings import Settings
from sarqc.study.document import one_draw
from sarqc.study.facts import LineFacts, has_lam, line_facts
from sarqc.study.library import first_study
from sarqc.web.access import Access
from sarqc.web.profile import own_address
from sarqc.web.static import PICTURE
from sarqc.web.visitor import Visitor

SITE = "sarqc, quantization of language models"  # ends every page's title
TAGLINE = "What a little regularisation buys"
ABOUT = (
    "Rounding the weights of a language model to a few bits: what λ does to its error, to the drift of its weights "
    "and to its answers, measured on real models."
)
_ALT = "A curve that falls and rises again with λ, and the band of its best values."
WIDTH, HEIGHT = 1200, 630  # pixels of the picture
FACTS_CACHED = 8
WORDS_CACHED = 64  # of points, a few hundred characters each

Query = Mapping[str, str]
FactsKey = tuple[str, str, str, int, int | None, int | None]  # study, its content, line, bits, layer, draw


@dataclass(frozen=True)
class Introduction:
    """Title and description in the head of a page."""

    title: str  # of the document, before the site's name
    name: str = TAGLINE  # of the shown content
    about: str = ABOUT


def query_of(text: str) -> dict[str, str]:
    """Return the parameters of an address, of repeated ones the first, as the pages read it."""
    return dict(reversed(parse_qsl(text)))


def head_of(introduction: Introduction, own: str, address: str) -> str:
    """Return the elements of a document's head that introduce the page.

    ``own``: see ``Introductions.own``; ``address``: of the page, from its “/”.
    """
    picture = f"{own}/{PICTURE}"
    open_graph = {
        "og:site_name": "sarqc",
        "og:type": "website",
        "og:title": introduction.name,
        "og:description": introduction.about,
        "og:url": f"{own}{address}" if "://" in own else "",
        "og:image": picture,
        "og:image:type": "image/png",
        "og:image:width": str(WIDTH),
        "og:image:height": str(HEIGHT),
        "og:image:alt": _ALT,
    }
    named = {
        "description": introduction.about,
        "twitter:card": "summary_large_image",
        "twitter:title": introduction.name,
        "twitter:description": introduction.about,
        "twitter:image": picture,
        "twitter:image:alt": _ALT,
    }
    metas = [
        f'<meta {kind}="{key}" content="{escape(value)}">'
        for kind, pairs in (("property", open_graph), ("name", named))
        for key, value in pairs.items()
        if value
    ]
    return "\n".join([f"<title>{escape(document_title(introduction))}</title>", *metas])


def document_title(introduction: Introduction) -> str:
    """Return the title as a tab of the browser shows it."""
    return f"{introduction.title} – {SITE}"


@dataclass(frozen=True)
class FirstSight:
    """First contents of the Lab at an address, shown before any script runs."""

    model: str
    bits: int
    finding: str  # of the main figure; empty where a link hides findings
    title: str  # of the main figure
    sentence: Sequence[Piece]


@dataclass(frozen=True)
class LinePoint:
    """One point of a line, and its display. ``gamma`` and ``lam`` are positions on the line's axes."""

    gamma: int
    lam: int
    shown: Shown = "perplexity"

    @property
    def quality(self) -> QualityName:
        """The quality that the sentence speaks of."""
        return "accuracy" if self.shown == "accuracy" else "perplexity"


class Introductions:
    """Introductions of addresses, as far as a visitor may see their content."""

    def __init__(self, settings: Settings, access: Access) -> None:
        self._settings, self._access = settings, access
        self._facts = lru_cache(maxsize=FACTS_CACHED)(self._facts_of)
        # Words take longer to make than the rest of a page.
        cached = lru_cache(maxsize=WORDS_CACHED)
        self._words = cached(lambda key, at: introduction_of(self._facts(*key), at))
        self._sights = cached(lambda key, at, banded: sight_of(self._facts(*key), at, banded=banded))

    def own(self, scope: Scope) -> str:
        """Return the prefix of the site's addresses: ``own_address`` and the app's path."""
        address = own_address(scope["scheme"], Headers(scope=scope).get("host", ""), self._settings)
        return address + self._settings.root()

    def of(self, visitor: Visitor, path: str, query: Query, page: Introduction) -> Introduction:
        """Return the introduction of an address; ``page`` is that of the page itself, used where nothing further is
        shown."""
        study_id = {"/": query.get("study") or self._first(), "/calibrate": query.get("run")}.get(path)
        if not study_id:
            return page
        try:
            return self._of_study(visitor, study_id, query)
        except SarqcError:  # there is no such study, or not for them
            return self._of_run(visitor, study_id, page) if path == "/calibrate" else page

    def first_sight(self, visitor: Visitor, query: Query) -> FirstSight | None:
        """Return the Lab's first contents at an address; None where only its scripts know them."""
        study_id = query.get("study") or self._first()
        try:
            key = self._key(visitor, study_id or "", query)
            return self._sights(key, point_of(self._facts(*key), query), "band" not in query.get("hide", "").split(","))
        except SarqcError:  # there is no such study, or not for them
            return None

    def of_link(self, visitor: Visitor, link: Link, query: Query) -> Introduction:
        """Return the introduction of a share link for ``visitor``, who has it."""
        path = "/calibrate" if link.kind == "run" else "/"
        return self.of(visitor, path, {**query, "study": link.target, "run": link.target}, Introduction("A link"))

    def _of_study(self, visitor: Visitor, study_id: str, query: Query) -> Introduction:
        key = self._key(visitor, study_id, query)
        return self._words(key, point_of(self._facts(*key), query))

    def _of_run(self, visitor: Visitor, run_id: str, page: Introduction) -> Introduction:
        """Return the introduction of a run without a study."""
        try:
            run = self._access.run(visitor, run_id)
        except SarqcError:
            return page
        title = run.name or f"{run.recipe['model']} at {run.recipe['bits']} bits"
        return Introduction(title, f"{title}: {run.state}", page.about)

    def _key(self, visitor: Visitor, study_id: str, query: Query) -> FactsKey:
        """Return the key of the facts that an address shows, without what the study lacks, as on the page."""
        study = self._access.library.open(self._access.study(visitor, study_id))
        bits, method = _integer(query.get("bits")), query.get("method")
        if bits not in {line.bits for line in study.lines}:
            bits = None
        if not any(method in (line.name, line.method) and bits in (None, line.bits) for line in study.lines):
            method = None
        line = default_line(study, method, bits)
        layer, draw = _integer(query.get("layer")), _integer(query.get("draw"))
        if len(study.layers) == 1:
            layer = 0  # all layers of it are this one
        layer, draw = layer if layer in range(len(study.layers)) else None, draw if draw in line.draws else None
        return study_id, study.checksum or study.created, line.name, line.bits, layer, draw

    def _facts_of(
        self, study_id: str, content: str, line: str, bits: int, layer: int | None, draw: int | None
    ) -> LineFacts:
        study = self._access.library.open(study_id)
        return line_facts(study if draw is None else one_draw(study, draw), method=line, bits=bits, layer=layer)

    def _first(self) -> str | None:
        return first_study(self._access.library.shipped())


def point_of(facts: LineFacts, query: Query) -> LinePoint:
    """Return the point of a line that an address shows; by default the Lab's first one."""
    start, line = start_of(facts), facts.line
    names: tuple[Shown, ...] = get_args(Shown)
    shown: Shown = next((name for name in names if name == query.get("show")), "perplexity")
    if shown == "accuracy" and facts.accuracy is None:
        shown = "perplexity"
    return LinePoint(
        _nearest(line.gammas, query.get("gamma"), start["gamma"]),
        _nearest(line.lams, query.get("lambda"), start["lambda"]),
        shown,
    )


def introduction_of(facts: LineFacts, at: LinePoint) -> Introduction:
    """Return the introduction of a point."""
    words = plain(sentence(facts, at.gamma, at.lam, at.quality))
    return Introduction(line_title(facts), point_title(facts, at), words)


def point_title(facts: LineFacts, at: LinePoint) -> str:
    """Return model, bits, method, layer, λ, γ and the measured value."""
    line, quality = facts.line, facts.accuracy if at.quality == "accuracy" else facts.perplexity
    parts = [line_title(facts)]
    if has_lam(line) and line.later is None:  # else the title has it
        parts.append(f"λ = {lam_text(line.lams[at.lam])}")
    gamma = line.gammas[at.gamma]
    if gamma is not None and len(line.gammas) > 1:
        parts.append(f"{facts.line.sign} = {lam_text(gamma)}")
    value = math.nan if quality is None else float(quality.mean[at.gamma, at.lam])
    if not math.isnan(value):
        text = accuracy_text(value) if at.quality == "accuracy" else perplexity_text(value)
        parts.append(f"{at.quality} {text}")
    return ", ".join(parts)


def sight_of(facts: LineFacts, at: LinePoint, *, banded: bool) -> FirstSight:
    """Return the Lab's first contents at a point; ``banded``: with the best λ."""
    figure = first_figure(facts, at.shown)
    return FirstSight(
        facts.study.model.name,
        facts.line.bits,
        finding_at(figure, {"gamma": at.gamma, "lambda": at.lam}) if banded else "",
        figure.get("title", ""),
        sentence(facts, at.gamma, at.lam, at.quality),
    )


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else None


def _nearest(values: Sequence[float | None], text: str | None, otherwise: int) -> int:
    """Return the position of the value that is nearest to a number; ``otherwise`` where there is none."""
    target = math.nan
    with suppress(ValueError):
        target = float(text or "nan")
    known = [(abs(value - target), at) for at, value in enumerate(values) if value is not None]
    return min(known)[1] if known and math.isfinite(target) else otherwise
