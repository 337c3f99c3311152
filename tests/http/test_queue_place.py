"""Where a waiting run stands, by the rule that starts runs: also behind hundreds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sarqc.events import Started
from sarqc.jobs.run import State
from sarqc.jobs.store import Store
from sarqc.web.queue_place import queue_place
from tests.jobs.fake_runs import recipe


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs.sqlite")


def everybody(_: object) -> bool:
    return True


def test_alone_it_is_next(store: Store) -> None:
    run = store.create(recipe(), "ann")
    assert queue_place(run, store, everybody) == {"number": 1, "behind": None, "seconds": None}


def test_the_next_waits_for_the_run_at_work(store: Store) -> None:
    running = store.create(recipe(), "ann")
    store.move(running.id, State.RUNNING, device="cpu")
    waiting = store.create(recipe(), "ann")
    assert queue_place(waiting, store, everybody) == {"number": 1, "behind": running.id, "seconds": None}
    phases = [
        {"stage": "loading", "detail": "", "seconds": 40.0},
        {"stage": "quantizing", "detail": "", "seconds": 80.0},
    ]
    store.append(running.id, [Started("fake", "cpu", [], 0.5, phases=phases)])
    place = queue_place(waiting, store, everybody)
    assert place["seconds"] == pytest.approx(120, abs=5)
    assert queue_place(waiting, store, lambda _: False)["behind"] is None  # whose it is stays hidden


def test_owners_take_turns_and_more_than_a_page_of_runs_is_counted(store: Store) -> None:
    many = [store.create(recipe(), "ann") for _ in range(250)]
    time.sleep(0.01)
    other = store.create(recipe(), "bob")
    last = store.create(recipe(), "ann")
    place = queue_place(last, store, everybody)
    assert place["number"] == 252
    assert place["behind"] == many[-1].id
    assert place["seconds"] is None  # nobody has planned them
    assert queue_place(other, store, everybody)["number"] == 2  # after one of Ann's


def test_whoever_waits_further_back_is_told_when_by_the_plans_of_all_before(store: Store) -> None:
    """One device: what is left of its run, and those between. Two: each run goes to the one that is free first."""
    running = store.create(recipe(), "ann", seconds=100.0)
    store.move(running.id, State.RUNNING, device="cuda:0")
    planned = store.create_all([recipe()] * 3, "ann", seconds=[30.0, 500.0, 10.0])
    last = store.create(recipe(), "ann")

    def seconds() -> list[float | None]:
        return [queue_place(run, store, everybody)["seconds"] for run in (*planned, last)]

    assert seconds() == pytest.approx([100, 130, 630, 640], abs=5)
    store.move(planned[0].id, State.RUNNING, device="cuda:1")
    planned = planned[1:]
    assert seconds() == pytest.approx([30, 100, 110], abs=5)
    unplanned = store.create(recipe(), "ann")
    behind = store.create(recipe(), "ann")
    assert queue_place(unplanned, store, everybody)["seconds"] is None  # ``last`` has no plan
    assert queue_place(behind, store, everybody)["behind"] == unplanned.id
