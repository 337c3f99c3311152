"""What a finished run says of its model: how far it is from the float one, and from GPTQ on the same texts."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import AutoModelForCausalLM, AutoTokenizer

from sarqc.engine import baseline, measure
from sarqc.engine.execute import execute
from sarqc.engine.kept_states import KeptStates, StatesGone
from sarqc.engine.plan import plan
from sarqc.engine.result import edge_words
from sarqc.errors import NumericalError
from sarqc.events import Compared, Diverged, Measured, Stage, Warned
from sarqc.files.artefacts import ArtefactStore
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.study.evidence import Evidence
from sarqc.study.paired import Difference
from tests.engine.running import of_type, run, summary_of

WINDOW, WINDOWS = 64, 12  # tokens of a window of ``small``, and their number


@pytest.fixture
def recipe(small):
    values = {"bits": 2, "method": "sarqc-gbs", "lambda": 0.3, "gamma": 0.5, "test_tokens": WINDOW * WINDOWS}
    return lambda **changes: Recipe.parse(small | values | changes)


def log_probabilities(folder: Path, text: Path) -> tuple[np.ndarray, np.ndarray]:
    """Of all tokens but the first of each window, (N, T - 1, V) in float64, and the tokens (N, T - 1) that came."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    tokens = AutoTokenizer.from_pretrained(folder)(text.read_text())["input_ids"]
    tested = tokens[len(tokens) // 2 :]  # calibration has the rest of the same text
    windows = np.array(tested[: WINDOW * WINDOWS]).reshape(WINDOWS, WINDOW)
    with torch.no_grad():
        logits = model(torch.from_numpy(windows)).logits.numpy()[:, :-1]
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True)), windows[:, 1:]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("asked", "weights"),
    [
        ({}, "resident"),
        ({}, "streamed"),
        ({"method": "sarqc-gs", "gamma": None, "mode": "foldable"}, "resident"),
        ({"method": "sarqc-gs", "gamma": None, "mode": "foldable"}, "streamed"),
        ({"range": "search", "refine": 2}, "resident"),
    ],
)
def test_a_run_says_how_far_its_model_is(recipe, asked, weights, fresh_settings, tmp_path):
    """Against full logits in float64 of the checkpoints: the original, the run's, and that of a run with GPTQ, whose
    grid is fitted as the run's."""
    settings = fresh_settings.model_copy(update={"weights": weights})
    given = recipe(**asked)
    events = run(given, settings, study_dir=tmp_path, study_id="one", checkpoint_dir=tmp_path / "model")
    fitted = {name: asked[name] for name in ("range", "refine") if name in asked}
    alone = recipe(method="gptq", **{"lambda": None, "gamma": None}, **fitted)
    gptq = run(alone, settings, checkpoint_dir=tmp_path / "gptq")
    summary, beside = events[-1].summary, events[-1].summary["baseline"]

    text = Path(given.test)
    folders = (Path(given.model), tmp_path / "model", tmp_path / "gptq")
    (p, came), (q, _), (g, _) = (log_probabilities(folder, text) for folder in folders)
    losses_p, losses_q, losses_g = (
        -np.take_along_axis(one, came[..., None], -1)[..., 0].mean(-1) for one in (p, q, g)
    )  # by window
    kl = (np.exp(p) * (p - q)).sum(-1)
    same = p.argmax(-1) == q.argmax(-1)
    assert 0 < same.mean() < 1
    said = {"log_ratio": losses_q - losses_p, "kl": kl.mean(-1), "same_top": same.mean(-1)}
    for name, by_window in said.items():
        assert summary[name] == pytest.approx(by_window.mean(), rel=1e-3), name
        assert summary[f"{name}_standard_error"] == pytest.approx(stats.sem(by_window), rel=1e-2), name
    assert summary["kl_99"] == pytest.approx(np.percentile(kl, 99), rel=1e-3)
    assert summary["log_ratio"] == pytest.approx(np.log(summary["perplexity"] / summary["perplexity_float"]), rel=1e-6)

    differences = losses_q - losses_g
    assert beside["perplexity"] == gptq[-1].summary["perplexity"] == pytest.approx(np.exp(losses_g.mean()), rel=1e-4)
    assert beside["log_ratio"] == gptq[-1].summary["log_ratio"]
    assert beside["difference"] == pytest.approx(differences.mean(), rel=1e-2)
    assert beside["difference_standard_error"] == pytest.approx(stats.sem(differences), rel=1e-2)
    interval = stats.ttest_1samp(differences, 0).confidence_interval()
    ends = [beside["evidence"]["low"], beside["evidence"]["high"]]
    assert ends == pytest.approx(np.expm1(interval), rel=2e-2, abs=1e-5)
    assert (beside["evidence"]["over"], beside["evidence"]["verdict"]) == ("windows", "unknown")
    assert "itself" in gptq[-1].summary["baseline"]["reason"]

    (diverged,), (compared,) = of_type(events, Diverged), of_type(events, Compared)
    assert diverged.divergences == {name: summary[name] for name in diverged.divergences}
    assert compared.baseline == beside
    study = Study.open(tmp_path / "one")
    assert study.array(study.lines[0], "kl")[0, 0, 0] == np.float32(summary["kl"])


def without_float_passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From now on a pass through the float model is an error; returns what is added to by each quantized one."""
    passes, steps = [], measure.perplexity_steps

    def counted(*given, **named):
        assert given[4] is not None, "a pass beside nothing"
        passes.append("quantized")
        return steps(*given, **named)

    monkeypatch.setattr(measure, "perplexity_steps", counted)
    return passes


@pytest.mark.thorough
def test_the_next_run_on_the_same_text_pays_for_its_own_model_alone(recipe, fresh_settings, monkeypatch):
    first = summary_of(run(recipe(), fresh_settings))
    passes = without_float_passes(monkeypatch)
    again = summary_of(run(recipe(), fresh_settings))
    assert passes == []
    assert again == first
    other = run(recipe(**{"lambda": 0.7}), fresh_settings)
    assert passes == ["quantized"]
    summary = other[-1].summary
    assert [event.name for event in of_type(other, Stage) if "comparing" in event.name] == []
    same = ("perplexity", "log_ratio", "kl", "kl_99")
    assert [summary["baseline"][name] for name in same] == [first["baseline"][name] for name in same]
    assert summary["baseline"]["difference"] != first["baseline"]["difference"]


@pytest.mark.thorough
@pytest.mark.parametrize("stage", ["quantizing", "measuring the quantized model", "comparing with GPTQ 1 %"])
def test_a_run_that_was_stopped_needs_no_further_float_pass(recipe, stage, settings, tmp_path, monkeypatch):
    one, other = (settings.model_copy(update={"state_dir": tmp_path / name}) for name in ("one", "other"))
    whole = summary_of(run(recipe(), one))
    stopped = execute(recipe(), other)
    next(event for event in stopped if isinstance(event, Stage) and event.name == stage)
    stopped.close()
    without_float_passes(monkeypatch)
    assert summary_of(run(recipe(), other)) == whole


def states_of(settings: Settings) -> list[Path]:
    return list(settings.artefacts_dir().glob("*/*.safetensors"))


@pytest.mark.thorough
def test_states_that_were_removed_are_made_again(recipe, fresh_settings):
    whole = summary_of(run(recipe(), fresh_settings))
    for path in states_of(fresh_settings):
        path.unlink()
    run(recipe(), fresh_settings)
    assert states_of(fresh_settings) == []  # nothing is left to measure beside them
    events = run(recipe(**{"lambda": 0.7}), fresh_settings)
    assert any(event.detail == "its predictions" for event in of_type(events, Stage))
    assert states_of(fresh_settings) != []
    fresh = fresh_settings.model_copy(update={"state_dir": fresh_settings.resolved_state_dir() / "apart"})
    assert events[-1].summary == summary_of(run(recipe(**{"lambda": 0.7}), fresh)) != whole


@pytest.mark.thorough
def test_states_that_are_lost_on_the_way_are_told(recipe, fresh_settings):
    """They are damaged while the model is quantized: perplexity is measured without them, and the run says so."""
    events = []
    for event in execute(recipe(), fresh_settings):
        events.append(event)
        if isinstance(event, Stage) and event.name == "quantizing":
            for path in states_of(fresh_settings):
                path.write_bytes(path.read_bytes()[:-1])
    summary = events[-1].summary
    assert summary["perplexity"] == of_type(events, Measured)[1].value
    assert summary["log_ratio"] is None
    assert "SARQC_CACHE_GIB" in summary["baseline"]["reason"]
    assert any("are gone" in event.what for event in of_type(events, Warned))
    again = summary_of(run(recipe(), fresh_settings))
    assert again["perplexity"] == summary["perplexity"]
    assert again["log_ratio"] is not None
    assert again["baseline"]["reason"] == ""


@pytest.mark.thorough
def test_a_baseline_that_fails_leaves_the_run_its_results(recipe, fresh_settings, tmp_path, monkeypatch):
    """GPTQ's predictions are said not to be finite: the checkpoint and the summary are the run's own all the same."""

    def fails(*_):
        raise NumericalError("the model's predictions are not finite", "test text", "")

    monkeypatch.setattr(baseline, "measure_another", fails)
    summary = summary_of(run(recipe(), fresh_settings, checkpoint_dir=tmp_path / "one"))
    assert summary["baseline"]["reason"] == "it failed, the model's predictions are not finite"
    assert summary["log_ratio"] is not None
    alone = summary_of(run(recipe(baseline=False), fresh_settings, checkpoint_dir=tmp_path / "two"))
    assert summary["perplexity"] == alone["perplexity"]
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert files[0] == files[1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"test": None}, "no test text"),
        ({"layer": "model.layers.0.mlp.up_proj"}, "a single layer is quantized"),
        ({"method": "gptq", "lambda": None, "gamma": None, "sweep": []}, "it is that itself"),
        ({"baseline": False}, None),
    ],
)
def test_when_there_is_no_baseline(recipe, asked, reason, fresh_settings):
    events = run(recipe(**asked), fresh_settings)
    beside = events[-1].summary["baseline"]
    if reason is None:
        assert beside is None
        assert of_type(events, Compared) == []
    else:
        assert beside["reason"] == reason
        assert beside["words"] == f"Not compared with GPTQ 1 %: {reason}."
        assert beside["perplexity"] is None
    assert not any("comparing" in event.name for event in of_type(events, Stage))


def test_the_plan_counts_it(recipe, settings):
    with_it, without = (plan(recipe(baseline=asked), settings) for asked in (True, False))
    assert with_it.minutes > without.minutes
    assert with_it.disk_bytes > without.disk_bytes
    alone = {"method": "gptq", "lambda": None, "gamma": None}
    assert plan(recipe(**alone), settings).minutes == plan(recipe(**alone, baseline=False), settings).minutes
    # The states: 32 float32 of each token.
    none = plan(recipe(test=None, baseline=False), settings)
    assert without.disk_bytes - none.disk_bytes == WINDOW * WINDOWS * 32 * 4


@pytest.mark.thorough
def test_a_single_window_has_no_error(recipe, fresh_settings):
    finished = run(recipe(test_tokens=WINDOW), fresh_settings)[-1]
    summary = finished.summary
    assert summary["log_ratio"] is not None
    assert summary["log_ratio_standard_error"] is summary["baseline"]["difference_standard_error"] is None
    assert summary["baseline"]["evidence"]["over"] == "nothing"
    assert summary["baseline"]["evidence"]["low"] is None
    json.dumps(finished.to_json(), allow_nan=False)


def test_parts_of_states(tmp_path):
    values = torch.randn(7, 3, 2)
    store = ArtefactStore(tmp_path)
    states = KeptStates(store, "0" * 32)
    assert not states.is_complete()
    for part in values.split((3, 3, 1)):
        states.add(part)
    assert not KeptStates(store, "0" * 32).is_complete()  # only what is finished counts
    states.finish()
    again = KeptStates(store, "0" * 32)
    assert again.is_complete()
    for first, end in ((0, 3), (2, 7), (6, 7), (1, 2)):
        assert torch.equal(again[first:end], values[first:end])
    assert not KeptStates(store, "1" * 32).is_complete()
    with pytest.raises(StatesGone):
        KeptStates(store, "1" * 32)[0:1]


@pytest.mark.parametrize(
    ("ratio", "error", "size", "interval"),
    [
        (0.979, 0.006, "2.1 % lower", "0.8 to 3.4 %"),
        (1.25, 0.02, "25.0 % higher", "19.6 to 30.6 %"),
        (0.99, 0.02, "1.0 % lower", "−3.5 to 5.3 %"),
        (1.1, math.nan, "10.0 % higher", ""),
    ],
)
def test_the_difference_in_words(ratio, error, size, interval):
    """Of 12 windows: 2.201 standard errors each way, on the logarithm of the ratio."""
    parts = (np.log(ratio), error, 1 if math.isnan(error) else WINDOWS, WINDOWS - 1)
    evidence = Evidence.of_windows(Difference(*map(np.asarray, parts)), quantity="perplexity")
    assert evidence.size.replace("\u00a0", " ") == size
    assert evidence.interval.replace("\u00a0", " ") == interval
    assert evidence.verdict == "unknown"


@pytest.mark.parametrize(
    ("tried", "chosen", "words"),
    [
        ([0.1, 0.5, 1.0], [1.0], "λ = 1 is the largest of the candidates: a larger one may be better still."),
        ([0.1, 0.5, 1.0], [0.1], "λ = 0.1 is the smallest of the candidates: a smaller one may be better still."),
        ([0.1, 0.5, 1.0], [0.5], ""),
        ([0.0, 0.5], [0.0], ""),  # nothing is below 0
        ([None, None], [None], ""),
        ([0.3], [0.3], ""),
        (
            [0.0, 0.5, 1.0],
            [0.0, 1.0, 0.5],
            "Of 3 layers, 1 took the largest λ tried (1): a larger one may suit them better.",
        ),
        (
            [0.2, 0.5, 1.0],
            [0.2, 1.0, 0.2],
            "Of 3 layers, 2 took the smallest λ tried (0.2) and 1 took the largest λ tried (1): a smaller or larger "
            "one may suit them better.",
        ),
    ],
)
def test_the_edge_in_words(tried, chosen, words):
    assert edge_words(tried, chosen) == words
