"""The picture of a link: every line can be drawn, and marks are where the axis has their values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from sarqc.figures.as_svg import svg_body
from sarqc.figures.card import CardPoint, point_card, point_title
from sarqc.figures.hero import curves, hero
from sarqc.figures.plotly_figure import coloured, colours_of, resolved
from sarqc.study.document import Study
from sarqc.study.facts import LineFacts, line_facts

ASSETS = Path("assets")
COLOURS = colours_of(ASSETS / "css" / "base.css")
SVG = "{http://www.w3.org/2000/svg}"


def facts_of(study: str, method: str, bits: int = 2, layer: int | None = None) -> LineFacts:
    return line_facts(Study.open(ASSETS / "studies" / study), method=method, bits=bits, layer=layer)


def texts(svg: str) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("study", sorted(path.name for path in (ASSETS / "studies").iterdir() if path.is_dir()))
def test_every_line_of_the_shipped_studies_has_a_picture(study: str) -> None:
    for line in Study.open(ASSETS / "studies" / study).lines:
        facts = facts_of(study, line.name, line.bits)
        svg = point_card(facts, CardPoint(len(line.gammas) - 1, len(line.lams) - 1), COLOURS)
        assert point_title(facts, CardPoint(len(line.gammas) - 1, len(line.lams) - 1)) in texts(svg)
        assert "var(--" not in svg
        assert "nan" not in re.sub(r">[^<]*<", "", svg)


def test_the_marker_stands_at_the_shown_value_and_the_ticks_at_theirs() -> None:
    facts = facts_of("tiny-llama", "sarqc-gbs")
    figure = curves(facts)
    for lam in (1, 8):
        made = coloured(resolved(figure, {"gamma": 0, "lambda": lam}, None), COLOURS)
        root = ElementTree.fromstring(f'<svg xmlns="{SVG[1:-1]}">{svg_body(made, 800, 300, "Inter")}</svg>')
        ticks = {
            "".join(one.itertext()): float(one[0].attrib["x"])
            for one in root.iter(f"{SVG}text")
            if one.attrib["text-anchor"] == "middle"
        }
        assert list(ticks) == [f"{value:g}" for value in facts.line.lams]
        assert np.ptp(np.diff(list(ticks.values()))) < 0.02  # equal steps
        ink = [one for one in root.iter(f"{SVG}path") if one.attrib.get("stroke") == COLOURS["--ink"]]
        assert len(ink) == 3  # one in each panel
        for one in ink:
            ends = re.findall(r"[\d.]+", one.attrib["d"])
            assert float(ends[0]) == float(ends[2]) == ticks[f"{facts.line.lams[lam]:g}"]


def test_the_name_of_a_flag_stands_at_the_foot_of_its_pole() -> None:
    facts = facts_of("tiny-llama", "rqc-gbs")
    made = coloured(resolved(hero(facts), {"gamma": 0, "lambda": 3}, None), COLOURS)
    root = ElementTree.fromstring(f'<svg xmlns="{SVG[1:-1]}">{svg_body(made, 800, 300, "Inter")}</svg>')
    flags = [one for one in made["layout"]["annotations"] if one.get("showarrow")]
    assert flags
    poles = [one for one in root.iter(f"{SVG}path") if one.attrib.get("stroke") == COLOURS["--ink-3"]]
    feet = [tuple(float(part) for part in re.findall(r"[\d.]+", one.attrib["d"])) for one in poles]
    for flag in flags:
        (text,) = [one for one in root.iter(f"{SVG}text") if "".join(one.itertext()) == flag["text"]]
        x, y = (float(text[0].attrib[key]) for key in ("x", "y"))
        assert any(
            abs(x - x1) < 0.1 and abs(y1 - y0 - flag["ay"]) < 0.1 and abs(y - y1) < 8 for _, y0, x1, y1 in feet
        ), flag["text"]


def test_what_a_study_says_of_itself_stays_text() -> None:
    study = Study.open(ASSETS / "studies" / "tiny-llama")
    named = study.model_copy(update={"model": study.model.model_copy(update={"name": "<script>&"})})
    svg = point_card(line_facts(named, method="rtn", bits=2, layer=None), CardPoint(0, 0), COLOURS)
    assert any(text.startswith("<script>&") for text in texts(svg))
    assert not list(ElementTree.fromstring(svg).iter(f"{SVG}script"))


@pytest.mark.parametrize(
    "spoilt",
    [
        {"data": [{"type": "surface"}]},
        {"shapes": [{"type": "circle", "xref": "paper", "yref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": 1}]},
    ],
)
def test_what_can_not_be_drawn_is_an_error(spoilt: dict[str, Any]) -> None:
    layout = {"margin": {"l": 0, "r": 0, "t": 0, "b": 0}, "font": {}, "shapes": spoilt.get("shapes", [])}
    with pytest.raises(ValueError, match="no SVG for"):
        svg_body({"data": spoilt.get("data", []), "layout": layout}, 100, 100, "Inter")
