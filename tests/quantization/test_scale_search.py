"""AWQ, RQC-GS and SARQC-GS against Algorithm 1 as printed."""

from functools import cache

import numpy as np
import pytest
import torch

from sarqc import Grid, LayerStatistics, quantize_layer
from sarqc.quantization.methods import Method, ScaleSearch
from sarqc.quantization.quantized_layer import QuantizedLayer
from tests import oracles

ROWS, COLUMNS, TOKENS = 8, 64, 160
X = oracles.correlated_inputs(51, TOKENS, COLUMNS)
ABS_MEAN = np.abs(X).mean(axis=0)
_MIXED = oracles.uneven_weight(52, ROWS, COLUMNS)
# In full_range the negative end of a group is exactly a tie, so its groups end on the positive side.
WEIGHTS = {
    "symmetric": _MIXED,
    "asymmetric": _MIXED,
    "full_range": np.where(_MIXED < 0, 0.05 * _MIXED, _MIXED),
}


@cache
def candidates(bits: int, kind: str, group_size: int | None, salient: bool) -> list[oracles.Candidate]:
    """Return the 21 candidates of the paper and s̃ = 1 as the last."""
    return oracles.algorithm_1_candidates(
        WEIGHTS[kind], X, bits, group_size, kind, salient=salient, include_identity=True
    )


def solved(weight: oracles.Array, x: oracles.Array, grid: Grid, method_: Method) -> QuantizedLayer:
    return quantize_layer(torch.from_numpy(weight), LayerStatistics.from_inputs(torch.from_numpy(x)), grid, method_)


def channel_scale(layer: QuantizedLayer) -> oracles.Array:
    return np.ones(COLUMNS) if layer.channel_scale is None else layer.channel_scale.double().numpy()


@pytest.mark.thorough
@pytest.mark.parametrize("group_size", [32, None])
@pytest.mark.parametrize("kind", ["symmetric", "full_range", "asymmetric"])
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_choice_codes_and_losses_equal_the_oracle(bits, kind, group_size):
    weight, grid = WEIGHTS[kind], Grid(bits, group_size, kind)
    for salient in (True, False):
        saliency = "saliency" if salient else "identity"
        for include_identity in (True, False):
            found = candidates(bits, kind, group_size, salient)
            for lam in (0.0, 0.01, 0.3, 1.0):
                best, lead = oracles.algorithm_1_choice(found if include_identity else found[:-1], lam)
                assert lead > 1e-9  # otherwise the choice is left to rounding and the material is badly chosen
                layer = solved(weight, X, grid, ScaleSearch(lam, saliency=saliency, include_identity=include_identity))
                chosen = layer.report.chosen
                assert chosen["alpha"] == (None if best.alpha is None else pytest.approx(best.alpha, abs=1e-12))
                assert chosen["lam"] == lam
                assert np.allclose(channel_scale(layer), best.channel_scale, rtol=1e-10, atol=0)
                oracles.assert_same_codes(layer.codes.numpy(), best.rounded, share=0.5 if kind == "full_range" else 1.0)
                free = best.rounded.margin > 1e-7
                assert np.allclose(layer.dequantized.numpy()[free], best.dequantized[free], rtol=1e-9, atol=1e-15)

                delta, report = layer.dequantized.numpy() - weight, layer.report
                s = oracles.drift_saliency(ABS_MEAN, weight) if salient else None
                assert report.recon_loss == pytest.approx(oracles.recon_from_inputs(delta, X), rel=1e-6)
                assert report.sar_loss == pytest.approx(oracles.sar_by_channel(delta, s), rel=1e-6)
                assert report.drift == pytest.approx(oracles.sar_by_channel(delta, None), rel=1e-6)
                assert report.diagonal_floor == 0.0


@pytest.mark.parametrize("dead", ["channel", "column", "both"])
def test_dead_channels_and_columns(dead):
    """The floors keep s̃ finite, so the search equals the oracle there too."""
    x, weight = X.copy(), _MIXED.copy()
    if dead != "column":
        x[:, 5] = 0.0
    if dead != "channel":
        weight[:, 40] = 0.0
    found = oracles.algorithm_1_candidates(weight, x, 3, 32, "asymmetric", salient=True, include_identity=False)
    best, lead = oracles.algorithm_1_choice(found, 0.3)
    assert lead > 1e-9
    layer = solved(weight, x, Grid(3, 32, "asymmetric"), ScaleSearch(lam=0.3, include_identity=False))
    assert layer.report.chosen["alpha"] == pytest.approx(best.alpha)
    oracles.assert_same_codes(layer.codes.numpy(), best.rounded, share=0.8)
    assert layer.report.recon_loss == pytest.approx(best.recon, rel=1e-6)
    assert layer.report.sar_loss == pytest.approx(best.sar, rel=1e-6)
