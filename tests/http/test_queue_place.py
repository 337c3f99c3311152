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
    assert place["seconds"] is None
    assert queue_place(other, store, everybody)["number"] == 2  # after one of Ann's
