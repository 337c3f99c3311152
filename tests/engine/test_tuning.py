"""Tuning: its numbers are those of ordinary runs, it goes on where it was stopped, and it says when it ends."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sarqc.calibration import float_statistics
from sarqc.calibration.block import solve_points
from sarqc.documents import Tuning
from sarqc.engine import budget, trials
from sarqc.engine import execute as execute_module
from sarqc.engine.execute import execute
from sarqc.engine.kept_states import StatesGone
from sarqc.engine.plan import plan, prepare
from sarqc.errors import Refused, SarqcError
from sarqc.evaluation.perplexity import perplexity_steps
from sarqc.events import Event, Started, TuningStanding
from sarqc.figures import lab_view
from sarqc.figures.tuning import tuning_sentence
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.document import Study
from tests.engine.running import of_type, summary_of

FAST = {"samples": 4, "length": 32, "held_out_samples": 2, "window": 32, "test_tokens": 640}


@pytest.fixture(scope="module")
def document(small):
    values = {"kind": "tune", "bits": 2, "method": "sarqc-gbs", "sweep": [0.01, 0.1, 1], "draws": 3}
    return small | FAST | values


@pytest.fixture(scope="module")
def tuned_settings(settings, tmp_path_factory):
    return settings.model_copy(update={"state_dir": tmp_path_factory.mktemp("tuned")})


@pytest.fixture(scope="module")
def tuned(document, tuned_settings):
    """A whole tuning run, with its study."""
    return run(document, tuned_settings)


def run(document: dict[str, Any], settings: Settings) -> list[Event]:
    return list(execute(Recipe.parse(document), settings, study_dir=settings.studies_dir(), study_id="tuned"))


def outcome(events: list[Event]) -> Tuning:
    return summary_of(events)["tuning"]


def single_run(document: dict[str, Any]) -> dict[str, Any]:
    """A run that takes the float model's inputs, of the sequences of draw 1."""
    left = {name: value for name, value in document.items() if name not in ("kind", "sweep", "draws")}
    return left | {"inputs_from": "float", "sampling": "random", "seed": 1, "baseline": False}


@pytest.mark.thorough
def test_measurements_are_those_of_runs(tuned, document, tuned_settings, fresh_settings):
    """A run that takes the float model's inputs, of the same draw, has the same perplexity to the last digit."""
    study = Study.open(tuned_settings.studies_dir() / "tuned")
    tuning = outcome(tuned)
    single = single_run(document)
    points = [("sarqc-gbs", 0.1, {"lambda": 0.1, "gamma": tuning["gamma"]}), ("gptq", 0.01, {}), ("rtn", 0.0, {})]
    for name, lam, values in points:
        summary = run(single | {"method": name} | values, fresh_settings)[-1].summary
        line = study.line(name, 2)
        at = (line.draws.index(1), 0, line.lams.index(lam))
        assert study.array(line, "perplexity")[at] == np.float32(summary["perplexity"])
        assert study.array(line, "kl")[at] == np.float32(summary["kl"])
        reports = Study.open(fresh_settings.studies_dir() / "tuned").layer_reports.values()
        for quantity in ("recon", "held_out", "sar", "drift"):
            of_run = [report[f"relative_{quantity}"] for report in reports]
            np.testing.assert_allclose(study.array(line, quantity)[at[0], :, 0, at[2]], of_run, rtol=1e-5)


def test_it_ends_with_what_it_says(tuned, tuned_settings):
    tuning, study = outcome(tuned), Study.open(tuned_settings.studies_dir() / "tuned")
    line = study.line("sarqc-gbs", 2)
    values = np.log(study.array(line, "perplexity").astype(float)[:, 0])  # draw, λ
    of_gptq = np.log(study.array(study.line("gptq", 2), "perplexity").astype(float)[:, 0, 0])
    best = tuning["rows"][tuning["best"]]
    assert best["lambda"] == line.lams[int(np.nanargmin(values.mean(axis=0)))]
    gap = of_gptq - values[:, tuning["best"]]
    assert best["better"] == pytest.approx(gap.mean(), abs=1e-5)
    assert best["better_by_draw"] == pytest.approx(gap.tolist(), abs=1e-5)
    assert best["better_low"] < best["better"] < best["better_high"]
    base = next(row for row in tuning["rows"] if row["method"] == "gptq")
    for row in tuning["rows"]:  # also of those measured in fewer draws than others
        if row["better"] is not None:
            assert row["log_ratio"] == pytest.approx(base["log_ratio"] - row["better"])
            assert row["perplexity"] == pytest.approx(base["perplexity"] * np.exp(-row["better"]))
    assert study.model.perplexity is not None
    assert best["perplexity"] == pytest.approx(np.exp(values[:, tuning["best"]].mean()), rel=1e-5)
    assert line.chosen == (0, tuning["best"])
    assert tuning["end"] in ("known", "draws")
    after = {"better": "run", "equal": "keep", "worse": "keep", "unknown": "go_on"}
    assert tuning["next"] == after[tuning["evidence"]["verdict"]]
    assert (tuning["evidence"]["verdict"] == "better") == (best["better_low"] > 0)
    following = Recipe.parse(tuning["recipe"])
    if tuning["next"] == "run":
        assert (following.kind, following.lam, following.gamma) == ("run", best["lambda"], tuning["gamma"])
    elif tuning["next"] == "keep":
        assert (following.kind, following.method, following.lam) == ("run", "gptq", None)
    else:
        assert (following.kind, following.draws) == ("tune", tuning["draws"] + 2)
    assert following.inputs_from == "quantized"
    assert plan(following, tuned_settings).layers == 21
    standings = [event.tuning for event in of_type(tuned, TuningStanding)]
    assert all(not one["band"] and one["best"] is None for one in standings if one["draws"] < 2)
    assert {row["method"] for row in tuning["rows"] if row["standing"] == "baseline"} == {"gptq", "rtn"}


def test_its_turning_points_are_those_of_its_documents(tuned):
    """Each turning point beside the first document that tells it, by an oracle on the rows."""
    stages = [event.tuning for event in of_type(tuned, TuningStanding)]
    turns = stages[-1]["turns"]
    names = [turn["what"] for turn in turns]
    assert names[:2] == ["screening", "screened"]
    assert (names.count("draw") >= 2, names[-1]) == (True, "end")
    assert [turn["seconds"] for turn in turns] == sorted(turn["seconds"] for turn in turns)
    for before, stage in pairwise(stages):
        assert stage["turns"][: len(before["turns"])] == before["turns"], "what was passed stays"
    for number, turn in enumerate(turns):
        stage = next(one for one in stages if len(one["turns"]) > number)
        by_standing = {row["lambda"]: row["standing"] for row in stage["rows"] if row["standing"] != "baseline"}
        gone = {lam for lam, standing in by_standing.items() if standing in ("worse", "ruled_out")}
        if turn is turns[-1] or turn["what"] == "screened" or turn["draws"] > 1:
            assert gone == {lam for one in turns[: number + 1] for lam in one["out"]}
            assert turn["left"] == [
                lam for lam, standing in by_standing.items()
                if standing in (("best", "as_good") if stage["best"] is not None else ("not_reached",))
            ]  # fmt: skip
    draws = [turn["draws"] for turn in turns if turn["what"] == "draw"]
    assert draws == [*range(1, stages[-1]["draws"] + 1)]
    assert turns[-1]["leading"] == stages[-1]["rows"][stages[-1]["best"]]["lambda"]


def test_the_lab_opens_its_study(tuned, tuned_settings):
    study = Study.open(tuned_settings.studies_dir() / "tuned")
    for line in study.lines:
        for draw in (None, *line.draws):
            view = lab_view(study, method=line.name, draw=draw)
            assert view["figures"]["hero"] is not None


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change", [{"range": "search"}, {"sweep": [0.05, 0.5]}, {"method": "rqc-gbs"}, {"method": "sarqc-gs"}]
)
def test_another_question_needs_no_pass_of_the_float_model(tuned, document, tuned_settings, monkeypatch, change):
    monkeypatch.setattr(float_statistics, "BlockWalk", None)
    tuning = outcome(run(document | change | {"draws": 2}, tuned_settings))
    assert tuning["draws"] == 2
    assert (tuning["gamma"] is None) == ((document | change)["method"] != "sarqc-gbs")
    assert any(row["method"] == "awq" for row in tuning["rows"]) == (change.get("method") == "sarqc-gs")


class Clock:
    """Time that passes with the work alone: seconds for a linear that is solved, and for a model that is measured."""

    def __init__(self, monkeypatch, solving, measuring):
        self.now = 0.0

        def solved(block, *given):
            for step in solve_points(block, *given):
                self.now += solving
                yield step

        def measured(*given, **named):
            self.now += measuring / 2
            found = yield from perplexity_steps(*given, **named)
            self.now += measuring / 2
            return found

        monkeypatch.setattr(budget, "monotonic", lambda: self.now)
        monkeypatch.setattr(trials, "solve_points", solved)
        monkeypatch.setattr(trials, "perplexity_steps", measured)
        monkeypatch.setattr(execute_module.time, "perf_counter", lambda: self.now)


MANY = {"sweep": [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5], "draws": 8}
MODEL = 21 * 0.1 + 10.0  # seconds, on that clock


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("minutes", "least", "draws_made", "step"),
    [(1e-6, 0, 0, "go_on"), (0.5, 0, 1, "go_on"), (2.2, 2, 2, None), (6.0, 3, 2, None), (40.0, 5, 3, None)],
)
def test_a_budget_is_kept_and_used(
    document, fresh_settings, monkeypatch, minutes, least,
    draws_made, step,
):  # fmt: skip
    clock = Clock(monkeypatch, 0.1, 10.0)
    events = run(document | MANY | {"minutes": minutes}, fresh_settings)
    tuning = outcome(events)
    compared = [row for row in tuning["rows"] if row["standing"] in ("best", "as_good", "worse")]
    assert len(compared) >= least
    assert tuning["draws"] >= draws_made
    assert clock.now <= 60 * minutes * 1.1 + MODEL
    assert (tuning["best"] is None) == (least == 0)
    assert all(row["draws"] >= 2 for row in compared)
    assert not any(row["better_low"] is not None for row in tuning["rows"] if row not in compared)
    if step is not None:
        assert (tuning["next"], tuning["end"]) == (step, "budget")
        assert tuning["more_minutes"] is not None
        again = Recipe.parse(tuning["recipe"])
        assert (again.kind, again.minutes) == ("tune", tuning["more_minutes"])
    assert any(event.type == "saved" for event in events) == (draws_made > 0)


def test_a_text_on_which_the_float_model_is_no_better_ends_it_before_its_budget(
    document, fresh_settings, monkeypatch
):  # fmt: skip
    """Measured on its own: the float model's perplexity and that of GPTQ 1 %, in ordinary runs."""
    clock = Clock(monkeypatch, 0.1, 10.0)
    asked = document | MANY | {"bits": 3, "minutes": 30.0}  # a model of random weights knows no text
    events = run(asked, fresh_settings)
    tuning = outcome(events)
    assert (tuning["end"], tuning["next"], tuning["recipe"]) == ("yardstick", "", None)
    assert clock.now <= 2 * MODEL
    assert tuning["measured"] == 1
    single = {name: value for name, value in single_run(asked).items() if name not in ("minutes", "draws", "sweep")}
    summary = run(single | {"method": "gptq", "seed": 0}, fresh_settings)[-1].summary
    assert summary["perplexity"] <= summary["perplexity_float"]
    words = tuning_sentence(tuning)[0]["text"]
    assert "perplexity can’t rank λ here" in words


@pytest.mark.thorough
def test_going_on_costs_what_is_missing(document, fresh_settings, monkeypatch):
    """A second run with the proposed budget begins where the first one stopped, and compares enough."""
    clock = Clock(monkeypatch, 0.1, 10.0)
    first = outcome(run(document | MANY | {"minutes": 0.9}, fresh_settings))
    assert first["next"] == "go_on"
    assert first["measured"] > 1
    clock.now = 0.0
    second = outcome(run(first["recipe"], fresh_settings))
    assert second["best"] is not None
    assert sum(row["standing"] in ("best", "as_good", "worse") for row in second["rows"]) >= 3
    assert clock.now <= 60 * first["more_minutes"] + MODEL


@pytest.mark.thorough
def test_a_host_that_becomes_slow_still_says_what_is_true(document, fresh_settings, monkeypatch):
    clock = Clock(monkeypatch, 0.1, 10.0)
    events = execute(Recipe.parse(document | MANY | {"minutes": 3.0}), fresh_settings)
    for event in events:
        if isinstance(event, TuningStanding) and event.tuning["measured"] == 3:
            clock.now += 90.0
        last = event
    tuning = outcome([last])
    assert tuning["end"] == "budget"
    assert clock.now <= 180 + MODEL
    assert all(
        row["standing"] in ("not_reached", "ruled_out", "baseline") for row in tuning["rows"] if row["draws"] < 2
    )


@pytest.mark.thorough
def test_a_band_that_is_narrow_enough_ends_it(document, fresh_settings):
    tuning = outcome(run(document | {"band": 1000.0, "draws": 8}, fresh_settings))
    assert tuning["end"] in ("narrow", "known")
    assert tuning["draws"] == 2


@pytest.mark.thorough
def test_a_best_value_at_an_end_widens_the_range(document, fresh_settings):
    tuning = outcome(run(document | {"sweep": [1e-4, 1e-3], "draws": 2}, fresh_settings))
    lams = [row["lambda"] for row in tuning["rows"] if row["method"] == "sarqc-gbs"]
    errors = [row["layer_error"] for row in tuning["rows"] if row["method"] == "sarqc-gbs"]
    assert lams == sorted(lams)
    assert lams[0] == 0
    assert errors.index(min(errors)) < len(errors) - 2
    assert tuning["rows"][errors.index(min(errors))]["standing"] != "ruled_out"


@pytest.mark.thorough
def test_a_part_of_the_model(document, fresh_settings):
    events = run(document | {"blocks": [2, 0], "draws": 2}, fresh_settings)
    [started] = of_type(events, Started)
    assert {layer["block"] for layer in started.layers} == {0, 2}
    tuning = outcome(events)
    assert tuning["blocks"] == [0, 2]
    following = Recipe.parse(tuning["recipe"])
    assert set(following.blocks) == ({0, 2} if following.kind == "tune" else set()), "a run quantizes all of the model"
    whole = outcome(run(document | {"draws": 2}, fresh_settings))
    of_part, of_whole = (next(row["kl"] for row in one["rows"] if row["method"] == "rtn") for one in (tuning, whole))
    assert 0 < of_part < of_whole


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "gptaq"}, "can't be tuned"),
        ({"method": "omniquant"}, "can't be tuned"),
        ({"method": "sarqc-gs", "mode": "foldable"}, "can't be tuned"),
        ({"lambda": 0.1}, "tuning finds λ"),
        ({"test": None}, "no text to measure"),
        ({"layer": "model.layers.0.mlp.up_proj"}, "single layer"),
        ({"sweep": [0.1]}, "single λ"),
        ({"blocks": [0], "block_fraction": 0.5}, "by number and as a fraction"),
        ({"band": 1}, "band"),
        ({"draws": 1}, "draws"),
        ({"minutes": 0}, "minutes"),
    ],
)
def test_what_can_not_be_tuned_is_refused(document, change, words):
    with pytest.raises(Refused, match=words):
        Recipe.parse(document | change)


def test_a_block_that_is_not_there_is_refused(document, settings):
    with pytest.raises(Refused, match="no block 3"):
        plan(Recipe.parse(document | {"blocks": [0, 3]}), settings)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.25, (1, 4)), (1.0, tuple(range(6))), (0.01, (3,)), (0.5, (1, 3, 5))]
)
def test_a_share_is_spread_evenly(document, share, expected):
    assert Recipe.parse(document | {"block_fraction": share}).blocks_of(6) == expected


@pytest.mark.thorough
def test_one_more_value_costs_its_own_work_alone(tuned, document, tuned_settings, monkeypatch):
    measured, solved = [], []

    def measuring(*given, **named):
        measured.append(1)
        return perplexity_steps(*given, **named)

    def solving(*given):
        solved.append(len(given[2]))
        return solve_points(*given)

    monkeypatch.setattr(trials, "perplexity_steps", measuring)
    monkeypatch.setattr(trials, "solve_points", solving)
    monkeypatch.setattr(float_statistics, "BlockWalk", None)
    tuning = outcome(run(document | {"sweep": [0.01, 0.07, 0.1, 1]}, tuned_settings))
    added = next(row for row in tuning["rows"] if row["lambda"] == 0.07)
    # Less or more of the others is measured where the new one changes what is left of them, which it does not here.
    assert len(measured) == added["draws"]
    blocks = 3
    assert max(solved) == len(tuning["gammas"]), "the new λ at every γ, and at the chosen one"
    assert len(solved) == blocks * (1 + max(1, added["draws"]))


@pytest.mark.thorough
def test_float_predictions_that_are_gone_are_said(document, fresh_settings, monkeypatch):
    def gone(*_given, **_named):
        raise StatesGone

    with monkeypatch.context() as without:
        without.setattr(trials, "perplexity_steps", gone)
        with pytest.raises(SarqcError, match="cached predictions of the float model are gone") as raised:
            run(document, fresh_settings)
    assert "SARQC_CACHE_GIB" in raised.value.remedy
    assert outcome(run(document, fresh_settings))["end"], "the same run goes on"


def test_a_long_test_text_is_read_in_part_and_that_is_said(document, fresh_settings, monkeypatch):
    monkeypatch.setattr("sarqc.recipe.fields.TUNED_TEST_TOKENS", 300)
    whole = {name: value for name, value in document.items() if name != "test_tokens"}
    prepared = prepare(Recipe.parse(whole), fresh_settings)
    assert len(prepared.test.ids) == 300
    assert any("on the first 300 of the" in words for words in prepared.shown.warnings)
    asked = prepare(Recipe.parse(document | {"test_tokens": 500}), fresh_settings)
    assert len(asked.test.ids) == 500
    assert not any("on the first" in words for words in asked.shown.warnings)
    of_a_run = ("model", "bits", "group_size", "calibration", "test", "samples", "length")
    run = {name: value for name, value in whole.items() if name in of_a_run}
    of_run = prepare(Recipe.parse(run), fresh_settings)
    assert len(of_run.test.ids) > 500
