"""Flags of the λ axis: where they stand, for which lines they are true, and where they are said."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from sarqc.figures.flags import AXIS_WIDTH, flags_of, name_width, place_flags
from sarqc.figures.tables import figure_table
from sarqc.figures.view import lab_view
from sarqc.quantization.methods import METHODS
from sarqc.study.document import Study
from sarqc.study.facts import LineFacts, line_facts
from tests.synthetic_study import shipped


@pytest.fixture(scope="module")
def study() -> Study:
    return shipped("tiny-llama")


def facts_of(study: Study, method: str) -> LineFacts:
    return line_facts(study, method=method, bits=2, layer=None)


def test_dampings_are_flagged_where_lambda_is_a_damping_and_nowhere_else(study):
    identity, saliency, search = (facts_of(study, name) for name in ("rqc-gbs", "sarqc-gbs", "rqc-gs"))
    values = {flag.name: flag.value for flag in flags_of(identity)}
    assert values == {
        "no damping": "0",
        "GPTQ, llm-compressor": "0.01",
        "GPTQModel": "0.05",
        "NNCF": "0.1",
        "this paper": "0.25–0.75",
    }
    assert [flag.name for flag in flags_of(saliency)] == ["no damping", "this paper"]
    assert [(flag.name, flag.value) for flag in flags_of(search)] == [("AWQ", "0"), ("this paper", "0.1–1")]
    assert {name for name, entry in METHODS.items() if entry.make.lam_is_damping and "lam" in entry.tunes} == {
        "rqc-gbs"
    }


def test_a_flag_beyond_the_axis_is_left_out(study):
    facts = facts_of(study, "rqc-gbs")
    line = facts.line.model_copy(update={"lams": (0.05, 0.1, 0.5)})
    short = replace(facts, line=line)
    assert [flag.name for flag in flags_of(short)] == ["GPTQModel", "NNCF", "this paper"]
    paper = place_flags(flags_of(short), line.lams)[-1]
    assert paper.place == pytest.approx(np.interp(paper.flag.lam, line.lams, range(3)))


@pytest.mark.parametrize("lams", [(0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2), (0, 0.1, 1), (0, 0.05, 0.1, 0.3)])
def test_names_of_one_lane_do_not_touch(study, lams):
    facts = facts_of(study, "rqc-gbs")
    line = facts.line.model_copy(update={"lams": lams})
    found = place_flags(flags_of(replace(facts, line=line)), lams)
    step = AXIS_WIDTH / len(lams)
    for one, other in itertools.pairwise(sorted(found, key=lambda flag: (flag.lane, flag.place))):
        if one.lane == other.lane:
            assert one.place * step + name_width(one.flag) <= other.place * step
    assert {flag.lane for flag in found} == set(range(1 + max(flag.lane for flag in found)))


def test_the_figure_its_words_and_its_table_have_every_flag(study):
    view = lab_view(study, method="rqc-gbs", bits=2)
    hero = view["figures"]["hero"]
    texts = [one["text"].strip() for one in hero["layout"]["annotations"]]
    hovers = {one["text"].strip(): one.get("hovertext") for one in hero["layout"]["annotations"]}
    (aria,) = (binding["values"] for binding in hero["bindings"] if binding["path"] == "aria")
    best = min(view["table"]["rows"], key=lambda row: row["perplexity"])
    lowest = f"perplexity is lowest, {best['perplexity']:.1f}, at λ = {best['lambda']:g}"
    assert lowest in aria[0].replace("\u00a0", " ")
    table = figure_table(study, "hero", method="rqc-gbs", bits=2, layer=None)
    flagged = [row for row in table["rows"] if row["flag"]]
    for flag in flags_of(facts_of(study, "rqc-gbs")):
        assert texts.count(flag.label) == 1
        assert hovers[flag.label] == f"λ = {flag.value}: {flag.tools}"
        assert f"{flag.name} at λ = {flag.value}" in aria[0]
        (row,) = (row for row in flagged if flag.name in row["flag"])
        assert row["lambda"] == flag.lam
    # 0.25, where the paper's begin, is not a point of the line
    assert len(table["rows"]) == len(view["lams"]) + 1
    assert view["lam_flags"][:4] == ["no damping", "GPTQ, llm-compressor", "", "GPTQModel"]
