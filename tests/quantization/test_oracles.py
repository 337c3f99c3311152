"""The oracles themselves: against numbers worked out by hand, and against a second derivation."""

import numpy as np
import pytest

from tests import oracles


def test_grid_parameters_by_hand() -> None:
    values = np.array([0.3, -1.2, 0.6, 0.0])
    assert oracles.group_parameters(values, 3, "symmetric")[:2] == (1.2 / 3, 0)
    assert oracles.group_parameters(values, 3, "full_range")[:2] == (1.2 / 3.5, 0)
    scale, zero, _ = oracles.group_parameters(values, 3, "asymmetric")
    assert scale == pytest.approx(1.8 / 7)
    assert zero == 5  # round(1.2 / 0.2571) = round(4.67)


def test_two_columns_by_hand() -> None:
    """G = [[2, 1], [1, 2]]: the second column gains δ₀·G₀₁/G₁₁ = δ₀/2 before it is rounded."""
    g = np.array([[2.0, 1.0], [1.0, 2.0]])
    weight = np.array([[1.0, 0.62], [0.4, 1.0]])
    out = oracles.algorithm_2(weight, g, 2, None, "symmetric", static_groups=True)
    # Row 0: scale 1, column 0 exact, 0.62 -> 1. Row 1: 0.4 -> 0, δ₀ = 0.4, working value 1.2 -> 1.
    assert out.codes.tolist() == [[1, 1], [0, 1]]
    out = oracles.algorithm_2(np.array([[0.4, 0.0], [0.4, 0.9]]), g, 2, 1, "symmetric")
    # One column per group: column 0 is always exact, so nothing is passed on.
    assert out.dequantized == pytest.approx(np.array([[0.4, 0.0], [0.4, 0.9]]))


def test_diagonal_gram_is_rounding_to_nearest() -> None:
    weight = oracles.uneven_weight(1, 4, 24)
    g = np.diag(np.linspace(0.5, 3.0, 24))
    solved = oracles.algorithm_2(weight, g, 3, 8, "asymmetric")
    rounded = oracles.round_to_nearest(weight, 3, 8, "asymmetric")
    assert np.array_equal(solved.codes, rounded.codes)
    assert np.array_equal(solved.scales, rounded.scales)


@pytest.mark.parametrize("group_size", [12, None])
@pytest.mark.parametrize("kind", ["symmetric", "full_range", "asymmetric"])
def test_algorithm_2_is_sequential_least_squares(kind: str, group_size: int | None) -> None:
    weight = oracles.uneven_weight(2, 6, 36)
    g = oracles.regularised_gram(oracles.gram_by_token(oracles.correlated_inputs(3, 90, 36)), None, 0.01)
    printed = oracles.algorithm_2(weight, g, 3, group_size, kind)
    meant = oracles.columns_by_least_squares(weight, g, 3, group_size, kind)
    oracles.assert_same_codes(printed.codes, meant, share=0.6)
    free = meant.margin > 1e-7
    assert np.allclose(printed.dequantized[free], meant.dequantized[free], rtol=1e-9, atol=1e-12)


def test_normalisation_and_ties() -> None:
    assert oracles.normalised([3.0, 3.0]) == [0.0, 0.0]
    assert oracles.normalised([1.0, 3.0, 2.0]) == [0.0, 1.0, 0.5]
    rounded = oracles.round_to_nearest(np.ones((1, 2)), 4, None, "symmetric")
    twins = [oracles.Candidate(a, np.ones(2), rounded, np.ones((1, 2)), 1.0, 2.0) for a in (0.0, 0.05, None)]
    assert oracles.algorithm_1_choice(twins, 0.5)[0].alpha == 0.0
