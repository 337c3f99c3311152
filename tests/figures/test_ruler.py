"""The damping of GPTQ as a place on the λ axis: its numbers against differences of each draw in plain loops."""

import json
import math
from statistics import fmean, stdev
from typing import Any

import pytest
from scipy import stats

from sarqc.figures.flags import TOOLS
from sarqc.figures.ruler import read_steps, ruler, tool_rows
from sarqc.figures.tables import figure_table
from sarqc.figures.view import lab_view
from sarqc.study.document import Study, one_draw
from sarqc.study.facts import line_facts
from tests.synthetic_study import shipped


@pytest.fixture(scope="module")
def study() -> Study:
    return shipped("tiny-llama")


def by_hand(study: Study, bits: int, lam: float) -> tuple[float, float, float]:
    """Relative change of perplexity from λ = 0.01 to another, with its 95 % interval for all λ at once."""
    line = study.line("rqc-gbs", bits)
    values = study.read(line, "perplexity")
    start, end = ([round(one, 6) for one in line.lams].index(value) for value in (0.01, lam))
    pairs = [(float(row[0][start]), float(row[0][end])) for row in values]
    logs = [math.log(to / of) for of, to in pairs]
    reach = stats.t.isf(0.025 / (len(line.lams) - 1), len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    low, mean, high = (math.exp(fmean(logs) + shift) - 1 for shift in (-reach, 0.0, reach))
    return mean, low, high


@pytest.mark.parametrize("method", ["rqc-gbs", "sarqc-gbs"])
def test_a_step_says_what_the_draws_say(study, method):
    steps = read_steps(line_facts(study, method=method, bits=2, layer=None))
    at = steps.lams.index(0.1)
    mean, low, high = by_hand(study, 2, 0.1)
    assert high < 0  # so that the sentence gives the size
    assert [float(part[at]) for part in steps.changes] == pytest.approx([mean, low, high], rel=1e-6)
    size, first, last = (f"{-100 * value:.1f}" for value in (mean, high, low))
    text = ruler(line_facts(study, method=method, bits=2, layer=None))["data"][0]["text"][at]
    interval = f"95 %: {first} to {last} %, five draws, one of 9"
    assert text.replace("\u00a0", " ") == f"λ = 0.1: {size} % lower perplexity than GPTQ’s 0.01 ({interval})"


def test_one_draw_claims_no_difference(study):
    facts = line_facts(one_draw(study, study.line("rqc-gbs", 2).draws[0]), method="rqc-gbs", bits=2, layer=None)
    figure = ruler(facts)
    assert figure["finding"]["values"] == "You already regularise; no larger λ is measurably better"
    assert "(one draw, no interval)" in figure["data"][0]["text"][4]


def test_it_is_absent_without_an_identity_line_or_without_a_damping(study):
    methods = shipped("smollm2-methods")
    assert not any(line.method == "rqc-gbs" and len(line.lams) > 1 for line in methods.lines)
    for line in methods.lines:
        assert lab_view(methods, method=line.name, bits=line.bits)["figures"]["ruler"] is None
    for name in ("awq", "rqc-gs", "rtn"):
        if any(line.name == name for line in study.lines):
            assert ruler(line_facts(study, method=name, bits=2, layer=None)) is None


def test_the_subtitle_names_the_line_where_it_is_another(study):
    own, other = (ruler(line_facts(study, method=name, bits=2, layer=None)) for name in ("rqc-gbs", "sarqc-gbs"))
    assert own["subtitle"] == ", five draws, 95 % intervals"
    assert other["subtitle"].endswith(", GPTQ + identity penalty")
    assert own["data"][0]["y"] == other["data"][0]["y"]


def test_every_tool_stands_at_its_default(study):
    lams = study.line("rqc-gbs", 2).lams
    for place, tools in tool_rows(lams):
        assert {lams[int(place)]} == {tool.default for tool in tools}
    assert sum(len(tools) for _, tools in tool_rows(lams)) == len(TOOLS)
    assert [tools[0].default for _, tools in tool_rows((0.02, 0.08))] == [0.05]


def test_the_table_has_every_step_and_every_source(study):
    table = figure_table(study, "ruler", method="sarqc-gbs", bits=2, layer=None)
    rows: dict[float, Any] = {row["lambda"]: row for row in table["rows"]}
    assert rows[0.1]["perplexity_change"] == pytest.approx(by_hand(study, 2, 0.1)[0], rel=1e-6)
    assert rows[0.01]["perplexity_change"] == 0
    for tool in TOOLS:
        assert tool.source in rows[tool.default]["sources"].split()
    json.dumps(table, allow_nan=False)
