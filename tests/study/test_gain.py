"""Intervals that hold for the best of many, beside Student's t by scipy and on simulated races whose truth is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.simulated_races import NOISES, false_claims
from sarqc.study.gain import gains


@given(st.integers(2, 8), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_without_windows_it_is_student_s_t_at_a_share_of_the_level(draws, count, seed):
    rng = np.random.default_rng(seed)
    values, reference = rng.normal(size=(draws, count)), rng.normal(size=draws)
    gain = gains(values, reference)
    differences = reference[:, None] - values
    spread = max(float(np.mean([np.var(one, ddof=1) for one in differences.T])), 0.0)
    for at, one in enumerate(differences.T):
        error = math.sqrt(max(spread, float(np.var(one, ddof=1))) / draws)
        half = stats.t.ppf(1 - 0.025 / count, draws - 1) * error
        assert gain.mean[at] == pytest.approx(one.mean())
        assert gain.high[at] - gain.mean[at] == pytest.approx(half)
        assert gain.mean[at] - gain.low[at] == pytest.approx(half)


def test_windows_that_go_together_are_one_degree_of_freedom_and_independent_ones_are_as_many_as_candidates():
    rng = np.random.default_rng(0)
    values, reference = rng.normal(size=(2, 4)), rng.normal(size=2)
    alone = gains(values, reference)
    together = np.repeat(rng.normal(size=(2, 1, 400)), 4, axis=1)
    np.testing.assert_allclose(gains(values, reference, together).high, alone.high)
    apart = rng.normal(size=(2, 4, 40_000))
    half = gains(values, reference, apart).high - alone.mean
    ratio = stats.t.ppf(1 - 0.025 / 4, 4) / stats.t.ppf(1 - 0.025 / 4, 1)
    np.testing.assert_allclose(half, ratio * (alone.high - alone.mean), rtol=0.01)


def test_one_draw_has_no_interval():
    gain = gains(np.array([[1.0, 2.0]]), np.array([1.5]))
    assert gain.mean.tolist() == [0.5, -0.5]
    assert np.isnan(gain.low).all()


def test_what_was_given_up_early_keeps_its_own_draws():
    values = np.array([[1.0, 1.2], [1.1, 1.3], [1.0, np.nan], [1.1, np.nan]])
    gain = gains(values, np.array([2.0, 2.05, 2.0, 2.1]))
    assert gain.draws.tolist() == [4, 2]
    assert gain.mean.tolist() == pytest.approx([0.9875, 0.775])
    assert gain.high[1] - gain.mean[1] > gain.high[0] - gain.mean[0]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize(("count", "draws"), [(5, 2), (5, 5), (12, 2)])
def test_no_gain_is_claimed_where_there_is_none(kind, count, draws):
    """At most 5 %; 300 races tell 5 % from 9 %. The full table is in docs/results.md."""
    assert false_claims(kind, count, draws, races=300) <= 0.05
