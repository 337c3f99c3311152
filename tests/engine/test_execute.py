"""One run from recipe to study: its events, its numbers, its files, and that nothing is computed twice."""

import json
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from sarqc.calibration.corpora import overlap_shares
from sarqc.engine.execute import execute
from sarqc.engine.plan import plan, prepare
from sarqc.errors import NotFound, Refused, Unreachable
from sarqc.events import CandidateDone, Finished, LayerDone, Measured, PointDone, Saved, Started, Warned, from_json
from sarqc.figures import lab_view
from sarqc.models import folding
from sarqc.recipe import Recipe
from sarqc.study.document import Study
from tests.engine.running import of_type, reports_of, run
from tests.quantization.test_early_stopping import EARLY


@pytest.fixture
def document(small):
    return small | {
        "bits": 3, "method": "sarqc-gbs", "lambda": 0.3, "gamma": 0.5, "held_out_samples": 2, "test_tokens": 1000,
        "sweep": [0, 0.1, 1], "baseline": False,
    }  # fmt: skip


@pytest.mark.thorough
def test_a_run_says_all_it_does(document, fresh_settings, tmp_path):
    to = {"study_dir": tmp_path / "studies", "study_id": "one", "checkpoint_dir": tmp_path / "model"}
    events = run(document, fresh_settings, **to)
    started, finished = of_type(events, Started)[0], events[-1]
    assert [event.name for event in of_type(events, LayerDone)] == [layer["name"] for layer in started.layers]
    assert len(started.layers) == 21
    assert of_type(events, PointDone) == []  # a whole model would say hundreds
    for event in events:  # what is stored and sent is the event
        assert from_json(json.loads(json.dumps(event.to_json()))).to_json() == json.loads(json.dumps(event.to_json()))

    summary = finished.summary
    measured = {event.which: event for event in of_type(events, Measured)}
    assert summary["perplexity"] == measured["quantized"].value != measured["float"].value
    assert summary["perplexity_float"] == measured["float"].value
    assert 0 < summary["share_quantized"] < 1
    assert measured["quantized"].protocol["predicted_tokens"] == 15 * 63
    assert measured["quantized"].protocol["only_the_first_tokens"] == 1000

    study = Study.open(tmp_path / "studies" / "one")
    line = study.line("sarqc-gbs", 3)
    assert line.lams == (0.0, 0.1, 0.3, 1.0)
    assert line.chosen == (0, 2)
    arrays = {name: study.array(line, name) for name in line.arrays}
    assert arrays["perplexity"][0, 0, 2] == np.float32(summary["perplexity"])
    assert np.isnan(arrays["perplexity"][0, 0, [0, 1, 3]]).all()
    assert summary["quantized_layers"] == 21
    assert study.layer_reports == json.loads(json.dumps(reports_of(events)))
    for index, (name, report) in enumerate(study.layer_reports.items()):
        assert study.layers[index].name == name
        assert arrays["recon"][0, index, 0, 2] == np.float32(report["relative_recon"])
        assert arrays["held_out"][0, index, 0, 2] == np.float32(report["relative_held_out"])
        assert arrays["surface"][index].max() == 255
    assert [saved.what for saved in of_type(events, Saved)] == ["study", "checkpoint"]


@pytest.mark.thorough
def test_a_flipped_bit_of_a_kept_layer_is_said_and_costs_that_layer(document, fresh_settings):
    first = run(document, fresh_settings)
    victim = sorted(fresh_settings.artefacts_dir().glob("*/*.layer"))[7]
    whole = victim.read_bytes()
    victim.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    again = run(document, fresh_settings)
    (said,) = [event.what for event in of_type(again, Warned) if event.where == "kept files"]
    assert "checksum mismatch" in said
    assert victim.name in said
    assert sum(not event.from_cache for event in of_type(again, LayerDone)) == 1
    assert json.dumps(reports_of(again)) == json.dumps(reports_of(first))
    assert of_type(again, Finished)[0].summary == of_type(first, Finished)[0].summary


@pytest.mark.parametrize("sampling", ["sequential", "random"])
@pytest.mark.parametrize("kind", ["run", "tune"])
def test_no_token_of_one_text_is_calibrated_on_and_second_half(document, settings, tmp_path, kind, sampling):
    """Under whatever name a file has."""
    copied = tmp_path / "copied.txt"
    copied.write_bytes(Path(document["test"]).read_bytes())
    changes = {"test": str(copied), "sampling": sampling, "test_tokens": None, "samples": 10, "sweep": []}
    changes |= {"kind": kind, **({"lambda": None} if kind == "tune" else {})}
    prepared = prepare(Recipe.parse({**document, **changes}), settings)
    ids = AutoTokenizer.from_pretrained(document["model"])(copied.read_text())["input_ids"]
    assert prepared.test.ids.tolist() == ids[len(ids) // 2 :]
    assert [*prepared.calibration.ids, *prepared.test.ids] == ids
    assert overlap_shares(prepared.sequences.calibration, prepared.calibration)[0] == 1
    assert prepared.shown.test_tokens == len(prepared.test.ids)
    assert "same text" in prepared.shown.warnings[0]


@pytest.mark.thorough
def test_a_text_that_another_model_wrote_is_called_so_in_plan_report_and_study(document, fresh_settings, tmp_path):
    texts = {"calibration": "tiny-llama-calibration", "test": "tiny-llama-test", "test_tokens": 300, "sweep": []}
    asked = {**document, **texts, "samples": 2}
    prepared = prepare(Recipe.parse(asked), fresh_settings)
    assert "calibration and test texts were written by tiny-llama, another model" in prepared.shown.warnings[0]
    events = run(asked, fresh_settings, study_dir=tmp_path / "studies", study_id="one")
    assert "written by tiny-llama" in of_type(events, Warned)[0].what
    protocol = events[-1].summary["protocol"]
    assert [protocol[name]["written_by"] for name in ("calibration", "test")] == ["tiny-llama", "tiny-llama"]
    facts = {fact["name"]: fact["text"] for fact in lab_view(Study.open(tmp_path / "studies" / "one"))["measured"]}
    assert all("written by tiny-llama" in facts[name] for name in ("Calibration text", "Test text"))
    own = prepare(Recipe.parse({**asked, "model": "tiny-llama", "test": "tiny-moe-test"}), fresh_settings)
    assert "test text was written by tiny-moe, another model" in own.shown.warnings[0]
    assert "written_by" not in own.sequences.protocol  # its own


@pytest.mark.thorough
def test_one_text_for_both_is_said_by_the_study_and_keeps_nothing_wrong(document, fresh_settings, tmp_path):
    """A text that is the second half, under the same name, has another protocol though the tokens are the same."""
    text = tmp_path / "text.txt"
    text.write_bytes(Path(document["test"]).read_bytes())
    asked = {**document, "calibration": str(text), "test": str(text), "test_tokens": None, "sweep": []}
    events = run(asked, fresh_settings, study_dir=tmp_path / "studies", study_id="one")
    assert "same text" in of_type(events, Warned)[0].what
    protocol = events[-1].summary["protocol"]["test"]
    assert protocol["part"].startswith("second half")
    facts = lab_view(Study.open(tmp_path / "studies" / "one"))["measured"]
    assert "second half" in next(fact["text"] for fact in facts if fact["name"] == "Test text")
    other = {**asked, "calibration": document["calibration"]}
    tokenizer = AutoTokenizer.from_pretrained(asked["model"])
    ids = tokenizer(text.read_text())["input_ids"]
    half = ids[len(ids) // 2 :]
    text.write_text(tokenizer.decode(half))
    assert tokenizer(text.read_text())["input_ids"] == half
    again = run(other, fresh_settings)
    assert "part" not in again[-1].summary["protocol"]["test"]
    assert again[-1].summary["perplexity_float"] == events[-1].summary["perplexity_float"]
    assert of_type(again, Warned) == []


def test_calibration_text_inside_a_longer_test_text_is_said(document, settings, tmp_path):
    longer = tmp_path / "longer.txt"
    longer.write_text(Path(document["test"]).read_text() + " The end.")
    shown = plan(Recipe.parse({**document, "test": str(longer)}), settings)
    assert "100.0% of the calibration sequences are in the test text too" in shown.warnings[0]
    with pytest.raises(Refused, match="first half of the text") as refused:
        plan(Recipe.parse({**document, "samples": 60}), settings)
    assert "measure on another text" in refused.value.remedy


@pytest.mark.thorough
@pytest.mark.parametrize("sweep_gib", [1.0, 1e-9])  # all λ at once, and one after the other
@pytest.mark.parametrize("method", ["sarqc-gbs", "sarqc-gs"])
def test_a_layer_alone_tells_its_points(document, fresh_settings, tmp_path, method, sweep_gib):
    name = "model.layers.1.mlp.down_proj"
    alone = {key: value for key, value in document.items() if key != "gamma" or method == "sarqc-gbs"}
    recipe = Recipe.parse(alone | {"method": method, "inputs_from": "float", "layer": name, "test": None})
    settings = fresh_settings.model_copy(update={"sweep_gib": sweep_gib})
    events = run(recipe, settings, study_dir=tmp_path / "studies", study_id="one")
    points = of_type(events, PointDone)
    assert [(one.name, one.index, one.total) for one in points] == [(name, index, 4) for index in range(4)]
    study = Study.open(tmp_path / "studies" / "one")
    line = study.lines[0]
    assert tuple(one.lam for one in points) == line.lams == (0.0, 0.1, 0.3, 1.0)
    for values in ("recon", "held_out", "sar", "drift"):
        curve = study.array(line, values)[0, 0, 0]
        assert [getattr(one, f"relative_{values}") for one in points] == curve.tolist()
    (done,) = of_type(events, LayerDone)
    assert events.index(points[-1]) < events.index(done)
    assert points[2].relative_recon == np.float32(done.report["relative_recon"])  # λ = 0.3, its own

    again = run(recipe, settings)
    assert of_type(again, LayerDone)[0].from_cache
    assert of_type(again, PointDone) == points


def test_points_without_unseen_text_or_without_a_curve(document, fresh_settings):
    alone = document | {"inputs_from": "float", "layer": "model.layers.0.mlp.up_proj", "test": None}
    events = run(alone | {"held_out_samples": 0}, fresh_settings)
    assert {one.relative_held_out for one in of_type(events, PointDone)} == {None}
    chosen = {key: value for key, value in alone.items() if key not in ("sweep", "gamma")} | {"lambda": "auto"}
    events = run(chosen, fresh_settings)
    assert of_type(events, PointDone) == []  # “auto” has no curve over λ


def test_notes_are_not_silent(document, fresh_settings):
    changes = {"method": "gptq", "inputs_from": "float", "group_size": 32, "indivisible": "per_channel"}
    words = " ".join(event.what for event in of_type(run(document | changes, fresh_settings), Warned))
    for said in ("λ = 0.3 has no effect on gptq", "per channel", "the float model's inputs"):
        assert said in words


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"group_size": 32}, Refused, "per_channel"),
        ({"length": 500}, Refused, "128"),
        ({"window": 500}, Refused, "128"),
        ({"samples": 5000}, Refused, "tokens"),
        ({"model": "nobody/nothing"}, Unreachable, "Hub"),
        ({"model": "nothing"}, NotFound, "tiny-llama"),
        ({"calibration": "nothing"}, NotFound, "tiny-llama-calibration"),
        ({"test": "nothing"}, NotFound, "text"),
        ({"tasks": ["nothing"]}, Refused, "task"),
    ],
)
def test_refusals_come_before_any_work(document, fresh_settings, change, kind, words):
    with pytest.raises(kind, match=words) as caught:
        next(execute(Recipe.parse(document | change), fresh_settings))
    assert caught.value.remedy
    assert not fresh_settings.resolved_state_dir().exists()


@pytest.mark.parametrize("asked", [{"group_size": 32}, {"length": 200}, {"samples": 60}, {"window": 200}])
def test_what_a_refusal_proposes_works(document, settings, asked):
    with pytest.raises(Refused) as refused:
        plan(Recipe.parse({**document, **asked}), settings)
    assert refused.value.field == next(iter(asked))
    assert refused.value.fixes
    for fix in refused.value.fixes:
        plan(Recipe.parse({**document, **asked, **fix.values}), settings)


def test_a_lambda_beyond_all_use_is_warned_of(document, settings):
    assert "0.05 to 0.5 is usual" in plan(Recipe.parse({**document, "lambda": 1e9}), settings).warnings[-1]


@pytest.mark.parametrize(
    ("changed", "warned"),
    [
        ({"samples": 2}, True),  # 64 tokens, and down_proj has 48 input channels
        ({"samples": 3}, False),
        ({"samples": 2, "lambda": 0.01}, False),
        ({"samples": 2, "method": "sarqc-gs", "gamma": None}, False),  # λ of a scale search is no damping
    ],
)
def test_undamped_codes_of_few_tokens_are_warned_of(document, settings, changed, warned):
    values = {**document, "lambda": 0, **changed}
    shown = plan(Recipe.parse({name: value for name, value in values.items() if value is not None}), settings)
    assert any("λ = 0 damps nothing" in warning for warning in shown.warnings) == warned


def test_an_output_that_is_not_empty_is_refused(document, fresh_settings, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(Refused, match="not empty"):
        run(document, fresh_settings, checkpoint_dir=tmp_path)


def test_the_plan_counts(document, settings, random_llama):
    planned = plan(Recipe.parse(document), settings)
    model = AutoModelForCausalLM.from_pretrained(random_llama)
    linears = [weight.numel() for name, weight in model.named_parameters() if "_proj" in name]
    assert planned.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert planned.layers == len(linears) == 21
    assert planned.share_quantized == sum(linears) / planned.parameters
    assert planned.bits_per_weight == 3 + (16 + 3) / 16
    assert planned.test_tokens == 1000


def test_a_model_of_the_hub_is_checked_again_once_it_is_here(document, fresh_settings, random_llama, monkeypatch):
    """The Hub's part is played by the local folder: not on this host at first, there after the download."""
    from sarqc.models.hub import NotCached

    here = []

    def fetch(model, revision, settings, *, download):
        if download:
            here.append(True)
        if not here:
            raise NotCached(model)
        return random_llama

    monkeypatch.setattr("sarqc.models.catalogue.fetch", fetch)
    recipe = Recipe.parse(document | {"model": "somebody/llama", "length": 500})
    assert plan(recipe, fresh_settings).parameters is None
    assert not here  # a plan downloads nothing
    with pytest.raises(Refused, match="longer than the model"):
        run(recipe, fresh_settings)
    assert here


@pytest.mark.thorough
def test_what_was_prepared_is_not_found_out_again(document, fresh_settings, monkeypatch):
    recipe = Recipe.parse(document)
    prepared = prepare(recipe, fresh_settings)
    alone = run(recipe, fresh_settings)
    for name in ("checkpoint_of", "text_of", "encode_each", "draw_sequences", "check_corpus"):
        monkeypatch.setattr(f"sarqc.engine.plan.{name}", None)  # anyone who calls it now fails
    again = run(recipe, fresh_settings, prepared=prepared)
    assert again[-1].summary == alone[-1].summary


def test_two_walks_cost_more(document, settings):
    plain, shifted = (
        plan(Recipe.parse(document | {"method": name}), settings) for name in ("sarqc-gbs", "sarqc-gptaq")
    )
    assert shifted.minutes > plain.minutes
    assert shifted.memory_bytes > plain.memory_bytes
    assert shifted.calibration_tokens == plain.calibration_tokens


@pytest.mark.thorough
def test_auto_for_layers_keeps_what_was_compared(document, fresh_settings, tmp_path):
    document |= {"lambda": "auto", "gamma": "auto", "sweep": [], "samples": 8, "validation_share": 0.25}
    events = run(document, fresh_settings, study_dir=tmp_path, study_id="auto")
    summary = events[-1].summary
    taken = [report["chosen"]["lam"] for report in reports_of(events).values()]
    low, high = taken.count(0.25), taken.count(0.75)
    edge = f"{low} took the smallest λ tried (0.25) and {high} took the largest λ tried (0.75)"
    words = f"Of 21 layers, {edge}: a smaller or larger one may suit them better."
    assert summary["selection"] == {"by": "layer", "edge": words}
    study = Study.open(tmp_path / "auto")
    line = study.lines[0]
    assert (line.selected, line.lams, line.gammas) == ("layer", (0.0,), (None,))
    assert (line.candidate_lams, line.candidate_gammas) == ((0.25, 0.5, 0.75), (0.1, 0.15, 0.35, 0.5))
    arrays = {name: study.array(line, name) for name in line.arrays}
    assert arrays["perplexity"].shape == (1, 1, 1)
    assert arrays["perplexity"][0, 0, 0] == np.float32(summary["perplexity"])
    for index, report in enumerate(reports_of(events).values()):
        table = np.array([row["validation"] for row in report["candidates"]]).reshape(4, 3)
        best = np.unravel_index(table.argmin(), table.shape)
        assert report["chosen"]["gamma"] == line.candidate_gammas[best[0]]
        assert report["chosen"]["lam"] == line.candidate_lams[best[1]]
        np.testing.assert_allclose(arrays["candidate_validation"][0, index], table, rtol=1e-6)
        assert arrays["selected_lambda"][0, index] == np.float32(report["chosen"]["lam"])
        assert arrays["selected_gamma"][0, index] == np.float32(report["chosen"]["gamma"])


@pytest.mark.thorough
def test_auto_chooses_alpha_of_the_shift(document, fresh_settings, tmp_path):
    """With λ of its own, and beside λ and γ; what is compared at each (γ, λ) is the α that was judged best."""
    common = {**document, "sweep": [], "samples": 8, "validation_share": 0.25, "inputs_from": "quantized"}
    for number, asked in enumerate(
        (
            {"method": "gptaq-full", "lambda": None, "gamma": None, "shift_strength": "auto"},
            {"method": "sarqc-gptaq", "lambda": "auto", "gamma": 0.5, "shift_strength": "auto"},
        )
    ):
        events = run(common | asked, fresh_settings, study_dir=tmp_path, study_id=f"alpha{number}")
        reports = reports_of(events).values()
        study = Study.open(tmp_path / f"alpha{number}")
        (line,) = study.lines
        strength = study.array(line, "selected_strength")[0]
        np.testing.assert_allclose(strength, [report["chosen"]["shift_strength"] for report in reports])
        assert len(set(strength.tolist())) > 1
        judged = study.array(line, "candidate_validation")[0]
        lams = list(line.candidate_lams)
        for layer, report in enumerate(reports):
            assert len(report["candidates"]) == 5 * len(lams)
            for at, lam in enumerate(lams):
                best = min(row["validation"] for row in report["candidates"] if row["lam"] == lam)
                assert judged[layer, 0, at] == np.float32(best)
        view = lab_view(study)
        words = " ".join(view["told"]["perplexity"]["small_print"][0][0])
        assert "α of the shift: " in words
        assert (view["figures"]["selection"] is None) == (len(lams) == 1)


@pytest.mark.thorough
def test_auto_for_the_model_settles_on_one_lambda(document, fresh_settings, tmp_path):
    changes = {"method": "sarqc-gs", "lambda": "auto", "gamma": None, "sweep": []}
    events = run(document | changes, fresh_settings, study_dir=tmp_path, study_id="auto")
    judged = of_type(events, CandidateDone)
    assert [event.lam for event in judged] == [step / 10 for step in range(1, 11)]
    best = min(judged, key=lambda event: event.perplexity)
    summary = events[-1].summary
    assert summary["selection"]["lambda"] == best.lam
    assert summary["selection"]["protocol"]["judged_on"] == 2  # of 6
    assert [row["perplexity"] for row in summary["selection"]["candidates"]] == [event.perplexity for event in judged]
    assert {report["chosen"]["lam"] for report in reports_of(events).values()} == {best.lam}
    assert len(of_type(events, LayerDone)) == 21  # of the final solve alone
    study = Study.open(tmp_path / "auto")
    line = study.lines[0]
    assert line.selected == "model"
    perplexities = study.array(line, "candidate_perplexity")
    np.testing.assert_allclose(perplexities[0], [event.perplexity for event in judged], rtol=1e-6)

    expected = run(document | changes | {"lambda": best.lam}, fresh_settings)[-1].summary
    assert expected["perplexity"] == summary["perplexity"]
    assert expected["selection"] is None


def test_what_auto_costs_is_planned(document, fresh_settings):
    def minutes(**changes):
        return plan(Recipe.parse({**document, "sweep": [], "test": None, **changes}), fresh_settings).minutes

    assert minutes(**{"lambda": "auto"}) > minutes()
    search = {"method": "sarqc-gs", "gamma": None}
    assert minutes(**search, **{"lambda": "auto"}) > 3 * minutes(**search)
    learned = {"method": "sarqc-omniquant", "gamma": None}
    assert minutes(**learned) > minutes()
    assert minutes(**learned, epochs=200) > 3 * minutes(**learned)
    rounded = {"method": "sarqc-signround", "gamma": None}
    assert minutes(**rounded, steps=1000) > 3 * minutes(**rounded) > 3 * minutes(**rounded, steps=1)
    assert minutes(**rounded, warm_start="gptq") > minutes(**rounded)
    warm = rounded | {"warm_start": "column_solver", "held_out_samples": 4}
    assert minutes(**warm) > minutes(**rounded, held_out_samples=4)
    assert minutes(**warm, refine=10) > minutes(**warm)
    few = rounded | {"steps": 20, "held_out_samples": 40}  # each step is checked, on ten times as many sequences
    assert minutes(**few, **EARLY) > minutes(**few)


def test_a_fallback_is_an_event_and_a_flag(document, fresh_settings, monkeypatch):
    monkeypatch.setattr(folding, "channel_ties", lambda *_: None)  # nothing can take up a scale
    document |= {"method": "awq", "mode": "foldable", "lambda": None, "gamma": None, "sweep": []}
    events = run(document, fresh_settings)
    warned = [event.where for event in of_type(events, Warned) if "take up" in event.what]
    assert warned == [*reports_of(events)]
    assert all("not_foldable" in report["flags"] for report in reports_of(events).values())
