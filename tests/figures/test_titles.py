"""The findings above the figures, for every line of the shipped studies, against plain loops over their numbers."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from sarqc.figures.gamma_grid import gamma_grid
from sarqc.figures.gap import gap
from sarqc.figures.pareto import ParetoRun, pareto_view
from sarqc.figures.plane import plane
from sarqc.figures.titles import best_lam, trade_off_finding
from sarqc.figures.view import lab_view
from sarqc.study.document import one_draw
from sarqc.study.facts import line_facts
from tests.synthetic_study import one_line, shipped, write_study


def strings(values: Any) -> Iterator[str]:
    if isinstance(values, str):
        yield values
    else:
        for part in values:
            yield from strings(part)


def at(figure: Any, gamma: int, lam: int) -> str:
    """Return the finding at a point, with plain spaces."""
    value = figure["finding"]["values"]
    for axis in figure["finding"]["over"]:
        value = value[{"gamma": gamma, "lambda": lam}[axis]]
    return str(value).replace("\u00a0", " ")


def test_the_best_lambda_falls_only_where_it_does():
    study = shipped("tiny-llama")
    facts = line_facts(study, method="rqc-gbs", bits=2, layer=None)
    text = at(gap(facts), 0, 0)
    first, last = re.fullmatch(r"The best λ falls from ([\d.]+) to ([\d.]+) as the text grows", text).groups()
    errors = study.read(facts.line, "held_out_by_size").astype(float)  # D L S G M
    for s, lam in ((0, float(first)), (-1, float(last))):
        means = [errors[:, :, s, 0, m].mean() for m in range(len(facts.line.lams))]
        assert facts.line.lams[int(np.argmin(means))] == lam
    single = line_facts(one_draw(study, facts.line.draws[0]), method="rqc-gbs", bits=2, layer=None)
    assert "best λ" not in at(gap(single), 0, 0)  # one draw leaves open where the best lies


NOISE = 0.3 * np.array([1.0, -1.0, 1.0, -1.0])[:, None, None]


def test_the_map_of_lambda_and_gamma_says_whether_gamma_matters(tmp_path):
    lams, gammas = (0.01, 0.1, 1.0), (0.1, 0.5, 0.9)
    clear = 20 + np.array([[3.0, 2.0, 3.0], [2.0, 0.0, 2.0], [3.0, 2.0, 3.0]])[None] + np.zeros((4, 1, 1))
    level = 20 + np.array([[3.0, 0.0, 3.0]] * 3)[None] + NOISE * np.arange(3)[None, :, None]
    cases = (
        ("clear", clear, "Perplexity is lowest at λ = 0.1, γ = 0.5"),
        ("level", level, "At the best λ of each, no γ stands out"),
        ("same", np.full((4, 3, 3), 20.0), "Perplexity depends clearly on neither λ nor γ"),
    )
    for name, values, text in cases:
        study = one_line(tmp_path / name, lams, gammas, perplexity=values)
        assert at(gamma_grid(line_facts(study, method="sarqc-gbs", bits=2, layer=None)), 0, 0) == text
    single = one_draw(one_line(tmp_path / "one", lams, gammas, perplexity=clear), 0)
    first = line_facts(single, method="sarqc-gbs", bits=2, layer=None)
    assert at(gamma_grid(first), 0, 0) == "Perplexity is lowest at λ = 0.1, γ = 0.5 on one draw"


def test_what_is_unclear_or_missing_has_no_size(tmp_path):
    lams = (0.0, 0.1, 1.0)
    drift = np.broadcast_to(np.array([0.4, 0.3, np.nan]), (4, 4, 1, 3))
    wild = 0.1 * (1 + 0.5 * np.array([1.0, -1.0, 1.0, -1.0])[:, None, None, None] * np.array([0, 1, 1]))
    study = one_line(tmp_path / "a", lams, drift=drift, recon=wild, perplexity=20.0)
    figure = plane(line_facts(study, method="sarqc-gbs", bits=2, layer=None))
    assert at(figure, 0, 1) == "λ = 0.1 against 0: 25 % less drift, error unclear"
    assert at(figure, 0, 2) == "λ = 1 against 0: error unclear"
    assert at(figure, 0, 0) == "λ = 0 is what others are compared with"
    single = one_line(tmp_path / "b", (0.1,), drift=0.25, recon=0.1)
    text = trade_off_finding(line_facts(single, method="sarqc-gbs", bits=2, layer=None))["values"][0][0]
    assert text.replace("\u00a0", " ") == "Weights drift by 25 %, 10 % error on calibration text"


def test_a_best_lambda_without_a_band_is_on_one_draw():
    none = np.zeros(3, dtype=bool)

    def said(best, band):
        return best_lam((0.0, 0.1, 1.0), best, band, "error").replace("\u00a0", " ")

    assert said(None, none) == ""
    assert said(1, none) == "Error is lowest at λ = 0.1 on one draw"
    assert said(1, ~none) == "No λ stands out in error"
    assert said(0, np.array([True, False, True])) == "Error is lowest at λ = 0, not clearly"


def test_size_against_quality_counts_the_frontier():
    def run(name: str, bits: float, perplexity: float) -> ParetoRun:
        return ParetoRun(name, name, "model", "text", bits, None, perplexity)

    runs = [run("a", 2, 30), run("b", 3, 20), run("c", 3, 25)]
    assert at(pareto_view(runs)["figure"], 0, 0) == "2 of 3 runs are on the frontier of size and quality"
    assert "finding" not in pareto_view(runs[:1])["figure"]


def test_a_made_up_study_has_findings_at_every_point(tmp_path):
    study = write_study(tmp_path)
    for line in study.lines:
        view = lab_view(study, method=line.name, bits=line.bits)
        for figure in view["figures"].values():
            if figure and "finding" in figure and figure["finding"]["over"]:
                assert np.array(figure["finding"]["values"]).shape == (len(line.gammas), len(line.lams))
