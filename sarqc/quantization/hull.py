"""Falling part of a lower convex hull in exact arithmetic: the weights that select each point of a finite set.

Standard library only, so that pages can use it without torch.
"""

import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

Number = float | Fraction
_Point = tuple[Fraction, Fraction]


def weight_intervals(points: Sequence[tuple[Number, Number]]) -> list[tuple[float, float]]:
    """Return the closed interval of λ ≥ 0 on which each point minimises recon + λ · drift over the set.

    The supported points lie on the falling part of the lower convex hull; the ends of an interval are the steepnesses
    of the two edges beside its vertex, exact and rounded once. An unsupported point, which no λ selects, has the empty
    interval (inf, -inf).

    Ties belong to all points that take part: neighbours share an end; a point inside an edge is supported on that
    edge's λ alone; equal points have equal intervals; of equal drifts only the smallest recon is supported; a point
    that ties for the smallest recon at a larger drift is supported at λ = 0 alone. The interval of the smallest drift
    reaches infinity.

    Args:
        points: Pairs (drift, recon) of finite numbers.

    Returns:
        The intervals in the order of the points.
    """
    # Rational arithmetic: collinear points and equal steepnesses are then decided exactly.
    exact = [(Fraction(drift), Fraction(recon)) for drift, recon in points]
    order = sorted(range(len(exact)), key=exact.__getitem__)
    hull: list[_Point] = []  # strict vertices, smallest drift first
    for position in order:
        point = exact[position]
        if hull and point[0] == hull[-1][0]:
            continue  # same drift, no smaller recon
        while len(hull) >= 2 and _turn(hull[-2], hull[-1], point) <= 0:
            hull.pop()
        hull.append(point)
    edges = [(left[1] - right[1]) / (right[0] - left[0]) for left, right in pairwise(hull)]
    falling = [edge for edge in edges if edge >= 0]  # the λ at which two neighbours tie, largest first
    hull = hull[: len(falling) + 1]
    intervals = [(math.inf, -math.inf)] * len(exact)
    vertex = 0
    for position in order:
        point = exact[position]
        while vertex + 1 < len(hull) and hull[vertex + 1][0] <= point[0]:
            vertex += 1
        if point == hull[vertex]:
            highest = rounded(falling[vertex - 1]) if vertex else math.inf
            intervals[position] = (rounded(falling[vertex]) if vertex < len(falling) else 0.0, highest)
        elif vertex < len(falling) and _turn(hull[vertex], hull[vertex + 1], point) == 0:
            intervals[position] = (rounded(falling[vertex]),) * 2
    return intervals


def rounded(value: Fraction) -> float:
    """Return the nearest double; the largest one for a value beyond it."""
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max


def _turn(first: _Point, second: _Point, third: _Point) -> int:
    """Return 1 where the way through three points bends upwards, 0 where it is straight, -1 where it bends down."""
    area = (second[0] - first[0]) * (third[1] - first[1]) - (second[1] - first[1]) * (third[0] - first[0])
    return (area > 0) - (area < 0)
