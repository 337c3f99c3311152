"""From solved layers to what the page draws of them: poolings, sorted channels, and one group weight by weight.

The other side is written with loops over numpy arrays, from the solved layers themselves.
"""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import adaptive_avg_pool2d, adaptive_max_pool2d

from sarqc.calibration.pictures import MOST_CHANNELS, curve_of, inspect_group, largest_group, surfaces
from sarqc.engine.study_output import curve_arrays, joined, study_line
from sarqc.figures import figure_table, lab_view
from sarqc.figures.surfaces import POOLINGS
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import method
from sarqc.quantization.solve import quantize_layer
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


def number_rows(found: list[tuple[str, ...]]) -> list[list[float]]:
    return [[float(part) for part in row] for row in found]


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


@pytest.mark.parametrize("index", [0, 1])
def test_walls_show_the_means_of_channels_as_high_as_they_fit(study, index):
    view = lab_view(study, method="sarqc-gbs", bits=2, layer=index)
    line = study.line("sarqc-gbs", 2)
    for pooling in POOLINGS:
        end = "" if pooling is POOLINGS[0] else f":{pooling.name}"
        figure = view["figures"][f"surfaces{end}"]
        name = "surface_mean_sorted" if pooling.by_saliency else "surface_mean"
        bound = {one["path"]: one for one in figure["bindings"] if one["path"].startswith("means.")}
        assert bound == {
            "means.of.0": {"path": "means.of.0", "array": name, "lambda": 0},
            "means.of.1": {"path": "means.of.1", "array": name},
        }
        assert "means" not in view["figures"][f"surfaces_flat{end}"]
        stored = study.array(line, name)[index] * (float(study.array(line, f"{name}_scale")[index]) / 255)
        channels = [
            [float(np.mean(cells[:, j])) for j in range(28)] + [float(np.mean(cells[i])) for i in range(28)]
            for cells in stored.reshape(-1, 28, 28)
        ]
        highest, top = max(map(max, channels)), float(study.array(line, f"{pooling.array}_scale")[index])
        times = figure["means"]["times"]
        steps = sorted(step * 10.0**power for step in (1, 2, 5) for power in range(-4, 5))
        assert times == max(step for step in steps if step * highest <= top * (1 + 1e-6))
        assert figure["means"]["words"] == ("mean" if times == 1 else f"mean × {times:g}")


def test_surfaces_name_axes_and_what_an_input_is(study):
    view = lab_view(study, method="sarqc-gbs", bits=2, layer=0)
    for end, title, word in ((":mean", "input channels", "input"), (":signed", "inputs by saliency", "saliency rank")):
        figure = view["figures"][f"surfaces{end}"]
        scene = figure["layout"]["scene"]
        assert [scene[axis]["title"]["text"] for axis in ("xaxis", "yaxis")] == [title, "output channels"]
        for trace in (*figure["data"], *view["figures"][f"surfaces_difference{end}"]["data"]):
            assert trace["meta"] == [ROWS, WIDTHS[0], word]
        named = at(figure, 0, 2)["layout"]["annotations"]
        assert [one["text"].split(":")[0] for one in named] == ["λ = 0", "λ = 1"]


@pytest.mark.parametrize("index", [0, 1])
def test_the_inspected_group_says_where_it_is(study, index):
    view = lab_view(study, method="sarqc-gbs", bits=2, layer=index)
    figure = view["figures"]["inspector"]
    (dots,) = figure["data"]
    row, first, last = map(int, re.search(r"output (\d+), inputs (\d+) to (\d+)", figure["title"]).groups())
    assert dots["meta"] == {"row": row, "first": first, "count": last - first + 1}


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


@pytest.mark.parametrize("name", ["sarqc-gbs", "sarqc-gs"])
@pytest.mark.parametrize("index", [0, 1])
def test_levels_and_codes_give_the_quantized_weights(name, index):
    weight, _, layers = solved(name, index, None)
    group = inspect_group(torch.from_numpy(weight), layers, GRIDS[index])
    size = GRIDS[index].group_size
    energies = {
        (row, first): sum(weight[row, first + k] ** 2 for k in range(size))
        for row in range(ROWS)
        for first in range(0, WIDTHS[index], size)
    }
    assert (group.row, group.first) == max(energies, key=energies.get)
    place = (group.row, slice(group.first, group.first + size))
    assert np.allclose(group.weight, weight[place], rtol=1e-6)
    for m, layer in enumerate(layers):
        taken = (group.codes[m].double() - group.zero[m].double()) * group.step[m].double()
        assert np.allclose(taken, layer.dequantized[place], rtol=1e-5, atol=1e-9)
        assert 0 <= int(group.codes[m].min()) <= int(group.codes[m].max()) < 4


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
def test_arrows_of_the_inspector_end_at_levels_and_say_which_are_not_the_nearest(study, name, index):
    view = lab_view(study, method=name, bits=2, layer=index)
    figure = view["figures"]["inspector"]
    json.dumps(view, allow_nan=False)
    counted = []
    for g, gamma in enumerate(view["gammas"]):
        weight, _, layers = solved(name, index, gamma)
        for m, layer in enumerate(layers):
            made = at(figure, g, m)
            (dots,) = made["data"]
            levels, near, other = (shape["path"] for shape in made["layout"]["shapes"])
            size = GRIDS[index].group_size
            row = int(figure["title"].split("output ")[1].split(",")[0])
            first = dots["x"][0]
            assert dots["x"] == list(range(first, first + size))
            assert dots["y"] == pytest.approx(weight[row, first : first + size], abs=1e-3)
            step = layer.scales[row, first // size].double() * np.ones(size)
            if layer.channel_scale is not None:
                step = step / layer.channel_scale[first : first + size].double()
            lowest = GRIDS[index].lowest
            grid = [
                [float((lowest + j - layer.zero_points[row, first // size]) * step[k]) for j in range(4)]
                for k in range(size)
            ]
            drawn = re.findall(r"M([^,]+),([^L]+)L([^,]+),([^M]+)", levels)
            own = layer.channel_scale is not None or name == "sarqc-gs"
            expected = np.array(grid).T  # level channel
            assert [float(y) for _, y, _, _ in drawn] == pytest.approx(
                (expected if own else expected[:, 0]).ravel(), abs=1e-3
            )
            assert all(left < right and low == high for left, low, right, high in number_rows(drawn))
            ends = {}
            for path in (near, other):
                for piece in path.split("Z")[:-1]:
                    (x, start, same, end), head = number_rows(re.findall(r"M(.+),(.+)L(.+),(.+)(?=M)", piece))[0], piece
                    assert x == same
                    assert start == pytest.approx(weight[row, int(x)], abs=1e-3)
                    assert head.count("L") == 3
                    ends[int(x)] = end
            far = {int(x) for x in re.findall(r"M(\d+),[^L]+L\1,[^M]+M", other)}
            taken = layer.dequantized[row].numpy()
            assert ends == pytest.approx({c: taken[c] for c in range(first, first + size)}, abs=1e-3)
            beyond = {
                first + k
                for k in range(size)
                if abs(taken[first + k] - weight[row, first + k])
                > min(abs(level - weight[row, first + k]) for level in grid[k]) + 2e-3 * step[k]
            }
            assert far == beyond
            counted.append(len(far))
            told = [text.split(",") for text in dots["text"]]
            assert [float(text.replace("\u2212", "-")) for text, *_ in told] == pytest.approx(
                taken[first : first + size], abs=1e-3
            )
            assert {first + k for k, (_, *more) in enumerate(told) if more == [" not the nearest"]} == beyond
            named = made["layout"]["annotations"][2:]
            assert [note["y"] for note in named] == pytest.approx([] if own else expected[:, 0], abs=1e-5)
            assert [float(note["text"].replace("\u2212", "-")) for note in named] == pytest.approx(
                [note["y"] for note in named], abs=1e-2
            )
            assert f"{len(far)} of {size}" in made["layout"]["annotations"][0]["text"]
            assert f": {len(far)} of them" in made["aria"]
    if name == "sarqc-gs":  # rounds to nearest
        assert set(counted) == {0}
    elif index == 0:
        assert min(counted) > 0
    table = figure_table(study, "inspector", method=name, bits=2, layer=index)
    found = [sum(not row["nearest"] for row in table["rows"][i : i + size]) for i in range(0, len(table["rows"]), size)]
    assert found == counted


def test_every_pooling_has_its_drawings_and_older_studies_have_one(study, tmp_path):
    view = lab_view(study, method="sarqc-gbs", bits=2, layer=0)
    assert [one["name"] for one in view["poolings"]] == [one.name for one in POOLINGS]
    for pooling in POOLINGS[1:]:
        scale = view["arrays"][pooling.array]["scale"]
        for card in ("surfaces", "surfaces_flat", "surfaces_difference"):
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


@pytest.mark.parametrize("shape", [(80, 120), (41, 97), (44, 36), (7, 300)])
def test_cells_are_adaptive_poolings_of_the_whole_matrix(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(3)
    delta, order = torch.from_numpy(random.normal(size=shape)).float(), torch.from_numpy(random.permutation(shape[1]))
    found, sorted_ = surfaces(delta, order), delta[:, order]
    for name, values, size in (("surface", delta, 40), ("surface_sorted", sorted_, 28)):
        assert torch.equal(found[name], adaptive_max_pool2d(values.abs().unsqueeze(0), (size, size)).squeeze(0))
    means = {"surface_mean": delta.abs(), "surface_mean_sorted": sorted_.abs(), "surface_signed": sorted_}
    for name, values in means.items():
        mean = adaptive_avg_pool2d(values.double().unsqueeze(0), (28, 28)).squeeze(0)
        torch.testing.assert_close(found[name].double(), mean, rtol=0, atol=1e-6)
    assert found.keys() == {"surface", "surface_sorted", *means}


def test_a_map_has_named_axes_one_scale_of_colours_and_channels_under_the_pointer(study):
    view = lab_view(study, method="sarqc-gbs", bits=2, layer=0)
    maps = view["figures"]["surfaces_flat"]
    assert [trace.get("showscale", False) for trace in maps["data"]] == [False, True]
    assert maps["layout"]["xaxis"]["title"]["text"] == "input"
    assert maps["layout"]["yaxis"]["title"]["text"] == "output"
    outputs, inputs = study.layers[0].shape
    for name in ("surfaces", "surfaces_flat"):
        for trace in view["figures"][name]["data"]:
            assert trace["x"][0] == trace["y"][0] == 0
            assert trace["x"] == sorted(set(trace["x"]))
            assert trace["x"][-1] < inputs
            assert trace["y"][-1] < outputs
            assert "inputs from %{x}, outputs from %{y}" in trace["hovertemplate"]
