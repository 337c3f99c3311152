"""What is said of the best of many: where nothing differs, at most one sentence in twenty may claim a gain; where one λ
is best, at most one band in twenty may miss it.
"""

import math

import numpy as np
import pytest
from scipy import stats

from sarqc.study.facts import Quality, simultaneous
from sarqc.study.paired import mean_over_draws, paired_difference, paired_ratio, sweet_spots

STUDIES, BASELINE = 1000, 1
DEVIATION = math.sqrt(0.05 * 0.95 / STUDIES)  # of a count, relative


def made(kind: str, draws: int, lams: int) -> np.ndarray:
    """Perplexities of λ that are all equally good: draw, study, λ; the level of a draw is common to all λ."""
    rng = np.random.default_rng([draws, lams])
    noise = rng.normal(size=(draws, STUDIES, lams))
    if kind == "smooth":  # neighbours err together, over about two steps of λ
        places = np.arange(lams)
        noise = noise @ np.exp(-0.5 * ((places[:, None] - places) / 2.0) ** 2)
    return 80 + 5 * rng.normal(size=(draws, STUDIES, 1)) + noise


def quality_of(values: np.ndarray) -> Quality:
    """Of studies as if each was a γ, the baseline being their own second λ."""
    best, band = sweet_spots(values)
    difference = simultaneous(paired_ratio(values, values[..., [BASELINE]]))
    return Quality(mean_over_draws(values), difference, None, best, band, values)


@pytest.mark.parametrize("kind", ["independent", "smooth"])
@pytest.mark.parametrize("draws", [2, 5, 8])
@pytest.mark.parametrize("lams", [5, 12])
def test_without_a_difference_at_most_one_claim_in_twenty(kind, draws, lams):
    """That the best is better than the baseline. By the interval of a single comparison it would be more."""
    quality = quality_of(made(kind, draws, lams))
    assert quality.to_baseline.among == lams - 1
    gains, gains_singly = clear_at_best(quality, lams - 1), clear_at_best(quality, 1)
    assert not (gains & quality.band[:, BASELINE]).any()  # a baseline that is beaten can't be the best
    assert gains.mean() <= 0.025
    assert gains_singly.mean() > gains.mean()


@pytest.mark.parametrize("kind", ["independent", "smooth"])
@pytest.mark.parametrize("draws", [2, 5, 8])
@pytest.mark.parametrize("lams", [5, 12])
def test_the_band_misses_the_best_at_most_once_in_twenty(kind, draws, lams):
    """Of curves whose best λ is any, by a hair, and of curves that rise on both sides of it."""
    flat = quality_of(made(kind, draws, lams))
    assert flat.band.mean() >= 0.95 - DEVIATION
    best = lams // 2
    bowl = made(kind, draws, lams) + 0.4 * np.abs(np.arange(lams) - best)
    assert quality_of(bowl).band[:, best].mean() >= 0.95 - DEVIATION


@pytest.mark.parametrize("draws", [2, 5])
def test_the_band_by_loops(draws):
    """A λ is in the band if no other beats it by the interval of as many comparisons as there are others."""
    values = made("independent", draws, 6) + np.array([0, 2, 4, 1, 0, 9])
    _, band = sweet_spots(values)
    limit = stats.t.isf(0.025 / 5, draws - 1)
    for study in range(0, STUDIES, 50):
        for lam in range(6):
            apart = [np.log(values[:, study, lam] / values[:, study, other]) for other in range(6) if other != lam]
            beaten = [one.mean() > limit * one.std(ddof=1) / math.sqrt(draws) for one in apart]
            assert band[study, lam] == (not any(beaten))


def test_a_lambda_of_fewer_draws_is_neither_best_nor_in_the_band():
    values = made("independent", 5, 5)
    values[0, :, 3] = np.nan
    values[..., 3] -= 8
    best, band = sweet_spots(values)
    assert 3 not in best
    assert not band[:, 3].any()
    without, expected = sweet_spots(np.delete(values, 3, axis=-1))
    assert [at + (at > 2) for at in without] == list(best)
    assert (np.delete(band, 3, axis=-1) == expected).all()


def clear_at_best(quality: Quality, among: int) -> np.ndarray:
    """Of which studies the best is clearly better than the baseline, as one chosen of so many."""
    difference, best = quality.to_baseline.chosen_of(among), np.array(quality.best)[:, None]
    clear: np.ndarray = np.take_along_axis((difference.low > 0) | (difference.high < 0), best, -1)[:, 0]
    return clear


def test_the_best_of_several_gammas_is_chosen_of_all_their_points():
    """Two γ of six λ each, beside a baseline of their own: the best of twelve is judged as that."""
    values = made("independent", 5, 13)
    points, baseline = values[..., 1:], values[..., :1]
    of_study = points[:, 0].reshape(5, 2, 6)
    quality = Quality(
        of_study.mean(axis=0), simultaneous(paired_ratio(of_study, baseline[:, 0, :, None])), None, (0, 0),
        np.ones((2, 6), bool), of_study,
    )  # fmt: skip
    best = quality.best_point
    assert quality.evidence(best, "it").among == 12
    assert quality.evidence((1 - best[0], 0), "it").among == 6
    ends = quality.ends
    assert ends[1][best] - ends[0][best] > 0
    every = Quality(mean_over_draws(points), paired_difference(points, baseline), None, *sweet_spots(points), points)
    assert clear_at_best(every, 12).mean() <= 0.025
    assert clear_at_best(every, 1).mean() > 0.05
