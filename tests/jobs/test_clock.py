"""A host whose clock jumps: nothing that goes on by seconds goes on by it, and what is written stays in order."""

import time

import pytest

from sarqc.jobs.retention import Retention
from sarqc.jobs.run import State
from sarqc.jobs.store import Store
from sarqc.settings import Settings
from sarqc.web.queue_place import queue_place
from tests.jobs.conftest import Supervise, types, until, until_state
from tests.jobs.fake_runs import recipe

HOUR = 3600.0


class Clock:
    """The host's clock as the app sees it."""

    def __init__(self) -> None:
        self.ahead, self._true = 0.0, time.time

    def __call__(self) -> float:
        return self._true() + self.ahead


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    return clock


@pytest.mark.parametrize("jumps", [(HOUR, -HOUR), (-HOUR, HOUR), (0.5, -0.5)])
def test_runs_and_their_order_outlive_jumps(
    supervise: Supervise, store: Store, settings: Settings, host: Clock, jumps: tuple[float, float]
) -> None:
    supervisor = supervise("slow")
    runs = [supervisor.submit(recipe(layers), owner).id for layers, owner in ((8, "ann"), (2, "bob"), (3, "ann"))]
    until(lambda: store.get(runs[0]).done >= 2)
    for jump in jumps:
        host.ahead += jump
        supervisor.wake()
        runs.append(supervisor.submit(recipe(1), "cy").id)
        if (last := store.get(runs[-1])).state is State.QUEUED:
            seconds = queue_place(last, store, lambda _: True)["seconds"]
            assert seconds is None or seconds >= 0
        supervisor.retire(time.time())
    for run_id in runs:
        run = until_state(store, run_id, State.FINISHED)
        assert (run.attempt, run.error) == (1, None)
        assert run.ended >= run.started
        assert [event.seq for event in store.events(run_id)] == list(range(1, len(store.events(run_id)) + 1))
        assert "warned" not in types(store, run_id)
    assert runs == sorted(runs)  # ids stay in the order in which they were given


def test_retention_keeps_what_a_clock_makes_young(store: Store, settings: Settings, host: Clock) -> None:
    run_id = store.create(recipe(1), "ann").id
    store.move(run_id, State.RUNNING, device="cpu")
    store.move(run_id, State.FINISHED)
    days = Retention(store, settings.model_copy(update={"keep_days": 1.0, "keep_gib": 10.0}))
    for ahead in (HOUR, -HOUR, 0.0):
        assert days.take_turn(time.time() + ahead) == []
    assert store.get(run_id).state is State.FINISHED
