"""Tables and figures for notebooks: tables against loops over the arrays, figures against the Lab's own dicts."""

import json
import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

import sarqc
from sarqc import Study, compare
from sarqc.errors import NotFound, Refused
from sarqc.figures import lab_view
from sarqc.settings import SITE
from tests.figures.test_figures import at

NOTEBOOK = SITE / "docs" / "notebook.ipynb"


@pytest.fixture(scope="module")
def study():
    return Study.open("tiny-llama")


def same(left: float, right: float) -> bool:
    return (math.isnan(left) and math.isnan(right)) or left == right


def test_points_are_the_arrays_row_by_row(study):
    table = study.frame("points")
    assert len(table) == sum(len(line.draws) * len(line.lams) * len(line.gammas) for line in study.lines)
    for line in study.lines:
        rows = iter(table[(table.method == line.name) & (table.bits == line.bits)].to_dict("records"))
        perplexity, drift = study.read(line, "perplexity"), study.read(line, "drift")
        for d, seed in enumerate(line.draws):
            for g, gamma in enumerate(line.gammas):
                for m, lam in enumerate(line.lams):
                    row = next(rows)
                    assert row["draw"] == seed
                    assert same(row["gamma"], math.nan if gamma is None else gamma)
                    assert row["lambda"] == lam or math.isnan(row["lambda"])
                    assert same(row["perplexity"], float(perplexity[d, g, m]))
                    values = [float(v) for v in drift[d, :, g, m] if not math.isnan(v)]
                    assert row["drift"] == pytest.approx(sum(values) / len(values), rel=1e-12)


def test_layers_have_a_row_for_each_layer(study):
    table = study.frame("layers")
    line = study.line("sarqc-gbs", 2)
    rows = table[(table.method == line.name) & (table.bits == 2)]
    assert len(rows) == len(line.draws) * len(study.layers) * len(line.gammas) * len(line.lams)
    d, layer, g, m = 1, 5, 1, 3
    row = rows[
        (rows.draw == line.draws[d]) & (rows.layer == study.layers[layer].name)
        & (rows.gamma == line.gammas[g]) & (rows["lambda"] == line.lams[m])
    ].squeeze()  # fmt: skip
    for name in ("recon", "held_out", "sar", "drift"):
        assert row[name] == float(study.read(line, name)[d, layer, g, m])
    assert row["block"] == study.layers[layer].block


def test_an_unknown_table_names_those_there_are(study):
    with pytest.raises(NotFound, match="points, layers"):
        study.frame("rows")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["tiny-llama", "tiny-moe", "tiny-llama-methods"])
def test_every_figure_of_the_lab_is_a_plotly_figure(name):
    study = Study.open(name)
    view = lab_view(study)
    drawn = [key for key, figure in view["figures"].items() if figure is not None]
    assert drawn
    for key in drawn:
        figure = study.figure(key)
        assert isinstance(figure, go.Figure)
        assert "var(--" not in figure.to_json()


@pytest.mark.thorough
def test_a_figure_shows_the_asked_point(study):
    view = lab_view(study, method="sarqc-gbs", bits=2, layer=5)
    line = study.line("sarqc-gbs", 2)
    g, m = 1, line.lams.index(0.2)
    wanted = at(view["figures"]["curves"], g, m)["data"]
    layer = study.layers[5].name
    made = study.figure("trade_off", method="sarqc-gbs", bits=2, layer=layer, lam=0.2, gamma=line.gammas[g])
    for ours, theirs in zip(json.loads(made.to_json())["data"], wanted, strict=True):
        for key in ("x", "y", "text", "name"):
            assert ours.get(key) == theirs.get(key), (theirs["name"], key)
    dark = study.figure("trade_off", method="sarqc-gbs", bits=2, layer=5, lam=0.2, theme="dark")
    assert dark.layout.paper_bgcolor == "#1c1f25"


def test_surfaces_are_the_stored_drift(study):
    line = study.line("sarqc-gbs", 2)
    made = study.figure("surfaces_flat", method="sarqc-gbs", bits=2, layer=5, lam=0.2, gamma=line.gammas[0])
    stored = study.array(line, "surface")[5, 0, line.lams.index(0.2)].astype(float)
    scale = float(study.read(line, "surface_scale")[5])
    heights = [np.array(trace.z, dtype=float) for trace in made.data if trace.z is not None]
    assert any(np.allclose(z, stored * scale / 255) for z in heights)


@pytest.mark.thorough
def test_what_a_study_lacks_is_named(study):
    with pytest.raises(NotFound, match="trade_off"):
        study.figure("nothing")
    with pytest.raises(NotFound, match="It has"):
        study.figure("trade_off", method="sarqc-gbs", bits=2, lam=0.123)
    with pytest.raises(NotFound):
        Study.open("no-such-study")


def test_compare_puts_chosen_points_below_each_other():
    table = compare(["tiny-llama-methods", "tiny-llama"])
    methods = Study.open("tiny-llama-methods")
    ours = table[table.study == "tiny-llama-methods"].set_index(["method", "bits"])
    for line in methods.lines:
        values = methods.read(line, "perplexity")[:, 0, 0]
        assert ours.loc[(line.name, line.bits), "perplexity"] == pytest.approx(float(np.mean(values)), rel=1e-12)
        assert ours.loc[(line.name, line.bits), "draws"] == len(line.draws)
    assert (table.perplexity_float > 0).all()
    with pytest.raises(Refused):
        compare([])


@pytest.mark.thorough
def test_the_notebook_runs():
    """Every code cell, one after the other, as a person would run them."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert any(isinstance(value, pd.DataFrame) for value in names.values())
    assert any(isinstance(value, go.Figure) for value in names.values())


def test_the_notebook_is_small_and_names_no_place():
    text = NOTEBOOK.read_text()
    assert len(text) < 20_000
    assert all(not cell.get("outputs") for cell in json.loads(text)["cells"])
    assert sarqc.__version__
