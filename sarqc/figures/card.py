"""What a link shows before any script runs: a title, a sentence and a picture of 1200 × 630, as messengers and networks
show them; and the Lab's main figure for the page itself, until its scripts draw it.

Both pictures are at the link's own λ, from the drawing that the page gets.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from sarqc.figures.as_svg import svg_body
from sarqc.figures.hero import Shown
from sarqc.figures.numbers import accuracy_text, lam_text, perplexity_text
from sarqc.figures.panels import BAND
from sarqc.figures.plotly_figure import coloured, resolved
from sarqc.figures.sentence import QualityName, plain, sentence
from sarqc.figures.view import first_figure, line_title
from sarqc.study.facts import LineFacts, has_lam

WIDTH, HEIGHT = 1200, 630  # pixels, as Open Graph's readers like it
FAMILY = "Inter"
LEFT = 48  # of all that is written
SUBJECT = "quantization of language models"
SITE = "sarqc, quantization of language models"  # ends every page's title
_TITLE, _TEXT, _LINES = 40, 25, 3  # sizes in pixels, and how many lines a sentence may take
_FIGURE_SCALE = 1.45  # of a figure that is written for type of 12 pixels
_WIDE, _BOLD_WIDE = 0.47, 0.51  # of a letter on average, in its size


@dataclass(frozen=True)
class CardPoint:
    """One point of a line, and how it is looked at. ``gamma`` and ``lam`` are positions on the line's axes."""

    gamma: int
    lam: int
    shown: Shown = "perplexity"
    scale: str = "raw"

    @property
    def quality(self) -> QualityName:
        """The quality that the sentence speaks of."""
        return "accuracy" if self.shown == "accuracy" else "perplexity"


def point_title(facts: LineFacts, at: CardPoint) -> str:
    """Model, bits, method, layer, λ, γ, and what was measured there."""
    line, quality = facts.line, facts.accuracy if at.quality == "accuracy" else facts.perplexity
    parts = [line_title(facts)]
    if has_lam(line) and line.later is None:  # whose title has it
        parts.append(f"λ = {lam_text(line.lams[at.lam])}")
    gamma = line.gammas[at.gamma]
    if gamma is not None and len(line.gammas) > 1:
        parts.append(f"{facts.line.sign} = {lam_text(gamma)}")
    if quality is not None and quality.mean[at.gamma, at.lam] == quality.mean[at.gamma, at.lam]:
        value = float(quality.mean[at.gamma, at.lam])
        if at.quality == "accuracy":
            parts.append(f"accuracy {accuracy_text(value)}")
        else:
            parts.append(f"perplexity {perplexity_text(value)}")
    return ", ".join(parts)


def point_sentence(facts: LineFacts, at: CardPoint) -> str:
    """The sentence that the Lab says there."""
    return plain(sentence(facts, at.gamma, at.lam, at.quality))


def point_aria(facts: LineFacts, at: CardPoint) -> str:
    """The picture in words."""
    figure = first_figure(facts, at.shown, at.scale)
    said = [binding for binding in figure["bindings"] if binding["path"] == "aria" and "values" in binding]
    return str(said[0]["values"][at.gamma]) if said else figure.get("aria", "")


def point_card(facts: LineFacts, at: CardPoint, colours: Mapping[str, str]) -> str:
    """The picture of a point as an SVG document. ``colours``: by role, see ``plotly_figure.colours_of``."""
    figure = first_figure(facts, at.shown, at.scale)
    made = resolved(figure, {"gamma": at.gamma, "lambda": at.lam}, _no_arrays)
    lines = _wrapped(point_sentence(facts, at), _TEXT, _LINES)
    top = 106 + 1.36 * _TEXT * len(lines) + 4
    width, height = WIDTH - 2 * LEFT + 16, HEIGHT - top - 12
    body = svg_body(coloured(made, dict(colours)), width / _FIGURE_SCALE, height / _FIGURE_SCALE, FAMILY)
    figure_part = f'<g transform="translate({LEFT - 16} {top:.1f}) scale({_FIGURE_SCALE})">{body}</g>'
    return _document(point_title(facts, at), lines, figure_part, colours)


def point_picture(facts: LineFacts, at: CardPoint, width: int, height: int, *, narrow: bool, banded: bool) -> str:
    """The main figure at a point for the page: an SVG element with the page's roles as its colours.

    ``banded``: whether the λ that may be the best are marked.
    """
    figure = first_figure(facts, at.shown, at.scale)
    made = resolved(figure, {"gamma": at.gamma, "lambda": at.lam}, _no_arrays, narrow=narrow)
    for kind in () if banded else ("shapes", "annotations"):
        made["layout"][kind] = [one for one in made["layout"].get(kind, []) if one.get("name") != BAND]
    body = svg_body(made, width, height, "inherit")
    return f'<svg viewBox="0 0 {width} {height}" class="{_CLASSES[narrow]}">{body}</svg>'


_CLASSES = {False: "is-wide", True: "is-narrow"}


def site_card(title: str, words: str, colours: Mapping[str, str]) -> str:
    """The picture of the site itself: what every study shows, an error that falls and rises again with λ."""
    curve = (
        f'<g transform="translate(60 250) scale(3)" fill="none" stroke-linecap="round">'
        f'<rect x="148" width="72" height="108" fill="{colours["--band-solid"]}"/>'
        f'<path d="M8 108H352" stroke="{colours["--line-2"]}"/>'
        f'<path d="M12 20C60 26 90 92 184 92C250 92 290 70 348 34" stroke="{colours["--quality"]}" stroke-width="3"/>'
        f'<circle cx="184" cy="92" r="5" fill="{colours["--quality"]}"/></g>'
    )
    return _document(title, _wrapped(words, _TEXT, _LINES), curve, colours)


def _document(title: str, lines: list[str], picture: str, colours: Mapping[str, str]) -> str:
    ink, second = colours["--ink"], colours["--ink-2"]
    size = min(_TITLE, (WIDTH - 2 * LEFT) / (_BOLD_WIDE * max(1, len(title))))
    words = "".join(
        f'<text x="{LEFT}" y="{106 + 1.36 * _TEXT * at + _TEXT:.1f}" font-size="{_TEXT}" fill="{second}">'
        f"{escape(line)}</text>"
        for at, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="{FAMILY}"><rect width="{WIDTH}" height="{HEIGHT}" '
        f'fill="{colours["--surface"]}"/><text x="{LEFT}" y="42" font-size="20" fill="{second}"><tspan '
        f'font-weight="600" fill="{ink}">sarqc</tspan>  ·  {escape(SUBJECT)}</text><text x="{LEFT}" '
        f'y="92" font-size="{size:.1f}" font-weight="600" '
        f'fill="{ink}">{escape(title)}</text>{words}{picture}</svg>'
    )


def _wrapped(text: str, size: float, at_most: int) -> list[str]:
    """Lines of letters of a size across the picture; what is too long ends in “…”."""
    return textwrap.wrap(text, int((WIDTH - 2 * LEFT) / (_WIDE * size)), max_lines=at_most, placeholder=" …")


def _no_arrays(name: str, at: Mapping[str, int]) -> object:
    raise ValueError(f"the array {name} is not drawn here")
