"""What every method must do to a layer, whatever its mathematics; a new row in METHODS joins by itself.

A method that works on a whole block gets a block that is nothing but the layer.
"""

import copy
import dataclasses
import json
import math

import pytest
import torch

from sarqc.errors import NumericalError, Refused
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import METHODS, method
from sarqc.quantization.quantized_layer import LayerReport, QuantizedLayer
from sarqc.quantization.solve import quantize_layer, sweep_layer
from tests import oracles
from tests.quantizing import brief, quantize_block

ALONE = [name for name, entry in METHODS.items() if entry.make.unit == "layer"]
TUNED = [name for name in ALONE if "lam" in METHODS[name].tunes]
GRIDS = [
    Grid(bits, group_size, kind)
    for bits in (2, 3, 4)
    for kind in ("symmetric", "full_range", "asymmetric", "affine")
    for group_size in (16, None)
]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
ROWS, COLUMNS = 12, 48


def layer_of(dtype: torch.dtype) -> tuple[torch.Tensor, LayerStatistics, LayerStatistics, torch.Tensor]:
    """Weight, statistics, held-out statistics and the held-out inputs, with one dead channel and one dead column.

    Under the float prefix the inputs are a little different, and the dead channel is not dead.
    """
    x = calibration_inputs()
    x_val, other = (torch.from_numpy(oracles.correlated_inputs(seed, 150, COLUMNS)) for seed in (102, 104))
    weight = torch.from_numpy(oracles.uneven_weight(103, ROWS, COLUMNS))
    weight[:, 30] = 0.0
    weight[4, :16] = 0.0
    inputs = torch.float64 if dtype == torch.float64 else torch.float32
    return (
        weight.to(dtype),
        LayerStatistics.from_inputs(x.to(inputs), (x + 0.05 * other).to(inputs)),
        LayerStatistics.from_inputs(x_val.to(inputs)),
        x_val.to(inputs),
    )


def solve(
    weight: torch.Tensor,
    statistics: LayerStatistics,
    grid: Grid,
    name: str,
    held_out: LayerStatistics | None = None,
    x_unit: float = 1.0,
) -> QuantizedLayer:
    """The layer by a method; one that learns takes two passes over two sequences, in inputs of another unit."""
    if METHODS[name].make.unit == "layer":
        return quantize_layer(weight, statistics, grid, method(name), held_out=held_out)
    work = torch.float64 if weight.dtype == torch.float64 else torch.float32
    x = calibration_inputs().reshape(2, 75, COLUMNS).to(work) * x_unit

    def forward(weights: dict[str, torch.Tensor], states: torch.Tensor) -> torch.Tensor:
        made = states @ weights["layer"].T
        return torch.nn.functional.pad(
            made, (0, COLUMNS - made.shape[-1])
        )  # a block's outputs are as wide as its inputs

    *_, layers = quantize_block(
        {"layer": weight},
        {"layer": statistics},
        {"layer": grid},
        brief(name),
        forward=forward,
        inputs=[x],
        targets=[forward({"layer": weight.detach().to(work)}, x)],
        held_out=None if held_out is None else {"layer": held_out},
    )
    return layers["layer"]


def calibration_inputs() -> torch.Tensor:
    """150 tokens with one dead channel."""
    x = torch.from_numpy(oracles.correlated_inputs(101, 150, COLUMNS))
    x[:, 11] = 0.0
    return x


def spelt_out(layer: QuantizedLayer, dtype: torch.dtype) -> torch.Tensor:
    """((codes - zero_points)·scales + biases)/channel_scale in working precision, then cast: in the reader's words."""
    work = torch.float64 if dtype == torch.float64 else torch.float32
    size = layer.codes.shape[1] // layer.scales.shape[1]
    scales = layer.scales.to(work).repeat_interleave(size, dim=1)
    zeros = layer.zero_points.to(work).repeat_interleave(size, dim=1)
    value = (layer.codes.to(work) - zeros) * scales
    if layer.biases is not None:
        value = value + layer.biases.to(work).repeat_interleave(size, dim=1)
    if layer.channel_scale is not None:
        value = value / layer.channel_scale.to(work)
    return value.to(dtype)


def assert_finite(report: LayerReport) -> None:
    """Every number of a report is finite: it goes into JSON, which has no infinity."""
    for field in dataclasses.fields(report):
        value = getattr(report, field.name)
        if isinstance(value, float):
            assert math.isfinite(value), field.name
    json.dumps(report.to_json(), allow_nan=False)


def test_there_are_methods_to_test():
    assert len(METHODS) >= 12
    assert len(TUNED) >= 5


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_result_is_exactly_what_its_codes_say(name, dtype):
    weight, statistics, _, _ = layer_of(dtype)
    for grid in GRIDS:
        layer = solve(weight, statistics, grid, name)
        groups = COLUMNS // (grid.group_size or COLUMNS)
        assert layer.codes.dtype == torch.int8
        assert tuple(layer.codes.shape) == (ROWS, COLUMNS)
        assert tuple(layer.scales.shape) == tuple(layer.zero_points.shape) == (ROWS, groups)
        assert not layer.zero_points.is_floating_point()
        assert layer.channel_scale is None or tuple(layer.channel_scale.shape) == (COLUMNS,)
        assert int(layer.codes.min()) >= grid.lowest
        assert int(layer.codes.max()) <= grid.highest
        assert int(layer.zero_points.min()) >= min(grid.lowest, 0)
        assert int(layer.zero_points.max()) <= grid.highest
        if grid.kind != "asymmetric":
            assert (layer.zero_points == 0).all()
        assert (layer.biases is None) == (grid.kind != "affine")
        if layer.biases is not None:
            assert tuple(layer.biases.shape) == (ROWS, groups)
            assert layer.biases.dtype == dtype
        assert (layer.scales > 0).all()
        assert torch.equal(layer.scales.to(dtype).to(layer.scales.dtype), layer.scales)
        assert layer.dequantized.dtype == dtype
        assert torch.equal(layer.dequantized, spelt_out(layer, dtype))


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_report_is_finite_and_true(name, dtype):
    weight, statistics, held_out, x_val = layer_of(dtype)
    tolerance = 1e-6 if dtype == torch.float64 else 1e-3
    for grid in GRIDS:
        layer = solve(weight, statistics, grid, name, held_out=held_out)
        report = layer.report
        delta = layer.dequantized.double() - weight.double()
        drift = float(delta.square().sum())
        recon = float(torch.einsum("oi,ij,oj->", delta, statistics.gram.double(), delta))
        direct = float((delta @ x_val.double().T).square().sum())
        whole = float((weight.double() @ x_val.double().T).square().sum())
        assert report.drift == pytest.approx(drift, rel=tolerance)
        assert report.relative_drift == pytest.approx(
            (drift / float(weight.double().square().sum())) ** 0.5, rel=tolerance
        )
        assert report.recon_loss == pytest.approx(recon, rel=tolerance)
        assert report.held_out_loss == pytest.approx(direct, rel=tolerance)
        assert report.relative_held_out == pytest.approx(direct / whole, rel=tolerance)
        assert_finite(report)
        assert report.sar_loss >= 0
        assert report.n_tokens == 150
        assert report.diagonal_floor >= 0
        assert report.chosen
        assert isinstance(report.flags, tuple)


@pytest.mark.parametrize("name", METHODS)
def test_without_held_out_data_nothing_is_claimed_about_it(name):
    weight, statistics, held_out, _ = layer_of(torch.float64)
    with_it = solve(weight, statistics, GRIDS[0], name, held_out=held_out)
    without = solve(weight, statistics, GRIDS[0], name)
    assert without.report.held_out_loss is None
    assert without.report.relative_held_out is None
    assert torch.equal(without.codes, with_it.codes)  # looking at held-out data does not change what is chosen


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_inputs_are_not_mutated_and_results_repeat(name, dtype):
    weight, statistics, held_out, _ = layer_of(dtype)
    before = copy.deepcopy((weight, statistics, held_out))
    first = solve(weight, statistics, GRIDS[0], name, held_out=held_out)
    again = solve(weight, statistics, GRIDS[0], name, held_out=held_out)
    assert torch.equal(weight, before[0])
    for now, then in ((statistics, before[1]), (held_out, before[2])):
        assert torch.equal(now.gram, then.gram)
        assert torch.equal(now.abs_sum, then.abs_sum)
        assert now.n_tokens == then.n_tokens
        assert now.cross is then.cross or torch.equal(now.cross, then.cross)
    assert torch.equal(first.codes, again.codes)
    assert torch.equal(first.scales, again.scales)
    assert torch.equal(first.dequantized, again.dequantized)
    assert first.report == again.report
    assert first.dequantized.data_ptr() != weight.data_ptr()


@pytest.mark.parametrize("name", METHODS)
def test_a_parameter_and_a_transposed_view_are_weights_too(name):
    weight, statistics, _, _ = layer_of(torch.float32)
    plain = solve(weight, statistics, GRIDS[-1], name)
    parameter = torch.nn.Parameter(weight.clone())
    held = solve(parameter, statistics, GRIDS[-1], name)
    assert torch.equal(held.codes, plain.codes)
    assert not held.dequantized.requires_grad
    assert parameter.grad is None
    view = solve(weight.t().contiguous().t(), statistics, GRIDS[-1], name)
    assert torch.equal(view.codes, plain.codes)


@pytest.mark.parametrize("name", METHODS)
def test_rows_are_independent_of_each_other_unless_the_method_looks_at_all(name):
    """Doubling the rows changes no row: mean|W| is over rows, and the losses double."""
    weight, statistics, _, _ = layer_of(torch.float64)
    once = solve(weight, statistics, Grid(3, 16, "asymmetric"), name)
    twice = solve(torch.cat([weight, weight]), statistics, Grid(3, 16, "asymmetric"), name)
    assert torch.equal(twice.codes[:ROWS], once.codes)
    assert torch.equal(twice.codes[ROWS:], once.codes)
    tolerance = 1e-9 if METHODS[name].make.unit == "layer" else 1e-6  # the optimiser's ε is not relative
    assert twice.report.recon_loss == pytest.approx(2 * once.report.recon_loss, rel=tolerance)
    assert twice.report.sar_loss == pytest.approx(2 * once.report.sar_loss, rel=tolerance)


@pytest.mark.thorough
@pytest.mark.parametrize("name", METHODS)
def test_units_do_not_matter(name):
    """Inputs and weights measured in other units (powers of two, so nothing is rounded anew): the same codes.

    In full_range the negative end of a range is itself a rounding tie, which the last bit of s̃ decides.
    """
    weight, statistics, _, _ = layer_of(torch.float64)
    for grid in [grid for grid in GRIDS if grid.kind != "full_range"]:
        plain = solve(weight, statistics, grid, name)
        for x_unit, w_unit in ((2.0**-20, 1.0), (2.0**14, 2.0**9), (1.0, 2.0**-12)):
            in_units = LayerStatistics(
                statistics.gram * x_unit**2, statistics.abs_sum * x_unit, statistics.n_tokens,
                statistics.cross * x_unit**2,
            )  # fmt: skip
            other = solve(weight * w_unit, in_units, grid, name)
            assert torch.equal(other.codes, plain.codes)
            assert torch.allclose(other.dequantized, plain.dequantized * w_unit, rtol=1e-9, atol=0)
            assert other.report.relative_recon == pytest.approx(plain.report.relative_recon, rel=1e-9)
            assert other.report.relative_drift == pytest.approx(plain.report.relative_drift, rel=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("bits", [5, 8])
@pytest.mark.parametrize("kind", ["symmetric", "full_range", "asymmetric", "affine"])
@pytest.mark.parametrize("name", METHODS)
def test_more_bits(name, kind, bits):
    """Up to 8 bits the codes still fit their integer type and say exactly what the weights are."""
    weight, statistics, _, _ = layer_of(torch.float32)
    grid = Grid(bits, 16, kind)
    layer = solve(weight, statistics, grid, name)
    assert int(layer.codes.min()) >= grid.lowest
    assert int(layer.codes.max()) <= grid.highest
    assert torch.equal(layer.dequantized, spelt_out(layer, torch.float32))
    coarse = solve(weight, statistics, Grid(3, 16, kind), name)
    assert layer.report.relative_recon < coarse.report.relative_recon


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("name", METHODS)
def test_not_finite_is_refused(name, poison):
    weight, statistics, _, _ = layer_of(torch.float32)
    broken = weight.clone()
    broken[3, 7] = poison
    with pytest.raises(NumericalError):
        solve(broken, statistics, GRIDS[0], name)
    gram = statistics.gram.clone()
    gram[7, 7] = poison
    with pytest.raises(NumericalError):
        solve(weight, dataclasses.replace(statistics, gram=gram), GRIDS[0], name)


@pytest.mark.parametrize("name", METHODS)
def test_group_size_must_divide(name):
    weight, statistics, _, _ = layer_of(torch.float32)
    with pytest.raises(Refused) as refused:
        solve(weight, statistics, Grid(4, 32, "symmetric"), name)
    assert "16" in refused.value.remedy


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["symmetric", "full_range", "asymmetric", "affine"])
@pytest.mark.parametrize("name", TUNED)
def test_a_batch_is_its_loop(name, kind):
    weight, statistics, held_out, _ = layer_of(torch.float64)
    gammas = (0.1, 0.35) if "gamma" in METHODS[name].tunes else (None,)
    lams = (0.0, 0.05, 0.5)
    grid = Grid(3, 16, kind)
    sweep = sweep_layer(weight, statistics, grid, method(name), lams=lams, gammas=gammas, held_out=held_out)
    for i, gamma in enumerate(gammas):
        for j, lam in enumerate(lams):
            choices = {"lam": lam} if gamma is None else {"lam": lam, "gamma": gamma}
            single = quantize_layer(weight, statistics, grid, method(name, **choices), held_out=held_out)
            assert float(sweep.recon_loss[i, j]) == pytest.approx(single.report.recon_loss, rel=1e-9)
            assert float(sweep.sar_loss[i, j]) == pytest.approx(single.report.sar_loss, rel=1e-9)
            assert float(sweep.held_out_loss[i, j]) == pytest.approx(single.report.held_out_loss, rel=1e-9)
            assert torch.equal(sweep.dequantized(i, j).codes, single.codes)
