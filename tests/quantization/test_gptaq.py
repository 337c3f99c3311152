"""GPTAQ: the shifted solver against the published loop with an explicit inverse, and against plain GPTQ."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sarqc import Grid, LayerStatistics, method, quantize_layer
from sarqc.errors import NumericalError, Refused
from sarqc.quantization.methods import METHODS, ColumnSolver, Method
from sarqc.quantization.quantized_layer import QuantizedLayer
from tests import oracles
from tests.quantization.test_solve import assert_sound, cases, odd_layers
from tests.quantizing import zeros_of

ROWS, COLUMNS, TOKENS = 6, 96, 240
X = oracles.correlated_inputs(51, TOKENS, COLUMNS)
X_FLOAT = X + 0.2 * oracles.correlated_inputs(52, TOKENS, COLUMNS) + 0.1 * X[:, ::-1]
W = oracles.uneven_weight(53, ROWS, COLUMNS)
GRAM, CROSS = oracles.gram_by_token(X), oracles.cross_by_token(X_FLOAT, X)
STATISTICS = LayerStatistics.from_inputs(torch.from_numpy(X), torch.from_numpy(X_FLOAT))
KINDS = ("symmetric", "full_range", "asymmetric", "affine")
SHIFTED = [name for name, entry in METHODS.items() if "cross" in entry.make.needs]
PUBLISHED = ColumnSolver(shift="published")
FULL = ColumnSolver(shift="full", shift_strength=1.0)


def solved(solver: Method, grid: Grid) -> QuantizedLayer:
    return quantize_layer(torch.from_numpy(W), STATISTICS, grid, solver)


def oracle_g(lam: float, gamma: float | None) -> oracles.Array:
    s = None if gamma is None else oracles.saliency(np.abs(X).mean(axis=0), W, gamma)
    return oracles.regularised_gram(GRAM, s, lam)


def with_lam(base: ColumnSolver, lam: float, gamma: float | None) -> ColumnSolver:
    return replace(base, lam=lam, gamma=gamma, saliency="identity" if gamma is None else "saliency")


def test_two_columns_by_hand():
    """One column per group, so nothing is rounded away and only the shift acts: column 1 gains α w₀ cross₀₁/R₁₁².

    G = [[2, 1], [1, 2]] has R₁₁² = 2. With a diagonal cross, triu(cross R⁻ᵀ, 1) is 0: R⁻ᵀ is lower.
    """
    g, weight, grid = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[0.4, 1.2]]), Grid(4, 1, "symmetric")
    for cross, gain in ((np.array([[0.0, 0.9], [0.0, 0.0]]), 0.4 * 0.9 / 2), (np.diag([0.9, 7.0]), 0.0)):
        expected = np.array([[0.4, 1.2 + 0.5 * gain]])
        assert oracles.gptaq(weight, g, cross, 0.5, 4, 1, "symmetric").dequantized == pytest.approx(expected)
        statistics = LayerStatistics(torch.from_numpy(g), torch.ones(2).double(), 3, torch.from_numpy(cross))
        solver = ColumnSolver(lam=0.0, shift="published", shift_strength=0.5)
        layer = quantize_layer(torch.from_numpy(weight), statistics, grid, solver)
        assert layer.dequantized.numpy() == pytest.approx(expected)


@pytest.mark.parametrize("lam", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("group_size", [16, 48, None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_codes_equal_the_published_loop(bits, kind, group_size, lam):
    for gamma, strength in ((None, 0.25), (0.5, 0.25), (None, 1.0)):
        expected = oracles.gptaq(W, oracle_g(lam, gamma), CROSS, strength, bits, group_size, kind)
        method_ = with_lam(replace(PUBLISHED, shift_strength=strength), lam, gamma)
        layer = solved(method_, Grid(bits, group_size, kind))
        oracles.assert_same_codes(layer.codes.numpy(), expected, share=0.3 if kind == "full_range" else 1.0)
        free = expected.margin > 1e-7
        assert np.allclose(zeros_of(layer).numpy()[free], expected.zero_points[free], rtol=1e-8, atol=1e-12)
        assert np.allclose(layer.scales.numpy()[free], expected.scales[free], rtol=1e-8, atol=0)
        assert np.allclose(layer.dequantized.numpy()[free], expected.dequantized[free], rtol=1e-8, atol=1e-15)
        delta = layer.dequantized.numpy() - W  # losses stay those of Ŵ - W on the layer's own inputs
        assert layer.report.recon_loss == pytest.approx(oracles.recon_from_inputs(delta, X), rel=1e-6)
        assert layer.report.drift == pytest.approx(oracles.sar_by_channel(delta, None), rel=1e-9)
        assert layer.report.chosen["shift"] == "published"
        assert layer.report.chosen["shift_strength"] == strength


@pytest.mark.parametrize("lam", [0.01, 1.0])
@pytest.mark.parametrize("group_size", [16, None])
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
def test_the_full_shift_is_gptq_on_the_shifted_target(kind, group_size, lam):
    for gamma, strength in ((None, 1.0), (0.35, 1.0), (None, 0.25)):
        g = oracle_g(lam, gamma)
        target = oracles.shifted_target(W, g, CROSS, strength)
        method_ = with_lam(replace(FULL, shift_strength=strength), lam, gamma)
        layer = solved(method_, Grid(3, group_size, kind))
        oracles.assert_same_codes(layer.codes.numpy(), oracles.algorithm_2(target, g, 3, group_size, kind))
        if gamma is None:
            plain = quantize_layer(torch.from_numpy(target), STATISTICS, Grid(3, group_size, kind), ColumnSolver(lam))
            assert torch.equal(plain.codes, layer.codes)
        drift = oracles.sar_by_channel(layer.dequantized.numpy() - W, None)
        assert layer.report.drift == pytest.approx(drift, rel=1e-9)


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("group_size", [8, 32, None])
def test_block_size_never_changes_a_result(group_size, kind):
    """Also where several groups share a block, and where a block ends inside a group."""
    plain = ColumnSolver()
    bases = (
        with_lam(plain, 0.25, 0.35),
        PUBLISHED,
        with_lam(PUBLISHED, 0.25, 0.35),
        FULL,
        replace(plain, first_order=0.2),
    )
    for base in bases:
        grid = Grid(3, group_size, kind)
        first, *others = (solved(replace(base, block_size=size), grid) for size in (1, 7, 32, 4096))
        for layer in others:
            assert torch.equal(layer.codes, first.codes)
            assert torch.equal(layer.zero_points, first.zero_points)
            assert torch.allclose(layer.scales, first.scales, rtol=1e-9, atol=0)


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
def test_static_groups(kind):
    """Scales of the original weights, of the shifted target where there is one."""
    g = oracle_g(0.01, None)
    grid = Grid(3, 32, kind)
    layer = solved(replace(PUBLISHED, static_groups=True), grid)
    expected = oracles.gptaq(W, g, CROSS, 0.25, 3, 32, kind, static_groups=True)
    oracles.assert_same_codes(layer.codes.numpy(), expected)
    layer = solved(replace(FULL, static_groups=True), grid)
    target = oracles.shifted_target(W, g, CROSS)
    oracles.assert_same_codes(layer.codes.numpy(), oracles.algorithm_2(target, g, 3, 32, kind, static_groups=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_prefixes_give_exactly_the_plain_solver(dtype):
    """cross = 0, as in the first block of a model; and so does a strength of 0."""
    x, weight = torch.from_numpy(X).to(dtype), torch.from_numpy(W).to(dtype)
    same = LayerStatistics.from_inputs(x, x)
    shifted = LayerStatistics.from_inputs(x, torch.from_numpy(X_FLOAT).to(dtype))
    assert not same.cross.any()
    for group_size in (16, None):
        grid = Grid(2, group_size, "asymmetric")
        for name, plain in (("gptaq", "gptq"), ("gptaq-full", "gptq"), ("sarqc-gptaq", "sarqc-gbs")):
            expected = quantize_layer(weight, same, grid, method(plain))
            without = replace(METHODS[name].make, shift_strength=0.0)
            for statistics, solver in ((same, method(name)), (shifted, without)):
                found = quantize_layer(weight, statistics, grid, solver)
                assert torch.equal(found.codes, expected.codes)
                assert torch.equal(found.scales, expected.scales)
                assert found.report.recon_loss == expected.report.recon_loss
                assert found.report.sar_loss == expected.report.sar_loss


@pytest.mark.parametrize("name", SHIFTED)
def test_statistics_without_a_cross_term_are_refused(name):
    plain = LayerStatistics.from_inputs(torch.from_numpy(X))
    with pytest.raises(Refused) as refused:
        quantize_layer(torch.from_numpy(W), plain, Grid(3, 16, "asymmetric"), method(name))
    assert "float_inputs" in refused.value.remedy
    assert refused.value.where


def test_names_and_needs():
    assert SHIFTED == ["gptaq", "gptaq-full", "sarqc-gptaq"]
    assert method("gptaq") == ColumnSolver(lam=0.01, shift="published", shift_strength=0.25)
    plain = method("sarqc-gbs", lam=0.5, gamma=0.35)
    assert method("sarqc-gptaq", lam=0.5, gamma=0.35) == replace(plain, shift="published")
    assert "cross" not in method("gptq").needs
    for strength in (-0.1, float("nan"), float("inf")):
        with pytest.raises(Refused, match="strength"):
            ColumnSolver(shift="published", shift_strength=strength)


@pytest.mark.thorough
@odd_layers
@given(
    case=cases(),
    base=st.sampled_from([PUBLISHED, FULL]),
    lam=st.sampled_from([0.0, 0.01, 1.0]),
    gamma=st.sampled_from([None, 0.5]),
    size=st.sampled_from([0.01, 0.2]),
)
def test_every_odd_layer_gives_a_sound_result(case, base, lam, gamma, size):
    """Dead channels that the float prefix feeds, singular Grams, zero groups; the oracle's codes where it has any."""
    x_float = case.x + size * oracles.correlated_inputs(case.x.size, *case.x.shape)
    statistics = LayerStatistics.from_inputs(torch.from_numpy(case.x), torch.from_numpy(x_float))
    cross = statistics.cross.clone()
    layer = quantize_layer(torch.from_numpy(case.weight.copy()), statistics, case.grid, with_lam(base, lam, gamma))
    assert_sound(layer, case)
    assert torch.equal(statistics.cross, cross)
    gram = oracles.gram_by_token(case.x)
    s = None
    if gamma is not None and case.weight.any():
        s = oracles.saliency(np.abs(case.x).mean(axis=0), case.weight, gamma)
    g = oracles.regularised_gram(gram, s, lam) + layer.report.diagonal_floor * np.eye(len(gram))
    if np.linalg.cond(oracles.without_dead_channels(g)) > 1e6:
        return
    grid, cross = case.grid, oracles.cross_by_token(x_float, case.x)
    if base.shift == "published":
        expected = oracles.gptaq(case.weight, g, cross, base.shift_strength, grid.bits, grid.group_size, grid.kind)
    else:
        target = oracles.shifted_target(case.weight, g, cross)
        expected = oracles.algorithm_2(target, g, grid.bits, grid.group_size, grid.kind)
    rows = expected.margin > 1e-5
    scale = np.abs(expected.dequantized).max(initial=0.0)
    assert np.allclose(layer.dequantized.numpy()[rows], expected.dequantized[rows], rtol=1e-5, atol=1e-8 * scale)


@pytest.mark.parametrize("name", SHIFTED)
def test_fewer_tokens_than_channels_in_single_precision(name):
    """Twelve tokens for 96 channels: everything stays finite, also where λ leaves nothing against the singular part."""
    x, x_float = torch.from_numpy(X[:12]).float(), torch.from_numpy(X_FLOAT[:12]).float()
    statistics = LayerStatistics.from_inputs(x, x_float)
    for lam in (0.0, 0.01, 0.25):
        for dtype in (torch.float32, torch.float16):
            solver = replace(METHODS[name].make, lam=lam)
            layer = quantize_layer(torch.from_numpy(W).to(dtype), statistics, Grid(3, 16, "asymmetric"), solver)
            assert torch.isfinite(layer.dequantized).all()
            assert np.isfinite(layer.report.recon_loss)


@pytest.mark.parametrize("base", [PUBLISHED, FULL], ids=["published", "full"])
def test_a_shift_beyond_all_numbers_is_an_error(base):
    beyond, grid = replace(base, shift_strength=1e44), Grid(3, 16, "asymmetric")
    with pytest.raises(NumericalError):
        quantize_layer(torch.from_numpy(W).float(), STATISTICS, grid, beyond)
