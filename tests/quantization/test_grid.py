"""The integer grids, through plain rounding: levels worked by hand, the oracle, brute force over all codes."""

import numpy as np
import pytest
import torch

from sarqc import Grid, LayerStatistics, method, quantize_layer
from sarqc.quantization.quantized_layer import QuantizedLayer
from tests import oracles
from tests.quantizing import zeros_of

KINDS = ("symmetric", "full_range", "asymmetric", "affine")


def rounded(weight: torch.Tensor, grid: Grid) -> QuantizedLayer:
    columns = weight.shape[1]
    dtype = torch.float64 if weight.dtype == torch.float64 else torch.float32
    x = torch.from_numpy(oracles.correlated_inputs(5, 2 * columns, columns)).to(dtype)
    return quantize_layer(weight, LayerStatistics.from_inputs(x), grid, method("rtn"))


def test_levels_by_hand():
    weight = torch.tensor([[1.4, -0.65, 0.3, -0.05]], dtype=torch.float64)
    layer = rounded(weight, Grid(2, None, "symmetric"))
    assert layer.scales.tolist() == [[1.4]]
    assert layer.codes.tolist() == [[1, 0, 0, 0]]
    layer = rounded(weight, Grid(2, None, "full_range"))
    assert layer.scales.tolist() == [[pytest.approx(1.4 / 1.5)]]
    assert layer.codes.tolist() == [[1, -1, 0, 0]]
    layer = rounded(weight, Grid(2, None, "asymmetric"))  # scale 2.05/3 = 0.683, zero = round(0.951) = 1
    assert layer.scales.tolist() == [[pytest.approx(2.05 / 3)]]
    assert layer.zero_points.tolist() == [[1]]
    assert layer.codes.tolist() == [[3, 0, 1, 1]]
    layer = rounded(weight, Grid(2, None, "affine"))  # from -0.65 in steps of 0.683
    assert layer.scales.tolist() == [[pytest.approx(2.05 / 3)]]
    assert layer.biases.tolist() == [[-0.65]]
    assert layer.codes.tolist() == [[3, 0, 1, 1]]
    assert layer.dequantized.tolist() == [[pytest.approx(level) for level in (1.4, -0.65, 0.1 / 3, 0.1 / 3)]]


@pytest.mark.parametrize("group_size", [8, 24, None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_rounding_equals_the_oracle(bits, kind, group_size):
    """Ties included: with equal weights and equal scales both round half to even."""
    weight = oracles.uneven_weight(10 + bits, 9, 48)
    expected = oracles.round_to_nearest(weight, bits, group_size, kind)
    layer = rounded(torch.from_numpy(weight), Grid(bits, group_size, kind))
    assert np.array_equal(layer.codes.numpy(), expected.codes)
    assert np.array_equal(zeros_of(layer).numpy(), expected.zero_points)
    assert np.allclose(layer.scales.numpy(), expected.scales, rtol=1e-15, atol=0)
    assert np.allclose(layer.dequantized.numpy(), expected.dequantized, rtol=1e-14, atol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_scales_are_stored_before_codes_are_chosen(dtype, kind):
    """Scales are exact in the weight's dtype, near the formula, and every code is a nearest level *of those scales*."""
    bits, size = 3, 16
    grid = Grid(bits, size, kind)
    weight = torch.from_numpy(oracles.uneven_weight(31, 8, 64)).to(dtype)
    layer = rounded(weight, grid)
    scales = layer.scales.double()
    assert torch.equal(scales.to(dtype).double(), scales)

    exact = weight.double().numpy()
    wanted = np.array(
        [[oracles.group_parameters(row[g : g + size], bits, kind)[0] for g in range(0, 64, size)] for row in exact]
    )
    ulp = torch.finfo(dtype).eps
    assert np.allclose(scales.numpy(), wanted, rtol=ulp, atol=0)

    codes = np.arange(grid.lowest, grid.highest + 1)
    for row in range(8):
        for column in range(64):
            scale = float(scales[row, column // size])
            zero = float(zeros_of(layer)[row, column // size])
            levels = np.array([oracles.level_of(code, scale, zero, kind) for code in codes])
            errors = np.abs(levels - exact[row, column])
            taken = errors[int(layer.codes[row, column]) - grid.lowest]
            assert taken <= errors.min() + 1e-6 * scale


@pytest.mark.parametrize("kind", KINDS)
def test_asymmetric_range_contains_zero_and_zero_is_a_level(kind):
    """Groups of one sign only, and constant groups: zero stays exactly representable, codes stay in range."""
    weight = torch.tensor(
        [[0.5, 0.6, 0.7, 0.55], [-0.5, -0.6, -0.7, -0.55], [0.25] * 4, [-0.25] * 4], dtype=torch.float64
    )
    grid = Grid(2, None, kind)
    layer = rounded(weight, grid)
    assert (layer.zero_points >= grid.lowest).all()
    assert (layer.zero_points <= grid.highest).all()
    if kind == "asymmetric":
        assert layer.zero_points.flatten().tolist() == [0, 3, 0, 3]
        assert torch.allclose(layer.scales.flatten(), torch.tensor([0.7, 0.7, 0.25, 0.25]).double() / 3)
        assert torch.allclose(layer.dequantized[2:], weight[2:])


def test_the_affine_range_is_that_of_the_weights():
    """Groups of one sign only, a constant group, and a bias that is exact in the stored dtype."""
    weight = torch.tensor([[0.5, 0.6, 0.7, 0.8], [-0.5, -0.6, -0.7, -0.8], [0.25] * 4], dtype=torch.float64)
    layer = rounded(weight, Grid(2, None, "affine"))
    assert (layer.zero_points == 0).all()
    assert layer.biases.flatten().tolist() == [0.5, -0.8, 0.25]
    assert torch.allclose(layer.scales.flatten(), torch.tensor([0.1, 0.1, 1.0]).double())
    assert layer.codes.tolist() == [[0, 1, 2, 3], [3, 2, 1, 0], [0, 0, 0, 0]]
    assert torch.allclose(layer.dequantized, weight)
    half = rounded(weight.half(), Grid(2, None, "affine"))
    assert half.biases.dtype == torch.float16
    assert torch.equal(half.biases.flatten(), weight.amin(dim=1).half())


@pytest.mark.parametrize("kind", KINDS)
def test_group_of_zeros(kind):
    weight = torch.from_numpy(oracles.uneven_weight(8, 3, 24))
    weight[1, 8:16] = 0.0
    layer = rounded(weight, Grid(3, 8, kind))
    assert layer.scales[1, 1] == 1.0
    assert (layer.dequantized[1, 8:16] == 0).all()
    assert torch.isfinite(layer.dequantized).all()


@pytest.mark.parametrize("kind", KINDS)
def test_subnormal_half_weights_stay_finite(kind):
    """A scale that underflows to zero in the stored dtype must not divide anything by zero."""
    weight = torch.full((2, 16), 6e-8, dtype=torch.float16)
    weight[1] = torch.linspace(-1, 1, 16)
    layer = rounded(weight, Grid(4, 16, kind))
    assert torch.isfinite(layer.dequantized).all()
    assert (layer.dequantized[0].abs() <= 2e-7).all()
