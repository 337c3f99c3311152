"""Evidence against scipy, and its verdicts: over draws alone, by the interval alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sarqc.study.evidence import EQUAL, Evidence
from sarqc.study.paired import paired_ratio

logs = st.lists(st.floats(-0.3, 0.3), min_size=3, max_size=8).filter(lambda values: np.std(values) > 1e-4)


@given(logs)
def test_the_interval_of_perplexities_is_that_of_the_paired_logarithms(values):
    reference = np.full(len(values), 70.0)
    found = Evidence.of_difference(paired_ratio(reference * np.exp(values), reference), quantity="perplexity")
    low, high = np.expm1(stats.ttest_1samp(values, 0).confidence_interval())
    assert found.change == pytest.approx(math.expm1(np.mean(values)))
    assert (found.low, found.high) == pytest.approx((low, min(high, 99)), rel=1e-6, abs=1e-9)
    if high < 0:
        assert found.verdict == "better"
    elif low > 0:
        assert found.verdict == "worse"
    else:
        assert found.verdict == ("equal" if max(-low, high) <= EQUAL else "unknown")


@pytest.mark.parametrize(
    ("over", "low", "high", "quantity", "verdict"),
    [
        ("draws", -0.04, -0.001, "perplexity", "better"),
        ("draws", 0.001, 0.04, "perplexity", "worse"),
        ("draws", 0.001, 0.04, "accuracy", "better"),
        ("draws and items", -0.04, -0.001, "accuracy", "worse"),
        ("draws", -0.004, 0.01, "perplexity", "equal"),
        ("draws", -0.004, 0.011, "perplexity", "unknown"),
        ("windows", -0.04, -0.001, "perplexity", "unknown"),
        ("items", 0.001, 0.04, "accuracy", "unknown"),
        ("nothing", math.nan, math.nan, "perplexity", "unknown"),
    ],
)
def test_a_verdict_needs_an_interval_over_draws(over, low, high, quantity, verdict):
    assert Evidence(quantity, (low + high) / 2, low, high, over, 5).verdict == verdict


def test_the_best_of_several_has_the_wider_interval():
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(-0.02, 0.01, 5))
    alone = paired_ratio(values, np.ones(5))
    single, best = (Evidence.of_difference(each, quantity="perplexity") for each in (alone, alone.chosen_of(3)))
    error = stats.sem(np.log(values)) * stats.t.isf(0.025 / 3, 4)
    assert best.low == pytest.approx(math.expm1(np.log(values).mean() - error))
    assert (best.low < single.low, best.high > single.high, best.change == single.change) == (True, True, True)
    assert "five draws, best of 3" in best.words
    assert "five draws, one of 3" in replace(best, is_best=False).words


def test_a_stored_document_is_said_anew():
    evidence = Evidence("perplexity", -0.03, math.nan, math.nan, "nothing", 1, text="a.txt")
    stored = evidence.to_json() | {"words": "as a former version said it"}
    del stored["size"], stored["bounds"], stored["lead"]
    assert Evidence.of_json(stored).to_json() == evidence.to_json()


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (
            Evidence("perplexity", -0.032, -0.04, -0.024, "draws", 5, text="a.txt"),
            "3.2 % lower perplexity than GPTQ 1 % on a.txt (95 %: 2.4 to 4.0 %, five draws)",
        ),
        (
            Evidence("perplexity", -0.008, -0.038, 0.025, "draws", 2),
            "Not known yet: 0.8 % lower perplexity than GPTQ 1 % (95 %: −2.5 to 3.8 %, two draws)",
        ),
        (
            Evidence("perplexity", 0.001, -0.002, 0.004, "draws", 5, among=7),
            "Equal within 1 %: 0.1 % higher perplexity than GPTQ 1 % (95 %: −0.2 to 0.4 %, five draws, best of 7)",
        ),
        (
            Evidence("accuracy", 0.032, 0.003, 0.061, "draws and items", 5),
            "3.2 points higher accuracy than GPTQ 1 % (95 %: 0.3 to 6.1, five draws and items)",
        ),
        (
            Evidence("perplexity", -0.032, -0.04, -0.024, "windows", 69, text="a.txt"),
            "Not known yet: 3.2 % lower perplexity than GPTQ 1 % on a.txt (95 %: 2.4 to 4.0 %, 69 windows of one draw)",
        ),
        (
            Evidence("perplexity", 0.0, math.nan, math.nan, "nothing", 1),
            "Not known yet: the same perplexity as GPTQ 1 % (one draw, no interval)",
        ),
    ],
)
def test_words_have_one_order(evidence, words):
    assert evidence.words.replace("\u00a0", " ") == words
    assert evidence.to_json()["words"] == f"{evidence.words}."
