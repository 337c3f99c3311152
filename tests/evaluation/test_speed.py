"""What can be known of speed without a clock: who is eligible, that the kernel computes our weights, what is said."""

import copy
import dataclasses
import json

import pytest
import torch
from torch import nn

from sarqc import Grid, LayerStatistics, Recipe, execute, method, quantize_layer
from sarqc.evaluation.speed import TOLERANCE, Int4Linear, int4_linear, kernel_difference, measure_speed, why_no_kernel
from sarqc.events import SpeedMeasured
from sarqc.models.loading import LoadedModel
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.study.document import Study

ROWS, COLUMNS = 48, 256


def solved(grid: Grid, name: str, positive: bool = False) -> tuple[nn.Linear, QuantizedLayer]:
    """Return a linear that holds its quantized weight, and the layer that it holds."""
    noise = torch.Generator().manual_seed(3)
    weight = torch.randn(ROWS, COLUMNS, generator=noise).half().float()
    inputs = torch.randn(64, COLUMNS, generator=noise) * torch.linspace(0.1, 4, COLUMNS)
    layer = quantize_layer(
        weight.abs() if positive else weight, LayerStatistics.from_inputs(inputs), grid, method(name)
    )
    linear = nn.Linear(COLUMNS, ROWS)
    linear.requires_grad_(False)
    linear.weight.copy_(layer.dequantized)
    return linear, layer


def by_hand(layer: QuantizedLayer, inputs: torch.Tensor, group_size: int, bias: torch.Tensor) -> torch.Tensor:
    """Row by row and group by group in float64: sum of ((code - zero) · scale + bias) · x, over the channel scales."""
    x = inputs.double()
    if layer.channel_scale is not None:
        x = x / layer.channel_scale.double()
    rows = []
    for row in range(ROWS):
        total = bias[row].double().expand(len(x)).clone()
        for group in range(COLUMNS // group_size):
            channels = slice(group * group_size, (group + 1) * group_size)
            levels = (layer.codes[row, channels].double() - layer.zero_points[row, group]) * layer.scales[row, group]
            if layer.biases is not None:
                levels = levels + layer.biases[row, group]
            total += x[:, channels] @ levels
        rows.append(total)
    return torch.stack(rows, dim=1)


@pytest.mark.parametrize("kind", ["symmetric", "full_range", "asymmetric", "affine"])
@pytest.mark.parametrize(("group_size", "name"), [(32, "rtn"), (128, "gptq"), (None, "rtn"), (64, "awq")])
def test_the_kernel_computes_our_weights(kind, group_size, name):
    grid = Grid(4, group_size, kind)
    linear, layer = solved(grid, name)
    fast = int4_linear(linear, layer, grid)
    inputs = torch.randn(2, 3, COLUMNS, generator=torch.Generator().manual_seed(9)).bfloat16()
    expected = by_hand(layer, inputs.flatten(0, 1), group_size or COLUMNS, linear.bias).reshape(2, 3, ROWS)
    found = fast(inputs)
    assert found.dtype == torch.bfloat16
    assert float((found.double() - expected).norm() / expected.norm()) < 0.01
    assert kernel_difference(linear, fast) < 0.01
    assert (fast.column_scale is not None) == (name == "awq")


def test_weights_of_one_sign_have_zero_point_0():
    grid = Grid(4, 32, "asymmetric")
    linear, layer = solved(grid, "rtn", positive=True)
    assert not layer.zero_points.any()
    assert kernel_difference(linear, int4_linear(linear, layer, grid)) < 0.01


def test_scales_that_were_taken_up_are_not_divided_by_again():
    grid = Grid(4, 64, "asymmetric")
    linear, layer = solved(grid, "awq")
    linear.weight.copy_(layer.stored())
    fast = int4_linear(linear, layer, grid)
    assert fast.column_scale is None
    assert kernel_difference(linear, fast) < 0.01


def test_a_kernel_that_computes_something_else_is_found_out():
    grid = Grid(4, 32, "asymmetric")
    linear, layer = solved(grid, "rtn")
    shifted = dataclasses.replace(layer, zero_points=layer.zero_points + 1)
    assert kernel_difference(linear, Int4Linear(shifted, grid, None, linear.bias)) > TOLERANCE


def test_who_has_no_kernel_is_told_why(loaded, random_model):
    def why(grid: Grid, model: LoadedModel = loaded) -> str:
        return why_no_kernel(model, {layer.name: grid for layer in model.checkpoint.layers})

    assert why(Grid(4, 128, "asymmetric")) == ""
    assert why(Grid(4, 32, "symmetric")) == ""
    assert "not for 3" in why(Grid(3, 128, "asymmetric"))
    assert "groups of 16" in why(Grid(4, 16, "asymmetric"))
    assert "down_proj has groups of 768" in why(Grid(4, None, "asymmetric"))
    other = dataclasses.replace(loaded, device=torch.device("mps"))
    assert "no 4-bit kernel for mps" in why(Grid(4, 128, "asymmetric"), other)
    expert = "model.layers.0.mlp.experts.3.up_proj"
    assert "a slice of a tensor" in why_no_kernel(loaded, {expert: Grid(4, 32, "symmetric")})
    name = "model.layers.0.self_attn.q_proj"
    odd = random_model.model.get_submodule(name)
    odd.weight = nn.Parameter(odd.weight[:24], requires_grad=False)
    assert "multiples of 16" in why_no_kernel(
        random_model, {"model.layers.0.self_attn.q_proj": Grid(4, 32, "symmetric")}
    )


def test_without_a_kernel_only_the_float_model_is_measured(random_model):
    before = copy.deepcopy(random_model.model.state_dict())
    grids = {layer.name: Grid(2, 16, "asymmetric") for layer in random_model.checkpoint.layers}
    found = measure_speed(random_model, {}, grids, 20, decoded=30, repeats=2)
    assert found.quantized is None
    assert found.kernel is None
    assert found.reason == "PyTorch has a kernel for 4 bits, not for 2"
    assert found.protocol["decoded_tokens"] == 10
    assert found.float["prefill_spread"][0] <= found.float["prefill"] <= found.float["prefill_spread"][1]
    assert all(torch.equal(before[name], tensor) for name, tensor in random_model.model.state_dict().items())


@pytest.mark.thorough
def test_a_run_at_four_bits_uses_the_kernel(fresh_settings, monkeypatch):
    made, original = [], Int4Linear.__init__
    monkeypatch.setattr(Int4Linear, "__init__", lambda *given: (made.append(given), original(*given))[1])
    recipe = Recipe.parse(
        {"model": "tiny-llama", "bits": 4, "group_size": 128, "method": "rtn", "samples": 1, "length": 16,
         "calibration": "tiny-llama-calibration", "speed": True}
    )  # fmt: skip
    folder = fresh_settings.studies_dir()
    *events, finished = execute(recipe, fresh_settings, study_dir=folder, study_id="one")
    measured = next(event for event in events if isinstance(event, SpeedMeasured))
    assert len(made) == 42
    assert measured.reason == ""
    on_cpu = "torch _weight_int4pack_mm_for_cpu"
    assert measured.kernel == ("torch _weight_int4pack_mm" if torch.cuda.is_available() else on_cpu)
    assert 0 < measured.protocol["largest_relative_difference"] < 0.01
    assert measured.protocol["sequence_length"] == 512
    for which in (measured.float, measured.quantized):
        assert set(which) == {"prefill", "prefill_spread", "decode", "decode_spread"}
    assert finished.summary["speed"] == dataclasses.asdict(measured)
    assert Study.open(folder / "one").lines[0].speed == json.loads(json.dumps(finished.summary["speed"]))
