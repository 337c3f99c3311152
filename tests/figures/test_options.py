"""One calibration draw, GPTQ's ticks, drift by decile against identity, and the tables behind figures."""

import json

import numpy as np
import pytest

from sarqc.errors import NotFound
from sarqc.figures import figure_table, lab_view
from sarqc.study.document import Study, one_draw
from sarqc.study.facts import line_facts
from tests.synthetic_study import write_study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return write_study(tmp_path_factory.mktemp("options") / "toy", draws=3, sizes=True, auto=True)


def drawn(figure: dict, path: str) -> list:
    return next(bound["values"] for bound in figure["bindings"] if bound["path"] == path)


class TestOneDraw:
    def test_every_array_is_that_draws_and_the_others_are_as_they_were(self, study):
        alone = one_draw(study, 2)
        for line, one in zip(study.lines, alone.lines, strict=True):
            assert one.draws == (2,)
            for name, ref in line.arrays.items():
                if ref.axes[0] == "draw":
                    np.testing.assert_array_equal(study.read(one, name), study.read(line, name)[2:3])
                else:
                    assert name not in one.arrays  # pictures are of the first draw
        assert "surface" in one_draw(study, 0).lines[0].arrays

    def test_a_view_of_one_draw_has_its_numbers_and_no_error_bars(self, study):
        view = lab_view(study, method="rqc-gbs", bits=2, draw="1")
        values = study.read(study.line("rqc-gbs", 2), "perplexity")[1, 0]
        assert [row["perplexity"] for row in view["table"]["rows"]] == pytest.approx(values.tolist())
        assert all(
            row[name] is None
            for row in view["table"]["rows"]
            for name in ("perplexity_low", "perplexity_high")
            if name in row
        )
        assert (view["draw"], view["draws"]) == (1, [0, 1, 2])
        assert view["figures"]["surfaces"] is None
        assert not any(row.get("sweet_spot") for row in view["table"]["rows"])
        json.dumps(view, allow_nan=False)

    def test_a_draw_that_nobody_made_is_said(self, study):
        with pytest.raises(NotFound, match="no calibration draw 9"):
            lab_view(study, draw=9)


def test_gptq_is_a_named_point(study):
    figure = lab_view(study, method="sarqc-gbs", bits=2)["figures"]["hero"]
    notes = {note["text"]: note["x"] for note in figure["layout"]["annotations"] if note["text"].endswith("%")}
    assert notes == {"GPTQ 1 %": 1}
    (point,) = (trace for trace in figure["data"] if str(trace.get("name")).startswith("GPTQ"))
    identity = line_facts(study, method="rqc-gbs", bits=2, layer=None).perplexity.mean[0]
    assert point["text"] == [f"{identity[1]:.1f}"]


class TestDeciles:
    def test_identity_lies_behind_saliency_and_is_its_own_lines(self, study):
        figure = lab_view(study, method="sarqc-gbs", bits=2, layer=2)["figures"]["deciles"]
        mine, theirs = (study.read(study.line(name, 2), "deciles") for name in ("sarqc-gbs", "rqc-gbs"))
        for curve, expected in enumerate(
            (np.repeat(mine[2][:, :1], 5, axis=1), np.tile(theirs[2], (2, 1, 1)), mine[2])
        ):
            np.testing.assert_allclose(np.array(drawn(figure, f"data.{curve}.y"), float), expected, rtol=1e-5)

    def test_the_table_has_the_difference_to_identity_at_the_same_lambda(self, study):
        mine, theirs = (study.read(study.line(name, 2), "deciles")[2] for name in ("sarqc-gbs", "rqc-gbs"))
        rows = figure_table(study, "deciles", method="sarqc-gbs", bits=2, layer=2)["rows"]
        expected = (mine - theirs) / theirs
        np.testing.assert_allclose([row["against_identity"] for row in rows], expected.ravel(), atol=1e-9)

    def test_labels_keep_apart_and_inside(self, study):
        figure = lab_view(study, method="sarqc-gbs", bits=2)["figures"]["deciles"]
        high = figure["layout"]["yaxis"]["range"][1]
        heights = np.array([drawn(figure, f"layout.annotations.{i}.y") for i in range(3)])
        shown = np.array([drawn(figure, f"layout.annotations.{i}.visible") for i in range(3)])
        for g in range(2):
            for m in range(5):
                there = np.sort(heights[:, g, m][shown[:, g, m]])
                assert len(there) == (2 if m == 0 else 3)
                assert (np.diff(there) > 0.19 * high).all()
                assert there[0] >= 0
                assert there[-1] <= high


class TestTables:
    def test_each_is_the_stored_numbers(self, study):
        line = study.line("sarqc-gbs", 2)
        deciles = figure_table(study, "deciles", method="sarqc-gbs", bits=2, layer=1)["rows"]
        stored = study.read(line, "deciles")[1]
        assert [row["rms_drift"] for row in deciles] == stored.ravel().tolist()
        layers = figure_table(study, "map", method="sarqc-gbs", bits=2, layer=None)["rows"]
        held = study.read(line, "held_out").mean(axis=0)
        np.testing.assert_allclose([row["held_out"] for row in layers], held.ravel(), rtol=1e-12)
        gap = figure_table(study, "gap", method="sarqc-gbs", bits=2, layer=3)["rows"]
        by_size = study.read(line, "recon_by_size")[:, 3].mean(axis=0)  # S G M
        np.testing.assert_allclose([row["recon"] for row in gap], np.moveaxis(by_size, 0, -1).ravel(), rtol=1e-12)
        methods = figure_table(study, "methods", method="rtn", bits=2, layer=None)["rows"]
        rtn = next(row for row in methods if row["method"] == "rtn")
        assert rtn["perplexity"] == pytest.approx(study.read(study.line("rtn", 2), "perplexity").mean())

    def test_columns_are_those_of_the_rows_and_everything_is_json(self, study):
        for name in ("hero", "plane", "gamma_grid", "deciles", "map", "gap", "methods"):
            table = figure_table(study, name, method="sarqc-gbs", bits=2, layer=None)
            assert {column["key"] for column in table["columns"]} <= set(table["rows"][0])
            json.dumps(table, allow_nan=False)

    def test_one_draw_and_no_such_figure(self, study):
        table = figure_table(study, "map", method="rqc-gbs", bits=2, layer=None, draw=1)
        held = study.read(study.line("rqc-gbs", 2), "held_out")[1]
        np.testing.assert_allclose([row["held_out"] for row in table["rows"]], held.ravel(), rtol=1e-12)
        with pytest.raises(NotFound, match="no table"):
            figure_table(study, "moon", method="rtn", bits=2, layer=None)


def test_the_plane_says_what_a_bound_on_drift_needs(study):
    facts = line_facts(study, method="sarqc-gbs", bits=2, layer=None)
    radius = lab_view(study, method="sarqc-gbs", bits=2)["figures"]["plane"]["radius"]
    np.testing.assert_allclose(radius["drift"], facts.drift, rtol=1e-5)
    np.testing.assert_allclose(radius["error"], facts.recon, rtol=1e-5)
    assert radius["on"] == "calibration text"


@pytest.mark.parametrize("figure", ["hero", "map", "deciles"])
def test_parts_of_a_table_make_the_whole(study, figure):
    def part(offset: int = 0, limit: int | None = None) -> dict:
        return figure_table(
            study, figure, method="sarqc-gbs", bits=2, layer=None if figure == "map" else 1, offset=offset, limit=limit
        )

    whole = part()
    assert whole["total"] == len(whole["rows"]) > 7
    parts = [part(offset, 7) for offset in range(0, whole["total"] + 7, 7)]
    assert [row for one in parts for row in one["rows"]] == whole["rows"]
    assert all(one["total"] == whole["total"] for one in parts)
    assert parts[0]["columns"] == whole["columns"]
