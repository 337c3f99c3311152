"""Where a waiting run stands, by the rule that starts runs: also behind hundreds."""

import time

import pytest

from sarqc.events import LayerDone, Stage, Started, Yielded
from sarqc.jobs.run import State
from sarqc.web.queue_place import queue_place
from tests.jobs.fake_runs import recipe


def everybody(_) -> bool:
    return True


def test_alone_it_is_next(store):
    run = store.create(recipe(), "ann")
    nothing = {"number": 1, "at_work": 0, "worked": None, "behind": None, "seconds": None}
    assert queue_place(run, store, everybody) == nothing


def test_the_next_waits_for_the_run_at_work(store):
    running = store.create(recipe(), "ann")
    store.move(running.id, State.RUNNING, device="cpu")
    waiting = store.create(recipe(), "ann")
    place = queue_place(waiting, store, everybody)
    assert (place["number"], place["at_work"], place["behind"], place["seconds"]) == (1, 1, running.id, None)
    phases = [
        {"stage": "loading", "detail": "", "seconds": 40.0},
        {"stage": "quantizing", "detail": "", "seconds": 80.0},
    ]
    store.append(running.id, [Started("fake", "cpu", [], 0.5, phases=phases)])
    place = queue_place(waiting, store, everybody)
    assert place["seconds"] == pytest.approx(120, abs=5)
    hidden = queue_place(waiting, store, lambda _: False)
    assert (hidden["behind"], hidden["at_work"]) == (None, 1)  # that there is a run is said, and not whose it is


@pytest.mark.thorough
def test_owners_take_turns_and_more_than_a_page_of_runs_is_counted(store):
    many = [store.create(recipe(), "ann") for _ in range(250)]
    time.sleep(0.01)
    other = store.create(recipe(), "bob")
    last = store.create(recipe(), "ann")
    place = queue_place(last, store, everybody)
    assert place["number"] == 252
    assert place["behind"] == many[-1].id
    assert place["seconds"] is None  # nobody has planned them
    assert queue_place(other, store, everybody)["number"] == 2  # after one of Ann's


def test_whoever_waits_further_back_is_told_when_by_the_plans_of_all_before(store):
    """One device: what is left of its run, and those between. Two: each run goes to the one that is free first."""
    running = store.create(recipe(), "ann", seconds=100.0)
    store.move(running.id, State.RUNNING, device="cuda:0")
    planned = store.create_all([recipe()] * 3, "ann", seconds=[30.0, 500.0, 10.0])
    last = store.create(recipe(), "ann")

    def seconds():
        return [queue_place(run, store, everybody)["seconds"] for run in (*planned, last)]

    assert seconds() == pytest.approx([100, 130, 630, 640], abs=5)
    store.move(planned[0].id, State.RUNNING, device="cuda:1")
    planned = planned[1:]
    assert seconds() == pytest.approx([30, 100, 110], abs=5)
    unplanned = store.create(recipe(), "ann")
    behind = store.create(recipe(), "ann")
    assert queue_place(unplanned, store, everybody)["seconds"] is None  # ``last`` has no plan
    assert queue_place(behind, store, everybody)["behind"] == unplanned.id


def test_what_is_left_of_a_run_is_told_by_what_its_layers_take(store, monkeypatch):
    """Planned at one second a layer, seen to take five; a preview waits for one of them alone."""
    clock = [2_000_000_000.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    running = store.create(recipe(), "ann").id
    store.move(running, State.RUNNING, device="cpu")
    phases = [
        {"stage": stage, "detail": "", "seconds": seconds}
        for stage, seconds in (("loading", 10.0), ("quantizing", 20.0), ("measuring the quantized model", 7.0))
    ]
    layers = [{"name": f"layer.{index}"} for index in range(20)]
    store.append(running, [Stage("loading")])
    clock[0] += 30.0
    other = store.create(recipe(), "bob")
    assert queue_place(other, store, lambda _: False)["worked"] == 30.0
    store.cancel(other.id)
    store.append(running, [Started("fake", "cpu", layers, 0.5, phases=phases)])
    waiting = store.create(recipe(), "ann")

    def seconds(run):
        return queue_place(run, store, everybody)["seconds"]

    assert seconds(waiting) == pytest.approx(20 + 7)  # loading is as good as done
    store.append(running, [Stage("quantizing")])
    preview = store.create(recipe(), "ann", "preview")
    clock[0] += 3.0
    assert seconds(preview) == pytest.approx(20 - 3 + 7)  # it steps aside only once it has solved
    for index in range(4):
        clock[0] += 5.0
        store.append(running, [LayerDone(f"layer.{index}", index, 20, {}, 4.0, from_cache=index == 0)])
    assert seconds(preview) == pytest.approx(30 - 3 - 20)  # until it has worked for as long as it loaded
    clock[0] += 7.0
    assert seconds(preview) == pytest.approx(5)
    store.cancel(preview.id)
    assert seconds(waiting) == pytest.approx(5 * 16 + 7)
    store.append(running, [Stage("measuring the quantized model")])
    clock[0] += 3.0
    assert seconds(waiting) == pytest.approx(7 - 3)


def test_layers_that_are_kept_are_not_waited_for(store):
    running, aside = store.create(recipe(), "ann", seconds=100.0), store.create(recipe(), "ann", seconds=40.0)
    store.move(aside.id, State.RUNNING)
    store.append(aside.id, [Started("fake", "cpu", [{"name": "0"}, {"name": "1"}], 0.5)])
    store.append(aside.id, [LayerDone("0", 0, 2, {}, 1.0)])
    store.step_aside(aside.id, Yielded("for a preview"))
    store.move(running.id, State.RUNNING)
    last = store.create(recipe(), "ann")
    assert queue_place(last, store, everybody)["seconds"] == pytest.approx(100 + 40 / 2, abs=5)
