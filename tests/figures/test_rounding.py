"""Learned rounding over its steps: curves, sentence, figure and table against numbers made by hand."""

from typing import Any

import pytest

from sarqc.figures import figure_table, lab_view, rounding_view
from sarqc.figures.titles import LONGEST, finding_at
from sarqc.study.rounding import BlockRounding, RoundingCurves, blocks_of
from tests.synthetic_study import shipped


def checks(steps: list[int], error: list[float], held_out: list[float], drift: list[float]) -> list[dict[str, Any]]:
    """Return checks of at most 40 steps."""
    return [
        {"step": step, "steps": 40, "error": e, "held_out_error": h, "drift": d}
        for step, e, h, d in zip(steps, error, held_out, drift, strict=True)
    ]


FIRST = checks([0, 10, 20, 30, 40], [8, 6, 4, 2, 1], [10, 8, 6, 7, 9], [0.5, 0.5, 0.55, 0.6, 0.6])
SECOND = checks([0, 10, 20, 30], [2, 1, 1, 0.5], [4, 4.4, 2.4, 3.2], [0.2, 0.2, 0.2, 0.3])  # ends sooner
SAID = [{"block": 3, "kept": 20, "checks": SECOND}, {"block": 0, "kept": 20, "checks": FIRST}]


def curves_of(*blocks: tuple[int, list[dict[str, Any]]]) -> RoundingCurves:
    found = RoundingCurves.of([BlockRounding(at, kept, tuple(rows)) for at, (kept, rows) in enumerate(blocks)])
    assert found is not None
    return found


def test_means_are_relative_to_the_start_and_of_all_blocks():
    curves = curves_of((20, FIRST), (20, SECOND))
    assert curves.shared == 4
    assert curves.mean("held_out").tolist() == pytest.approx([1, (0.8 + 1.1) / 2, 0.6, (0.7 + 0.8) / 2])
    assert curves.mean("error").tolist() == pytest.approx([1, (0.75 + 0.5) / 2, 0.5, 0.25])
    assert curves.mean("drift").tolist() == pytest.approx([1, 1, 1.05, (1.2 + 1.5) / 2])


@pytest.mark.parametrize(
    ("held_out", "error", "words"),
    [
        ([10, 8, 6, 7], [8, 6, 4, 2],
         "Held-out error is lowest after 20 of 40 steps; calibration error keeps falling."),
        ([10, 8, 6, 7], [8, 6, 4, 5],
         "Held-out error is lowest after 20 of 40 steps; calibration error does not fall further."),
        ([10, 11, 12, 13], [8, 6, 4, 2],
         "On average no step lowers held-out error; calibration error keeps falling."),
        ([10, 9, 8, 7], [8, 6, 4, 2], "Held-out error is lowest after 30 of 40 steps."),
        ([10], [8], "Nothing was learned."),
    ],
)  # fmt: skip
def test_the_sentence_follows_the_numbers(held_out, error, words):
    steps = [0, 10, 20, 30][: len(error)]
    assert curves_of((0, checks(steps, error, held_out, error))).words() == words


def test_what_blocks_keep():
    assert curves_of((20, FIRST), (20, SECOND)).kept_steps_text() == "Every block keeps the state after 20 steps."
    assert curves_of((0, FIRST), (0, SECOND)).kept_steps_text() == "Every block keeps its start."
    mixed = curves_of((0, FIRST), (30, SECOND), (10, FIRST)).kept_steps_text()
    assert mixed == "Blocks keep the states after 0 to 30 steps; 1 of 3 keep their start."


def test_a_start_without_error_is_no_division():
    found = curves_of((0, checks([0, 10], [0, 1], [0, 2], [0, 0])))
    assert found.mean("error").tolist() == [1, 2]
    assert found.mean("drift").tolist() == [1, 1]


def test_the_page_of_a_run_shows_its_blocks_in_order():
    again = {"block": 3, "kept": 0, "checks": SECOND[:1]}
    view = rounding_view([again, *SAID])
    assert view is not None
    assert view == rounding_view(SAID)  # the last of a block counts
    assert view["words"] == [
        "Held-out error is lowest after 20 of 40 steps; calibration error keeps falling.",
        "Every block keeps the state after 20 steps.",
    ]
    traces = {trace["name"]: trace for trace in view["figure"]["data"]}
    assert traces["block 0"]["y"] == pytest.approx([1, 0.8, 0.6, 0.7, 0.9])
    assert traces["block 3"]["x"] == [0, 10, 20, 30]
    assert traces["held-out error"]["y"] == pytest.approx([1, 0.95, 0.6, 0.75])
    assert traces["calibration error"]["y"][-1] == pytest.approx(0.25)
    assert (traces["kept"]["x"], traces["kept"]["y"]) == ([20, 20], pytest.approx([0.6, 0.6]))
    assert view["figure"]["layout"]["xaxis"]["range"] == [0, 40]
    finding = finding_at(view["figure"], {"gamma": 0, "lambda": 0})
    assert finding == "Held-out error is lowest after 20 of 40 steps"
    assert len(finding) <= LONGEST
    rows = view["table"]["rows"]
    assert [row["block"] for row in rows] == [0] * 5 + [3] * 4
    assert [(row["steps"], row["block_held_out"]) for row in rows if row["kept"]] == [(20, 6), (20, 2.4)]
    assert {column["key"] for column in view["table"]["columns"]} == set(rows[0])
    assert rounding_view([]) is None


def test_the_lab_draws_it_from_the_reports_of_a_run():
    study = shipped("tiny-llama")
    line = study.lines[0]
    asked = {"method": line.name, "bits": line.bits}
    assert lab_view(study, **asked)["figures"]["rounding"] is None
    assert figure_table(study, "rounding", **asked, layer=None)["rows"] == []
    last = study.layers[-1]
    reports = {
        study.layers[0].name: {"chosen": {"best_step": 20}, "checks": FIRST},
        study.layers[1].name: {"chosen": {"best_step": 20}},
        last.name: {"chosen": {"best_step": 20}, "checks": SECOND},
    }
    learned = study.model_copy(update={"layer_reports": reports})
    figure = lab_view(learned, **asked)["figures"]["rounding"]
    assert figure is not None
    assert [trace["name"] for trace in figure["data"]][:2] == ["block 0", f"block {last.block}"]
    table = figure_table(learned, "rounding", **asked, layer=None)
    assert [row["block_error"] for row in table["rows"] if row["block"] == 0] == [8, 6, 4, 2, 1]
    blocks = {layer.name: layer.block for layer in study.layers}
    assert len(blocks_of((blocks[name], report) for name, report in reports.items())) == 2
