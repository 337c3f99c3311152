"""Successive elimination: against loops over its definition, and on simulated curves whose best λ is known."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks.simulated_races import K, Simulated
from sarqc.study.elimination import DELTA, INDIFFERENT, PATIENCE, SuccessiveElimination

matrices = arrays(float, st.tuples(st.integers(2, 5), st.integers(2, 5)), elements=st.floats(-1, 1, width=32))


def beaten(rows: list[list[float]], one: int, other: int, candidates: int, most_draws: int) -> bool:
    """Return the definition, number by number: whether one is worse than the other after these draws."""
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
def test_the_first_look_is_the_definition(seen, later):
    rows, count = seen[:2].tolist(), seen.shape[1]
    values = np.full((2 + later, count), np.nan)
    values[:2] = seen[:2]
    expected = [
        not any(beaten(rows, one, other, count, 2 + later) for other in range(count) if other != one)
        for one in range(count)
    ]
    assert SuccessiveElimination(values).running().tolist() == expected


@given(matrices, arrays(float, 5, elements=st.floats(-100, 100, width=16)))
def test_what_a_draw_does_to_all_alike_does_not_count(seen, effects):
    values = np.round(seen * 1024) / 1024  # sums with the effects are exact
    moved = values + np.round(effects[: len(values), None])
    assert SuccessiveElimination(moved).running().tolist() == SuccessiveElimination(values).running().tolist()


@given(matrices)
def test_the_smallest_mean_is_never_given_up(seen):
    values = np.full((len(seen) + 1, seen.shape[1]), np.nan)
    values[:2] = seen[:2]
    assert SuccessiveElimination(values).running()[int(seen[:2].mean(axis=0).argmin())]


def test_nothing_is_given_up_after_one_draw_or_alone():
    values = np.full((4, 3), np.nan)
    values[0] = (0, 1, 2)
    assert SuccessiveElimination(values).running().all()
    assert not SuccessiveElimination(values).told_apart()
    assert SuccessiveElimination(np.ones((2, 1))).told_apart()


def with_room(rows: list[list[float]], most_draws: int) -> np.ndarray:
    values = np.full((most_draws, len(rows[0])), np.nan)
    values[: len(rows)] = rows
    return values


def test_equal_enough_is_told():
    close, tiny = INDIFFERENT / 4, 1e-7
    rows = [[0.0, close], [tiny, close], [0.0, close + tiny]]
    assert SuccessiveElimination(with_room(rows, 8)).told_apart()
    far = [[0.0, 0.01], [0.1, 0.0], [0.0, 0.02]]
    assert not SuccessiveElimination(with_room(far, 8)).told_apart()


def test_what_no_draw_could_tell_is_not_raced_for():
    rng = np.random.default_rng(0)
    alike = rng.normal(0, 0.01, (PATIENCE, 3)).tolist()
    assert not SuccessiveElimination(with_room(alike[:-1], 8)).told_apart()
    assert SuccessiveElimination(with_room(alike, 8)).told_apart()
    apart = [[0.0, 0.016 + 0.01 * (-1) ** draw] for draw in range(PATIENCE)]  # clear after eight draws, not after four
    race = SuccessiveElimination(with_room(apart, 8))
    assert race.running().all()
    assert not race.told_apart()


def raced(everything: np.ndarray) -> SuccessiveElimination:
    """Return a race over measurements (R, K), of which it sees those that it asks for."""
    values = np.full_like(everything, np.nan)
    for draw, row in enumerate(everything):
        running = SuccessiveElimination(values).running()
        values[draw, running] = row[running]
        if SuccessiveElimination(values).told_apart():
            break
    return SuccessiveElimination(values)


@pytest.mark.thorough
@pytest.mark.parametrize(("draws", "kind"), [(5, "independent"), (8, "independent"), (8, "uneven")])
def test_the_best_is_kept_as_often_as_promised(draws, kind):
    """Also where errors differ between candidates, which the guarantee does not cover: there each has its own."""
    rng, lost, given_up, models, races = np.random.default_rng(draws), 0, 0, 20, 20
    for _ in range(models):
        model = Simulated.of(rng, kind)
        for _ in range(races):
            left = raced(model.draws(draws, rng)[:, :K].mean(axis=2)).running()
            lost += not left[model.truth[:K].argmin()]
            given_up += int((~left).sum())
    assert lost <= DELTA * races * models
    assert given_up >= 3 * races * models, "a rule that gives nothing up would keep its promise too"
