"""Shrinkage in closed form, beside sums over tokens written out and beside scikit-learn."""

import math

import numpy as np
import pytest
import torch

from sarqc import Grid, LayerStatistics, method, quantize_layer
from sarqc.study.shrinkage import lam_of

SHAPES = [(40, 12), (300, 24), (9, 16), (2, 5)]  # tokens, channels
EYE = torch.eye(16, dtype=torch.float64)


def tokens(count: int, width: int, seed: int = 0) -> torch.Tensor:
    """Correlated channels of unequal size with a mean that is not 0."""
    random = torch.Generator().manual_seed(seed)
    mixed = torch.randn(count, width, generator=random, dtype=torch.float64)
    mixed = mixed @ torch.randn(width, width, generator=random, dtype=torch.float64)
    return mixed * torch.linspace(0.1, 2, width, dtype=torch.float64) + 0.3


@pytest.mark.parametrize(("count", "width"), SHAPES)
def test_both_estimators_written_out(count, width):
    x = tokens(count, width).numpy()
    second = sum(np.outer(row, row) for row in x) / count
    target = second.trace() / width * np.eye(width)
    spread = ((second - target) ** 2).sum()
    noise = sum(((np.outer(row, row) - second) ** 2).sum() for row in x) / count**2
    eigenvalues = np.linalg.eigvalsh(second)
    oas = ((eigenvalues**2).sum() + eigenvalues.sum() ** 2) / ((count + 1) * spread)
    ours = LayerStatistics.from_inputs(torch.from_numpy(x)).shrinkage
    assert ours.ledoit_wolf == pytest.approx(min(noise, spread) / spread, rel=1e-9, abs=1e-12)
    assert ours.oas == pytest.approx(min(1, oas), rel=1e-9)


def test_codes_at_the_lambda_are_those_of_the_shrunk_second_moment():
    x, weight = tokens(60, 16), torch.randn(8, 16, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    statistics, grid = LayerStatistics.from_inputs(x), Grid(3, 8, "asymmetric")
    rho = statistics.shrinkage.oas
    second = statistics.gram / len(x)
    shrunk = (1 - rho) * second + rho * second.diagonal().mean() * EYE
    plain = LayerStatistics(shrunk, statistics.abs_sum, len(x))
    codes = [
        quantize_layer(weight, given, grid, method("rqc-gbs", lam=lam)).codes
        for given, lam in ((statistics, lam_of(rho)), (plain, 0.0), (statistics, 0.0))
    ]
    assert torch.equal(codes[0], codes[1])
    assert not torch.equal(codes[0], codes[2])


def test_what_is_not_known_is_not_a_number():
    assert tuple(LayerStatistics.from_inputs(2 * torch.eye(6)).shrinkage) == (1.0, 1.0)  # their own target
    assert lam_of(1.0) == math.inf
    x = tokens(40, 12)
    whole = LayerStatistics.from_inputs(x)
    without = LayerStatistics(whole.gram, whole.abs_sum, whole.n_tokens).shrinkage
    assert without.oas == whole.shrinkage.oas
    assert math.isnan(without.ledoit_wolf)
    for nothing in (x[:0], torch.zeros(5, 12)):
        assert all(map(math.isnan, LayerStatistics.from_inputs(nothing).shrinkage))


def test_the_sum_of_fourth_powers_merges_as_other_sums_do():
    x = tokens(40, 12)
    whole = LayerStatistics.from_inputs(x)
    merged = LayerStatistics.from_inputs(x[:15]) + LayerStatistics.from_inputs(x[15:])
    direct = sum(float(row @ row) ** 2 for row in x)
    assert float(whole.fourth_moment) == pytest.approx(direct, rel=1e-12)
    assert float(merged.fourth_moment) == pytest.approx(direct, rel=1e-12)
    assert merged.shrinkage == pytest.approx(whole.shrinkage, rel=1e-9)
    without = LayerStatistics(whole.gram, whole.abs_sum, whole.n_tokens)
    assert (whole + without).fourth_moment is None
    assert whole.to("cpu", torch.float32).shrinkage == pytest.approx(whole.shrinkage, rel=1e-4)
