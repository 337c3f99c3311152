"""Figures of more than λ curves: the hull, the methods side by side and the amount of text."""

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sarqc.figures import lab_view
from sarqc.figures.gap import gap, read_sizes
from sarqc.figures.numbers import significant
from sarqc.figures.plane import NO_WEIGHT, plane, plane_intervals
from sarqc.study.facts import line_facts
from tests.figures.test_figures import at, figures_of
from tests.synthetic_study import LENGTH, SIZES, write_points_study, write_study

AUTO_LINES = ("sarqc-gbs-auto", "rqc-gbs-auto", "sarqc-gs-auto")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("study") / "toy", auto=True, sizes=True)


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    return write_points_study(tmp_path_factory.mktemp("study") / "points")


def facts_of(study, method: str, layer: int | None = None):
    return line_facts(study, method=method, bits=2, layer=layer)


def trace(figure: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in figure["data"] if one["name"] == name)


@pytest.mark.thorough
@pytest.mark.parametrize("method", [*AUTO_LINES, "sarqc-gbs"])
@pytest.mark.parametrize("layer", [None, 1])
def test_every_figure_is_plain_described_and_takes_its_colours_from_the_page(study, method, layer):
    view = lab_view(study, method=method, bits=2, layer=layer)
    json.dumps(view, allow_nan=False)
    for name, figure in figures_of(view):
        assert "#" not in json.dumps({"data": figure["data"], "layout": figure["layout"]}), name
        for g in range(len(view["gammas"])):
            for m in range(len(view["lams"])):
                made = at(figure, g, m)
                assert made["aria"].endswith("."), name
                assert "nan" not in made["aria"]
                assert all(len(t["x"]) == len(t["y"]) for t in made["data"] if t["type"] == "scatter")


@pytest.mark.thorough
def test_one_draw_has_no_errors_and_no_nan(tmp_path):
    folder = tmp_path / "one"
    written = write_study(folder, draws=1, auto=True, sizes=True)
    for line in written.lines:
        for layer in (None, 2):
            view = lab_view(written, method=line.name, bits=2, layer=layer)
            json.dumps(view, allow_nan=False)
            for name, figure in figures_of(view):
                shown = json.dumps(figure, ensure_ascii=False)
                assert "nan" not in shown
                assert "±" not in shown or name.endswith("_accuracy")  # test items are a sample even then


class TestPlane:
    def test_hollow_points_are_those_that_no_weight_selects(self, study):
        facts = facts_of(study, "sarqc-gbs")
        figure = plane(facts)
        for g in range(2):
            made = at(figure, g, 2)
            supported = [one != NO_WEIGHT for one in plane_intervals(facts.drift[g], facts.recon[g])]
            symbols = trace(made, "calibration text")["marker"]["symbol"]
            assert [not symbol.endswith("-open") for symbol in symbols] == supported

    def test_a_bend_above_the_hull_is_cut_off(self, study):
        facts = facts_of(study, "rqc-gbs")
        drift, error = np.array([[5.0, 4.0, 3.0, 2.0, 1.0]]), np.array([[0.0, 1.0, 8.0, 9.0, 12.0]])
        facts = replace(facts, drift=drift, recon=error, held_out=None)
        made = at(plane(facts), 0, 2)
        assert trace(made, "calibration text")["marker"]["symbol"] == [
            "circle", "circle", "circle-open", "circle", "circle"
        ]  # fmt: skip
        assert trace(made, "shown")["marker"]["symbol"] == ["circle-open"]
        hull = trace(made, "hull")
        assert hull["x"] == [1.0, 2.0, 4.0, 5.0]
        assert "Some weight of drift selects" in made["aria"]
        assert plane_intervals(drift[0], error[0])[1] == pytest.approx((1 / 9, 8 / 12))

    def test_a_line_of_one_point_has_none(self, points):
        assert plane(facts_of(points, "awq")) is None


class TestMethods:
    def test_takes_the_first_place_of_a_line_without_curves_and_only_there(self, study):
        point, curve = (lab_view(study, method=name, bits=2)["figures"] for name in ("sarqc-gbs-auto", "sarqc-gbs"))
        assert trace(point["hero"], "difference")
        assert point["methods"] is None
        assert trace(point["hero_accuracy"], "difference")
        assert trace(curve["methods"], "difference")
        assert {one["name"] for one in curve["hero"]["data"]} >= {"perplexity", "marker"}

    def test_values_and_paired_differences_are_the_facts(self, points):
        figure = lab_view(points, method="rqc-gbs-auto", bits=2)["figures"]["hero"]
        values, differences = trace(figure, "value"), trace(figure, "difference")
        for position, name in enumerate(values["customdata"]):
            quality = facts_of(points, name).perplexity
            shown = layout_text(figure, position, "var(--quality-ink)")
            assert shown == f"{quality.mean[0, 0]:.1f}"
            if name == "sarqc-gbs-auto":
                evidence = quality.evidence((0, 0), "GPTQ 1 %")
                assert differences["x"][position] == pytest.approx(100 * evidence.change)
                ends = 100 * evidence.low, 100 * evidence.high
                bars = [differences["error_x"][name][position] for name in ("arrayminus", "array")]
                mean = differences["x"][position]
                assert [mean - bars[0], mean + bars[1]] == pytest.approx(ends, rel=1e-4)
        means = [facts_of(points, name).perplexity.mean[0, 0] for name in values["customdata"]]
        assert means == sorted(means, reverse=True)  # from below: the best on top

    def test_auto_is_said_and_the_shown_method_stands_out(self, points):
        figure = lab_view(points, method="sarqc-gbs-auto", bits=2)["figures"]["hero"]
        ticks = figure["layout"]["yaxis"]["ticktext"]
        assert "<b>GPTQ + saliency auto</b>" in ticks
        assert "GPTQ 1 %" in ticks
        row = ticks.index("<b>GPTQ + saliency auto</b>")
        stripe = next(shape for shape in figure["layout"]["shapes"] if shape["type"] == "rect")
        assert (stripe["y0"], stripe["y1"]) == (row - 0.5, row + 0.5)
        assert "% lower than GPTQ 1 % (95 %: " in figure["aria"].replace("\u00a0", " ")

    def test_a_baseline_is_an_open_mark_at_zero(self, points):
        figure = lab_view(points, method="gptq", bits=2)["figures"]["hero"]
        differences = trace(figure, "difference")
        row = differences["customdata"].index("gptq")
        assert differences["x"][row] == 0
        assert differences["marker"]["symbol"][row].endswith("-open")


def layout_text(figure: dict[str, Any], row: int, color: str) -> str:
    found = [n for n in figure["layout"]["annotations"] if n.get("y") == row and n["font"].get("color") == color]
    assert len(found) == 1
    return found[0]["text"]


class TestGap:
    @pytest.mark.parametrize(("layer", "gamma", "lam"), [(None, 0, 2), (1, 1, 4), (3, 0, 0)])
    def test_curves_are_the_stored_errors(self, study, layer, gamma, lam):
        view = lab_view(study, method="sarqc-gbs", bits=2, layer=layer)
        made = at(view["figures"]["gap"], gamma, lam)
        for name, array in (("calibration text", "recon_by_size"), ("unseen text", "held_out_by_size")):
            stored = study.read(study.line("sarqc-gbs", 2), array)
            chosen = stored.mean(axis=1) if layer is None else stored[:, layer]
            each = chosen[:, :, gamma, lam]  # D S
            drawn = trace(made, name)
            assert drawn["y"] == pytest.approx(each.mean(axis=0), rel=1e-5)
            assert drawn["error_y"]["array"] == pytest.approx(3.1824 * each.std(axis=0, ddof=1) / 2, rel=1e-4)
            assert drawn["x"] == [size * LENGTH for size in SIZES]

    def test_the_smallest_lambda_lies_behind_and_does_not_move(self, study):
        figure = lab_view(study, method="sarqc-gbs", bits=2)["figures"]["gap"]
        behind = [trace(at(figure, 0, m), "smallest λ")["y"] for m in (1, 4)]
        assert behind[0] == behind[1] == trace(at(figure, 0, 0), "calibration text")["y"]

    def test_the_shaded_gap_is_between_the_curves(self, study):
        made = at(lab_view(study, method="sarqc-gbs", bits=2)["figures"]["gap"], 0, 3)
        upper = trace(made, "gap")
        assert upper["fill"] == "tonexty"
        assert made["data"][made["data"].index(upper) - 1]["y"] == trace(made, "calibration text")["y"]
        assert upper["y"] == trace(made, "unseen text")["y"]

    def test_what_runs_off_the_scale_is_marked_with_its_value(self, study, monkeypatch):
        facts = facts_of(study, "sarqc-gbs")
        found = read_sizes(facts)
        far = found.unseen.mean.copy()
        far[..., 0] *= 30
        changed = replace(found, unseen=replace(found.unseen, mean=far))
        monkeypatch.setattr("sarqc.figures.gap.read_sizes", lambda *_: changed)
        made = at(gap(facts), 0, 2)
        low, high = made["layout"]["yaxis"]["range"]
        assert high < far[..., 0].min()
        edge = trace(made, "off the scale")
        assert edge["text"] == [f" {significant(value)}" for value in far[:, 0, 0]]
        assert edge["marker"]["symbol"] == ["triangle-up"] * len(SIZES)
        assert all(low < y < high for y in edge["y"])

    def test_is_none_without_the_arrays(self, study):
        assert lab_view(study, method="rqc-gbs", bits=2)["figures"]["gap"] is None


class TestAutoIsNeverZero:
    @pytest.mark.parametrize("method", AUTO_LINES)
    def test_not_in_any_word_of_its_view(self, study, method):
        view = lab_view(study, method=method, bits=2, layer=0)
        shown = [view["figures"][name] for name in ("hero", "surfaces", "deciles", "map", "plane")]
        words = json.dumps([shown, view["told"], view["measured"]], ensure_ascii=False)
        words = words.replace("λ = 0 of AWQ + saliency penalty", "")  # where AWQ is held
        assert not re.search(r"λ\W*=\W*0(?![.\d])", words)
        assert view["lam_texts"] == ["auto"]
        assert view["table"]["rows"][0]["lambda"] == "auto"
        assert view["line"]["title"].endswith(", auto")

    @pytest.mark.thorough
    def test_names_lead_to_lines(self, study):
        view = lab_view(study, method="sarqc-gbs", bits=2)
        names = [one["name"] for one in view["choices"]]
        assert len(set(names)) == len(names)
        assert len(view["lams"]) == 5  # the curve, not “auto”
        for name in names:
            assert lab_view(study, method=name, bits=2)["line"]["name"] == name
