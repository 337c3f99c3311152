"""A small survey end to end: its axes, its pairing, and that each point is what a run of it would be."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sarqc.calibration.capture import collect
from sarqc.calibration.corpora import overlap_shares, text_of
from sarqc.errors import Refused
from sarqc.events import Event
from sarqc.extras.survey.conduct import conduct, solve_curve
from sarqc.extras.survey.schema import Survey
from sarqc.figures import compare_view, lab_view
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.loading import choose_device, load
from sarqc.models.walk import BlockWalk
from sarqc.recipe import Recipe
from sarqc.settings import SITE
from sarqc.study.document import Line, Study
from sarqc.study.facts import line_facts
from sarqc.study.frames import frame
from tests.engine.running import reports_of, run


@pytest.fixture
def small(small):
    return small | {
        "title": "small", "grid": "asymmetric", "samples": 4, "draws": [7], "held_out": small["test"],
        "held_out_samples": 2,
    }  # fmt: skip


@pytest.fixture
def surveyed(small, fresh_settings, tmp_path):
    """Conducts a survey of some lines; says what it said, and its study."""

    def conducted(lines, name="small", **changes):
        survey = Survey.model_validate({**small, **changes, "lines": lines})
        return list(conduct(survey, fresh_settings, tmp_path / name)), Study.open(tmp_path / name)

    return conducted


def run_of(small: dict, **changes) -> Recipe:
    """With the settings of a survey and the sequences of its draw 7."""
    names = ("model", "group_size", "calibration", "samples", "length", "test", "window")
    return Recipe.parse({name: small[name] for name in names} | {"sampling": "random", "seed": 7} | changes)


def assert_alike(study: Study, line: Line, point: tuple[int, int, int], events: list[Event]):
    """A point (draw, γ, λ) of a line has the numbers of a run, but for the order of sums."""
    draw, *values = point
    perplexity = study.array(line, "perplexity")[point]
    assert perplexity == pytest.approx(events[-1].summary["perplexity"], rel=2e-3)
    reports = [report["relative_recon"] for report in reports_of(events).values()]
    np.testing.assert_allclose(study.array(line, "recon")[draw, :, *values], reports, rtol=2e-3)


@pytest.mark.thorough
def test_points_are_runs(small, surveyed, fresh_settings):
    lines = [{"method": "rtn", "bits": 2}, {"method": "sarqc-gbs", "bits": 2, "lambda": [0.0, 0.3], "gamma": [0.5]}]
    words, study = surveyed(lines, draws=[4, 7])
    assert sum("perplexity" in line for line in words) == 1 + 2 * 3
    assert study.prefix == "float"
    rtn, line = study.line("rtn", 2), study.line("sarqc-gbs", 2)
    flat = study.array(rtn, "perplexity")
    assert flat.shape == (2, 1, 1)
    assert flat[0] == flat[1]  # nothing is drawn for it
    perplexity = study.array(line, "perplexity")
    assert perplexity.shape == (2, 1, 2)
    assert perplexity[0, 0, 0] != perplexity[1, 0, 0]

    given = {"bits": 2, "method": "sarqc-gbs", "lambda": 0.3, "gamma": 0.5}
    events = run(run_of(small, inputs_from="float", **given), fresh_settings)
    assert_alike(study, line, (1, 0, 1), events)


@pytest.mark.thorough
def test_with_a_task_every_point_has_its_accuracy(surveyed):
    lines = [{"method": "rqc-gbs", "bits": 2, "lambda": [0.0, 0.3]}]
    words, study = surveyed(lines, tasks=["tiny-llama-continuations"])
    line = study.line("rqc-gbs", 2)
    accuracy, correct = study.array(line, "accuracy"), study.array(line, "correct")
    assert np.isfinite(accuracy).all()
    np.testing.assert_allclose(correct.mean(-1), accuracy, rtol=1e-6)
    assert (correct[0, 0, 0] != correct[0, 0, 1]).any()
    share, items = study.model.accuracy, correct.shape[-1]
    assert f"accuracy {share:.4f}" in words[0]
    assert study.model.accuracy_standard_error == pytest.approx((share * (1 - share) / (items - 1)) ** 0.5)
    assert (study.protocol["tasks"], study.protocol["items"]) == (["tiny-llama-continuations"], items)


@pytest.mark.thorough
def test_a_line_may_have_fewer_draws_and_tasks_at_some_of_its_points(small, surveyed):
    lines = [
        {"method": "rqc-gbs", "bits": 2, "lambda": [0.01, 0.3], "tasks_at": [0.01]},
        {"method": "sarqc-gbs", "bits": 2, "lambda": [0.1, 0.3], "gamma": [0.1, 0.5], "draws": 1, "tasks_at": [0.3]},
        {"method": "rtn", "bits": 2, "tasks_at": []},
    ]
    task = {"tasks": ["tiny-llama-continuations"], "task_limit": 12}
    _, study = surveyed(lines, **task, draws=[7, 9], test_tokens=192)
    identity, saliency, rtn = (study.line(name, 2) for name in ("rqc-gbs", "sarqc-gbs", "rtn"))
    assert (identity.draws, saliency.draws) == ((7, 9), (7,))
    assert study.array(saliency, "perplexity").shape == (1, 2, 2)
    assert np.isfinite(study.array(saliency, "perplexity")).all()
    known = {line.name: np.isfinite(study.array(line, "accuracy")).tolist() for line in (identity, saliency, rtn)}
    assert known == {
        "rqc-gbs": [[[True, False]], [[False, False]]],
        "sarqc-gbs": [[[False, True], [False, False]]],
        "rtn": [[[False]], [[False]]],
    }
    correct = study.array(identity, "correct")
    assert correct.shape[-1] == 12
    assert correct[0, 0, 0].max() <= 1
    test = study.protocol["test"]
    assert (test["windows"], test["predicted_tokens"], test["only_the_first_tokens"]) == (3, 3 * 63, 192)
    assert (study.protocol["items"], study.protocol["task_limit"]) == (12, 12)

    facts = line_facts(study, method="sarqc-gbs", bits=2, layer=None)
    np.testing.assert_array_equal(facts.perplexity.to_baseline.draws, np.ones((2, 2)))  # those that both have
    for name in ("rqc-gbs", "sarqc-gbs", "rtn"):
        json.dumps(lab_view(study, method=name, bits=2, layer=None), allow_nan=False)
    json.dumps(compare_view([study, study]), allow_nan=False)
    with pytest.raises(Refused, match="λ that the line does not have"):
        Survey.model_validate({**small, "lines": [{**lines[0], "tasks_at": [0.02]}]})


@pytest.mark.thorough
def test_without_a_task_figures_do_without_accuracies(surveyed):
    lines = [
        {"method": "gptq", "bits": 3},
        {"method": "rqc-gbs", "bits": 3, "lambda": [0.0, 0.3]},
        {"method": "rqc-gbs", "bits": 3, "lambda": "auto"},
    ]
    _, study = surveyed(lines)
    assert (study.model.accuracy, study.protocol["tasks"], study.protocol["items"]) == (None, [], 0)
    for line in study.lines:
        assert line_facts(study, method=line.name, bits=3, layer=None).accuracy is None
        view = lab_view(study, method=line.name, bits=3, layer=None)
        json.dumps(view, allow_nan=False)
        assert view["figures"]["hero_accuracy"] is None
        assert not any(column["key"].startswith("accuracy") for column in view["table"]["columns"])
    json.dumps(compare_view([study, study]), allow_nan=False)
    assert frame(study)["perplexity"].notna().all()
    assert frame(study)["accuracy"].isna().all()


@pytest.mark.thorough
def test_a_line_has_the_pictures_that_are_asked_for(small, surveyed):
    plain = {"method": "rqc-gbs", "bits": 2, "lambda": [0.01, 0.3]}
    lines = [
        plain | {"range": "search", "order": "activation"},
        plain,
        {"method": "rqc-gbs", "bits": 3, "lambda": [0.1], "refine": 2, "refit": 1, "pictures": "none"},
        {"method": "sarqc-gbs", "bits": 3, "lambda": [0.1], "pictures": "surface"},
    ]
    _, study = surveyed(lines)
    kl = study.array(study.line("rqc-gbs", 2), "kl")
    assert (kl > 0).all()
    assert np.unique(kl).size == 2
    pictures = {
        line.name: {name for name in line.arrays if "surface" in name or "group" in name} for line in study.lines
    }
    assert not pictures["rqc-gbs-refine2-refit1"]
    assert {name for name in pictures["sarqc-gbs"] if "surface" in name} == {"surface", "surface_scale", "surface_most"}
    assert "surface_signed" in pictures["rqc-gbs"]
    with pytest.raises(Refused, match="twice"):
        Survey.model_validate({**small, "lines": [plain, {**plain, "lambda": [0.2]}]})


@pytest.mark.thorough
def test_a_survey_that_was_stopped_does_not_solve_again_what_it_has_measured(
    small, fresh_settings, tmp_path, monkeypatch
):
    lines = [
        {"method": "sarqc-gbs", "bits": 2, "lambda": [0.0, 0.3], "gamma": [0.1, 0.5], "sizes": [1, 2]},
        {"method": "rqc-gbs", "bits": 3, "lambda": [0.1], "pictures": "none"},
    ]
    survey = Survey.model_validate({**small, "draws": [4, 7], "lines": lines})
    words = conduct(survey, fresh_settings, tmp_path / "stopped")
    while "draw 7, 2 bits" not in next(words):
        pass
    words.close()
    assert not (tmp_path / "stopped" / "study.json").exists()
    solved = []

    def counted(*arguments):
        solved.append(str(arguments[4]))
        return solve_curve(*arguments)

    monkeypatch.setattr("sarqc.extras.survey.conduct.solve_curve", counted)
    list(conduct(survey, fresh_settings, tmp_path / "continued"))
    layers, gammas = 21, 2
    assert len(solved) == layers * gammas + layers  # what draw 7 had begun, and its second line
    solved.clear()
    list(conduct(survey, fresh_settings, tmp_path / "again"))
    assert not solved
    other = fresh_settings.model_copy(update={"state_dir": tmp_path / "elsewhere"})
    list(conduct(survey, other, tmp_path / "at-once"))
    again, at_once = (Study.open(tmp_path / name) for name in ("again", "at-once"))
    for one, theirs in zip(again.lines, at_once.lines, strict=True):
        assert one.arrays.keys() == theirs.arrays.keys()
        for name in one.arrays:
            np.testing.assert_array_equal(again.array(one, name), at_once.array(theirs, name), err_msg=name)


def test_the_surveys_of_the_shipped_studies_can_be_read(small):
    surveys = [Survey.from_file(path) for path in sorted((SITE / "assets" / "studies").glob("*.yaml"))]
    assert len(surveys) > 2
    assert any(line.recipe.expert_damping == "damped" for survey in surveys for line in survey.lines)
    given = {"method": "gptq+identity", "bits": 2, "lambda": [0.1]}
    former, today = (
        Survey.model_validate({**small, "lines": [given | {name: "damped"}]}) for name in ("starved", "expert_damping")
    )
    assert former == today
    assert today.recipe.method == "rqc-gbs"


def test_a_wrong_survey_is_refused(tmp_path):
    (tmp_path / "survey.yaml").write_text("title: no more than this")
    with pytest.raises(Refused, match="survey"):
        Survey.from_file(tmp_path / "survey.yaml")


def test_methods_that_look_at_the_quantized_prefix_are_refused(surveyed, tmp_path):
    with pytest.raises(Refused, match="gptaq") as refused:
        surveyed([{"method": "rtn", "bits": 2}, {"method": "gptaq", "bits": 2}], name="refused")
    assert refused.value.remedy
    assert not (tmp_path / "refused").exists()


@pytest.mark.thorough
def test_a_line_over_beta_begins_with_the_plain_one(small, surveyed, fresh_settings, tmp_path):
    plain = {"method": "rqc-gbs", "bits": 2, "lambda": [0.0, 0.3], "pictures": "none"}
    lines = [plain, {**plain, "first_order": [0, 0.3]}]
    words, study = surveyed(lines, draws=[4, 7])
    assert sum("β 0.3, λ 0.3" in line for line in words) == 2
    line = study.line("rqc-gbs-first-order", 2)
    assert (line.gammas, line.second, line.sign, line.fitting) == ((0.0, 0.3), "first_order", "β", {})
    perplexity = study.array(line, "perplexity")
    np.testing.assert_array_equal(perplexity[:, :1], study.array(study.line("rqc-gbs", 2), "perplexity"))
    given = {"bits": 2, "method": "rqc-gbs", "lambda": 0.3, "first_order": 0.3, "inputs_from": "float"}
    events = run(run_of(small, **given), fresh_settings, study_dir=tmp_path, study_id="run")
    assert_alike(study, line, (1, 1, 1), events)
    (alone,) = Study.open(tmp_path / "run").lines
    assert (alone.name, alone.title) == ("rqc-gbs-beta0.3", "GPTQ + identity penalty, β 0.3")


def test_a_line_has_one_value_beside_lambda(small):
    base = {"method": "sarqc-gptaq", "bits": 2, "lambda": [0, 0.3]}
    over_alpha = {**base, "shift_strength": [0, 0.5]}
    for line, words in (
        ({**over_alpha, "gamma": [0.5]}, "gamma is given"),
        ({**over_alpha, "first_order": [0, 0.2]}, "first_order is given"),
        ({**over_alpha, "lambda": "auto"}, "lambda: auto is given"),
        ({**base, "shift_strength": [0.5, 0]}, "not the first of them"),
        ({**base, "shift_strength": [0, 0.5, 0.5]}, "there twice"),
        ({**base, "first_order": [0, 1.5]}, "β is 1.5"),
        ({"method": "rqc-gbs", "bits": 2, "lambda": [0], "shift_strength": [0, 1]}, "no “shift_strength”"),
        ({"method": "gptq", "bits": 2, "first_order": [0, 0.2]}, "no “first_order”"),
    ):
        with pytest.raises(Refused, match=words):
            Survey.model_validate({**small, "inputs_from": "quantized", "lines": [line]})
    both = [over_alpha, {**base, "first_order": [0, 0.2]}, base]
    assert len(Survey.model_validate({**small, "inputs_from": "quantized", "lines": both}).lines) == 3


@pytest.mark.thorough
def test_under_a_quantized_prefix_points_are_exactly_runs(small, surveyed, fresh_settings):
    lines = [
        {"method": "gptaq", "bits": 2},
        {"method": "sarqc-gbs", "bits": 2, "lambda": [0.1, 0.3], "gamma": [0.5]},
        {"method": "sarqc-gptaq", "bits": 3, "lambda": "auto"},
        {"method": "sarqc-gs", "bits": 3, "lambda": "auto"},
        {"method": "omniquant", "bits": 4},
        {"method": "sarqc-gptaq", "bits": 2, "lambda": [0, 0.3], "shift_strength": [0, 1], "pictures": "none"},
    ]
    _, study = surveyed(lines, inputs_from="quantized")
    assert study.prefix == "quantized"
    given = {"bits": 2, "method": "sarqc-gbs", "lambda": 0.3, "gamma": 0.5}
    asked = [
        (given, (0, 0, 1)),
        ({"bits": 2, "method": "gptaq"}, (0, 0, 0)),
        ({"bits": 3, "method": "sarqc-gptaq", "lambda": "auto", "gamma": "auto"}, (0, 0, 0)),
        ({"bits": 3, "method": "sarqc-gs", "lambda": "auto"}, (0, 0, 0)),
        ({"bits": 4, "method": "omniquant"}, (0, 0, 0)),
        ({"bits": 2, "method": "sarqc-gptaq", "lambda": 0.3, "shift_strength": 1}, (0, 1, 1)),
    ]
    over_alpha = study.lines[-1]
    assert (over_alpha.gammas, over_alpha.label) == ((0.0, 1.0), "GPTAQ + saliency penalty, over α")
    json.dumps(lab_view(study, method=over_alpha.name, bits=2), allow_nan=False)
    for recipe, point in asked:
        events = run(run_of(small, **recipe), fresh_settings)
        summary = events[-1].summary
        line = over_alpha if "shift_strength" in recipe else study.line(recipe["method"], recipe["bits"])
        assert study.array(line, "perplexity")[point] == np.float32(summary["perplexity"])
        recon = study.array(line, "recon")[point[0], :, point[1], point[2]]
        reports = reports_of(events).values()
        np.testing.assert_allclose(recon, [report["relative_recon"] for report in reports], rtol=1e-6)
        if recipe.get("lambda") == "auto":
            assert (line.lams, line.gammas, line.chosen) == ((0.0,), (None,), (0, 0))
            chosen = study.array(line, "selected_lambda")[0]
            np.testing.assert_allclose(chosen, [report["chosen"]["lam"] for report in reports], rtol=1e-6)
    by_model = study.line("sarqc-gs", 3)
    assert by_model.selected == "model"
    judged = study.array(by_model, "candidate_perplexity")
    assert judged.shape == (1, 10)
    (taken,) = {*study.array(by_model, "selected_lambda")[0].tolist()}
    assert by_model.candidate_lams[int(judged[0].argmin())] == pytest.approx(taken, rel=1e-6)
    by_layer = study.line("sarqc-gptaq", 3)
    assert study.array(by_layer, "candidate_validation").shape == (1, 21, 4, 3)


@pytest.mark.thorough
def test_more_and_fewer_calibration_sequences(surveyed):
    lines = [{"method": "sarqc-gbs", "bits": 2, "lambda": [0.01, 0.3], "gamma": [0.1, 0.5], "sizes": [1, 4, 16]}]
    _, study = surveyed(lines)
    line = study.lines[0]
    assert line.sizes == (1, 4, 16)
    recon, unseen = (study.array(line, f"{name}_by_size") for name in ("recon", "held_out"))
    assert recon.shape == unseen.shape == (1, 21, 3, 2, 2)
    # At the survey's own size these are the line's own numbers, from sums in another order.
    np.testing.assert_allclose(recon[:, :, 1], study.array(line, "recon"), rtol=5e-2)
    gap = (unseen - recon).mean(axis=(0, 1))  # size, γ, λ
    assert (gap[0] > gap[2]).all()  # more text, smaller gap
    assert (gap[0, :, 0] > gap[0, :, 1]).all()  # and with one sequence, a larger λ


def test_unseen_text_is_unseen_where_all_texts_are_one(surveyed, fresh_settings, random_llama, text_file):
    """Calibration has the first half; what is unseen begins with the second, as its energy says."""
    words, study = surveyed([{"method": "rqc-gbs", "bits": 2, "lambda": [0.1]}])
    for word in ("held-out", "test"):
        assert f"warning: calibration and {word} text are the same: the first half is calibration" in "".join(words)
    parts = [study.protocol[name]["part"] for name in ("calibration", "held_out", "test")]
    assert parts == ["first half", *["second half, calibration has the first"] * 2]

    checkpoint = checkpoint_of(str(random_llama), None, fresh_settings)
    text = text_of(str(text_file), checkpoint, fresh_settings)
    unseen = text.ids[len(text.ids) // 2 :][:64].reshape(2, 32)
    assert overlap_shares(unseen, replace(text, ids=text.ids[: len(text.ids) // 2])) == (0, 0)
    loaded = load(checkpoint, choose_device("cpu"))
    report = study.read(study.lines[0], "held_out_energy")
    walk = BlockWalk(loaded, torch.from_numpy(unseen.copy()))
    statistics, _ = collect(walk, next(iter(loaded.blocks())))
    layer = study.layers[0].name
    path = layer.split(".", 3)[3]
    weight = loaded.weight(layer).detach().double()
    energy = float(torch.einsum("oi,ij,oj->", weight, statistics[path].gram.double(), weight)) / unseen.size
    assert report[0, 0] == pytest.approx(energy, rel=1e-4)


def test_what_a_survey_cannot_do_is_refused(small):
    for line, prefix, word in (
        ({"method": "gptq", "bits": 2, "lambda": "auto"}, "quantized", "choose"),
        ({"method": "rqc-gbs", "bits": 2, "lambda": [0.1], "sizes": [1, 2]}, "quantized", "sizes"),
        ({"method": "rqc-gbs", "bits": 2, "lambda": "auto", "sizes": [1, 2]}, "float", "sizes"),
        ({"method": "sarqc-gbs", "bits": 2, "lambda": "auto", "gamma": [0.1, 0.5]}, "quantized", "one γ"),
    ):
        with pytest.raises(Refused, match=word):
            Survey.model_validate({**small, "inputs_from": prefix, "lines": [line]})
