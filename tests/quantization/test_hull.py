"""λ-intervals of a finite set against pairwise comparisons in rational numbers."""

import math
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sarqc.quantization.hull import weight_intervals

Points = list[tuple[float, float]]

# Small integers make ties, equal drifts and points on one line common; floats make them rare and the numbers awkward.
COARSE = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda point: (float(point[0]), float(point[1])))
FINE = st.tuples(*[st.floats(0, 1e6, allow_nan=False, width=64)] * 2)
SETS = st.one_of(st.lists(COARSE, min_size=1, max_size=9), st.lists(FINE, min_size=1, max_size=9))
LARGEST, EMPTY = sys.float_info.max, (math.inf, -math.inf)
EVERYWHERE, AT_ZERO = (0.0, math.inf), (0.0, 0.0)


def by_pairs(points: Points, position: int) -> tuple[float, float]:
    """Every λ ≥ 0 at which no other candidate is better, one half-line after another."""
    drift, recon = map(Fraction, points[position])
    lowest, highest = Fraction(0), None
    for other_drift, other_recon in points:
        ahead, nearer = Fraction(other_recon) - recon, drift - Fraction(other_drift)  # required: ahead ≥ λ · nearer
        if nearer == 0:
            if ahead < 0:
                return EMPTY
        elif nearer > 0:
            highest = ahead / nearer if highest is None else min(highest, ahead / nearer)
        else:
            lowest = max(lowest, ahead / nearer)
    if highest is not None and lowest > highest:
        return EMPTY
    return nearest(lowest), math.inf if highest is None else nearest(highest)


def nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return LARGEST


@pytest.mark.thorough
@settings(max_examples=400)
@given(SETS)
def test_intervals_are_all_pairwise_comparisons_together(points):
    assert weight_intervals(points) == [by_pairs(points, position) for position in range(len(points))]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        pytest.param([(3.0, 2.0)], [EVERYWHERE], id="one candidate wins everywhere"),
        pytest.param([(1.0, 2.0)] * 2, [EVERYWHERE] * 2, id="equal candidates share their interval"),
        pytest.param(
            [(0.0, 2.0), (1.0, 1.0), (2.0, 0.0)],
            [(1.0, math.inf), (1.0, 1.0), (0.0, 1.0)],
            id="inside an edge one λ is left",
        ),
        pytest.param([(1.0, 2.0), (1.0, 3.0)], [EVERYWHERE, EMPTY], id="of equal drifts the smaller error wins"),
        pytest.param(
            [(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)],
            [EVERYWHERE, AT_ZERO, AT_ZERO],
            id="of equal errors more drift is supported at 0 only",
        ),
        pytest.param(
            [(0.0, 4.0), (1.0, 3.0), (2.0, 0.0), (3.0, 1.0)],
            [(2.0, math.inf), EMPTY, (0.0, 2.0), EMPTY],
            id="beaten in both, and above the hull",
        ),
        pytest.param(
            [(0.0, 1e300), (5e-324, 0.0)], [(LARGEST, math.inf), (0.0, LARGEST)], id="a steepness beyond doubles"
        ),
    ],
)
def test_degenerate_sets(points, expected):
    assert weight_intervals(points) == expected == [by_pairs(points, position) for position in range(len(points))]
