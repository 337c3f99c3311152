"""The tour's words and the published figures that it shows."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOUR = json.loads((ROOT / "assets" / "tour.json").read_text())
PUBLISHED = json.loads((ROOT / "assets" / "published.json").read_text())["results"]


@pytest.mark.parametrize("step", TOUR["steps"], ids=lambda step: step["name"])
def test_a_step_is_short_asks_and_has_its_script(step):
    told = re.sub(r"\{\w+:([^}]+)\}", r"\1", " ".join([*step["text"], step["ask"]]))
    assert len(told.split()) <= 60
    assert "!" not in told
    assert step["ask"]
    assert step["figure"]
    assert (ROOT / "assets" / "js" / "learn" / f"{step['name']}.js").is_file()


def test_coloured_words_have_their_colour():
    styles = "".join(path.read_text() for path in (ROOT / "assets" / "css").glob("*.css"))
    roles = set(re.findall(r"\{(\w+):", " ".join(" ".join(step["text"]) + step["ask"] for step in TOUR["steps"])))
    assert roles
    assert all(f".role-{role} " in styles for role in roles)


def test_the_tour_is_of_a_study_that_ships():
    wanted = TOUR["study"]
    study = json.loads((ROOT / "assets" / "studies" / wanted["id"] / "study.json").read_text())
    lines = {(line["method"], line["bits"]) for line in study["lines"]}
    assert {(wanted["identity"], wanted["bits"]), (wanted["saliency"], wanted["bits"])} <= lines
    assert wanted["layer"] in {layer["name"] for layer in study["layers"]}


def test_a_step_is_of_a_pretrained_model_in_several_draws():
    wanted = TOUR["pretrained"]
    study = json.loads((ROOT / "assets" / "studies" / wanted["id"] / "study.json").read_text())
    draws = {(line["method"], line["bits"]): len(line["draws"]) for line in study["lines"] if "fitting" not in line}
    assert all(draws[wanted[penalty], wanted["bits"]] >= 3 for penalty in ("identity", "saliency"))


def test_published_averages_are_those_of_their_tasks():
    """A slip in copying a figure would show here: the paper's averages come from its own eight columns."""
    figure = PUBLISHED["figure"]
    rows = [(figure["float_tasks"], figure["float"])]
    for name in ("identity", "saliency"):
        assert len(figure[name]["average"]) == len(figure["lams"])
        rows += zip(figure[name]["tasks"], figure[name]["average"], strict=True)
    for tasks, average in rows:
        assert len(tasks) == len(figure["tasks"])
        assert sum(tasks) / len(tasks) == pytest.approx(average, abs=0.0051)
    assert figure["identity"]["tasks"][0] == figure["saliency"]["tasks"][0]  # without λ they are one method
    perplexity = PUBLISHED["perplexity"]
    assert all(len(row["values"]) == len(perplexity["models"]) for row in perplexity["rows"])
