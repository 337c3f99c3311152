"""What every kind of run must do, whatever it computes; a further kind joins by a row of ``KINDS``.

Asked for again it is read from what is stored, and stopped anywhere it ends the same: to the bit, by all that it tells.
Its exported model measures what the run measured, and its stamp verifies.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sarqc.engine.execute import execute
from sarqc.engine.plan import plan
from sarqc.errors import Refused
from sarqc.events import BlockDistilled, Event, Finished, LayerDone, ScalesDistilled
from sarqc.extras.survey.conduct import conduct
from sarqc.extras.survey.schema import Survey
from sarqc.extras.verify.checks import VerificationRequest, verify
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.document import Study
from tests.engine.running import perplexity
from tests.golden.run_events import KINDS, documents, make_rounded, survey_of

# What computes, and has no part in a run that was made before.
WORK = (
    "sarqc.calibration.float_statistics.BlockWalk", "sarqc.engine.trials.solve_points",
    "sarqc.engine.trials.perplexity_steps", "sarqc.engine.distill.distilled", "sarqc.engine.distill.float_model",
    "sarqc.engine.distill.tuned_linear", "sarqc.engine.distill_blocks._tuned",
    "sarqc.extras.survey.conduct.solve_curve",
)  # fmt: skip
TOLD = (LayerDone, ScalesDistilled, BlockDistilled)
WINDOW, TOKENS = 32, 640  # of the test text of all kinds


@dataclass(frozen=True)
class Run:
    """A recipe or a survey, where its results are stored, and what its first run told."""

    asked: Recipe | Survey
    settings: Settings
    told: list[Event | str]


@pytest.fixture(scope="module")
def recipes(
    random_llama: Path, text_file: Path, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("made")
    state = settings.model_copy(update={"state_dir": folder / "state"})
    return documents(random_llama, text_file, make_rounded(random_llama, text_file, state, folder / "rounded"))


def steps(asked: Recipe | Survey, settings: Settings) -> Iterator[Event | str]:
    """Run it, or go on with it; what it tells, one after the other."""
    study = settings.studies_dir() / "one"
    if isinstance(asked, Survey):
        return conduct(asked, settings, study)
    return execute(asked, settings, study_dir=study.parent, study_id=study.name)


@pytest.fixture(scope="module", params=[*KINDS, "survey"])
def whole(
    request: pytest.FixtureRequest, recipes: dict[str, dict[str, Any]], random_llama: Path, text_file: Path,
    settings: Settings, tmp_path_factory: pytest.TempPathFactory,
) -> Run:  # fmt: skip
    """A run of each kind that nobody has stopped."""
    document = recipes.get(request.param)
    asked = survey_of(random_llama, text_file) if document is None else Recipe.parse(document)
    own = settings.model_copy(update={"state_dir": tmp_path_factory.mktemp("state")})
    return Run(asked, own, list(steps(asked, own)))


def without_clock(value: Any) -> Any:
    if isinstance(value, dict):
        own = ("seconds", "from_cache", "reused")
        return {name: without_clock(item) for name, item in value.items() if name not in own}
    return [without_clock(item) for item in value] if isinstance(value, list | tuple) else value


def arrays_of(settings: Settings) -> dict[str, np.ndarray]:
    if not (settings.studies_dir() / "one").exists():
        return {}
    study = Study.open(settings.studies_dir() / "one")
    return {
        f"{line.name}/{name}": study.array(line, name) for line in study.lines for name in {*line.arrays} - {"seconds"}
    }


def summary_of(told: list[Event | str]) -> dict[str, Any] | None:
    """Return the summary of a run, without its clock; a survey has a study alone."""
    return without_clock(told[-1].summary) if isinstance(told[-1], Finished) else None


def assert_same(told: list[Event | str], settings: Settings, first: Run, arrays: dict[str, np.ndarray]) -> None:
    assert isinstance(first.told[-1], Finished) or isinstance(first.asked, Survey)
    assert summary_of(told) == summary_of(first.told)
    results = [[without_clock(one.to_json()) for one in each if isinstance(one, TOLD)] for each in (told, first.told)]
    assert results[0] == results[1]
    now = arrays_of(settings)
    assert now.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(now[name], array, err_msg=name)


def test_the_same_again_is_read_from_what_is_stored(whole, monkeypatch):
    arrays = arrays_of(whole.settings)
    for name in WORK:
        monkeypatch.setattr(name, None)
    again = list(steps(whole.asked, whole.settings))
    assert all(event.from_cache for event in again if isinstance(event, LayerDone))
    assert_same(again, whole.settings, whole, arrays)


@pytest.mark.thorough
def test_stopped_anywhere_it_ends_the_same(whole, fresh_settings):
    for share in (0.2, 0.5, 0.8):
        running = steps(whole.asked, fresh_settings)
        for _ in islice(running, int(share * len(whole.told))):
            pass
        running.close()
    assert_same([*steps(whole.asked, fresh_settings)], fresh_settings, whole, arrays_of(whole.settings))


def test_what_is_exported_measures_the_same_and_its_stamp_verifies(whole, tmp_path):
    """By transformers; what compares models keeps none. Files of others are in test_imported_checkpoint."""
    asked, folder = whole.asked, tmp_path / "model"
    if isinstance(asked, Survey) or asked.layer or asked.quantized_checkpoint:
        return
    if asked.kind != "run":
        with pytest.raises(Refused):
            next(execute(asked, whole.settings, checkpoint_dir=folder))
        assert plan(asked, whole.settings).formats == ()
        return
    events = list(execute(asked, whole.settings, checkpoint_dir=folder))
    summary = summary_of(events)
    written = summary["written"]
    assert (written["other_tensors"], written["parts_at"]) == ([], None)
    assert summary | {"written": None} == summary_of(whole.told)
    measured = perplexity(folder, Path(asked.test), window=WINDOW, tokens=TOKENS)
    assert summary["perplexity"] == pytest.approx(measured, rel=1e-4)
    unchecked = {"solved again"} if asked.distill else set()
    named = {"model": asked.model, "calibration": asked.calibration}  # of which a stamp beside a model has no folders
    for place, names in ((folder, named), (whole.settings.studies_dir() / "one", {})):
        checks = verify(place, whole.settings, VerificationRequest(linears=None, **names))
        assert {check.what for check in checks if check.outcome != "equal"} == unchecked


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_comes_before_any_work_and_says_what_can_be_done(recipes, fresh_settings, kind):
    document = recipes[kind] | {"window": 200}
    with pytest.raises(Refused) as caught:
        next(execute(Recipe.parse(document), fresh_settings))
    assert caught.value.field == "window"
    assert not fresh_settings.resolved_state_dir().exists()
    for fix in caught.value.fixes:
        plan(Recipe.parse(document | fix.values), fresh_settings)


@pytest.mark.parametrize(
    ("kind", "change", "weights"),
    [
        ("distilled", {}, "streamed"),
        ("distilled", {"model": "tiny-moe", "group_size": 32}, "auto"),
        ("rotated", {}, "streamed"),
    ],
)
def test_what_a_refusal_proposes_works(recipes, fresh_settings, kind, change, weights):
    document, host = recipes[kind] | change, fresh_settings.model_copy(update={"weights": weights})
    with pytest.raises(Refused) as caught:
        plan(Recipe.parse(document), host)
    for fix in caught.value.fixes:
        plan(Recipe.parse(document | fix.values), host)
    assert caught.value.fixes
    assert not fresh_settings.resolved_state_dir().exists()
