"""A batch run steps aside between layers for a preview that waits, loses nothing, and goes on to the same bits."""

from queue import SimpleQueue

import pytest

from sarqc.engine.execute import execute
from sarqc.events import Advanced, CandidateDone, Event, LayerDone, Stage, Started
from sarqc.jobs.child import Wish
from sarqc.jobs.preemption import Boundaries
from sarqc.jobs.run import State
from sarqc.recipe import Recipe
from sarqc.settings import SITE
from tests.jobs.conftest import settings_in, until, until_state
from tests.jobs.fake_runs import recipe


def started(*blocks: int, experts: bool = False) -> Started:
    layers = [
        {"name": f"{index}", "block": block, "module": "up", "shape": [4, 4], "expert": index if experts else None}
        for index, block in enumerate(blocks)
    ]
    return Started("fake", "cpu", layers, 0.5)


def layer(index: int, from_cache: bool = False) -> LayerDone:
    return LayerDone(str(index), index, 4, {}, 1.0, from_cache)


def boundaries(unit: str, *events: Event, start: float = 0.0, seconds: float = 0.0) -> list[bool]:
    """What is answered to each of the events, which come after so many seconds each."""
    now = 0.0

    def clock() -> float:
        return now

    asked, answers = Boundaries(unit, start, clock), []
    for event in events:
        now += seconds
        answers.append(asked.is_one(event))
    return answers


def test_linears_that_are_solved_together_are_kept_together():
    layers = [layer(index) for index in range(4)]
    assert boundaries("layer", started(0, 0, 1, 1), *layers) == [False, True, True, True, True]
    for unit in ("group", "block"):
        assert boundaries(unit, started(0, 0, 1, 1), *layers) == [False, False, True, False, True]
    assert boundaries("layer", started(0, 0, 1, 1, experts=True), *layers) == [False, False, True, False, True]


def test_measurements_and_what_was_found_on_disk_are_no_boundary():
    events = [Stage("measuring the float model"), Advanced(1, 2, "windows"), layer(0, from_cache=True)]
    assert boundaries("layer", started(0, 1), *events) == [False] * 4
    assert boundaries("layer", started(0, 1), CandidateDone(0.1, 0, 2, 9.0)) == [False, True]


def test_a_start_is_paid_for_first():
    """Ten seconds of imports, one of loading, two until the first layer that was not on disk: thirteen of work."""
    events = [started(*range(20)), layer(0, from_cache=True), *(layer(index) for index in range(1, 20))]
    answers = boundaries("layer", *events, start=10.0, seconds=1.0)
    assert answers.index(True) == 2 + 13
    assert all(answers[15:])
    fetched = [Stage("downloading"), Stage("loading"), *events]
    assert boundaries("layer", *fetched, start=9.0, seconds=1.0).index(True) == 4 + 13  # a download is paid for once


def test_the_last_wish_counts():
    lines = SimpleQueue()
    wish = Wish(lines)
    assert not wish.is_there()
    lines.put(b'{"step_aside": true}')
    assert wish.is_there()
    assert wish.is_there()
    lines.put(b'{"step_aside": true}')
    lines.put(b'{"step_aside": false}')
    assert not wish.is_there()


@pytest.mark.thorough
def test_a_preview_gets_the_device_and_the_run_goes_on(supervise, store):
    supervisor = supervise("slow")
    run_id = supervisor.submit(recipe(1000), "ann").id
    other = supervisor.submit(recipe(1), "bob").id
    until(lambda: store.get(run_id).done >= 2)
    before = store.get(run_id)
    preview = supervisor.submit(recipe(2), "bob", "preview").id
    until_state(store, preview, State.FINISHED)
    aside = next(event for event in store.events(run_id) if event.payload["type"] == "yielded")
    assert "stepped aside for a run that takes seconds" in aside.payload["what"]
    assert f"of {before.total} layers are kept" in aside.payload["what"]
    until_state(store, run_id, State.RUNNING)
    run = store.get(run_id)
    assert (run.attempt, run.stepped_aside) == (1, False)
    assert run.queued > before.queued  # since when it waited: what waits are measured by
    assert store.get(other).state is State.QUEUED  # whose turn it would have been otherwise
    until(lambda: store.get(run_id).done > before.done)
    cached = [
        one.payload["from_cache"] for one in store.events(run_id, aside.seq) if one.payload["type"] == "layer_done"
    ]
    assert all(cached[: before.done])
    supervisor.cancel(run_id)
    until_state(store, other, State.FINISHED)


def test_a_wish_is_taken_back_with_its_preview(supervise, store):
    supervisor = supervise("long_layer")
    run_id = supervisor.submit(recipe(1), "ann").id
    until(lambda: supervisor._jobs)
    preview = supervisor.submit(recipe(1), "ann", "preview").id
    (job,) = supervisor._jobs.values()
    until(lambda: job.is_asked)
    supervisor.cancel(preview)
    until(lambda: not job.is_asked)
    assert store.get(run_id).state is State.RUNNING
    supervisor.cancel(run_id)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["gptq", "awq"])
def test_going_on_loses_no_layer_and_changes_no_bit(name, tmp_path):
    """The real engine, which steps aside twice, as soon as it may."""
    document = {
        "model": "tiny-llama", "bits": 3, "grid": "symmetric", "method": name, "calibration": "tiny-llama-calibration",
        "samples": 2, "length": 32, "test": "tiny-llama-test", "baseline": False, "test_tokens": 128, "blocks": [0, 1],
    }  # fmt: skip
    made = Recipe.parse(document)
    fresh = []

    def attempt(settings, is_undisturbed):
        """Whether it came to its end."""
        events = execute(made, settings, study_dir=settings.studies_dir(), study_id="study")
        asked = Boundaries(made.to_method().unit, 0.0, lambda: 0.0)
        for event in events:
            if isinstance(event, LayerDone) and not event.from_cache and settings is apart:
                fresh.append(event.name)
            if asked.is_one(event) and not is_undisturbed:
                events.close()
                return False
        return True

    apart, alone = (settings_in(tmp_path / which, assets_dir=SITE / "assets") for which in ("apart", "alone"))
    assert attempt(alone, True)
    assert [attempt(apart, is_last) for is_last in (False, False, True)] == [False, False, True]
    assert len(fresh) == len(set(fresh))
    arrays = [one.studies_dir() / "study" / "study.safetensors" for one in (apart, alone)]
    assert arrays[0].read_bytes() == arrays[1].read_bytes()
