"""From solved layers to what the page draws of them: poolings, sorted channels, and one group weight by weight.

The other side is written with loops over numpy arrays, from the solved layers themselves.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sarqc import Grid, LayerStatistics, method, quantize_layer
from sarqc.calibration.pictures import MOST_CHANNELS, curve_of, inspect_group, largest_group
from sarqc.engine.study_output import curve_arrays, joined, study_line
from sarqc.figures import figure_table, lab_view
from sarqc.figures.surfaces import POOLINGS
from sarqc.study.document import LayerInfo, StudyWriter, common_scale, eight_bits, one_draw
from tests import oracles
from tests.figures.test_figures import at
from tests.synthetic_study import write_study

LAMS, GAMMAS = (0.0, 0.1, 1.0), (0.2, 0.7)
WIDTHS = (96, 36)  # input channels of the two layers
GRIDS = (Grid(2, 32, "asymmetric"), Grid(2, 12, "symmetric"))
ROWS = 44


def material(index: int):
    x = oracles.correlated_inputs(70 + index, 200, WIDTHS[index])
    return oracles.uneven_weight(80 + index, ROWS, WIDTHS[index]), LayerStatistics.from_inputs(torch.from_numpy(x))


def solved(name: str, index: int, gamma: float | None):
    weight, statistics = material(index)
    settings = {} if gamma is None else {"gamma": gamma}
    layers = [
        quantize_layer(torch.from_numpy(weight), statistics, GRIDS[index], method(name, lam=lam, **settings))
        for lam in LAMS
    ]
    return weight, statistics, layers


def curve(name: str, index: int, gamma: float | None):
    weight, statistics, layers = solved(name, index, gamma)
    return curve_of(LAMS, layers, torch.from_numpy(weight), statistics, None, GRIDS[index])


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "weights"
    writer, lines = StudyWriter(folder), []
    for name, gammas in (("sarqc-gbs", GAMMAS), ("sarqc-gs", (None,))):
        curves = [[[curve(name, index, gamma) for gamma in gammas] for index in (0, 1)]]
        lines.append(
            study_line(
                name, bits=2, grid="asymmetric", group_size=32, lams=LAMS, gammas=gammas, draws=(0,),
                arrays=curve_arrays(writer, curves),
            )
        )  # fmt: skip
    whole = write_study(folder.parent / "toy")
    layers = tuple(
        LayerInfo(name=f"model.layers.{i}.q_proj", block=i, module="q_proj", shape=(ROWS, WIDTHS[i])) for i in (0, 1)
    )
    changed = whole.model_copy(update={"id": "weights", "layers": layers, "lines": tuple(lines)})
    return writer.finish(changed)


def cells(delta: np.ndarray, size: int, how) -> np.ndarray:
    """Adaptive pooling: cell i reaches from ⌊i n / size⌋ to before ⌈(i + 1) n / size⌉."""
    made = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            rows, columns = delta.shape
            top, bottom = i * rows // size, -((i + 1) * rows // -size)
            left, right = j * columns // size, -((j + 1) * columns // -size)
            made[i, j] = how(delta[top:bottom, left:right])
    return made


@pytest.mark.thorough
@pytest.mark.parametrize("index", [0, 1])
def test_stored_pictures_are_those_of_the_solved_layers(study, index):
    weight, statistics, layers = solved("sarqc-gbs", index, GAMMAS[1])
    importance = np.asarray(statistics.abs_mean) / np.abs(weight).mean(axis=0)
    order = sorted(range(WIDTHS[index]), key=lambda channel: importance[channel])
    line = study.line("sarqc-gbs", 2)
    wanted = {
        "surface": (40, lambda delta: np.abs(delta), np.max),
        "surface_mean": (28, lambda delta: np.abs(delta), np.mean),
        "surface_sorted": (28, lambda delta: np.abs(delta)[:, order], np.max),
        "surface_mean_sorted": (28, lambda delta: np.abs(delta)[:, order], np.mean),
        "surface_signed": (28, lambda delta: delta[:, order], np.mean),
    }
    for name, (size, prepared, how) in wanted.items():
        stored = study.array(line, name)[index, 1].astype(float)  # λ row column
        scale = study.array(line, f"{name}_scale")[index]
        view = lab_view(study, method="sarqc-gbs", bits=2, layer=index)
        zero = view["arrays"][name]["zero"]
        assert view["arrays"][name]["scale"] == pytest.approx(float(scale))
        values = (stored - zero) * scale / (255 - zero)
        for m, layer in enumerate(layers):
            expected = cells(prepared(layer.dequantized.numpy() - weight), size, how)
            assert np.abs(values[m] - expected).max() <= 0.51 * scale / (255 - zero), name
    assert (values < 0).any()  # the last one, which has both signs


def test_eight_bits_keep_each_layer_in_its_own_unit():
    values = np.array([[-3.0, 0.0, 1.5], [0.0, 0.25, 0.5], [0.0, 0.0, 0.0]])
    scale = common_scale(np.abs(values).max(axis=-1)[:, None])
    assert scale.tolist() == [3.0, 0.5, np.finfo(np.float32).tiny]
    assert eight_bits(values, scale, 128).tolist() == [[1, 128, 192], [128, 192, 255], [128, 128, 128]]


def test_a_picture_that_runs_away_is_cut_and_does_not_flatten_the_others():
    most = np.array([[1000.0, 3.0, 2.0, 1.0], [8.0, 4.0, 2.0, 1.0]])
    scale = common_scale(most)
    assert scale.tolist() == [3.0, 8.0]
    values = np.array([[[1000.0, -1000.0, 0.0], [3.0, 1.5, 0.0]]])
    assert eight_bits(values, scale[:1], 0).tolist()[0][1] == [255, 128, 0]
    assert eight_bits(values, scale[:1], 128).tolist() == [[[255, 1, 128], [255, 192, 128]]]


@pytest.mark.parametrize("name", ["rtn", "awq"])
def test_levels_of_the_affine_grid_need_not_hold_zero(name):
    weight, statistics = material(0)
    weight = torch.from_numpy(np.abs(weight) + 0.02)
    grid = Grid(2, 32, "affine")
    layer = quantize_layer(weight, statistics, grid, method(name))
    group = inspect_group(weight, [layer], grid)
    assert (group.zero < 0).all()
    place = (group.row, slice(group.first, group.first + 32))
    taken = (group.codes[0].double() - group.zero[0].double()) * group.step[0].double()
    assert np.allclose(taken, layer.dequantized[place], rtol=1e-5, atol=1e-9)


def test_of_a_large_group_the_first_channels_are_shown_and_scaled_rows_have_their_own_levels():
    rng = np.random.default_rng(5)
    weight = torch.from_numpy(rng.normal(size=(3, 200)))
    weight[1] *= 2
    layer = quantize_layer(
        weight, LayerStatistics.from_inputs(torch.from_numpy(rng.normal(size=(300, 200)))),
        Grid(4, None, "full_range"), method("gptq"),
    )  # fmt: skip
    assert largest_group(weight, 200) == (1, 0)
    group = inspect_group(weight, [layer], Grid(4, None, "full_range"))
    assert (len(group.weight), group.row, group.first) == (MOST_CHANNELS, 1, 0)
    assert np.allclose((group.codes[0] - group.zero[0]) * group.step[0], layer.dequantized[1, :128], rtol=1e-5)
    scaled = replace(layer, row_scale=torch.tensor([1.0, 0.25, 1.0]))
    assert torch.equal(inspect_group(weight, [scaled], Grid(4, None, "full_range")).step, 0.25 * group.step)


def test_curves_made_apart_join_along_lambda():
    whole = curve("sarqc-gbs", 0, 0.2)
    weight, statistics, layers = solved("sarqc-gbs", 0, 0.2)
    parts = [
        curve_of((lam,), [layer], torch.from_numpy(weight), statistics, None, GRIDS[0])
        for lam, layer in zip(LAMS, layers, strict=True)
    ]
    together = joined(parts)
    assert together.lams == LAMS
    for name in ("surface_signed", "surface_mean_sorted", "group_codes", "group_step", "group_weight", "group_place"):
        assert np.array_equal(getattr(together, name), getattr(whole, name)), name


@pytest.mark.parametrize("name", ["sarqc-gbs", "sarqc-gs"])
@pytest.mark.parametrize("index", [0, 1])
def test_the_inspector_counts_and_lists_the_weights_that_are_not_at_the_nearest_level(study, name, index):
    view = lab_view(study, method=name, bits=2, layer=index)
    figure, grid = view["figures"]["inspector"], GRIDS[index]
    json.dumps(view, allow_nan=False)
    rows = iter(figure_table(study, "inspector", method=name, bits=2, layer=index)["rows"])
    size, counted = grid.group_size, []
    for g, gamma in enumerate(view["gammas"]):
        weight, _, layers = solved(name, index, gamma)
        for m, layer in enumerate(layers):
            made = at(figure, g, m)
            (dots,) = made["data"]
            row, first = dots["meta"]["row"], dots["meta"]["first"]
            place = (row, slice(first, first + size))
            step = layer.scales[row, first // size].double() * np.ones(size)
            if layer.channel_scale is not None:
                step = step / layer.channel_scale[place[1]].double()
            levels = np.arange(grid.lowest, grid.highest + 1) - int(layer.zero_points[row, first // size])
            away = np.abs(np.outer(step, levels) - weight[place][:, None]).min(axis=1)
            taken = layer.dequantized[place].numpy()
            other = np.abs(taken - weight[place]) > away + 2e-3 * step.numpy()
            assert dots["x"] == list(range(first, first + size))
            assert f"output {row}, inputs {first} to {first + size - 1}" in figure["title"]
            assert dots["y"] == pytest.approx(weight[place], abs=1e-3)
            assert [" not the nearest" in text for text in dots["text"]] == other.tolist()
            own = name == "sarqc-gs"  # each column has its levels
            lines, near, far = (shape["path"] for shape in made["layout"]["shapes"])
            assert lines.count("M") == len(levels) * (size if own else 1)
            assert (near.count("Z"), far.count("Z")) == (size - other.sum(), other.sum())
            assert f"{other.sum()} of {size}" in made["layout"]["annotations"][0]["text"]
            listed = [next(rows) for _ in range(size)]
            assert [one["channel"] for one in listed] == dots["x"]
            assert [one["quantized"] for one in listed] == pytest.approx(taken, abs=1e-3)
            assert [one["nearest"] for one in listed] == (~other).tolist()
            counted.append(int(other.sum()))
    if name == "sarqc-gs":  # rounds to nearest
        assert set(counted) == {0}
    elif index == 0:
        assert min(counted) > 0


def test_every_pooling_has_its_drawings_and_older_studies_have_one(study, tmp_path):
    view = lab_view(study, method="sarqc-gbs", bits=2, layer=0)
    assert [one["name"] for one in view["poolings"]] == [one.name for one in POOLINGS]
    for pooling in POOLINGS[1:]:
        scale = view["arrays"][pooling.array]["scale"]
        for card in ("surfaces", "surfaces_flat"):
            figure = view["figures"][f"{card}:{pooling.name}"]
            cells = [one for one in figure["bindings"] if "array" in one and one["path"].startswith("data.")]
            assert {one["array"] for one in cells} == {pooling.array}
            assert pooling.words in at(figure, 0, 1)["aria"]
        ends = [view["figures"][f"surfaces_flat:{pooling.name}"]["data"][0][end] for end in ("zmin", "zmax")]
        assert ends == [-scale if pooling.signed else 0, scale]
    told = {pair["name"]: pair["text"] for pair in view["measured"]}
    assert "28 × 28" in told["Cells of the weights"]
    assert lab_view(study, method="sarqc-gbs", bits=2, layer=0, draw=0)["figures"]["inspector"] is not None

    older = write_study(tmp_path / "older")
    view = lab_view(older, method="sarqc-gbs", bits=2, layer=0)
    assert [one["name"] for one in view["poolings"]] == ["max"]
    assert view["figures"]["inspector"] is None
    assert not [name for name in view["figures"] if ":" in name]
    later = one_draw(older, 1)
    assert lab_view(later, method="sarqc-gbs", bits=2)["poolings"] == []
