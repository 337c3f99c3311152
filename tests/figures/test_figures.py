"""Figures are drawn from facts: what is bound, what stands off the scale, what the table says; both languages agree."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_rel

from sarqc.errors import NotFound, Refused
from sarqc.figures import compare_view, lab_view
from sarqc.figures.drawing import QUALITY, Figure, clamp, honest_range, position
from sarqc.figures.hero import curves, hero
from sarqc.figures.measured import grid_text
from sarqc.figures.numbers import decimals_for, lam_text, number, percent, perplexity_text, significant
from sarqc.figures.panels import Curve, Panel, stack
from sarqc.figures.sentence import plain
from sarqc.figures.titles import finding_at, least_error
from sarqc.figures.view import COLUMNS, first_figure
from sarqc.study.facts import line_facts
from sarqc.study.paired import spans
from tests.synthetic_study import LAMS, shipped, write_study

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("study") / "toy")


@pytest.fixture(scope="module")
def facts(study):
    return line_facts(study, method="rqc-gbs", bits=2, layer=None)


@pytest.fixture(scope="module")
def view(study):
    return lab_view(study, method="sarqc-gbs", bits=2, layer=None)


def at(figure: dict[str, Any], gamma: int, lam: int) -> dict[str, Any]:
    """Return the figure at a point: the slow twin of assets/js/charts/bind.js."""
    made = json.loads(json.dumps({"data": figure["data"], "layout": figure["layout"], "aria": figure.get("aria", "")}))
    for binding in figure["bindings"]:
        if "array" in binding:
            continue
        value = binding["values"]
        for axis in binding["over"]:
            value = value[{"gamma": gamma, "lambda": lam}[axis]]
        place, keys = made, binding["path"].split(".")
        for key in keys[:-1]:
            place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
        place[keys[-1]] = value
    return made


def figures_of(view: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, figure) for name, figure in view["figures"].items() if figure is not None]


def test_no_figure_has_a_legend_or_zooms(view):
    for _, figure in figures_of(view):
        assert figure["layout"]["showlegend"] is False
        axes = [axis for key, axis in figure["layout"].items() if key[1:].startswith("axis")]
        assert all(axis.get("fixedrange") for axis in axes)


def _titles(figure: Figure) -> list[int]:
    """Which annotations are the titles of panels: those that say the values of the shown point."""
    bound = [one["path"].split(".") for one in figure["bindings"] if one["path"].startswith("layout.annotations")]
    return [int(path[2]) for path in bound if path[3] == "text"]


class TestHero:
    @pytest.mark.parametrize(
        ("shown", "panels", "count"), [(None, 3, 5), ("perplexity", 1, 1), ("error", 1, 2), ("drift", 1, 2)]
    )
    def test_marker_and_rings_stand_at_the_shown_lambda_in_every_panel(self, facts, shown, panels, count):
        made = at(curves(facts) if shown is None else hero(facts, shown), 0, 3)
        assert [trace["x"] for trace in made["data"] if trace["name"] == "marker"] == [["0.3", "0.3"]] * panels
        rings = [trace for trace in made["data"] if trace.get("marker", {}).get("size") == 13]
        assert [trace["x"] for trace in rings] == [["0.3"]] * count
        if shown in (None, "perplexity"):
            assert rings[0]["y"] == pytest.approx([facts.perplexity.mean[0, 3]])

    def test_the_value_stands_above_its_point(self, facts):
        for lam, anchor in ((0, "left"), (1, "center"), (4, "right")):
            made = at(hero(facts), 0, lam)
            (note,) = (note for note in made["layout"]["annotations"] if note["font"].get("size") == 26)
            assert note["text"] == f"<b>{perplexity_text(facts.perplexity.mean[0, lam])}</b>"
            assert (note["x"], note["xanchor"]) == (lam, anchor)

    def test_a_quantity_that_was_not_measured_has_no_figure(self, facts):
        assert hero(dataclasses.replace(facts, recon=None, held_out=None), "error") is None

    def test_zero_is_on_the_ordinal_axis(self, view):
        axis = view["figures"]["hero"]["layout"]["xaxis"]
        assert axis["type"] == "category"
        assert axis["ticktext"] == ["0", "0.01", "0.1", "0.3", "1"]

    def test_point_off_the_scale_is_marked_with_its_value(self, view):
        made = at(view["figures"]["hero"], 0, 0)
        edges = [t for t in made["data"] if t.get("mode") == "markers+text"]
        assert edges[0]["x"] == ["0"]
        assert edges[0]["text"] == [" 144.5"]
        assert edges[0]["marker"]["symbol"] == ["triangle-up"]
        low, high = made["layout"]["yaxis"]["range"]
        assert low < edges[0]["y"][0] < high < 144

    def test_baseline_is_a_named_tick(self, view):
        texts = [note["text"] for note in view["figures"]["hero"]["layout"]["annotations"]]
        assert "GPTQ 1 %" in texts

    def test_float_model_out_of_range_is_named_at_the_edge(self, view):
        texts = [note["text"] for note in view["figures"]["curves"]["layout"]["annotations"]]
        assert "↓ float model 60.0" in texts

    @pytest.mark.parametrize(
        ("float_model", "corner"), [(61.3, ("left", "bottom")), (71.9, ("left", "middle")), (95.0, ("right", "top"))]
    )
    def test_the_float_model_is_named_beside_its_line_or_at_the_edge(self, float_model, corner):
        curve = Curve("perplexity", QUALITY, np.linspace(70, 72, 4)[None], label="this grid")
        panel = Panel("Perplexity", perplexity_text, (curve,), 1.0, reference=float_model)
        figure = stack([0.1, 0.2, 0.3, 0.4], ["0.1", "0.2", "0.3", "0.4"], [panel], ring=True)
        (note,) = (note for note in figure["layout"]["annotations"] if note["text"].lstrip("↑↓ ").startswith("float"))
        assert (note["xanchor"], note["yanchor"]) == corner
        lines = [trace for trace in figure["data"] if trace["name"] == "float model"]
        assert [line["mode"] for line in lines] == (["lines"] if corner[1] == "middle" else [])

    def test_band_covers_the_sweet_spot(self, study, view):
        facts = line_facts(study, method="sarqc-gbs", bits=2, layer=None)
        made = at(view["figures"]["hero"], 0, 0)
        bands = [shape for shape in made["layout"]["shapes"] if shape["type"] == "rect"]
        inside = np.flatnonzero(facts.perplexity.band[0])
        assert bands[0]["x0"] == inside[0] - 0.4
        assert bands[0]["x1"] == inside[-1] + 0.4

    def test_beside_a_layer_the_quality_is_said_to_be_the_whole_models(self, study):
        view = lab_view(study, method="sarqc-gbs", bits=2, layer=1)
        quality, error, weights = (
            view["figures"]["curves"]["layout"]["annotations"][at]["text"] for at in _titles(view["figures"]["curves"])
        )
        assert "whole model" in quality
        assert all("this layer" in text and "whole model" not in text for text in (error, weights))
        said = plain(view["told"]["perplexity"]["sentences"][0][2])
        assert "the whole 2-bit model" in said
        assert "In this layer" in said

    def test_identity_lies_faint_behind_saliency(self, view):
        names = [trace.get("name") for trace in view["figures"]["hero"]["data"]]
        assert names.index("perplexity, identity") < names.index("perplexity")

    def test_error_bars_are_those_of_the_paired_difference(self, facts):
        made = at(hero(facts), 0, 0)
        bars = next(trace["error_y"] for trace in made["data"] if "error_y" in trace)
        assert (bars["array"][1], bars["arrayminus"][1]) == (0, 0)  # the baseline against itself
        values = np.log(facts.perplexity.values[:, 0])
        expected = ttest_rel(values[:, 2], values[:, 1]).confidence_interval(1 - 0.05 / 4)  # for four λ at once
        level, value = np.exp(values[:, 1].mean()), np.exp(values[:, 2].mean())
        ends = [value - bars["arrayminus"][2], value + bars["array"][2]]
        assert ends == pytest.approx(level * np.exp(expected), rel=1e-5)


class TestRanges:
    def test_what_flattens_the_rest_stays_outside(self):
        low, high = honest_range(np.array([83.0, 84.0, 86.0]), np.array([140.0]))
        assert low < 83
        assert 86 < high < 100
        assert honest_range(np.array([83.0, 86.0]), np.array([87.0]))[1] > 87

    def test_clamped_values_say_on_which_side(self):
        drawn, side = clamp(np.array([1.0, 5.0, 99.0, np.nan]), (2.0, 8.0))
        assert side.tolist() == [-1, 0, 1, 0]
        assert drawn[1] == 5.0
        assert 2 < drawn[0] < drawn[2] < 8
        assert math.isnan(drawn[3])

    def test_position_is_between_ticks(self):
        assert position(0.01, LAMS) == 1.0
        assert position(0.2, LAMS) == pytest.approx(2.5)
        assert position(7.0, LAMS) is None


class TestSurfaces:
    def test_array_names_the_bytes_of_one_layer(self, study):
        view = lab_view(study, method="sarqc-gbs", bits=2, layer=3)
        info = view["arrays"]["surface"]
        line = study.line("sarqc-gbs", 2)
        whole = study.array(line, "surface")
        raw = (study.folder / info["file"]).read_bytes()[info["offset"] : info["offset"] + info["length"]]
        assert np.array_equal(np.frombuffer(raw, np.uint8).reshape(info["shape"]), whole[3])
        assert info["scale"] == pytest.approx(2.0)

    def test_left_is_the_smallest_lambda_and_right_the_shown_one(self, view):
        bindings = [one for one in view["figures"]["surfaces"]["bindings"] if "array" in one]
        assert bindings[:2] == [
            {"path": "data.0.z", "array": "surface", "lambda": 0},
            {"path": "data.1.z", "array": "surface"},
        ]

    def test_both_have_one_scale(self, view):
        for key in ("surfaces", "surfaces_flat"):
            spans = [(t.get("cmin", t.get("zmin")), t.get("cmax", t.get("zmax"))) for t in view["figures"][key]["data"]]
            assert spans[0] == spans[1]

    def test_a_single_lambda_has_a_single_surface(self, study):
        view = lab_view(study, method="rtn", bits=2)
        assert len(view["figures"]["surfaces"]["data"]) == 1


class TestMap:
    def test_cell_is_the_log_of_the_layers_error_and_leads_to_it(self, study, view):
        figure = at(view["figures"]["map"], 0, 2)
        trace = figure["data"][0]
        facts = line_facts(study, method="sarqc-gbs", bits=2, layer=3)
        assert [[cell[0] for cell in row] for row in trace["customdata"]] == [[0, 1], [2, 3]]
        assert trace["z"][1][1] == pytest.approx(math.log10(facts.held_out[0, 2]), abs=1e-4)

    def test_chosen_layer_is_framed(self, study):
        shapes = lab_view(study, method="rqc-gbs", bits=2, layer=3)["figures"]["map"]["layout"]["shapes"]
        assert [(shape["x0"], shape["y0"]) for shape in shapes] == [(0.5, 0.5)]


def bands(figure: dict[str, Any]) -> list[tuple[float, float]]:
    """Return the ends of the bands of the first γ."""
    paths = [f"layout.shapes.{i}" for i, one in enumerate(figure["layout"]["shapes"]) if one.get("name") == "band"]
    bound = {one["path"]: one["values"][0] for one in figure["bindings"] if one["over"] == ["gamma"]}
    return [(bound[f"{path}.x0"], bound[f"{path}.x1"]) for path in paths]


def test_the_band_of_a_chart_is_of_what_it_draws():
    study = shipped("tiny-llama")
    facts = line_facts(study, method="sarqc-gbs", bits=2, layer=None)
    _, error = least_error(facts)
    assert bands(hero(facts, "error")) == [(first - 0.4, last + 0.4) for first, last in spans(error[0])]
    assert bands(hero(facts)) == [(first - 0.4, last + 0.4) for first, last in spans(facts.perplexity.band[0])]
    assert bands(hero(facts)) != bands(hero(facts, "error"))
    assert bands(hero(facts, "drift")) == []


def test_a_single_measured_lambda_stands_beside_the_baseline_over_the_other_curves(study):
    facts = line_facts(study, method="sarqc-gbs", bits=2, layer=None)
    mean = np.full_like(facts.perplexity.mean, np.nan)
    mean[:, 3] = 83.0
    quality = dataclasses.replace(facts.perplexity, mean=mean, to_baseline=None, band=np.zeros(mean.shape, dtype=bool))
    figure = first_figure(dataclasses.replace(facts, perplexity=quality), "perplexity")
    texts = [one["text"] for one in figure["layout"]["annotations"]]
    assert {"λ = 0.3: 83.0", f"GPTQ 1 %: {quality.baseline_mean:.1f}"} <= set(texts)
    assert finding_at(figure, {"gamma": 0, "lambda": 0}) == "Perplexity 83.0, measured at λ\u00a0=\u00a00.3 only"
    assert {"yaxis", "yaxis2", "yaxis3"} <= figure["layout"].keys()
    assert first_figure(facts, "perplexity")["title"] == "Perplexity on unseen text, lower is better"


def test_the_interval_at_lambda_0_is_inside_the_range():
    facts = line_facts(shipped("tiny-llama"), method="sarqc-gbs", bits=2, layer=None)
    low, high = facts.perplexity.ends
    bottom, top = hero(facts)["layout"]["yaxis"]["range"]
    assert bottom < low.min()
    assert high.max() < top


class TestLabView:
    def test_without_a_choice_shows_the_line_that_tells_most(self, study):
        assert lab_view(study)["line"]["method"] == "sarqc-gbs"

    def test_choices_may_be_text_and_nonsense_is_refused_in_three_parts(self, study):
        assert lab_view(study, method="rqc-gbs", bits="2", layer="3")["layer"] == 3
        assert lab_view(study, method="rqc-gbs", bits="2", layer="all")["layer"] is None
        with pytest.raises(Refused) as caught:
            lab_view(study, bits="two")
        assert caught.value.remedy
        with pytest.raises(NotFound):
            lab_view(study, method="gptaq")

    def test_sentences_cover_every_point(self, view):
        for told in view["told"].values():
            for name in ("sentences", "small_print"):
                assert len(told[name]) == len(view["gammas"])
                assert all(len(row) == len(view["lams"]) for row in told[name])

    def test_table_has_a_row_for_every_point_and_full_precision(self, study, view):
        rows = view["table"]["rows"]
        assert [row["at"] for row in rows] == [[g, m] for g in range(2) for m in range(5)]
        facts = line_facts(study, method="sarqc-gbs", bits=2, layer=None)
        assert rows[7]["perplexity"] == facts.perplexity.mean[1, 2]
        assert {column["key"] for column in view["table"]["columns"]} <= {key for key, _, _ in COLUMNS}

    def test_table_leaves_out_what_nobody_measured(self, study):
        keys = [column["key"] for column in lab_view(study, method="rtn", bits=2)["table"]["columns"]]
        assert "gamma" not in keys
        assert "perplexity_difference" in keys

    def test_protocol_and_grid_stand_beside_the_numbers(self, view):
        told = {one["name"]: one["text"] for one in view["measured"]}
        assert told["Grid"] == "2 bits, asymmetric, groups of 128"
        assert grid_text("full_range", None) == "full-range symmetric, one scale per channel"
        assert told["Test text"] == "corpus toy/test, window 64, limited no"
        assert told["Calibration draws"] == "4 (seeds 0, 1, 2, 3)"

    def test_float_prefix_is_called_explore(self, tmp_path):
        study = write_study(tmp_path / "toy", prefix="float", gs=False)
        view = lab_view(study)
        assert view["explore"] is True
        one = next(one for one in view["measured"] if one["name"] == "Inputs of a layer")
        assert one["text"].startswith("from the float model")


class TestGolden:
    """Files written here and read by tests/js: both languages index and write numbers alike."""

    def check(self, name: str, document: Any) -> None:
        path = GOLDEN / name
        text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            pytest.fail(f"{path.name} was missing and is now written: look at it, then run the tests again")
        assert json.loads(path.read_text(encoding="utf-8")) == json.loads(text), f"delete {path} to write it anew"

    def test_format(self):
        values = [0.0, -0.04, 5.5, 9.994, 83.649, -2.94, 999.6, 1234.6]
        lams = [0.0, 0.01, 0.1, 1.0, 0.25, 1e-05, 10.0]
        small = [0.87, 0.9996, 0.001823, 0.000123, 1e-9, -2.5e-12]
        self.check(
            "format.json",
            {
                "number": [[value, 1, number(value, 1)] for value in values],
                "perplexity": [[value, number(value, decimals_for(value))] for value in values],
                "significant": [[value, significant(value)] for value in (*values, *small)],
                "percent": [[value, percent(value, 1)] for value in (0.0, 0.481, 1.0)],
                "plain": [[value, lam_text(value)] for value in lams if value == 0 or value >= 1e-4],
            },
        )

    def test_bind(self, study):
        figure = lab_view(study, method="sarqc-gbs", bits=2)["figures"]["deciles"]
        points = [[0, 0], [1, 3]]
        made = [{"gamma": g, "lambda": m, **at(figure, g, m)} for g, m in points]
        self.check("bind.json", {"figure": figure, "made": made})


def test_a_comparison_shows_every_chosen_point_within_its_panel(study):
    rounded = study.model_copy(update={"lines": (study.line("rtn", 2),)})
    solved = study.model_copy(update={"lines": (study.line("sarqc-gbs", 2),)})
    view = compare_view([rounded, solved])
    shown = next(row for row in view["numbers"] if row["title"] == "Perplexity, unseen text")["values"]
    low, high = view["figure"]["layout"]["yaxis"]["range"]
    assert all(low < value < high for value in shown)
    assert {row["title"] for row in view["differences"]} >= {"Method", "γ"}
