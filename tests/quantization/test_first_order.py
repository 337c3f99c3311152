"""FOEM's first-order term: the solver against the published loop, its two ends, and what kind of term it is."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sarqc import Grid, LayerStatistics, Recipe, method, quantize_layer, sweep_layer
from sarqc.engine.keys import _values
from sarqc.errors import Refused
from sarqc.quantization.column_solver import factorise, pull_back
from sarqc.quantization.methods import METHODS, ColumnSolver, RoundToNearest
from sarqc.quantization.quantized_layer import QuantizedLayer
from tests import oracles

ROWS, COLUMNS, TOKENS = 6, 96, 240
X = oracles.correlated_inputs(61, TOKENS, COLUMNS)
X_FLOAT = X + 0.2 * oracles.correlated_inputs(62, TOKENS, COLUMNS) + 0.1 * X[:, ::-1]
W = oracles.uneven_weight(63, ROWS, COLUMNS)
GRAM, CROSS = oracles.gram_by_token(X), oracles.cross_by_token(X_FLOAT, X)
STATISTICS = LayerStatistics.from_inputs(torch.from_numpy(X), torch.from_numpy(X_FLOAT))


def solved(
    solver: ColumnSolver, bits: int = 3, group_size: int | None = 16, kind: str = "asymmetric"
) -> QuantizedLayer:
    return quantize_layer(torch.from_numpy(W), STATISTICS, Grid(bits, group_size, kind), solver)


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "affine"])
@pytest.mark.parametrize("group_size", [16, 48, None])
@pytest.mark.parametrize("beta", [0.1, 0.25, 0.7, 1.0])
def test_codes_equal_the_published_loop(beta, group_size, kind):
    for lam, gamma, static in ((0.01, None, False), (0.3, 0.5, False), (0.01, None, True)):
        s = None if gamma is None else oracles.saliency(np.abs(X).mean(axis=0), W, gamma)
        g = oracles.regularised_gram(GRAM, s, lam)
        solver = ColumnSolver(
            lam, gamma, "identity" if gamma is None else "saliency", static_groups=static, first_order=beta
        )
        expected = oracles.first_order(W, g, beta, 3, group_size, kind, static_groups=static)
        layer = solved(solver, 3, group_size, kind)
        oracles.assert_same_codes(layer.codes.numpy(), expected)
        free = expected.margin > 1e-7
        assert np.allclose(layer.scales.numpy()[free], expected.scales[free], rtol=1e-8, atol=0)
        assert layer.report.chosen["first_order"] == beta


@pytest.mark.parametrize("group_size", [16, None])
@pytest.mark.parametrize("beta", [0.2, 1.0])
def test_with_a_shift_the_pull_takes_part_of_it_too(beta, group_size):
    g = oracles.regularised_gram(GRAM, None, 0.1)
    expected = oracles.first_order(W, g, beta, 3, group_size, "asymmetric", cross=CROSS, alpha=0.5)
    solver = ColumnSolver(0.1, shift="published", shift_strength=0.5, first_order=beta)
    oracles.assert_same_codes(solved(solver, 3, group_size).codes.numpy(), expected)


def test_points_of_a_batch_are_their_own():
    base, grid = ColumnSolver(0.1, first_order=0.2), Grid(3, 16, "asymmetric")
    sweep = sweep_layer(torch.from_numpy(W), STATISTICS, grid, base, lams=(0.0, 0.1, 1.0))
    assert float(sweep.relative_recon[0, 1]) == pytest.approx(solved(base).report.relative_recon, rel=1e-12)


def test_it_goes_from_gptq_to_rounding_to_nearest():
    for static in (False, True):
        plain = ColumnSolver(0.05, static_groups=static)
        assert torch.equal(solved(replace(plain, first_order=0.0)).dequantized, solved(plain).dequantized)
        nearest = quantize_layer(torch.from_numpy(W), STATISTICS, Grid(3, 16, "asymmetric"), RoundToNearest())
        whole = solved(replace(plain, first_order=1.0))
        assert torch.equal(whole.codes, nearest.codes)
        assert torch.equal(whole.scales, nearest.scales)
    # On fixed groups drift falls on the way, and the error that GPTQ minimises rises.
    betas = (0.0, 0.25, 0.5, 1.0)
    reports = [solved(ColumnSolver(0.01, static_groups=True, first_order=beta), 4).report for beta in betas]
    for name, sign in (("relative_drift", -1), ("relative_recon", 1)):
        ends = [getattr(report, name) for report in (reports[0], reports[-1])]
        assert sign * (ends[1] - ends[0]) > 0


def test_the_exact_first_order_term_is_zero():
    """After each column the rest is at the minimum of the objective, given the columns that are done: its gradient is
    0. FOEM's stand-in (w - W) G over the columns left is not: it leaves out what the columns done contribute."""
    g = oracles.regularised_gram(GRAM, None, 0.01)
    upper = np.linalg.cholesky(np.linalg.inv(g)).T
    working, scale = W.copy(), np.abs(W @ g).max()
    stand_ins = []
    for j in range(COLUMNS - 1):
        error = working[:, j] - np.round(working[:, j], 1)
        working[:, j:] -= np.outer(error / upper[j, j], upper[j, j:])
        rest = slice(j + 1, COLUMNS)
        exact = ((working - W) @ g)[:, rest]
        assert np.abs(exact).max() < 1e-10 * scale
        stand_in = (working - W)[:, rest] @ g[rest, rest]
        np.testing.assert_allclose(stand_in, -(working - W)[:, : j + 1] @ g[: j + 1, rest], rtol=0, atol=1e-10 * scale)
        stand_ins.append(np.abs(stand_in).max())
    assert np.median(stand_ins) > 1e-2 * scale


def pulled(lam: float, beta: float) -> np.ndarray:
    gram = torch.from_numpy(oracles.regularised_gram(GRAM, None, lam))
    factor = factorise(gram).unit_upper.clone()
    if beta:
        pull_back(factor, None, beta)
    return factor.numpy()


def test_it_is_gptq_on_another_gram_that_no_damping_makes():
    """F_β is unit upper, so F_β D F_βᵀ is a Gram whose GPTQ codes, on fixed groups, are those of the term."""
    beta, lam = 0.3, 0.02
    factor = pulled(lam, beta)
    assert np.array_equal(np.diag(factor), np.ones(COLUMNS))
    assert not np.tril(factor, -1).any()
    squares = np.random.default_rng(3).uniform(0.5, 2, COLUMNS)
    other = factor @ np.diag(squares) @ factor.T
    expected = oracles.algorithm_2(W, other, 3, 16, "asymmetric", static_groups=True)
    layer = solved(ColumnSolver(lam, static_groups=True, first_order=beta))
    oracles.assert_same_codes(layer.codes.numpy(), expected)
    # By the definition, through the inverse: w - W = (W - Ŵ)(F_β - I).
    inverse = np.linalg.inv(pulled(lam, 0.0))
    kept, one = 1 - beta, np.eye(COLUMNS)
    np.testing.assert_allclose(
        factor - one, -kept * (inverse - one) @ np.linalg.inv(one + kept**2 * (inverse - one)), atol=1e-10
    )
    plain = np.linalg.norm(factor - pulled(lam, 0.0))
    nearest = min(np.linalg.norm(factor - pulled(float(value), 0.0)) for value in np.geomspace(lam, 100, 60))
    assert nearest > 0.2 * plain


def test_who_has_it_and_that_nothing_else_changes_without_it():
    assert {name for name, entry in METHODS.items() if "first_order" in entry.options} == {
        "rqc-gbs", "sarqc-gbs", "sarqc-gptaq",
    }  # fmt: skip
    for beta in (-0.1, 1.01, float("nan")):
        with pytest.raises(Refused, match="β is"):
            ColumnSolver(first_order=beta)
    assert "first_order" not in _values(method("rqc-gbs"))
    assert _values(method("rqc-gbs", first_order=0.2))["first_order"] == 0.2
    document = {"model": "m", "calibration": "c", "method": "rqc-gbs"}
    assert "first_order" not in Recipe.parse(document).to_json()
    asked = Recipe.parse(document | {"first_order": 0.2})
    assert asked.to_json()["first_order"] == 0.2
    assert asked.baseline_method() == method("gptq")
    assert asked.to_method().fitting() == {"first_order": 0.2}
