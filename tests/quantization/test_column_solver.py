"""GPTQ, RQC-GBS and SARQC-GBS against Algorithm 2 with an explicit inverse."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import ColumnSolver, Method, method
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.quantization.solve import quantize_layer, sweep_layer
from tests import oracles
from tests.quantizing import zeros_of

ROWS, COLUMNS, TOKENS = 8, 128, 320
X = oracles.correlated_inputs(21, TOKENS, COLUMNS)
X_VAL = oracles.correlated_inputs(22, TOKENS, COLUMNS)
W = oracles.uneven_weight(23, ROWS, COLUMNS)
GRAM = oracles.gram_by_token(X)
ABS_MEAN = np.abs(X).mean(axis=0)
STATISTICS = LayerStatistics.from_inputs(torch.from_numpy(X))
KINDS = ("symmetric", "full_range", "asymmetric", "affine")


def solver(lam: float, gamma: float | None) -> ColumnSolver:
    return ColumnSolver(lam=lam) if gamma is None else ColumnSolver(lam=lam, gamma=gamma, saliency="saliency")


def solved(method_: Method, grid: Grid, **options: LayerStatistics) -> QuantizedLayer:
    return quantize_layer(torch.from_numpy(W), STATISTICS, grid, method_, **options)


def oracle_g(lam: float, gamma: float | None) -> tuple[oracles.Array, oracles.Array | None]:
    s = None if gamma is None else oracles.saliency(ABS_MEAN, W, gamma)
    return oracles.regularised_gram(GRAM, s, lam), s


@pytest.mark.parametrize("lam", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("group_size", [32, 64, None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_codes_and_losses_equal_the_oracle(bits: int, kind: str, group_size: int | None, lam: float) -> None:
    for gamma in (None, 0.1, 0.5):
        g, s = oracle_g(lam, gamma)
        expected = oracles.algorithm_2(W, g, bits, group_size, kind)
        unseen = LayerStatistics.from_inputs(torch.from_numpy(X_VAL))
        layer = solved(solver(lam, gamma), Grid(bits, group_size, kind), held_out=unseen)
        # Only in full_range is the end of the range itself a tie.
        oracles.assert_same_codes(layer.codes.numpy(), expected, share=0.5 if kind == "full_range" else 1.0)
        free = expected.margin > 1e-7
        assert np.allclose(zeros_of(layer).numpy()[free], expected.zero_points[free], rtol=1e-8, atol=1e-12)
        assert np.allclose(layer.scales.numpy()[free], expected.scales[free], rtol=1e-8, atol=0)
        assert np.allclose(layer.dequantized.numpy()[free], expected.dequantized[free], rtol=1e-8, atol=1e-15)
        assert layer.channel_scale is None

        delta, report = layer.dequantized.numpy() - W, layer.report
        recon = oracles.recon_from_inputs(delta, X)
        held_out = oracles.recon_from_inputs(delta, X_VAL)
        drift = oracles.sar_by_channel(delta, None)
        assert report.recon_loss == pytest.approx(recon, rel=1e-6)
        sar = oracles.sar_by_channel(delta, oracles.column_solver_s(GRAM, s))
        assert report.sar_loss == pytest.approx(sar, rel=1e-6)
        assert report.drift == pytest.approx(drift, rel=1e-6)
        assert report.relative_recon == pytest.approx(recon / oracles.recon_from_inputs(W, X), rel=1e-6)
        assert report.relative_drift == pytest.approx((drift / oracles.sar_by_channel(W, None)) ** 0.5, rel=1e-6)
        assert report.held_out_loss == pytest.approx(held_out, rel=1e-6)
        assert report.relative_held_out == pytest.approx(held_out / oracles.recon_from_inputs(W, X_VAL), rel=1e-6)
        assert report.diagonal_floor == 0.0
        assert report.n_tokens == TOKENS
        assert report.chosen["lam"] == lam
        assert report.chosen["gamma"] == gamma


@pytest.mark.parametrize("gamma", [None, 0.5])
@pytest.mark.parametrize("lam", [0.0, 0.01, 0.6])
def test_reported_losses_are_the_objective(lam: float, gamma: float | None) -> None:
    """recon + λ sar = tr(ΔW G ΔWᵀ) of the returned weights, summed entry by entry."""
    columns, rows = 24, 3
    x, weight = X[:, :columns], W[:rows, :columns]
    gram = oracles.gram_by_token(x)
    s = None if gamma is None else oracles.saliency(np.abs(x).mean(axis=0), weight, gamma)
    statistics, grid = LayerStatistics.from_inputs(torch.from_numpy(x.copy())), Grid(2, 8, "asymmetric")
    layer = quantize_layer(torch.from_numpy(weight.copy()), statistics, grid, solver(lam, gamma))
    objective = oracles.quadratic_form(layer.dequantized.numpy() - weight, oracles.regularised_gram(gram, s, lam))
    assert layer.report.recon_loss + lam * layer.report.sar_loss == pytest.approx(objective, rel=1e-6)


def test_the_solver_beats_rounding_on_its_own_objective() -> None:
    for kind, (lam, gamma) in product(KINDS, ((0.01, None), (0.25, 0.1))):
        g, _ = oracle_g(lam, gamma)
        found = solved(solver(lam, gamma), Grid(3, 32, kind)).dequantized.numpy()
        rounded = oracles.round_to_nearest(W, 3, 32, kind).dequantized
        assert np.trace((found - W) @ g @ (found - W).T) < 0.9 * np.trace((rounded - W) @ g @ (rounded - W).T)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("group_size", [8, 32, None])
def test_block_size_never_changes_a_result(group_size: int | None, kind: str) -> None:
    """Also where several groups share a block, and where a block ends inside a group."""
    for method_ in (ColumnSolver(lam=0.01), ColumnSolver(lam=0.25, gamma=0.35, saliency="saliency")):
        grid = Grid(3, group_size, kind)
        first, *others = (solved(replace(method_, block_size=size), grid) for size in (1, 7, 32, 128, 4096))
        for layer in others:
            assert torch.equal(layer.codes, first.codes)
            assert torch.equal(layer.zero_points, first.zero_points)
            assert torch.allclose(layer.scales, first.scales, rtol=1e-9, atol=0)
            assert layer.report.recon_loss == pytest.approx(first.report.recon_loss, rel=1e-9)


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("group_size", [32, None])
def test_static_groups(group_size: int | None, kind: str) -> None:
    """Scales from the original weights, so they are those of plain rounding; only the codes are compensated."""
    g, _ = oracle_g(0.01, None)
    expected = oracles.algorithm_2(W, g, 3, group_size, kind, static_groups=True)
    layer = solved(method("gptq", static_groups=True), Grid(3, group_size, kind))
    oracles.assert_same_codes(layer.codes.numpy(), expected)
    assert np.allclose(layer.scales.numpy(), oracles.round_to_nearest(W, 3, group_size, kind).scales, rtol=1e-14)


def test_dynamic_groups_read_the_compensated_weights() -> None:
    """The two options differ, first group apart: a test that could not tell them apart would prove nothing."""
    dynamic = solved(method("gptq"), Grid(3, 32, "symmetric"))
    original = oracles.round_to_nearest(W, 3, 32, "symmetric").scales
    assert np.allclose(dynamic.scales[:, 0].numpy(), original[:, 0], rtol=1e-14)
    assert (np.abs(dynamic.scales[:, 1:].numpy() / original[:, 1:] - 1) > 1e-3).mean() > 0.9


def test_gptq_is_identity_at_one_percent() -> None:
    grid = Grid(3, 32, "asymmetric")
    one = solved(method("gptq"), grid)
    other = solved(method("rqc-gbs", lam=0.01), grid)
    assert torch.equal(one.codes, other.codes)
    assert torch.equal(one.dequantized, other.dequantized)
    damped = GRAM + 0.01 * np.mean(np.diag(GRAM)) * np.eye(COLUMNS)  # GPTQ's percdamp
    oracles.assert_same_codes(one.codes.numpy(), oracles.algorithm_2(W, damped, 3, 32, "asymmetric"))


@pytest.mark.thorough
@pytest.mark.parametrize("gamma", [None, 0.35])
@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_follows_the_oracle(kind: str, gamma: float | None) -> None:
    x = oracles.correlated_inputs(41, 640, COLUMNS).astype(np.float32)
    weight = oracles.uneven_weight(42, 32, COLUMNS).astype(np.float32)
    inputs, exact = x.astype(np.float64), weight.astype(np.float64)
    gram, statistics = oracles.gram_by_token(inputs), LayerStatistics.from_inputs(torch.from_numpy(x))
    s = None if gamma is None else oracles.saliency(np.abs(inputs).mean(axis=0), exact, gamma)
    for lam in (0.01, 1.0):
        g = oracles.regularised_gram(gram, s, lam)
        expected = oracles.algorithm_2(exact, g, 3, 32, kind, store=lambda value: float(np.float32(value)))
        layer = quantize_layer(torch.from_numpy(weight), statistics, Grid(3, 32, kind), solver(lam, gamma))
        assert layer.dequantized.dtype == torch.float32
        free = expected.margin > 1e-12 if kind == "full_range" else np.ones(len(weight), dtype=bool)
        assert free.mean() >= 0.5
        assert (layer.codes.numpy() == expected.codes)[free].mean() >= 0.995
        delta = layer.dequantized.double().numpy() - exact
        assert layer.report.recon_loss == pytest.approx(oracles.recon_from_inputs(delta, inputs), rel=1e-3)
        ours = oracles.recon_from_inputs(delta[free], inputs)
        theirs = oracles.recon_from_inputs((expected.dequantized - exact)[free], inputs)
        assert ours == pytest.approx(theirs, rel=0.01)


def test_single_precision_undamped() -> None:
    """λ = 0 on a Gram of full rank needs no floor in float32 either, and loses no more than one per cent."""
    x = oracles.correlated_inputs(43, 2048, 64).astype(np.float32)
    weight = oracles.uneven_weight(44, 16, 64).astype(np.float32)
    inputs, exact = x.astype(np.float64), weight.astype(np.float64)
    gram, statistics = oracles.gram_by_token(inputs), LayerStatistics.from_inputs(torch.from_numpy(x))
    expected = oracles.algorithm_2(exact, gram, 3, 32, "asymmetric", store=lambda value: float(np.float32(value)))
    layer = quantize_layer(torch.from_numpy(weight), statistics, Grid(3, 32, "asymmetric"), ColumnSolver(lam=0.0))
    assert layer.report.diagonal_floor == 0.0
    assert (layer.codes.numpy() == expected.codes).mean() >= 0.995
    theirs = oracles.recon_from_inputs(expected.dequantized - exact, inputs)
    assert layer.report.recon_loss == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize("tokens", [30, 320])
def test_fewer_tokens_get_a_larger_penalty(tokens: int) -> None:
    """λ (1 + channels/tokens), said in the report; in a sweep every λ grows alike, and 0 stays 0."""
    x = X[:tokens]
    gram, statistics = oracles.gram_by_token(x), LayerStatistics.from_inputs(torch.from_numpy(x))
    s = oracles.saliency(np.abs(x).mean(axis=0), W, 0.5)
    weight, grid = torch.from_numpy(W), Grid(3, 32, "asymmetric")
    damped = method("sarqc-gbs", lam=0.1, gamma=0.5, expert_damping="damped")
    used = 0.1 + 0.1 * COLUMNS / tokens
    layer = quantize_layer(weight, statistics, grid, damped)
    expected = oracles.algorithm_2(W, oracles.regularised_gram(gram, s, used), 3, 32, "asymmetric")
    oracles.assert_same_codes(layer.codes.numpy(), expected, share=0.8)
    assert layer.report.chosen["lam"] == 0.1
    assert layer.report.chosen["lam_used"] == pytest.approx(used)
    assert layer.report.chosen["expert_damping"] == "damped"
    plain = quantize_layer(weight, statistics, grid, method("sarqc-gbs", lam=0.1, gamma=0.5))
    assert not torch.equal(plain.codes, layer.codes)
    assert not {"lam_used", "expert_damping"} & set(plain.report.chosen)
    lams = (0.0, 0.1, 1.0)
    swept = sweep_layer(weight, statistics, grid, damped, lams=lams)
    for index, lam in enumerate(lams):
        by_hand = damped.for_all_tokens().with_(lam=lam * (1 + COLUMNS / tokens))
        alone = quantize_layer(weight, statistics, grid, by_hand)
        assert swept.recon_loss[0, index] == pytest.approx(alone.report.recon_loss, rel=1e-9)


def test_without_tokens_there_is_nothing_to_damp() -> None:
    nothing = LayerStatistics(torch.zeros(COLUMNS, COLUMNS, dtype=torch.float64), torch.zeros(COLUMNS).double(), 0)
    grid, weight = Grid(3, 32, "asymmetric"), torch.from_numpy(W)
    layer = quantize_layer(weight, nothing, grid, method("rqc-gbs", expert_damping="damped"))
    assert torch.equal(layer.codes, quantize_layer(weight, nothing, grid, method("rtn")).codes)
    assert layer.report.chosen["lam_used"] == layer.report.chosen["lam"] == 0.25
