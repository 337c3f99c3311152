"""With accuracy in the place of perplexity everything that is said and coloured by quality is of accuracy."""

import math

import numpy as np
import pytest
from scipy import stats

from sarqc.figures.view import View, lab_view
from sarqc.study.document import Study
from sarqc.study.facts import line_facts
from sarqc.study.paired import paired_items
from tests.synthetic_study import shipped, write_study


@pytest.fixture(scope="module")
def study() -> Study:
    return shipped("tiny-llama")


@pytest.fixture(scope="module")
def view(study: Study) -> View:
    return lab_view(study, method="sarqc-gbs", bits=2)


def test_the_band_is_of_accuracy_with_items_and_draws_as_samples(study, view):
    facts = line_facts(study, method="sarqc-gbs", bits=2, layer=None)
    correct = facts.read("correct")
    band = facts.accuracy.band.tolist()
    assert band != facts.perplexity.band.tolist()
    for g, row in enumerate(band):
        for m, inside in enumerate(row):
            beaten = []
            for other in set(range(len(row))) - {m}:
                apart = paired_items(correct[:, g, other], correct[:, g, m])
                bound = stats.t.ppf(1 - 0.025 / (len(row) - 1), math.floor(apart.freedom))
                beaten.append(apart.mean > bound * apart.error)
            assert inside == (not any(beaten)), (g, m)


def test_the_switched_figures_say_what_they_show(view):
    hero = view["figures"]["hero_accuracy"]
    assert hero["title"] == "Accuracy, higher is better"
    assert hero["layout"]["yaxis"]["tickformat"].endswith("%")
    assert not view["figures"]["hero"]["layout"]["yaxis"]["tickformat"].endswith("%")


def test_the_map_of_lambda_and_gamma_shows_the_switched_quality_where_it_has_rows_enough(tmp_path):
    for gammas, drawn in (((0.1, 0.5), False), ((0.1, 0.5, 1.0), True)):
        made = write_study(tmp_path / str(len(gammas)), gammas=gammas)
        grid = lab_view(made, method="sarqc-gbs", bits=2)["figures"]["gamma_grid_accuracy"]
        assert (grid is not None) == drawn
    assert grid is not None
    assert grid["title"] == "λ × γ: accuracy"
    assert all(text.endswith("%") for row in grid["data"][0]["text"] for text in row)


def test_every_method_is_compared_by_the_shown_quality(study, view):
    figure = view["figures"]["methods_accuracy"]
    titles = [one["text"] for one in figure["layout"]["annotations"]]
    assert {"Accuracy, higher is better", "Difference, points, with 95 % intervals"} <= set(titles)
    assert figure["layout"]["xaxis"]["tickformat"].endswith("%")
    assert "Perplexity, lower is better" in [one["text"] for one in view["figures"]["methods"]["layout"]["annotations"]]
    values = figure["data"][0]
    assert values["x"] == sorted(values["x"])  # drawn from below, the best highest
    best = {name: at for at, name in enumerate(values["customdata"]) if name is not None}
    facts = line_facts(study, method="rqc-gbs", bits=2, layer=None)
    place = (0, facts.accuracy.best[0])
    answers = facts.read("correct")[:, *place]
    assert values["x"][best["rqc-gbs"]] == pytest.approx(answers.mean())
    found = paired_items(answers, np.zeros_like(answers))
    assert found.error > answers.mean(axis=0).std(ddof=1) / answers.shape[1] ** 0.5 * 0.999  # items are a sample too
    ends = [f"{100 * end:.1f}\u00a0%" for end in (found.low, found.high)]
    assert values["text"][best["rqc-gbs"]].endswith(f"({ends[0]} to {ends[1]} over draws and items)")


def test_a_line_without_accuracy_tells_of_perplexity_alone(study):
    bare = study.model_copy(update={"lines": [one for one in study.lines if one.name == "sarqc-gbs"]})
    bare.lines[0].arrays.pop("accuracy", None)
    assert list(lab_view(bare, method="sarqc-gbs", bits=2)["told"]) == ["perplexity"]
    assert lab_view(bare, method="sarqc-gbs", bits=2)["figures"]["methods_accuracy"] is None
