"""Figures, tables and facts in German: texts that were read, numbers of axes, and headings that fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sarqc.figures.as_svg import svg_body
from sarqc.figures.deciles import deciles
from sarqc.figures.drawing import Axis, Figure, base_layout
from sarqc.figures.gap import gap
from sarqc.figures.hero import curves, hero
from sarqc.figures.measured import how_measured
from sarqc.figures.plane import plane, weight_text
from sarqc.figures.plotly_figure import resolved
from sarqc.figures.ruler import ruler
from sarqc.figures.surfaces import POOLINGS, difference, surface_arrays
from sarqc.figures.tables import table_of
from sarqc.figures.titles import finding_at
from sarqc.figures.view import lab_view
from sarqc.language import speaking
from sarqc.study.document import Study
from sarqc.study.facts import LineFacts, line_facts

STUDIES = Path("assets/studies")


@pytest.fixture(scope="module")
def facts() -> LineFacts:
    return line_facts(Study.open(STUDIES / "tiny-llama"), method="sarqc-gbs", bits=2, layer=None)


def said(figure: Figure | None, path: str, lam: int) -> Any:
    """What a figure binds to a path at the first γ."""
    assert figure is not None
    (bound,) = (one for one in figure["bindings"] if one["path"] == path and "values" in one)
    value = bound["values"]
    for axis in bound["over"]:
        value = value[0 if axis == "gamma" else lam]
    return value


def drawn(figure: Figure | None, lam: int, *, narrow: bool = False) -> list[str]:
    """The notes on a figure at a λ."""
    assert figure is not None
    made = resolved(figure, {"gamma": 0, "lambda": lam}, None, narrow=narrow)
    return [note["text"] for note in made["layout"]["annotations"]]


@pytest.mark.parametrize(
    ("lam", "finding", "words"),
    [
        (
            0,
            "Das oberste Dezil driftet 0,91 × so stark wie das unterste",
            "Gewichtsänderung im quadratischen Mittel nach Salienz-Dezil bei λ = 0: geringste Salienz 0,0433, höchste "
            "Salienz 0,0396; bei λ = 0 0,0433 und 0,0396. Identität bei diesem λ: 0,0433 und 0,0396; demgegenüber "
            "driften die am wenigsten salienten −0,0 %, die salientesten +0,0 %.",
        ),
        (
            4,
            "λ = 0,1: salienteste driften 2 % weniger als Identität",
            "Gewichtsänderung im quadratischen Mittel nach Salienz-Dezil bei λ = 0,1: geringste Salienz 0,0325, "
            "höchste Salienz 0,0315; bei λ = 0 0,0433 und 0,0396. Identität bei diesem λ: 0,0321 und 0,0320; "
            "demgegenüber driften die am wenigsten salienten +1,3 %, die salientesten −1,8 %.",
        ),
        (
            9,
            "λ = 2: salienteste driften 0,90 % weniger als Identität",
            "Gewichtsänderung im quadratischen Mittel nach Salienz-Dezil bei λ = 2: geringste Salienz 0,0268, höchste "
            "Salienz 0,0267; bei λ = 0 0,0433 und 0,0396. Identität bei diesem λ: 0,0266 und 0,0270; demgegenüber "
            "driften die am wenigsten salienten +0,6 %, die salientesten −0,9 %.",
        ),
    ],
)
def test_drift_by_decile(facts: LineFacts, lam: int, finding: str, words: str) -> None:
    with speaking("de"):
        figure = deciles(facts)
    assert figure is not None
    assert finding_at(figure, {"gamma": 0, "lambda": lam}).replace("\u00a0", " ") == finding
    assert said(figure, "aria", lam) == words
    assert figure["data"][0]["hovertemplate"] == "Dezil %{x}: %{y:.4f}<extra></extra>"


def test_panels_name_their_quantity_scale_and_float_model(facts: LineFacts) -> None:
    with speaking("de"):
        figure, of_layer = curves(facts), curves(line_facts(facts.study, method="sarqc-gbs", bits=2, layer=0))
    assert figure["title"] == "Perplexität, Fehler und Drift über λ"
    notes = drawn(figure, 6)
    assert "↓ Gleitkommamodell 61,3, außerhalb der Skala" in notes
    assert [text.partition("   ")[0] for text in notes if "<b>" in text] == [
        "Perplexität auf ungesehenem Text, kleiner ist besser",
        "Rekonstruktionsfehler (L_recon), relativ",
        "Gewichtsdrift ‖Ŵ − W‖ und Strafterm L_sar, relativ",
    ]
    assert any(
        text.startswith("Rekonstruktionsfehler (L_recon), diese Schicht, relativ") for text in drawn(of_layer, 6)
    )
    errors = '<span style="color:var(--held-out-ink)">ungesehen <b>0,0493</b></span> · '
    assert f'Fehler:  {errors}<span style="color:var(--recon-ink)">Kalibrierung <b>0,0413</b></span>' in drawn(
        figure, 6, narrow=True
    )


def test_a_plane_says_which_weight_selects_a_point(facts: LineFacts) -> None:
    with speaking("de"):
        figure = plane(facts)
        assert weight_text((0.25, 0.5)) == "minimiert Rekonstruktion + μ · Drift²<br>für μ von 0,25 bis 0,5"
    assert said(figure, "aria", 0) == (
        "Von λ = 0 bis λ = 2 geht die Gewichtsdrift von 0,780 auf 0,522 und der Rekonstruktionsfehler (ungesehener "
        "Text) von 0,0565 auf 0,0566. Jeweils ein Gewicht der Drift wählt λ = 0,2, λ = 0,3, λ = 0,5, λ = 1, λ = 2 aus, "
        "keines die anderen 5."
    )


def test_a_gap_is_told_in_tokens(facts: LineFacts) -> None:
    with speaking("de"):
        figure = gap(facts)
    assert figure is not None
    assert finding_at(figure, {"gamma": 0, "lambda": 6}) == "Mit mehr Text sinkt das beste λ von 1 auf 0,1"
    assert figure["layout"]["xaxis"]["ticktext"] == ["256", "512", "1.024", "2.048", "4.096", "8.192"]
    assert "λ = 0,1  Lücke <b>0,0553</b> → <b>0,00196</b>" in drawn(figure, 4, narrow=True)


def test_a_step_of_damping_is_a_sentence_with_its_changes(facts: LineFacts) -> None:
    with speaking("de"):
        figure = ruler(facts)
    words = said(figure, "aria", 9)
    assert "Von GPTQs λ = 0,01 zu 2: keine klare Änderung der Perplexität: 0,1 (" in words
    assert (
        "), 27\u00a0%\u00a0weniger Drift, 28\u00a0%\u00a0mehr Kalibrierfehler; ohne zusätzlichen Zeitaufwand." in words
    )
    assert "Sie sind hier: GPTQ, llm-compressor, AutoGPTQ, ModelOpt, Neural Compressor und 3 weitere" in drawn(
        figure, 9
    )


def test_a_difference_of_surfaces_says_what_its_colours_mean(facts: LineFacts) -> None:
    figures = {}
    with speaking("de"):
        for pooling in (POOLINGS[0], POOLINGS[-1]):
            array = surface_arrays(facts, 6)[pooling.array]
            figures[pooling.name] = difference(facts, array, 6, pooling)
    words = {name: said(figure, "layout.annotations.0.text", 4) for name, figure in figures.items()}
    assert words == {
        "max": "λ = 0,1 minus λ = 0: Blau driftet weniger, Orange mehr",
        "signed": "λ = 0,1 minus λ = 0: Blau ist weniger, Orange mehr",
    }
    assert str(said(figures["max"], "aria", 4)).endswith("λ = 0,1 minus λ = 0, größter Wert jeder Zelle.")


def test_facts_of_the_measurement(facts: LineFacts) -> None:
    with speaking("de"):
        told = {fact["name"]: fact["text"] for fact in how_measured(facts)}
    assert told["Modell"] == "tiny-llama, 5.770.496 Parameter, 81,8\u00a0% quantisiert"
    assert told["Gitter"] == "2 Bit, asymmetrisch, Gruppen zu 128"
    assert told["Kalibriertext"] == (
        "Korpus tiny-llama-calibration, Sequenzen 8, Länge 256, Tokens 2.048, Auswahl zufällig"
    )
    chosen = line_facts(
        Study.open(STUDIES / "tiny-llama-methods"), method="rqc-gs-auto", bits=2, layer=None, with_identity=False
    )
    with speaking("de"):
        told = {fact["name"]: fact["text"] for fact in how_measured(chosen)}
    assert told["λ und γ"] == (
        "auto: gemeinsam für das Modell λ aus 0,1; 0,2; 0,3; 0,4; 0,5; 0,6; 0,7; 0,8; 0,9; 1, nach der Perplexität auf "
        "einem zurückgehaltenen Teil des Kalibriertexts"
    )


def test_heads_of_tables_are_words_and_their_rows_stay_numbers(facts: LineFacts) -> None:
    english = table_of(facts, "deciles")
    with speaking("de"):
        german, view = table_of(facts, "deciles"), lab_view(facts.study, method="sarqc-gbs", bits=2)
    assert [column["title"] for column in german["columns"]] == [
        "λ", "γ", "Salienz-Dezil", "Drift im quadratischen Mittel", "Drift im quadratischen Mittel, Identität",
        "Drift gegenüber Identität",
    ]  # fmt: skip
    assert german["rows"] == english["rows"]
    assert view["table"]["columns"][2]["title"] == "Perplexität, ungesehener Text"
    assert [scale["title"] for scale in view["scales"]] == ["roh", "Regel des Artikels", "Verhältnis zu λ = 0"]


def test_numbers_of_axes_have_a_decimal_comma(facts: LineFacts) -> None:
    with speaking("de"):
        figure = hero(facts, "error")
        assert figure is not None
        made = resolved(figure, {"gamma": 0, "lambda": 0}, None)
        svg = svg_body(made, 680, 382, "Inter")
        assert base_layout()["separators"] == ",."
    assert ">0,05<" in svg
    assert ">0.05<" not in svg
    assert "separators" not in base_layout()


@pytest.mark.parametrize("study", sorted(path.name for path in STUDIES.iterdir() if path.is_dir()))
def test_no_finding_is_lost_because_it_is_longer(study: str) -> None:
    opened = Study.open(STUDIES / study)
    for line in opened.lines:
        facts = line_facts(opened, method=line.name, bits=line.bits, layer=None)
        for make in (deciles, gap, ruler):
            english = make(facts)
            with speaking("de"):
                german = make(facts)
            if english is None or german is None or "finding" not in english:
                continue
            for g in range(len(line.gammas)):
                for m in range(len(line.lams)):
                    at: dict[Axis, int] = {"gamma": g, "lambda": m}
                    assert bool(finding_at(english, at)) == bool(finding_at(german, at)), finding_at(english, at)
