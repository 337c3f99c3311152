"""GPTQ, RQC-GBS and SARQC-GBS against Algorithm 2 with an explicit inverse."""

import numpy as np
import pytest
import torch

from sarqc import Grid, LayerStatistics, method, quantize_layer, sweep_layer
from sarqc.quantization.methods import ColumnSolver, Method
from sarqc.quantization.quantized_layer import QuantizedLayer
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
def test_codes_and_losses_equal_the_oracle(bits, kind, group_size, lam):
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


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("group_size", [32, None])
def test_static_groups(group_size, kind):
    """Scales from the original weights, so they are those of plain rounding; only the codes are compensated."""
    g, _ = oracle_g(0.01, None)
    expected = oracles.algorithm_2(W, g, 3, group_size, kind, static_groups=True)
    layer = solved(method("gptq", static_groups=True), Grid(3, group_size, kind))
    oracles.assert_same_codes(layer.codes.numpy(), expected)
    assert np.allclose(layer.scales.numpy(), oracles.round_to_nearest(W, 3, group_size, kind).scales, rtol=1e-14)


@pytest.mark.thorough
@pytest.mark.parametrize("gamma", [None, 0.35])
@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_follows_the_oracle(kind, gamma):
    x = oracles.correlated_inputs(41, 640, COLUMNS).astype(np.float32)
    weight = oracles.uneven_weight(42, 32, COLUMNS).astype(np.float32)
    inputs, exact = x.astype(np.float64), weight.astype(np.float64)
    gram, statistics = oracles.gram_by_token(inputs), LayerStatistics.from_inputs(torch.from_numpy(x))
    s = None if gamma is None else oracles.saliency(np.abs(inputs).mean(axis=0), exact, gamma)
    for lam in (0.0, 0.01, 1.0):
        g = oracles.regularised_gram(gram, s, lam)
        expected = oracles.algorithm_2(exact, g, 3, 32, kind, store=lambda value: float(np.float32(value)))
        layer = quantize_layer(torch.from_numpy(weight), statistics, Grid(3, 32, kind), solver(lam, gamma))
        assert layer.dequantized.dtype == torch.float32
        assert layer.report.diagonal_floor == 0.0
        free = expected.margin > 1e-12 if kind == "full_range" else np.ones(len(weight), dtype=bool)
        assert free.mean() >= 0.5
        assert (layer.codes.numpy() == expected.codes)[free].mean() >= 0.995
        delta = layer.dequantized.double().numpy() - exact
        assert layer.report.recon_loss == pytest.approx(oracles.recon_from_inputs(delta, inputs), rel=1e-3)
        ours = oracles.recon_from_inputs(delta[free], inputs)
        theirs = oracles.recon_from_inputs((expected.dequantized - exact)[free], inputs)
        assert ours == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize("tokens", [30, 320])
def test_fewer_tokens_get_a_larger_penalty(tokens):
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
        by_hand = damped.without_expert_damping().with_(lam=lam * (1 + COLUMNS / tokens))
        alone = quantize_layer(weight, statistics, grid, by_hand)
        assert swept.recon_loss[0, index] == pytest.approx(alone.report.recon_loss, rel=1e-9)


def test_without_tokens_there_is_nothing_to_damp():
    nothing = LayerStatistics(torch.zeros(COLUMNS, COLUMNS, dtype=torch.float64), torch.zeros(COLUMNS).double(), 0)
    grid, weight = Grid(3, 32, "asymmetric"), torch.from_numpy(W)
    layer = quantize_layer(weight, nothing, grid, method("rqc-gbs", expert_damping="damped"))
    assert torch.equal(layer.codes, quantize_layer(weight, nothing, grid, method("rtn")).codes)
    assert layer.report.chosen["lam_used"] == layer.report.chosen["lam"] == 0.25
