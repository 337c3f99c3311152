"""What every kind of run must do, whatever it computes; a further kind joins by a row of KINDS.

Asked for again it is read from what is stored, and stopped anywhere it ends the same: to the bit, by all that it tells.
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
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.document import Study
from tests.golden.run_events import KINDS as GOLDEN_KINDS
from tests.golden.run_events import documents, events_of

KINDS: dict[str, dict[str, Any]] = {
    **{kind: {} for kind in GOLDEN_KINDS},
    "shifted": {"method": "sarqc-gptaq"},
    "foldable": {"method": "sarqc-gs", "mode": "foldable", "gamma": None},
    "learned clipping": {"method": "sarqc-omniquant", "gamma": None, "epochs": 1},
    "another λ from a block on": {"from_block": 2, "then_lambda": 0.1},
    "repair": {"quantized_checkpoint": "rounded", "bits": None, "group_size": None, "gamma": None, "method": "rqc-gbs"},
}
# What computes, and has no part in a run that was made before.
WORK = (
    "sarqc.calibration.float_statistics.BlockWalk", "sarqc.engine.trials.solve_points",
    "sarqc.engine.trials.perplexity_steps", "sarqc.engine.distill.distilled", "sarqc.engine.distill.float_model",
    "sarqc.engine.distill.tuned_linear", "sarqc.engine.distill_blocks._tuned",
)  # fmt: skip
TOLD = (LayerDone, ScalesDistilled, BlockDistilled)


@dataclass(frozen=True)
class Run:
    """A recipe, where its results are stored, and the events of its first run."""

    document: dict[str, Any]
    settings: Settings
    events: list[Event]


@pytest.fixture(scope="module")
def recipes(
    random_llama: Path, text_file: Path, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    known = documents(random_llama, text_file)
    folder = tmp_path_factory.mktemp("made") / "rounded"
    plain = {name: value for name, value in known["rotated"].items() if name != "rotate"}
    rounded = {name: value for name, value in plain.items() if name not in ("lambda", "gamma")} | {"method": "rtn"}
    state = settings.model_copy(update={"state_dir": folder.parent / "state"})
    events_of(rounded | {"grid": "full_range"}, state, checkpoint_dir=folder, checkpoint_format="packed")
    further = {
        kind: {name: value for name, value in {**plain, **changes}.items() if value is not None}
        for kind, changes in KINDS.items()
        if kind not in known
    }
    further["repair"]["quantized_checkpoint"] = str(folder)
    return known | further


def made(document: dict[str, Any], settings: Settings) -> list[Event]:
    return events_of(document, settings, study_dir=settings.studies_dir(), study_id="one")


@pytest.fixture(scope="module", params=KINDS)
def whole(
    request: pytest.FixtureRequest, recipes: dict[str, dict[str, Any]], settings: Settings,
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:  # fmt: skip
    """A run of each kind that nobody has stopped."""
    document, own = recipes[request.param], settings.model_copy(update={"state_dir": tmp_path_factory.mktemp("state")})
    return Run(document, own, made(document, own))


def without_clock(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_clock(item) for name, item in value.items() if name not in ("seconds", "from_cache")}
    return [without_clock(item) for item in value] if isinstance(value, list | tuple) else value


def arrays_of(settings: Settings) -> Iterator[tuple[str, np.ndarray]]:
    if (settings.studies_dir() / "one").exists():
        study = Study.open(settings.studies_dir() / "one")
        for line in study.lines:
            yield from ((f"{line.name}/{name}", study.array(line, name)) for name in {*line.arrays} - {"seconds"})


def assert_same(events: list[Event], settings: Settings, expected: Run, arrays: dict[str, np.ndarray]) -> None:
    assert isinstance(events[-1], Finished)
    first = expected.events[-1]
    assert isinstance(first, Finished)
    assert without_clock(events[-1].summary) == without_clock(first.summary)
    told = (
        [without_clock(one.to_json()) for one in each if isinstance(one, TOLD)] for each in (events, expected.events)
    )
    assert next(told) == next(told)
    found = dict(arrays_of(settings))
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_the_same_again_is_read_from_what_is_stored(whole: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = dict(arrays_of(whole.settings))
    for name in WORK:
        monkeypatch.setattr(name, None)
    again = made(whole.document, whole.settings)
    assert all(event.from_cache for event in again if isinstance(event, LayerDone))
    assert_same(again, whole.settings, whole, arrays)


@pytest.mark.thorough
def test_stopped_anywhere_it_ends_the_same(whole: Run, fresh_settings: Settings) -> None:
    for share in (0.2, 0.5, 0.8):
        running = execute(Recipe.parse(whole.document), fresh_settings)
        for _ in islice(running, int(share * len(whole.events))):
            pass
        running.close()
    assert_same(made(whole.document, fresh_settings), fresh_settings, whole, dict(arrays_of(whole.settings)))


@pytest.mark.parametrize(
    ("kind", "change", "weights", "words"),
    [
        ("distilled", {}, "streamed", "needs it with its gradients in memory"),
        ("distilled", {"model": "tiny-moe", "group_size": 32}, "auto", "mixtures of experts"),
        ("rotated", {}, "streamed", "a rotation needs the whole model in memory"),
    ],
)
def test_what_can_not_be_done_is_refused_with_what_can(
    recipes: dict[str, dict[str, Any]], fresh_settings: Settings, kind: str, change: dict[str, Any], weights: Any,
    words: str,
) -> None:  # fmt: skip
    document, host = recipes[kind] | change, fresh_settings.model_copy(update={"weights": weights})
    with pytest.raises(Refused, match=words) as caught:
        plan(Recipe.parse(document), host)
    plan(Recipe.parse(document | caught.value.fixes[0].values), host)
    assert not fresh_settings.resolved_state_dir().exists()


@pytest.mark.parametrize("kind", ["tuning", "ladder"])
def test_what_compares_models_keeps_none(
    recipes: dict[str, dict[str, Any]], settings: Settings, tmp_path: Path, kind: str
) -> None:
    recipe = Recipe.parse(recipes[kind])
    with pytest.raises(Refused, match="keeps none"):
        next(execute(recipe, settings, checkpoint_dir=tmp_path / "model"))
    assert plan(recipe, settings).formats == ()
    if kind == "ladder":
        with pytest.raises(Refused, match="only tuning keeps statistics"):
            next(execute(recipe, settings, checkpoint_dir=tmp_path / "file", checkpoint_format="statistics"))
