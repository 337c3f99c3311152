"""Facts against oracles written another way: loops, textbook formulas, and studies whose numbers are known."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import gmean, ttest_1samp, ttest_rel

from sarqc.errors import NotFound
from sarqc.figures import sentence as sentence_words
from sarqc.figures.numbers import baseline_name, difference_decimals, number
from sarqc.figures.sentence import plain, sentence, small_print
from sarqc.study.document import ArrayRef, StudyWriter
from sarqc.study.facts import equal_points, has_lam, is_point, lam_index, layer_slice, line_facts
from sarqc.study.intervals import limits_text, span_text
from sarqc.study.paired import (
    clear_from,
    interval_of_draws,
    mean_over_draws,
    paired_difference,
    paired_items,
    paired_ratio,
    spans,
    sweet_spots,
)
from tests.synthetic_study import CURVE, write_study


@pytest.fixture
def study(tmp_path):
    return write_study(tmp_path / "toy")


def text_at(study, method: str, gamma: int, lam: int, layer: int | None = None) -> str:
    facts = line_facts(study, method=method, bits=2, layer=layer)
    return plain(sentence(facts, gamma, lam)).replace("\u00a0", " ")


class TestPairedDifference:
    def test_is_mean_and_standard_error_of_per_draw_differences(self):
        rng = np.random.default_rng(1)
        values, reference = rng.normal(80, 5, (5, 2, 3)), rng.normal(80, 5, (5, 1, 1))
        found = paired_difference(values, reference)
        for g in range(2):
            for m in range(3):
                each = [values[d, g, m] - reference[d, 0, 0] for d in range(5)]
                assert found.mean[g, m] == pytest.approx(statistics.mean(each))
                assert found.error[g, m] == pytest.approx(statistics.stdev(each) / math.sqrt(5))

    def test_a_draw_measured_on_one_side_only_does_not_count(self):
        values, reference = np.array([[1.0], [5.0], [np.nan]]), np.array([[0.0], [1.0], [7.0]])
        found = paired_difference(values, reference)
        assert found.draws.tolist() == [2]
        assert found.mean == pytest.approx([2.5])
        assert found.error == pytest.approx([statistics.stdev([1.0, 4.0]) / math.sqrt(2)])

    def test_one_draw_has_a_difference_but_no_error(self):
        found = paired_difference(np.array([[3.0]]), np.array([[1.0]]))
        assert found.mean.tolist() == [2.0]
        assert math.isnan(found.error[0])
        assert found.verdict((0,)) == 0

    @pytest.mark.parametrize("draws", [2, 3, 5, 10, 40])
    @pytest.mark.parametrize(("share", "verdict"), [(0.99, 0), (1.01, 1), (-0.99, 0), (-1.01, -1)])
    def test_verdict_is_students_t_at_five_percent(self, draws, share, verdict):
        noise = np.linspace(-1, 1, draws)[:, None]
        error = statistics.stdev(noise[:, 0].tolist()) / math.sqrt(draws)
        shift = share * stats.t.ppf(0.975, draws - 1) * error
        assert paired_difference(noise + shift, np.zeros((draws, 1))).verdict((0,)) == verdict


def test_nothing_is_clear_without_freedom():
    assert np.isnan(clear_from(np.array([0.0, 0.5, np.nan]))).all()


@pytest.mark.parametrize("among", [1, 2, 11, 66])
@pytest.mark.parametrize("freedom", [*range(1, 36), 170])
def test_a_mean_is_clear_from_the_quantile_of_student_on(freedom, among):
    assert clear_from(freedom, among) == pytest.approx(stats.t.isf(0.025 / among, freedom))
    assert clear_from(freedom + 0.9, among) == clear_from(freedom, among)


class TestPairedItems:
    def test_equal_answers_differ_by_nothing(self):
        answers = np.random.default_rng(0).integers(0, 2, (3, 50))
        found = paired_items(answers, answers)
        assert found.mean == 0
        assert found.error == 0

    def test_error_covers_draws_and_items(self):
        """On answers made with known variances, the error is near the deviation of the mean over many repetitions."""
        rng = np.random.default_rng(3)
        means, errors = [], []
        for _ in range(300):
            draw, item = rng.normal(0, 0.05, (6, 1)), rng.normal(0, 0.3, (1, 40))
            found = paired_items(draw + item + rng.normal(0, 0.1, (6, 40)), np.zeros((6, 40)))
            means.append(float(found.mean))
            errors.append(float(found.error))
        assert np.mean(errors) == pytest.approx(np.std(means), rel=0.15)

    def test_one_draw_still_has_the_items(self):
        difference = np.array([[1.0, 0.0, 0.0, -1.0, 1.0]])
        found = paired_items(difference, np.zeros((1, 5)))
        assert found.error == pytest.approx(statistics.stdev(difference[0]) / math.sqrt(5))


def sweet_spot(values: np.ndarray, **more: bool) -> tuple[int | None, np.ndarray]:
    best, band = sweet_spots(values[:, None], **more)
    return best[0], band[0]


class TestRatio:
    @given(st.integers(2, 9), st.integers(0, 2**32 - 1))
    def test_the_interval_is_that_of_the_logarithms(self, draws, seed):
        rng = np.random.default_rng(seed)
        theirs = 200 * np.exp(rng.normal(0, 0.2, draws))
        ours = theirs * np.exp(rng.normal(-0.3, 0.02, draws))
        found, level = paired_ratio(ours, theirs), gmean(theirs)
        expected = ttest_rel(np.log(ours), np.log(theirs)).confidence_interval()
        assert float(found.mean) == pytest.approx(gmean(ours) - level)
        ends = [level * math.expm1(end) for end in expected]
        assert [float(found.low), float(found.high)] == pytest.approx(ends)
        assert found.verdict(()) == (0 if ends[0] < 0 < ends[1] else math.copysign(1, ends[0]))
        other_way = found.scaled(-1)
        assert [float(other_way.low), float(other_way.high)] == pytest.approx([-ends[1], -ends[0]])
        assert other_way.verdict(()) == -found.verdict(())
        assert float(other_way.at(()).doubt) == pytest.approx((ends[1] - ends[0]) / 2)

    def test_two_draws_far_apart_have_no_upper_end(self):
        found = paired_ratio(np.array([30.0, 90.0]), np.array([30.0, 40.0]))
        assert found.verdict(()) == 0
        assert float(found.high) == math.inf
        assert limits_text(float(found.low), float(found.high), 1) == "−34.3 upwards"
        assert span_text(18.0, float(found.low), float(found.high), 1) == "18.0 (−34.3 upwards)"

    def test_a_ratio_above_a_hundred_has_a_lower_end(self):
        """Of draws in which a method breaks the model: how bad it is at least can be said."""
        ours, theirs = np.array([5e4, 7e4, 6e4]), np.array([30.0, 32.0, 31.0])
        found = paired_ratio(ours, theirs)
        low = gmean(theirs) * math.expm1(ttest_rel(np.log(ours), np.log(theirs)).confidence_interval().low)
        assert found.verdict(()) == 1
        assert [float(found.low), float(found.high)] == [pytest.approx(low), math.inf]
        assert [float(found.scaled(-1).low), float(found.scaled(-1).high)] == [-math.inf, pytest.approx(-low)]

    def test_a_draw_of_its_own_is_paired_with_nothing(self):
        found = paired_ratio(np.array([np.nan, 90.0, 30.0]), np.array([30.0, 40.0, np.nan]))
        assert (int(found.draws), float(found.mean), math.isnan(found.low)) == (1, pytest.approx(50.0), True)

    def test_the_mean_of_draws_has_an_interval_on_its_own(self):
        values = np.array([200.0, 300.0, 250.0])
        mean, low, high = interval_of_draws(values, of_ratio=True)
        expected = ttest_1samp(np.log(values), 0.0).confidence_interval()
        assert [mean, low, high] == pytest.approx([gmean(values), *np.exp(expected)])


class TestSweetSpot:
    def test_band_holds_what_is_not_clearly_worse_than_the_best(self):
        draws = np.array([[5.0, 3.0, 3.1, 9.0], [6.0, 4.0, 3.9, 10.0], [7.0, 5.0, 5.1, 11.0]])
        best, band = sweet_spot(np.exp(draws))  # perplexities are compared by their logarithms
        assert best == 1
        assert band.tolist() == [False, True, True, False]

    @pytest.mark.parametrize(("draws", "inside"), [(5, True), (40, False)])
    def test_band_is_as_wide_as_the_number_of_draws_asks(self, draws, inside):
        """2.4 standard errors are within t(0.975) of five draws, 2.78, and beyond that of forty, 2.02."""
        noise = np.linspace(-1, 1, draws)
        worse = noise + 2.4 * statistics.stdev(noise.tolist()) / math.sqrt(draws)
        best, band = sweet_spot(np.exp(np.stack([np.zeros(draws), worse], axis=1)))
        assert (best, band.tolist()) == (0, [True, inside])

    def test_one_draw_has_a_best_and_no_band(self):
        best, band = sweet_spot(np.array([[5.0, 3.0, 3.1]]))
        assert best == 1
        assert not band.any()

    def test_unmeasured_points_are_never_inside(self):
        best, band = sweet_spot(np.array([[np.nan, 3.0], [np.nan, 4.0]]))
        assert (best, band.tolist()) == (1, [False, True])
        assert sweet_spot(np.full((2, 3), np.nan))[0] is None

    def test_more_can_be_better(self):
        assert sweet_spot(np.array([[0.1, 0.9], [0.2, 0.8]]), lower_is_better=False)[0] == 1


def test_spans_are_the_runs():
    assert spans(np.array([False, True, True, False, True])) == [(1, 2), (4, 4)]
    assert spans(np.zeros(3, dtype=bool)) == []


def test_mean_over_draws_skips_what_was_not_measured():
    assert mean_over_draws(np.array([[1.0, np.nan], [3.0, np.nan]])).tolist()[0] == 2.0
    assert np.isnan(mean_over_draws(np.array([[np.nan], [np.nan]]))[0])


class TestLineFacts:
    def test_gptq_is_the_identity_line_at_one_percent(self, study):
        facts = line_facts(study, method="sarqc-gbs", bits=2, layer=None)
        assert baseline_name(facts.baseline) == "GPTQ 1 %"
        assert facts.baseline_position is None
        own = line_facts(study, method="rqc-gbs", bits=2, layer=None)
        assert own.baseline_position == lam_index(own.line, 0.01) == 1
        assert own.perplexity.to_baseline.mean[0, 1] == 0

    def test_awq_is_the_start_of_the_scale_search(self, study):
        facts = line_facts(study, method="rqc-gs", bits=2, layer=None)
        assert baseline_name(facts.baseline) == "AWQ"
        assert facts.baseline_position == 0

    def test_differences_are_those_of_the_curve(self, study):
        facts = line_facts(study, method="rqc-gbs", bits=2, layer=None)
        # The alternating wobble cancels over an even number of draws, the level of each draw in pairs.
        assert facts.perplexity.to_baseline.mean[0] == pytest.approx(CURVE - CURVE[1], rel=5e-3)
        means = gmean(facts.perplexity.values, axis=0)
        assert facts.perplexity.to_baseline.mean == pytest.approx(means - means[:, [1]])
        assert facts.perplexity.best == (3,)

    def test_all_layers_is_the_mean_of_the_relative_errors(self, study):
        each = [line_facts(study, method="rqc-gbs", bits=2, layer=i).held_out for i in range(4)]
        together = line_facts(study, method="rqc-gbs", bits=2, layer=None).held_out
        assert together == pytest.approx(np.mean(each, axis=0))

    def test_change_is_relative_to_the_baseline(self, study):
        facts = line_facts(study, method="rqc-gbs", bits=2, layer=2)
        assert facts.change["held_out"][0] == pytest.approx(facts.held_out[0] / facts.held_out[0, 1] - 1)

    def test_saliency_is_compared_at_equal_lambda(self, study):
        facts = line_facts(study, method="sarqc-gbs", bits=2, layer=None)
        ours, theirs = (gmean(one.perplexity.values, axis=0) for one in (facts, facts.identity))
        assert facts.to_identity.mean[:, 1:] == pytest.approx((ours - theirs)[:, 1:])
        assert facts.to_identity.mean[0, 1:] == pytest.approx([-1.0] * 4, rel=2e-3)

    def test_unknown_line_and_layer_are_refused_by_name(self, study):
        with pytest.raises(NotFound, match="no line for gptaq"):
            line_facts(study, method="gptaq", bits=2, layer=None)
        with pytest.raises(NotFound, match="no layer 9"):
            line_facts(study, method="rtn", bits=2, layer=9)


class TestAuto:
    @pytest.fixture(scope="class")
    def study(self, tmp_path_factory):
        """Lines of “auto” come first, where a careless search would find them."""
        written = write_study(tmp_path_factory.mktemp("auto") / "toy", auto=True)
        return written.model_copy(update={"lines": tuple(reversed(written.lines))})

    def test_a_line_of_auto_holds_no_lambda(self, study):
        auto = study.line("rqc-gbs-auto", 2)
        assert (is_point(auto), has_lam(auto)) == (True, False)
        assert lam_index(auto, 0.0) is None
        assert equal_points(study.line("sarqc-gbs", 2), auto) == [None] * 5
        assert equal_points(study.line("sarqc-gbs-auto", 2), auto) == [0]
        rounding = study.line("rtn", 2)
        assert (has_lam(rounding), lam_index(rounding, 0.0)) == (False, None)

    @pytest.mark.parametrize(
        ("method", "label", "value"), [("sarqc-gbs", "GPTQ 1 %", 90.441), ("sarqc-gs", "AWQ", 144.459)]
    )
    def test_both_kinds_of_line_have_the_same_baseline(self, study, method, label, value):
        for name in (method, f"s{method}-auto" if method == "rqc-gs" else f"{method}-auto"):
            facts = line_facts(study, method=name, bits=2, layer=None)
            assert baseline_name(facts.baseline) == label
            assert facts.perplexity.baseline_mean == pytest.approx(value, abs=1e-3)
        assert facts.baseline_position is None

    def test_identity_is_the_line_chosen_in_the_same_way(self, study):
        auto = line_facts(study, method="sarqc-gbs-auto", bits=2, layer=None)
        assert auto.identity.line.name == "rqc-gbs-auto"
        assert auto.to_identity.mean == pytest.approx(np.array([[-1.0]]), rel=2e-3)
        assert line_facts(study, method="sarqc-gbs", bits=2, layer=None).identity.line.name == "rqc-gbs"

    def test_a_method_name_finds_the_curve_before_auto(self, study):
        assert study.line("sarqc-gbs", 2).selected is None
        assert study.line("sarqc-gbs-auto", 2).label == "GPTQ + saliency penalty, auto"
        alone = study.model_copy(update={"lines": (study.line("sarqc-gbs-auto", 2),)})
        assert alone.line("sarqc-gbs", 2).selected == "layer"

    def test_omniquant_is_lambda_zero_of_its_line(self, study, tmp_path):
        writer, lines = StudyWriter(tmp_path / "other"), []
        for line in (study.line("sarqc-gs-auto", 2), study.line("sarqc-gs", 2)):
            arrays = {name: writer.add(study.array(line, name), ref.axes) for name, ref in line.arrays.items()}
            same = {"method": "sarqc-omniquant", "baseline": "omniquant", "arrays": arrays}
            lines.append(line.model_copy(update=same))
        other = writer.finish(study.model_copy(update={"lines": tuple(lines)}))
        for name in ("sarqc-omniquant", "sarqc-omniquant-auto"):
            facts = line_facts(other, method=name, bits=2, layer=None)
            assert baseline_name(facts.baseline) == "OmniQuant"
            assert facts.perplexity.baseline_mean == pytest.approx(144.459, abs=1e-3)

    def test_pairs_are_positions_among_the_candidates(self, study):
        found = line_facts(study, method="sarqc-gbs-auto", bits=2, layer=None).selection
        for at in np.ndindex(4, 4):
            gamma, lam = found.pairs[at]
            assert found.lams[lam] == pytest.approx(found.lam[at])
            assert found.gammas[gamma] == pytest.approx(found.gamma[at])

    def test_sentences_say_how_it_was_chosen(self, study):
        by_layer = text_at(study, "sarqc-gbs-auto", 0, 0)
        assert by_layer.startswith(
            "With λ and γ chosen layer by layer on held-out calibration text the 2-bit model has perplexity 85.9"
        )
        assert "5.0 % lower than GPTQ 1 %, 90.4 (95 %: 4.0 to 6.0 %, four draws)." in by_layer
        assert text_at(study, "rqc-gbs-auto", 0, 0).startswith("With λ chosen layer by layer")
        assert text_at(study, "sarqc-gs-auto", 0, 0).startswith(
            "With λ from 0.3 to 0.4, chosen for the whole model on held-out calibration text in each draw, the 2-bit"
        )

    def test_one_draw_has_one_lambda(self, tmp_path):
        study = write_study(tmp_path / "one", draws=1, auto=True)
        text = text_at(study, "sarqc-gs-auto", 0, 0)
        assert text.startswith("With λ = 0.3, chosen for the whole model on held-out calibration text, the 2-bit model")


class TestSentence:
    def test_names_the_gain_with_its_interval_and_says_plainly_when_worse(self, study):
        text = text_at(study, "rqc-gbs", 0, 3, layer=0)
        assert text.startswith("At λ = 0.3 the whole 2-bit model has perplexity 87.4 on unseen text: 3.3 % ")
        assert "3.3 % lower than GPTQ 1 %, 90.4 (95 %: 2.9 to 3.7 %, four draws, best of 4)." in text
        assert "In this layer the weights drift" in text
        assert "59.7 % higher than GPTQ 1 %, 90.4 (95 %: 53.5 to 66.2 %, four draws, one of 4)." in text_at(
            study, "rqc-gbs", 0, 0
        )

    def test_a_colour_names_a_quantity_and_never_how_it_came_out(self, study):
        facts = line_facts(study, method="rqc-gbs", bits=2, layer=0)
        pieces = [one for lam in range(len(facts.line.lams)) for one in sentence(facts, 0, lam)]
        judged = [
            one for one in pieces if {"lower", "higher", "less", "more"} & set(one["text"].split()) and one["role"]
        ]
        assert judged
        assert all(one["verdict"] for one in judged)
        assert {one["text"] for one in pieces if one["role"] == "drift" and not one["verdict"]} >= {"drift"}

    def test_says_plainly_when_regularisation_does_not_help(self, tmp_path):
        curve = np.array([90.0, 86.0, 87.0, 88.0, 89.0])
        study = write_study(tmp_path / "toy", curve=curve, gs=False)
        assert "No other λ tried has a lower perplexity." in text_at(study, "rqc-gbs", 0, 1)
        assert "None is measurably better than GPTQ 1 %." in text_at(study, "rqc-gbs", 0, 3)

    def test_says_plainly_when_it_can_not_be_told(self, study):
        facts = line_facts(study, method="sarqc-gs", bits=2, layer=None)
        assert facts.to_identity.verdict((0, 2)) == 0
        assert "equal within 1\u00a0%" in small_print(facts, 0, 2)[-1]

    def test_one_draw_claims_nothing(self, tmp_path):
        study = write_study(tmp_path / "one", draws=1)
        text = text_at(study, "rqc-gbs", 0, 3)
        assert "(one draw, no interval)" in text
        assert "A single calibration draw can’t tell" in text
        assert "±" not in text


def test_numbers_are_written_like_people_write_them():
    assert number(-0.04, 1) == "0.0"
    assert number(-2.94, 1) == "\u22122.9"
    assert difference_decimals(0.14, 83.6) == 2
    assert difference_decimals(12.0, 83.6) == 1


def test_a_layer_is_one_stretch_of_bytes():
    ref = ArrayRef(file="0" * 32 + ".bin", dtype="float32", shape=(3, 2, 5), axes=("layer", "gamma", "lambda"))
    assert layer_slice(ref, 2) == (80, 40)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.0004, "0.040"), (0.0018, "0.18"), (0.0194, "1.9"), (0.0499, "5.0"), (0.0996, "10"), (0.3, "30")],
)
def test_a_small_share_is_not_nothing(value, text):
    assert sentence_words.small_percent(value) == f"{text}\N{NO-BREAK SPACE}%"
