"""Saliency, the regularised Gram and the two losses, against loops over channels and over the inputs themselves."""

import numpy as np
import pytest
import torch

from sarqc import LayerStatistics
from sarqc.quantization.objective import recon_loss, regularised_gram, saliency, sar_loss
from tests import oracles


def material(seed: int, rows: int = 5, columns: int = 18) -> tuple[oracles.Array, oracles.Array, oracles.Array]:
    """Return inputs, weight and a small change of the weight."""
    x = oracles.correlated_inputs(seed, 3 * columns, columns)
    weight = oracles.uneven_weight(seed + 1, rows, columns)
    delta = 0.02 * np.random.default_rng(seed + 2).normal(size=weight.shape)
    return x, weight, delta


@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5, 1.0])
def test_saliency(gamma):
    x, weight, _ = material(1)
    abs_mean = np.abs(x).mean(axis=0)
    ours = saliency(torch.from_numpy(abs_mean), torch.from_numpy(weight), gamma)
    assert ours.shape == (18,)
    assert np.allclose(ours.numpy(), oracles.saliency(abs_mean, weight, gamma), rtol=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.35, 1.0])
def test_saliency_floors(gamma):
    """A dead channel and a dead column are clamped to 1e-8 of the mean over channels, not to a constant."""
    x, weight, _ = material(2)
    abs_mean = np.abs(x).mean(axis=0)
    abs_mean[3] = 0.0
    weight[:, 7] = 0.0
    for unit in (1.0, 1e-6, 1e6):
        ours = saliency(torch.from_numpy(unit * abs_mean), torch.from_numpy(unit * weight), gamma).numpy()
        assert np.allclose(ours, oracles.saliency(unit * abs_mean, unit * weight, gamma), rtol=1e-12)
        assert np.isfinite(ours).all()
        assert (ours > 0).all()


@pytest.mark.parametrize("lam", [0.0, 0.01, 1.0])
def test_regularised_gram(lam):
    x, weight, _ = material(3)
    gram = oracles.gram_by_token(x)
    s = oracles.saliency(np.abs(x).mean(axis=0), weight, 0.35)
    given = torch.from_numpy(gram.copy())
    salient = regularised_gram(given, torch.from_numpy(s**2), lam)
    identity = regularised_gram(given, None, lam)
    assert np.allclose(salient.numpy(), oracles.regularised_gram(gram, s, lam), rtol=1e-12)
    assert np.allclose(identity.numpy(), oracles.regularised_gram(gram, None, lam), rtol=1e-12)
    assert np.array_equal(given.numpy(), gram)
    scaled = regularised_gram(given, torch.from_numpy(7.0 * s**2), lam)
    assert np.allclose(scaled.numpy(), salient.numpy(), rtol=1e-12)  # the size of s does not matter, its profile does


def test_losses_from_the_inputs_themselves():
    x, weight, delta = material(4)
    gram = LayerStatistics.from_inputs(torch.from_numpy(x)).gram
    s = oracles.drift_saliency(np.abs(x).mean(axis=0), weight)
    changed = torch.from_numpy(delta)
    assert float(recon_loss(changed, gram)) == pytest.approx(oracles.recon_from_inputs(delta, x), rel=1e-9)
    assert float(sar_loss(changed, torch.from_numpy(s))) == pytest.approx(oracles.sar_by_channel(delta, s), rel=1e-12)
    assert float(sar_loss(changed, None)) == pytest.approx(oracles.sar_by_channel(delta, None), rel=1e-12)


@pytest.mark.parametrize("width", [1023, 1024, 1030, 1600])
def test_loss_of_wide_layers(width):
    """Half of the product is enough: the Gram is symmetric."""
    x, _, delta = material(6, rows=3, columns=width)
    gram = LayerStatistics.from_inputs(torch.from_numpy(x)).gram
    losses = recon_loss(torch.from_numpy(np.stack([delta, 2 * delta])), gram)
    expected = oracles.recon_from_inputs(delta, x)
    assert losses.tolist() == pytest.approx([expected, 4 * expected], rel=1e-9)
