"""The ladder of a run, drawn and in words, from numbers that are known: at any moment of it, and by its intervals."""

import math
from typing import Any, cast

import numpy as np
import pytest
from scipy import stats

from sarqc.documents import LadderRow, LadderRun
from sarqc.figures import ladder_view
from sarqc.figures.ladder import LadderView

FITTED = {"order": "activation"}, {"order": "activation", "range": "search"}
STEPS: tuple[tuple[str, str, dict[str, Any], float | None], ...] = (
    ("nearest", "rtn", {}, None), ("gptq", "gptq", {}, 0.01), ("order", "gptq", FITTED[0], 0.01),
    ("range", "gptq", FITTED[1], 0.01), ("lambda", "rqc-gbs", FITTED[1], 0.2),
    ("refine", "rqc-gbs", {**FITTED[1], "refine": 2}, 0.2),
)  # fmt: skip
RECIPE = {"test": "texts/test.txt", "calibration": "texts/own.txt", "samples": 4, "length": 32}
CLEAR = [[100.0, 101, 99], [60, 60.8, 59.3], [59.8, 60.9, 59.2], [52, 53, 51.1], [50, 50.9, 49.2], [50.5, 51.4, 49.7]]


def ladder(values: list[list[Any]], **changes: Any) -> LadderRun:
    rows = [
        cast(LadderRow, {
            "step": step, "method": method, "fitting": fitting, "lambda": lam, "perplexity": of_draws,
            "kl": [None if one is None else one / 100 for one in of_draws],
        })
        for (step, method, fitting, lam), of_draws in zip(STEPS, values, strict=True)
    ]  # fmt: skip
    known = [[one for one in of_draws if one is not None] for of_draws in values]
    document: dict[str, Any] = {
        "model": "toy", "bits": 2, "rows": rows, "left_out": [], "perplexity_float": 17.5,
        "draws": min(map(len, known)), "measured": sum(map(len, known)), "planned": 48, "seconds": 1.0,
        "budget": None, "blocks": None, "end": "",
        "next": "", "best": 4 if all(known) else None, "more_minutes": None, "recipe": None,
    }  # fmt: skip
    return cast(LadderRun, document | changes)


def said(view: LadderView) -> str:
    return "".join(piece["text"] for piece in view["sentence"]).replace("\u00a0", " ")


def test_intervals_are_those_of_the_paired_ratios():
    """Changes against scipy's paired t on the logarithms, as shares of the rung before."""
    view = ladder_view(ladder(CLEAR), RECIPE)
    logs = np.log(np.array(CLEAR))
    for row, before, after in zip(view["table"]["rows"][2:], logs, logs[1:], strict=False):
        change = after - before
        low, high = stats.t.interval(0.95, 2, change.mean(), stats.sem(change))
        assert row["perplexity_difference"] == pytest.approx(math.expm1(change.mean()))
        assert row["perplexity_difference_low"] == pytest.approx(math.expm1(low))
        assert row["perplexity_difference_high"] == pytest.approx(math.expm1(high))
        assert row["kl_difference"] == pytest.approx(np.exp(after).mean() / np.exp(before).mean() - 1)


def test_the_sentence_goes_by_the_intervals():
    view = ladder_view(ladder(CLEAR, end="draws"), RECIPE)
    words = said(view)
    most = "40.0 % lower perplexity than before it (95 %: 39.6 to 40.3 %, three draws)"
    others = "the searched range (13.2 % lower) and λ = 0.2 (3.8 % lower)"
    lowest = "The lowest perplexity, 50.0, is that after λ = 0.2; the float model has 17.5."
    assert words == f"On toy at 2 bits GPTQ 1 % is worth the most: {most}; then {others}. {lowest}"
    assert view["small_print"][0] == "It ended because all draws were made, after 18 models."


def test_one_draw_has_no_intervals_and_says_so():
    view = ladder_view(ladder([of_draws[:1] for of_draws in CLEAR]), RECIPE)
    assert said(view).startswith(
        "On toy at 2 bits no step is measurably worth anything over one draw. The lowest perplexity, "
    )
    assert not any(piece["verdict"] for piece in view["sentence"])
    assert any("One draw has no intervals" in line for line in view["small_print"])
    assert {column["key"] for column in view["table"]["columns"]}.isdisjoint(
        {"perplexity_difference_low", "kl_difference_low"}
    )
    for trace in view["figure"]["data"]:
        assert not any(trace["error_x"]["array"])


def test_a_draw_that_ended_counts_for_the_steps_that_it_reached():
    values = [[100.0, 104], [60, 62.6], [59.8, None], [52, None], [50, None], [50.5, None]]
    view = ladder_view(ladder(values), RECIPE)
    rows = {row["step"]: row for row in view["table"]["rows"]}
    assert rows["GPTQ 1 %"]["draws"] == 2
    assert rows["GPTQ 1 %"]["perplexity_difference_low"] is not None
    assert rows["+ activation order"]["perplexity_difference_low"] is None
    # Bars stand on each other: every rung is the one before plus its paired difference.
    chain = [row["perplexity"] for row in view["table"]["rows"][1:]]
    changes = [row["perplexity_difference"] for row in view["table"]["rows"][2:]]
    np.testing.assert_allclose(np.diff(chain) / chain[:-1], changes)
    assert changes[1] == pytest.approx(59.8 / 60 - 1)
    assert any("The last steps have one draw, the first two draws." in line for line in view["small_print"])


@pytest.mark.parametrize("reached", range(7))
def test_every_moment_has_a_figure_with_all_rows(reached):
    values = [[value[0]] if step < reached else [None] for step, value in enumerate(CLEAR)]
    view = ladder_view(ladder(values), RECIPE)
    names = view["figure"]["layout"]["yaxis"]["ticktext"]
    assert names[0] == "Round to nearest"
    assert names[-2:] == ["+ λ = 0.2", "+ refined × 2"]
    assert len(names) == len(STEPS)
    assert [len(trace["y"]) for trace in view["figure"]["data"]] == ([reached] * 2 if reached else [])
    assert said(view)


def test_where_nothing_is_clear_no_step_is_named():
    noise = [[100.0, 103], [99, 105], [101, 102], [100, 104], [98, 106], [99, 103]]
    words = said(ladder_view(ladder(noise), RECIPE))
    assert words.startswith(
        "On toy at 2 bits no step is measurably worth anything over two draws. The lowest perplexity"
    )


def test_the_affine_grid_is_named_with_its_bits():
    run = ladder(CLEAR)
    fitting = {**FITTED[1], "refine": 2}
    for row in run["rows"]:
        row["bits_per_weight"] = 2 + 18 / 128
    for step, values, of_step in (
        ("affine", [48.0, 49, 47.4], fitting), ("joint", [None] * 3, fitting | {"range": "joint"}),
    ):  # fmt: skip
        run["rows"].append(cast(LadderRow, {
            "step": step, "method": "rqc-gbs", "fitting": of_step, "lambda": 0.2, "perplexity": values,
            "kl": [None] * 3, "grid": "affine", "bits_per_weight": 2 + 32 / 128,
        }))  # fmt: skip
    view = ladder_view(run, RECIPE)
    names = view["figure"]["layout"]["yaxis"]["ticktext"]
    assert names[-2:] == ["+ affine grid, 2.25 bits", "+ jointly searched range"]
    assert "the affine grid (4.7 % lower)" in said(view)  # 1 − ((48 · 49 · 47.4) / (50.5 · 51.4 · 49.7))^⅓
    assert any(
        "a bias for each group: 2.25 bits per weight in full, 2.14 before" in line for line in view["small_print"]
    )


def test_what_is_left_out_is_named():
    why = "λ = 0.01 is the damping of GPTQ 1 % itself"
    view = ladder_view(ladder(CLEAR, left_out=[{"step": "lambda", "why": why}]), RECIPE)
    assert f"Left out: the step of λ, since {why}." in view["small_print"]


def test_too_little_time_is_said():
    view = ladder_view(ladder([[] for _ in STEPS], end="budget", best=None), RECIPE)
    assert said(view) == "Not enough time: no step was measured."
    assert view["small_print"][0] == "It ended because the budget was spent, after 0 models."
