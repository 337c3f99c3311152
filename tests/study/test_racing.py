"""Successive elimination: against loops over its definition, and on simulated curves whose best λ is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sarqc.study.racing import DELTA, INDIFFERENT, Race

LAMS = np.array([0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10])
CURVES = 20
matrices = arrays(float, st.tuples(st.integers(2, 5), st.integers(2, 5)), elements=st.floats(-1, 1, width=32))


def beaten(rows: list[list[float]], one: int, other: int, candidates: int, most_draws: int) -> bool:
    """The definition, number by number: whether one is worse than the other after these draws."""
    draws, left = len(rows), len(rows[0])
    grand = sum(map(sum, rows)) / draws / left
    squares = 0.0
    for row in rows:
        for at, value in enumerate(row):
            of_column = sum(line[at] for line in rows) / draws
            squares += (value - of_column - sum(row) / left + grand) ** 2
    freedom = (left - 1) * (draws - 1)
    gaps = [row[one] - row[other] for row in rows]
    gap = sum(gaps) / draws
    own = sum((value - gap) ** 2 for value in gaps) / (draws - 1) / draws
    level = DELTA / (candidates - 1) / (most_draws - 1)
    return gap > scipy.stats.t.ppf(1 - level, freedom) * math.sqrt(max(2 * squares / freedom / draws, own))


@given(matrices, st.integers(0, 3))
def test_the_first_look_is_the_definition(seen: np.ndarray, later: int) -> None:
    rows, count = seen[:2].tolist(), seen.shape[1]
    values = np.full((2 + later, count), np.nan)
    values[:2] = seen[:2]
    expected = [
        not any(beaten(rows, one, other, count, 2 + later) for other in range(count) if other != one)
        for one in range(count)
    ]
    assert Race(values).running().tolist() == expected


@given(matrices, arrays(float, 5, elements=st.floats(-100, 100, width=16)))
def test_what_a_draw_does_to_all_alike_does_not_count(seen: np.ndarray, effects: np.ndarray) -> None:
    values = np.round(seen * 1024) / 1024  # sums with the effects are exact
    moved = values + np.round(effects[: len(values), None])
    assert Race(moved).running().tolist() == Race(values).running().tolist()


@given(matrices)
def test_the_smallest_mean_is_never_given_up(seen: np.ndarray) -> None:
    values = np.full((len(seen) + 1, seen.shape[1]), np.nan)
    values[:2] = seen[:2]
    assert Race(values).running()[int(seen[:2].mean(axis=0).argmin())]


def test_nothing_is_given_up_after_one_draw_or_alone() -> None:
    values = np.full((4, 3), np.nan)
    values[0] = (0, 1, 2)
    assert Race(values).running().all()
    assert not Race(values).told_apart()
    assert Race(np.ones((2, 1))).told_apart()


def test_equal_enough_is_told() -> None:
    close, tiny = INDIFFERENT / 4, 1e-7
    values = np.array([[0.0, close], [tiny, close], [0.0, close + tiny], [tiny, close]])
    race = Race(values)
    assert race.told_apart()
    assert not Race(values * [[1, 40]] + [[0, 0], [0.1, -0.1], [-0.1, 0.1], [0, 0]]).told_apart()


def curves(rng: np.random.Generator) -> np.ndarray:
    """ln ratios of a model at each λ: a valley anywhere between 0.01 and 1, flat or deep, wide or narrow."""
    place, depth, width = 10 ** rng.uniform(-2, 0), 10 ** rng.uniform(-2.5, -0.5), rng.uniform(2, 12)
    return depth * (1 - np.exp(-((np.log(LAMS + 1e-3) - np.log(place)) ** 2) / width))


def raced(truth: np.ndarray, spread: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """What a race leaves whose draws have an effect on all, and errors of their own."""
    everything = truth + rng.normal(0, 0.1, (draws, 1)) + rng.normal(0, 1, (draws, len(truth))) * spread
    values = np.full_like(everything, np.nan)
    for draw in range(draws):
        running = Race(values).running()
        values[draw, running] = everything[draw, running]
        if Race(values).told_apart():
            break
    return Race(values).running()


@pytest.mark.parametrize(("draws", "is_even"), [(5, True), (8, True), (8, False)])
def test_the_best_is_kept_as_often_as_promised(draws: int, is_even: bool) -> None:
    """Also where errors differ between candidates, which the guarantee does not cover: there each has its own."""
    rng, lost, given_up = np.random.default_rng(draws), 0, 0
    for _ in range(CURVES):
        truth = curves(rng)
        spread = 0.01 * (np.ones(len(LAMS)) if is_even else np.exp(rng.normal(0, 0.7, len(LAMS))))
        for _ in range(20):
            left = raced(truth, spread, draws, rng)
            lost += not left[truth.argmin()]
            given_up += int((~left).sum())
    races = 20 * CURVES
    assert lost <= DELTA * races
    assert given_up >= 3 * races, "a rule that gives nothing up would keep its promise too"
