"""The sentence of the Lab in German, read and found to be good German; and no English left in what is said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sarqc.figures.findings import findings
from sarqc.figures.sentence import plain, sentence, small_print
from sarqc.figures.titles import LONGEST, error_finding, quality_finding, trade_off_finding
from sarqc.language import speaking
from sarqc.study.document import Study, one_draw
from sarqc.study.facts import LineFacts, line_facts
from sarqc.study.ladder import ladder

STUDIES = Path(__file__).resolve().parents[2] / "assets" / "studies"
ENGLISH = re.compile(r"\b(the|than|with|of|and|or|is|are|has|have|by|from|to|error|draws?|layers?|text)\b")


@cache
def shipped(name: str) -> Study:
    return Study.open(STUDIES / name)


def facts_of(name: str, method: str, bits: int, layer: int | None = None, draw: int | None = None) -> LineFacts:
    study = shipped(name) if draw is None else one_draw(shipped(name), draw)
    return line_facts(study, method=method, bits=bits, layer=layer)


@pytest.fixture(autouse=True)
def german() -> Iterator[None]:
    with speaking("de"):
        yield


def test_a_clear_difference() -> None:
    facts = facts_of("tiny-llama", "rqc-gbs", 2)
    assert plain(sentence(facts, 0, 5)).replace("\u00a0", " ") == (
        "Bei λ = 0,2 hat das 2-Bit-Modell auf ungesehenem Text die Perplexität 77,2: 2,8 besser (95 %: 1,9 bis 3,6) "
        "als GPTQ 1 % (80,0). Die Gewichte driften 17 % weniger, mit 1 % weniger Fehler auf Kalibriertext. Das beste λ "
        "liegt zwischen 0,05 und 0,5 (95 % Konfidenz, fünf Kalibrierstichproben)."
    )
    assert [line.replace("\u00a0", " ") for line in small_print(facts, 0, 5)] == [
        "Über alle Schichten werden Ausgaben auf Kalibriertext 1 % besser und auf ungesehenem Text 9 % besser "
        "wiedergegeben.",
        "Die Dämpfung von GPTQ ist λ: Ihr Standardwert, 0,01, liegt unter dem Band.",
        "λ aus Shrinkage (OAS, Median über die Schichten), ohne Durchlauf, ist 0,022: Perplexität 1,9 über der beim "
        "besten λ, 0,2, von 0,5 bis 3,4.",
        "Trefferquote 68,7 % (Gleitkommamodell 66,7 %), 5,3 Prozentpunkte über GPTQ 1 %, von 2,2 bis 8,5.",
    ]


def test_the_baseline_itself() -> None:
    facts = facts_of("tiny-llama", "sarqc-gs", 2)
    assert plain(sentence(facts, 0, 0)).replace("\u00a0", " ") == (
        "Bei λ = 0 ist das 2-Bit-Modell das von AWQ: Perplexität 90,4 auf ungesehenem Text; das Gleitkommamodell hat "
        "61,3. Kein erprobtes λ ist besser, soweit fünf Kalibrierstichproben das zeigen können. Die Gewichte driften "
        "um 50 % ihrer Größe. Kein λ auf dieser Achse ragt heraus, soweit fünf Kalibrierstichproben das zeigen können. "
        "Keines ist besser als AWQ."
    )


def test_values_chosen_by_layer_and_a_single_layer() -> None:
    facts = facts_of("tiny-llama-methods", "sarqc-gbs-auto", 2, layer=3)
    assert plain(sentence(facts, 0, 0, "accuracy")).replace("\u00a0", " ") == (
        "Mit λ und γ, Schicht für Schicht auf zurückgehaltenem Kalibriertext gewählt, hat das ganze 2-Bit-Modell die "
        "Trefferquote 66,8 %, über fünf Kalibrierstichproben und 120 Testaufgaben kein messbarer Unterschied zu GPTQ 1 "
        "% (66,0 %): 0,8 Prozentpunkte (95 %: −1,9 bis 3,5). Die Gewichte dieser Schicht driften 20 % weniger, um den "
        "Preis von 6 % mehr Fehler auf Kalibriertext."
    )


def test_one_draw_and_the_colours_of_quantities() -> None:
    pieces = sentence(facts_of("tiny-llama", "sarqc-gbs", 3, draw=0), 0, 2)
    assert plain(pieces).replace("\u00a0", " ") == (
        "Bei λ = 0,05, γ = 0,1 hat das 3-Bit-Modell auf ungesehenem Text die Perplexität 63,4: 0,1 schlechter als GPTQ "
        "1 % (63,2) in der einen gemessenen Stichprobe, die nicht sagen kann, wie sicher das ist. Die Gewichte driften "
        "8 % weniger, um den Preis von 1 % mehr Fehler auf Kalibriertext. Eine Kalibrierstichprobe kann nicht zeigen, "
        "welches andere λ das beste sein könnte."
    )
    coloured = {(piece["text"].replace("\u00a0", " "), piece["role"]) for piece in pieces if piece["role"]}
    assert coloured == {
        ("λ = 0,05, γ = 0,1", "lambda"),
        ("Perplexität 63,4", "quality"),
        ("0,1 schlechter", "quality"),
        ("driften", "drift"),
        ("8 % weniger", "drift"),
        ("1 % mehr", "recon"),
        ("Fehler", "recon"),
    }


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-llama-methods", "tiny-moe"])
def test_no_english_is_left(name: str) -> None:
    study = shipped(name)
    for line in study.lines:
        facts = line_facts(study, method=line.name, bits=line.bits, layer=2)
        said = [line.label]
        for quality in ("perplexity", "accuracy"):
            said += [plain(sentence(facts, 0, 0, quality)), plain(sentence(facts, 0, len(line.lams) - 1, quality))]
            said += small_print(facts, 0, 0, quality)
        found = [trade_off_finding(facts), error_finding(facts), quality_finding(facts, "perplexity")]
        headings = [text for one in found if one is not None for row in one["values"] for text in row]
        assert all(len(text) <= LONGEST for text in headings)
        said += headings
        said += [text for part in findings(facts, ladder(study, line.bits)).values() for row in part for text in row]
        assert not [text for text in said if ENGLISH.search(text)]


def test_the_title_of_a_line_is_that_of_the_language_spoken() -> None:
    study = Study.open(STUDIES / "tiny-llama")  # opened in German
    line = study.line("rqc-gbs-search-refine3", 2)
    assert line.label == "GPTQ + Identitäts-Strafterm, gesuchter Wertebereich, 3 × verfeinert"
    assert line.title == "GPTQ + identity penalty, searched range, refined × 3"  # what a study is written with
    with speaking("en"):
        assert line.label == line.title
