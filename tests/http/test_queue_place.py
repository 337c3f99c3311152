"""Where a waiting run stands, by the rule that starts runs: also behind hundreds."""

import time

import pytest

from sarqc.events import LayerDone, Started, Yielded
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
    running = store.create(recipe(), "ann", seconds=120.0)
    store.move(running.id, State.RUNNING, device="cpu")
    waiting = store.create(recipe(), "ann")
    place = queue_place(waiting, store, everybody)
    assert (place["number"], place["at_work"], place["behind"]) == (1, 1, running.id)
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


def test_layers_that_are_kept_are_not_waited_for(store):
    running, aside = store.create(recipe(), "ann", seconds=100.0), store.create(recipe(), "ann", seconds=40.0)
    store.move(aside.id, State.RUNNING)
    store.append(aside.id, [Started("fake", "cpu", [{"name": "0"}, {"name": "1"}], 0.5)])
    store.append(aside.id, [LayerDone("0", 0, 2, {}, 1.0)])
    store.step_aside(aside.id, Yielded("for a preview"))
    store.move(running.id, State.RUNNING)
    last = store.create(recipe(), "ann")
    assert queue_place(last, store, everybody)["seconds"] == pytest.approx(100 + 40 / 2, abs=5)
