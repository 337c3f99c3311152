"""Workers that hang, and runs without an end: real processes, and a clock that the test moves on."""

import os
import signal
from pathlib import Path

import pytest

from sarqc.jobs import supervisor as supervisor_module
from sarqc.jobs.run import State
from sarqc.jobs.supervisor import Supervisor
from tests.jobs.conftest import begun, is_alive, types, until, until_state
from tests.jobs.fake_runs import recipe


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def hush(supervisor: Supervisor, clock: Clock, token: int, seconds: float) -> bool:
    """Moves the clock so that the worker has been silent for as long, unless it says something or is gone."""
    if token in supervisor._jobs:
        clock.now += max(0.0, seconds - supervisor.workers.silent_seconds(token))
    supervisor.wake()
    return True


def lapse(supervisor: Supervisor, clock: Clock, seconds: float) -> bool:
    clock.now += seconds
    supervisor.wake()
    return True


def token_of(supervisor: Supervisor) -> int:
    (token,) = supervisor._jobs
    return token


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.thorough
def test_a_stopped_worker_is_said_then_ended_and_its_run_goes_on(supervise, store, clock):
    supervisor = supervise("slow")
    run_id = supervisor.submit(recipe(200), "ann").id
    until(lambda: store.get(run_id).done >= 2)
    pid = store.get(run_id).pid
    token = token_of(supervisor)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: is_stopped(pid))
    until(lambda: hush(supervisor, clock, token, 40.0) and supervisor.trouble)
    assert "no sign of life for more than 30 s" in supervisor.trouble
    assert store.events(run_id)[-1].payload["what"] == supervisor.trouble
    assert "warned" in types(store, run_id)

    until(lambda: hush(supervisor, clock, token, 121.0) and "interrupted" in types(store, run_id))
    told = next(event.payload["what"] for event in store.events(run_id) if event.payload["type"] == "interrupted")
    assert told.startswith("The worker gave no sign of life for 120 s and was ended.")
    assert not is_alive(pid)
    until(lambda: store.get(run_id).state is State.RUNNING and store.get(run_id).done >= 2)
    assert store.get(run_id).attempt == 2
    until(lambda: supervisor.trouble is None)
    supervisor.cancel(run_id)
    until_state(store, run_id, State.CANCELLED)


@pytest.mark.thorough
def test_a_long_computation_gives_signs_of_life(supervise, store, clock):
    supervisor = supervise("long_layer")
    run_id = begun(supervisor)
    token = token_of(supervisor)
    for _ in range(5):  # two and a half times a lease, all within one layer
        lapse(supervisor, clock, 60.0)
        until(lambda: supervisor.workers.silent_seconds(token) == 0.0)
    assert store.get(run_id).state is State.RUNNING
    assert store.get(run_id).attempt == 1


def test_a_worker_that_hangs_again_and_again_waits_for_a_person(supervise, store, clock, monkeypatch):
    monkeypatch.setattr(supervisor_module, "ATTEMPTS", 1)
    supervisor = supervise("long_layer")
    run_id = begun(supervisor)
    token = token_of(supervisor)
    os.kill(store.get(run_id).pid, signal.SIGSTOP)
    until(lambda: hush(supervisor, clock, token, 121.0) and store.get(run_id).state is State.INTERRUPTED)
    assert "That was attempt 1" in store.get(run_id).error["what"]


@pytest.mark.thorough
@pytest.mark.parametrize("function", ["long_layer", "deaf"])
def test_a_run_over_its_hours_fails_and_can_be_continued(supervise, store, clock, function):
    supervisor = supervise(function, run_hours=2.0, lease_seconds=1e9)
    run_id = begun(supervisor)
    pid = store.get(run_id).pid
    lapse(supervisor, clock, 7100.0)
    assert store.get(run_id).state is State.RUNNING
    until(lambda: lapse(supervisor, clock, 100.0) and store.get(run_id).state is State.FAILED)
    error = store.get(run_id).error
    assert error["kind"] == "limit"
    assert error["what"].startswith("the run took longer than the 2 hours")
    assert not is_alive(pid)
    assert supervisor.resume(run_id).attempt == 2
