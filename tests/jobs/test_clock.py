"""A host whose clock jumps: nothing that goes on by seconds goes on by it, and what is written stays in order."""

import time

import pytest

from sarqc.extras.host.host_time import HostTime
from sarqc.extras.host.retention import Retention, add_retention
from sarqc.jobs.links import DAY
from sarqc.jobs.run import State
from sarqc.web.queue_place import queue_place
from tests.jobs.conftest import in_state, types, until, until_state
from tests.jobs.fake_runs import recipe
from tests.jobs.test_lease import Clock as Elapsed

HOUR = 3600.0


class Clock:
    """The host's clock as the app sees it."""

    def __init__(self):
        self.ahead, self._true = 0.0, time.time

    def __call__(self):
        return self._true() + self.ahead


@pytest.fixture
def host(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    return clock


@pytest.mark.thorough
@pytest.mark.parametrize("jumps", [(HOUR, -HOUR), (-HOUR, HOUR), (0.5, -0.5)])
def test_runs_and_their_order_outlive_jumps(supervise, store, host, jumps):
    supervisor = supervise("slow")
    add_retention(supervisor)
    runs = [supervisor.submit(recipe(layers), owner).id for layers, owner in ((8, "ann"), (2, "bob"), (3, "ann"))]
    until(lambda: store.get(runs[0]).done >= 2)
    for jump in jumps:
        host.ahead += jump
        supervisor.wake()
        runs.append(supervisor.submit(recipe(1), "cy").id)
        if (last := store.get(runs[-1])).state is State.QUEUED:
            seconds = queue_place(last, store, lambda _: True)["seconds"]
            assert seconds is None or seconds >= 0
        for chore in supervisor.chores:
            chore()
    for run_id in runs:
        run = until_state(store, run_id, State.FINISHED)
        assert (run.attempt, run.error) == (1, None)
        assert run.ended >= run.started
        assert [event.seq for event in store.events(run_id)] == list(range(1, len(store.events(run_id)) + 1))
        assert "warned" not in types(store, run_id)
    assert runs == sorted(runs)  # ids stay in the order in which they were given


def test_retention_keeps_what_a_clock_makes_young(store, settings, host):
    run_id = in_state(store, State.FINISHED)
    days = Retention(store, settings.model_copy(update={"keep_days": 1.0, "keep_gib": 10.0}))
    for ahead in (HOUR, -HOUR, 0.0):
        assert days.take_turn(time.time() + ahead) == []
    assert store.get(run_id).state is State.FINISHED


def test_a_time_that_jumped_ahead_deletes_nothing_for_a_day(store):
    elapsed, now = Elapsed(), 2_000_000_000.0
    host_time = HostTime(store, elapsed)
    assert host_time.is_trusted(now)
    elapsed.now += 60
    assert host_time.is_trusted(now + 60 + DAY)  # a day alone is no jump
    now += 60 + DAY
    for _ in range(23):
        elapsed.now += HOUR
        assert not host_time.is_trusted(now + 40 * DAY + HOUR)
    elapsed.now += 60
    assert host_time.is_trusted(now + 23 * HOUR + 60)  # it was set right
    now += 23 * HOUR + 60
    assert not host_time.is_trusted(now + 40 * DAY)
    elapsed.now += 25 * HOUR
    assert host_time.is_trusted(now + 40 * DAY + 25 * HOUR)
    assert host_time.is_trusted(now)  # it goes back: all is younger


def test_a_start_long_after_the_last_time_deletes_nothing_for_an_hour(store):
    now = 2_000_000_000.0
    assert HostTime(store, Elapsed()).is_trusted(now)
    elapsed = Elapsed()
    host_time = HostTime(store, elapsed)
    for later in (0.0, 1800.0):
        elapsed.now = 1000 + later
        assert not host_time.is_trusted(now + 40 * DAY + later)
    assert not HostTime(store, elapsed).is_trusted(now + 40 * DAY + 1800)  # nor after another start
    elapsed.now += HOUR
    assert host_time.is_trusted(now + 40 * DAY + 1800 + HOUR)
    assert HostTime(store, elapsed).is_trusted(now + 40 * DAY + 2 * HOUR)


def test_a_database_of_before_knows_the_time_of_its_newest_run(store, host):
    store.create(recipe(1), "ann")
    assert HostTime(store, Elapsed()).is_trusted(time.time() + HOUR)
    store.trust(0.0)
    assert not HostTime(store, Elapsed()).is_trusted(time.time() + 2 * DAY)


def test_a_supervisor_asks_before_it_deletes_by_age(supervise, monkeypatch):
    asked = []
    monkeypatch.setattr(Retention, "take_turn", lambda self, now, *, by_age: asked.append(by_age) or [])
    monkeypatch.setattr(HostTime, "is_trusted", lambda self, now: False)
    supervisor = supervise("quick")
    add_retention(supervisor)
    supervisor.wake()
    until(lambda: asked)
    assert not any(asked)


def test_nothing_goes_by_age_at_a_time_that_is_not_trusted(store, settings):
    run_id = in_state(store, State.FINISHED)
    days = Retention(store, settings.model_copy(update={"keep_days": 30.0}))
    assert days.take_turn(time.time() + 40 * DAY, by_age=False) == []
    assert [going.id for going in days.take_turn(time.time() + 40 * DAY)] == [run_id]
