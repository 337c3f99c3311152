"""Runs of one recipe on several draws, joined into one comparison."""

import math

import numpy as np
import pytest
from scipy import stats

from sarqc.jobs.listing import Question
from sarqc.study.evidence import Evidence
from sarqc.web.draws import JoinedDraws
from tests.jobs.fake_runs import recipe
from tests.jobs.test_listing import finished


def measured(store, difference, owner="ann", **changes):
    evidence = Evidence.of_log(
        difference, difference - 0.01, difference + 0.01, quantity="perplexity", over="windows", count=9, text="t"
    )
    baseline = {"difference": difference, "evidence": evidence.to_json()}
    return finished(store, recipe(**changes), owner, baseline=baseline)


def test_a_single_draw_is_compared_by_its_windows(store):
    run = measured(store, -0.03)
    assert JoinedDraws(store, Question()).of(run) == run.summary["baseline"]["evidence"]
    measured(store, -0.03, seed=5)  # the beginning of the text, which no seed changes
    assert JoinedDraws(store, Question()).of(run)["over"] == "windows"


def test_runs_that_differ_in_their_draw_are_one_comparison(store):
    run = measured(store, -0.03)
    further = [-0.02, -0.04, -0.035]
    for seed, difference in enumerate(further):
        other = measured(store, difference, seed=seed, sampling="random")
    measured(store, 0.5, seed=1, sampling="random", bits=4)
    measured(store, 0.5, "bob", seed=9, sampling="random")
    finished(store, recipe(seed=7, sampling="random"))  # without a baseline
    for one in (run, other):
        joined = JoinedDraws(store, Question(of="ann")).of(one)
        low, high = np.expm1(stats.ttest_1samp([-0.03, *further], 0).confidence_interval())
        assert (joined["over"], joined["count"], joined["verdict"]) == ("draws", 4, "better")
        assert (joined["low"], joined["high"]) == pytest.approx((low, high))
    assert JoinedDraws(store, Question()).of(run)["count"] == 5


def test_older_runs_have_no_interval(store):
    older = finished(store, recipe(), baseline={"difference": -0.03, "verdict": -1, "words": "…"})
    evidence = JoinedDraws(store, Question()).of(older)
    assert (evidence["change"], evidence["low"], evidence["over"]) == (
        pytest.approx(math.expm1(-0.03)),
        None,
        "nothing",
    )
