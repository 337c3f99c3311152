"""Figures in German beside English: whole sentences of shipped studies, and neither in the place of the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from sarqc.figures.layer_map import layer_map
from sarqc.figures.layer_quantities import quantity_of
from sarqc.figures.theorem import theorem_terms
from sarqc.figures.titles import finding_at
from sarqc.language import speaking
from sarqc.study.document import Study
from sarqc.study.facts import LineFacts, line_facts

STUDIES = Path("assets/studies")
TITLE = "Jede Schicht; schmal: schlechtester Experte"
GERMAN = [
    (
        TITLE,
        "Block 0 · Experte 2 · down_proj: die größte Drift",
        "Relative Drift der Gewichte, 112 Schichten, λ = 0: am größten in Block 0 · Experte 2 · down_proj, 2,58, "
        "Median 0,916.",
    ),
    (
        TITLE,
        "Block 0 · Experte 6 · down_proj: die größte Drift",
        "Relative Drift der Gewichte, 112 Schichten, λ = 0,1: am größten in Block 0 · Experte 6 · down_proj, 0,683, "
        "Median 0,624.",
    ),
    (
        TITLE,
        "Block 2 · v_proj: die größte Drift, 1,0\u00a0× der Median",
        "Relative Drift der Gewichte, 112 Schichten, λ = 1: am größten in Block 2 v_proj, 0,557, Median 0,533.",
    ),
]


@pytest.fixture(scope="module")
def mixture() -> LineFacts:
    return line_facts(Study.open(STUDIES / "tiny-moe"), method="sarqc-gbs", bits=2, layer=None)


def _map(facts: LineFacts, lam: float) -> tuple[str, str, str]:
    """Title, finding and sentence of the map of drift at a λ and the first γ."""
    figure = layer_map(facts, quantity_of(facts, "drift"))
    assert figure is not None
    at = facts.line.lams.index(lam)
    sentence = next(binding for binding in figure["bindings"] if binding["path"] == "aria")["values"][0][at]
    return figure["title"], finding_at(figure, {"gamma": 0, "lambda": at}), sentence


def test_the_map_of_layers_speaks_german_at_each_point(mixture: LineFacts) -> None:
    with speaking("de"):
        told = [_map(mixture, lam) for lam in (0.0, 0.1, 1.0)]
    assert told == GERMAN


def test_a_language_is_not_kept_for_the_next(mixture: LineFacts) -> None:
    with speaking("de"):
        _map(mixture, 0.1)
    title, finding, sentence = _map(mixture, 0.1)
    assert title == "Every layer; narrow: worst expert"
    assert "the largest drift" in finding
    assert sentence.startswith("Relative weight drift of 112 layers, λ = 0.1: largest in ")
    with speaking("de"):
        assert _map(mixture, 0.1) == GERMAN[1]


def test_the_theorem_is_explained() -> None:
    facts = line_facts(Study.open(STUDIES / "tiny-llama"), method="sarqc-gbs", bits=2, layer=None)
    with speaking("de"):
        told = theorem_terms(facts)
    assert told is not None
    assert told[1]["symbol"] == "Schranke"
    assert told[1]["sentence"] == (
        "Mit einer Wahrscheinlichkeit von 95\u00a0% ist die wahre Lücke kleiner: R²·M²·√(ln(2·|Q|/δ)/2n), mit der "
        "Drift R, der größten Norm M eines Tokens, n Tokens, |Q| Codematrizen und δ = 0,05."
    )
