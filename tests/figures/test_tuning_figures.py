"""What is drawn and said of tuning, from made-up stages of it whose every number is known."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarqc.documents import End, Tuning, TuningRow
from sarqc.figures import tuning_view
from sarqc.figures.sentence import plain
from sarqc.figures.tuning import tuning_figure, tuning_table
from sarqc.figures.tuning_words import ENDS, tuning_sentence, tuning_small_print
from sarqc.study.students_t import TABLE

RECIPE = {"test": "some/held-out.txt", "calibration": "wiki", "samples": 8, "length": 256}


def row(lam: float | None, standing: Any, method: str = "sarqc-gbs", **known: Any) -> TuningRow:
    nothing = dict.fromkeys(
        (
            "log_ratio",
            "log_ratio_error",
            "worse",
            "worse_error",
            "kl",
            "kl_error",
            "better",
            "better_error",
            "accuracy",
            "accuracy_error",
            "more_accurate",
            "more_accurate_error",
            "more_accurate_verdict",
        )
    )
    gamma = 0.1 if method == "sarqc-gbs" else None
    plain_row = {"method": method, "lambda": lam, "gamma": gamma, "standing": standing, "draws": 0, "layer_error": None}
    return plain_row | nothing | known


def document(rows: list[TuningRow], **known: Any) -> Tuning:
    return {
        "method": "sarqc-gbs", "gamma": 0.1, "gammas": [0.0, 0.1, 0.5], "gamma_errors": [-3.0, -3.1, -3.0],
        "rows": rows, "best": None, "band": None, "draws": 0, "measured": 0, "planned": 20, "seconds": 3.0,
        "budget": 180.0, "blocks": None, "tasks": None, "end": "", "recipe": None, **known,
    }  # fmt: skip


def screened() -> Tuning:
    rows = [
        row(0.0, "dull", layer_error=-2.7), row(0.05, "left", layer_error=-3.0), row(0.2, "left", layer_error=-3.1),
        row(0.5, "left", layer_error=-3.05), row(10.0, "dull", layer_error=-2.0),
        row(0.01, "baseline", "gptq"), row(None, "baseline", "rtn"),
    ]  # fmt: skip
    return document(rows)


def measured(draws: int, better: float, error: float | None, end: End = "", **known: Any) -> Tuning:
    """After so many draws, λ = 0.2 being the best and 0.05 clearly worse from the second draw on."""
    found = {0.05: 0.30, 0.2: 0.20, 0.5: 0.21}
    rows = screened()["rows"]
    for one in rows:
        lam = one["lambda"]
        if one["standing"] == "baseline":
            ratio = 0.2 + better if one["method"] == "gptq" else 0.9
        elif lam in found:
            ratio = found[lam]
            one["standing"] = "retired" if lam == 0.05 and draws > 1 else "left"
        else:
            continue
        gain = 0.2 + better - ratio
        one |= {"draws": draws, "log_ratio": ratio, "worse": ratio - 0.2, "better": gain, "better_error": error}
    of_two = {"band": [0.2, 0.5]} if draws > 1 else {}
    return document(rows, **{"best": 2, "draws": draws, "measured": 5 * draws, "end": end, **of_two, **known})


def trace(figure: Any, name: str, axis: str = "y") -> dict[str, Any]:
    return next(one for one in figure["data"] if one["name"] == name and one["yaxis"] == axis)


def bound(figure: Any, path: str) -> Any:
    return next(one["values"][0] for one in figure["bindings"] if one["path"] == path)


def drawn(figure: Any, name: str) -> dict[str, float]:
    """What a curve shows, by the name of λ."""
    at = next(index for index, one in enumerate(figure["data"]) if one["name"] == name)
    pairs = zip(figure["data"][at]["x"], bound(figure, f"data.{at}.y"), strict=True)
    return {lam: value for lam, value in pairs if value is not None}


def texts(figure: Any) -> str:
    return " | ".join(one["text"] for one in figure["layout"]["annotations"])


class TestFigure:
    def test_before_the_first_model_there_are_errors_of_layers_and_words_for_the_rest(self):
        figure = tuning_figure(screened())
        assert drawn(figure, "layers, in question") == pytest.approx(
            {"0.05": math.exp(-3.0), "0.2": math.exp(-3.1), "0.5": math.exp(-3.05)}, rel=1e-5
        )
        assert set(drawn(figure, "layers, given up")) == {"0", "10"}
        assert trace(figure, "layers, given up", "y2")["marker"]["symbol"] == "circle-open"
        assert drawn(figure, "in question") == drawn(figure, "clearly worse") == {}
        assert "here: each λ still in question" in texts(figure)
        assert "float model" not in texts(figure).replace("ln(perplexity / float model’s)", "")
        assert not [one for one in figure["layout"]["shapes"] if one["type"] == "rect"]
        assert not [one for one in figure["data"] if one["name"] in ("GPTQ 1 %", "the best")]

    def test_one_draw_has_values_baselines_and_a_ring_but_no_band_and_no_bars(self):
        figure = tuning_figure(measured(1, 0.05, None))
        assert drawn(figure, "in question") == pytest.approx({"0.05": 0.3, "0.2": 0.2, "0.5": 0.21})
        assert (trace(figure, "the best")["x"], trace(figure, "the best")["y"]) == (["0.2"], [0.2])
        assert set(trace(figure, "GPTQ 1 %")["y"]) == {0.25}
        assert "↑ Round to nearest 0.900" in texts(figure)  # far off: it would flatten the rest
        assert not [one for one in figure["layout"]["shapes"] if one["type"] == "rect"]
        assert not [one for one in figure["data"] if "error_y" in one]
        assert "here:" not in texts(figure)

    def test_later_the_band_is_behind_its_values_and_what_was_given_up_stays_hollow(self):
        figure = tuning_figure(measured(3, 0.05, 0.004, "known"))
        assert drawn(figure, "in question") == pytest.approx({"0.2": 0.2, "0.5": 0.21})
        assert drawn(figure, "clearly worse") == pytest.approx({"0.05": 0.3})
        at = next(index for index, one in enumerate(figure["data"]) if one["name"] == "in question")
        assert bound(figure, f"data.{at}.error_y.array") == [0, 0, 0.004, 0.004, 0]
        (band,) = (one for one in figure["layout"]["shapes"] if one["type"] == "rect")
        assert [index for index in range(5) if band["x0"] < index < band["x1"]] == [2, 3]
        assert "◇ clearly worse" in texts(figure)
        assert "<b>" in figure["layout"]["xaxis"]["ticktext"][2]
        assert figure["aria"].endswith("The smallest is ringed, λ = 0.2. As good as the best: λ from 0.2 to 0.5.")

    def test_the_table_has_every_row_and_no_empty_column(self):
        before, after = (tuning_table(one) for one in (screened(), measured(3, 0.05, 0.004)))
        assert [column["key"] for column in before["columns"]] == [
            "method", "lambda", "gamma", "standing", "draws", "layer_error"
        ]  # fmt: skip
        assert [one["lambda"] for one in after["rows"]] == [0.0, 0.05, 0.2, 0.5, 10.0, 0.01, None]
        assert after["rows"][1]["standing"] == "clearly worse"
        assert {"log_ratio", "better", "better_error"} <= {column["key"] for column in after["columns"]}


class TestSentence:
    def said(self, tuning: Tuning) -> str:
        return plain(tuning_sentence(tuning)).replace("\u00a0", " ")

    def test_before_the_first_model(self):
        assert self.said(screened()) == (
            "No whole model has been measured yet. By the errors of layers λ = 0.2 looks best, and 3 of 5 values of λ "
            "are in question."
        )

    def test_a_budget_that_was_too_small_for_one_model(self):
        said = self.said({**screened(), "end": "budget"})
        assert said.startswith("No whole model was measured: by the errors of layers alone, λ = 0.2 looks best")
        assert said.endswith("Tuning ended because the budget was spent; give it more minutes.")

    def test_the_end_with_a_band_a_gain_and_the_cost(self):
        gain = math.log(1 / (1 - 0.038))
        assert self.said(measured(4, gain, 0.005 / (1 - 0.038), "known")) == (
            "λ = 0.2 at γ = 0.1. λ from 0.2 to 0.5 can’t be told from it. 3.8 ± 0.5 % less perplexity than GPTQ 1 %, "
            "on four draws. Tuning ended because nothing more can be told apart, after 20 models of the 28 that "
            "measuring every λ would take."
        )

    def test_one_draw_claims_no_band_and_no_certainty(self):
        said = self.said(measured(1, 0.05, None, "budget"))
        assert "One draw can’t say which other λ are as good." in said
        assert "4.9 % less perplexity than GPTQ 1 % on the one draw measured, which can’t say how sure" in said
        assert self.said(measured(0, 0.05, None)).startswith(
            "So far λ = 0.2 at γ = 0.1. A part of the first draw can’t say"
        )

    @pytest.mark.parametrize("draws", [2, 4, 8])
    def test_a_gain_is_clear_from_student_s_t_on(self, draws):
        error = 0.004
        just = error * float(TABLE[draws - 2])
        assert "less perplexity than GPTQ 1 %," in self.said(measured(draws, 1.001 * just, error))
        assert "No measurable difference to GPTQ 1 % on" in self.said(measured(draws, 0.999 * just, error))
        assert "No measurable difference to GPTQ 1 % on" in self.said(measured(draws, -0.999 * just, error))
        assert "more perplexity than GPTQ 1 %," in self.said(measured(draws, -1.001 * just, error))

    def test_lambda_zero_an_edge_and_a_slice_are_said(self):
        tuning = measured(4, 0.05, 0.004, "draws")
        rows = [one for one in tuning["rows"] if one["lambda"] not in (0.0, 0.05, 10.0)]
        at_edges = {**tuning, "rows": rows, "best": 1, "band": [0.5, 0.5], "blocks": [0, 15, 31]}
        said = self.said(at_edges)
        assert "λ = 0.5 at γ = 0.1 with blocks 0, 15 and 31 quantized and no other." in said
        assert "No other λ tried is as good." in said
        assert "It is the largest λ tried; larger ones may be better." in said
        assert "It is the smallest λ tried; smaller ones may be better." in self.said({**at_edges, "best": 0})
        zero = [{**one, "lambda": 0.0} if one["lambda"] == 0.2 else one for one in rows]
        assert "λ = 0 at γ = 0.1, which is no penalty at all, with" in self.said({**at_edges, "rows": zero, "best": 0})

    @pytest.mark.parametrize(("verdict", "words"), [
        (1, "65.8 % right on piqa, 3.1 ± 0.9 points more than GPTQ 1 %."),
        (0, "65.8 % right on piqa, no measurable difference to GPTQ 1 % (3.1 ± 0.9 points more)."),
    ])  # fmt: skip
    def test_tasks_are_said_with_their_doubt(self, verdict, words):
        tasks = {"names": ["piqa"], "draws": 3, "accuracy_float": 0.667, "accuracy_float_error": 0.021}
        tuning = measured(3, 0.05, 0.004, "known", tasks=tasks)
        tuning["rows"][2] |= {
            "accuracy": 0.658, "more_accurate": 0.031, "more_accurate_error": 0.009, "more_accurate_verdict": verdict
        }  # fmt: skip
        assert words in self.said(tuning)
        lines = [line.replace("\u00a0", " ") for line in tuning_small_print(tuning, RECIPE)]
        assert any("asked of the λ in question and the baselines in three draws" in line for line in lines)
        assert any("the float model answers 66.7 ± 2.1 % right" in line for line in lines)

    @pytest.mark.parametrize("end", sorted(ENDS))
    def test_every_end_is_said(self, end):
        assert ENDS[end] in self.said(measured(2, 0.05, 0.004, end))

    def test_the_small_print_names_the_text_and_the_prefix(self):
        lines = tuning_small_print(measured(3, 0.05, 0.004), RECIPE)
        assert lines[0] == "λ was chosen on held-out.txt: judge the final model on another text."
        assert any("8 sequences of 256 tokens of wiki" in line for line in lines)
        assert any("float model’s inputs" in line for line in lines)
        assert "γ = 0.1 was chosen of 0, 0.1 and 0.5 by the errors of layers on unseen text." in lines
        assert any("at most 5 %" in line for line in lines)


@st.composite
def documents(draw: st.DrawFn) -> Tuning:
    """Any stage of tuning that an engine could tell of, and some stranger ones."""
    grid = [0.0, *(step * 10.0**power for power in range(-3, 3) for step in (1, 2, 5))]
    lams = sorted(draw(st.sets(st.sampled_from(grid), min_size=2, max_size=16)))
    value = st.floats(-0.5, 5)
    error = st.one_of(st.none(), st.floats(0, 1))
    draws = draw(st.integers(0, 8))
    rows: list[TuningRow] = []
    for lam in lams:
        standing = draw(st.sampled_from(["dull", "left", "left"] + ["retired"] * (draws > 1)))
        known = {} if standing == "dull" or draw(st.integers(0, 5)) == 0 else {
            "draws": max(1, draws), "log_ratio": draw(value), "better": draw(st.one_of(st.none(), st.floats(-5, 5))),
            "better_error": draw(error) if draws > 1 else None, "accuracy": draw(st.one_of(st.none(), st.floats(0, 1))),
            "more_accurate": draw(st.one_of(st.none(), st.floats(-1, 1))), "more_accurate_error": draw(error),
        }  # fmt: skip
        rows.append(row(lam, standing, layer_error=draw(st.floats(-12, 3)), **known))
    for method in ("gptq", "rtn", "awq"):
        known = {"log_ratio": draw(value), "draws": draws} if draw(st.booleans()) else {}
        rows.append(row(0.01 if method == "gptq" else None, "baseline", method, **known))
    left = [index for index, one in enumerate(rows) if one["standing"] == "left" and one["log_ratio"] is not None]
    best = draw(st.sampled_from(left)) if left else None
    band = None
    if best is not None and draws > 1:
        first, last = (draw(st.sampled_from(some)) for some in (lams[: best + 1], lams[best:]))
        band = [first, last]
    end = draw(st.sampled_from(["", *ENDS]))
    blocks = draw(st.one_of(st.none(), st.lists(st.integers(0, 40), min_size=1, max_size=3, unique=True)))
    measured_models = sum(one["draws"] for one in rows)
    return document(rows, best=best, band=band, draws=draws, measured=measured_models, end=end, blocks=blocks)


@given(documents())
def test_any_stage_can_be_drawn_told_and_sent(tuning: Tuning) -> None:
    view = tuning_view(tuning, RECIPE)
    json.dumps(view, allow_nan=False)
    figure, count = view["figure"], sum(one["standing"] != "baseline" for one in tuning["rows"])
    left = {
        f"{one['lambda']:g}" for one in tuning["rows"] if one["standing"] == "left" and one["log_ratio"] is not None
    }
    assert set(drawn(figure, "in question")) == left
    assert len(drawn(figure, "layers, in question")) + len(drawn(figure, "layers, given up")) == count
    assert len(view["table"]["rows"]) == len(tuning["rows"])
    said = plain(view["sentence"])
    assert said
    assert "nan" not in said + figure["aria"]
    assert ("can’t be told from it" in said) <= (tuning["band"] is not None)
    low, high = figure["layout"]["yaxis"]["range"]
    for one in figure["data"]:
        if one["name"] in ("GPTQ 1 %", "Round to nearest", "AWQ"):
            assert low <= one["y"][0] <= high
