"""The supervisor with a real database and real processes: every way in which a run can end, and go on."""

import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from sarqc.errors import Conflict
from sarqc.files.room import ROOM_SECONDS
from sarqc.jobs import supervisor as supervisor_module
from sarqc.jobs import workers as workers_module
from sarqc.jobs.listing import Question
from sarqc.jobs.run import State
from sarqc.jobs.supervisor import Supervisor
from sarqc.jobs.workers import Device, LocalWorkers
from tests.jobs.conftest import PATIENCE, begun, in_state, is_alive, types, until, until_state
from tests.jobs.fake_runs import recipe


def test_a_run_from_its_queue_to_its_summary(supervise, store):
    run_id = supervise("quick").submit(recipe(3), "ann").id
    run = until_state(store, run_id, State.FINISHED)
    assert types(store, run_id) == ["started", *["layer_done"] * 3, "saved", "finished"]
    assert (run.done, run.total, run.device, run.study_id) == (3, 3, "cpu", run_id)
    assert run.summary == {"perplexity": 12.5, "seed": 3, "warm": True}
    assert run.created <= run.started <= run.ended


@pytest.mark.thorough
def test_each_device_has_one_run_at_a_time(supervise, store, settings, monkeypatch):
    two = (Device("cuda:0", "A"), Device("cuda:1", "B"))
    monkeypatch.setattr(workers_module, "find_devices", lambda settings: two)
    supervisor = supervise("device")
    for number in range(6):
        supervisor.submit(recipe(number), "ann")
    until(lambda: store.counts()["finished"] == 6)
    busy = {}
    for line in (settings.resolved_state_dir() / "used.log").read_text().splitlines():
        what, device, number = line.split()
        if what == "begin":
            assert device not in busy
            busy[device] = number
        else:
            assert busy.pop(device) == number
    assert {run.device for run in store.listed(Question(), 9)} == {"cuda:0", "cuda:1"}


def test_cancel_inside_a_layer(supervise, store, settings):
    supervisor = supervise("long_layer", cancel_seconds=PATIENCE)  # a busy host may take its time over the clean-up
    run_id = supervisor.submit(recipe(1), "ann").id
    until((settings.resolved_state_dir() / "inside").exists)
    assert supervisor.cancel(run_id).state is State.CANCELLING
    run = until_state(store, run_id, State.CANCELLED)
    assert (settings.resolved_state_dir() / "cleaned").exists()  # so it was not SIGKILL
    assert types(store, run_id)[-1] == "cancelled"
    assert run.pid is None
    with pytest.raises(Conflict):
        supervisor.cancel(run_id)


@pytest.mark.thorough
def test_cancel_of_one_that_does_not_listen(supervise, store, settings):
    supervisor = supervise("deaf")
    run_id = begun(supervisor)
    pid, began = store.get(run_id).pid, time.monotonic()
    supervisor.cancel(run_id)
    until_state(store, run_id, State.CANCELLED)
    assert time.monotonic() - began >= settings.cancel_seconds
    assert types(store, run_id)[-1] == "cancelled"
    assert not is_alive(pid)


def test_cancel_of_one_that_waits(supervise, store):
    supervisor = supervise("long_layer")
    running, waiting = (supervisor.submit(recipe(1), "ann").id for _ in range(2))
    until_state(store, running, State.RUNNING)
    assert supervisor.cancel(waiting).state is State.CANCELLED
    assert types(store, waiting) == ["cancelled"]
    supervisor.cancel(running)
    until_state(store, running, State.CANCELLED)


@pytest.mark.thorough
def test_killed_worker_is_interrupted_and_goes_on(supervise, store):
    supervisor = supervise("slow")
    run_id = supervisor.submit(recipe(8), "ann").id
    until(lambda: store.get(run_id).done >= 2)
    os.kill(store.get(run_id).pid, signal.SIGKILL)
    run = until_state(store, run_id, State.INTERRUPTED)
    assert run.error["kind"] == "worker_lost"
    assert "signal 9 (SIGKILL)" in run.error["what"]
    assert f"{run.done} of 8 layers are kept" in run.error["what"]
    assert supervisor.resume(run_id).attempt == 2
    until_state(store, run_id, State.FINISHED)
    cached = [event.payload["from_cache"] for event in store.events(run_id) if event.payload["type"] == "layer_done"]
    assert cached[run.done : run.done + 2] == [True, True]  # the second attempt begins with what the first finished
    assert types(store, run_id).count("started") == 2


@pytest.mark.thorough
def test_worker_that_somebody_else_stops_is_interrupted(supervise, store):
    supervisor = supervise("long_layer")
    run_id = begun(supervisor)
    os.kill(store.get(run_id).pid, signal.SIGTERM)
    assert "outside" in until_state(store, run_id, State.INTERRUPTED).error["what"]


@pytest.mark.thorough
@pytest.mark.parametrize(("function", "state"), [("dies", State.INTERRUPTED), ("refuses", State.FAILED)])
def test_ends_that_are_no_success_can_be_continued(supervise, store, function, state):
    supervisor = supervise(function)
    run_id = supervisor.submit(recipe(2), "ann").id
    first = until_state(store, run_id, state)
    assert first.error["what"]
    supervisor.resume(run_id)
    until(lambda: store.get(run_id).attempt == 2 and store.get(run_id).at_rest)


@pytest.mark.thorough
def test_a_storm_is_stored_whole_and_does_not_hold_up_a_cancel(supervise, store):
    supervisor = supervise("storm")
    run_id = supervisor.submit(recipe(20_000), "ann").id
    until(lambda: store.tail(run_id, 1000, 1)[0])
    waiting = supervisor.submit(recipe(1), "ann").id
    supervisor.cancel(waiting)
    assert not store.get(run_id).at_rest  # the storm still goes on
    until_state(store, run_id, State.FINISHED)
    assert [event.seq for event in store.events(run_id)] == list(range(1, 20_003))


@pytest.mark.thorough
def test_stop_ends_workers_and_the_next_start_goes_on(supervise, store):
    first = supervise("slow")
    run_id = first.submit(recipe(8), "ann").id
    waiting = first.submit(recipe(1), "ann").id
    until(lambda: store.get(run_id).done >= 2)
    pid = store.get(run_id).pid
    first.stop()
    assert not is_alive(pid)
    assert [store.get(one).state for one in (run_id, waiting)] == [State.QUEUED, State.QUEUED]
    assert types(store, run_id)[-1] == "interrupted"
    assert "The app was stopped." in store.events(run_id)[-1].payload["what"]

    supervise("slow")
    assert until_state(store, run_id, State.FINISHED).attempt == 2
    until_state(store, waiting, State.FINISHED)
    assert store.get(run_id).started < store.get(waiting).started  # it kept its place


def test_stop_while_one_does_not_listen(supervise, store, monkeypatch):
    monkeypatch.setattr(supervisor_module, "STOP_SECONDS", 0.3)
    supervisor = supervise("deaf")
    run_id = begun(supervisor)
    pid = store.get(run_id).pid
    supervisor.stop()
    assert not is_alive(pid)
    assert store.get(run_id).state is State.QUEUED


def test_what_was_cancelling_when_the_app_died_is_cancelled(supervise, store):
    run_id = in_state(store, State.CANCELLING)
    supervise("quick")
    assert store.get(run_id).state is State.CANCELLED


def test_a_run_that_takes_the_app_down_does_not_do_so_for_ever(supervise, store, monkeypatch):
    monkeypatch.setattr(supervisor_module, "ATTEMPTS", 1)
    run_id = in_state(store, State.RUNNING)
    supervise("quick")
    assert store.get(run_id).state is State.INTERRUPTED
    assert "attempt 1" in store.get(run_id).error["what"]


@pytest.mark.thorough
def test_trouble_with_the_disk_is_said_and_survived(supervise, store, monkeypatch):
    supervisor = supervise("slow")
    run_id = supervisor.submit(recipe(4), "ann").id
    until(lambda: store.get(run_id).done >= 1)
    append = store.append

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(store, "append", full)
    until(lambda: supervisor.trouble)
    assert "disk is full" in supervisor.trouble
    monkeypatch.setattr(store, "append", append)
    assert until_state(store, run_id, State.FINISHED).done == 4
    assert types(store, run_id) == ["started", *["layer_done"] * 4, "finished"]  # nothing lost, nothing twice
    until(lambda: supervisor.trouble is None)


@pytest.mark.thorough
def test_who_gave_up_for_room_tries_again_while_that_leads_on(supervise, store, settings, monkeypatch):
    """The disk has room whenever the supervisor looks: somebody freed it, or the run itself by giving up."""
    monkeypatch.setattr(supervisor_module, "MORE_BYTES", 1 << 60)  # others use this disk too
    supervisor = supervise("fills")
    run_id = supervisor.submit(recipe(2), "ann").id
    begun = settings.storage_dir() / "begun"
    until(lambda: len([one for one in types(store, run_id) if one == "yielded"]) == 4)
    until(lambda: not supervisor._jobs)
    run = store.get(run_id)
    assert (run.state, run.attempt, run.waits_for_room) == (State.QUEUED, 1, True)
    for _ in range(3):
        supervisor.wake()
        time.sleep(ROOM_SECONDS)
    assert begun.read_text() == "4"  # without a layer, with one, with two, and once more with no further one
    other = supervisor.submit(recipe(1), "bob").id  # nobody else waits for it
    until(lambda: store.get(other).started is not None)
    (settings.storage_dir() / "room").touch()
    monkeypatch.setattr(supervisor_module, "AGAIN_SECONDS", 0.0)
    assert until_state(store, run_id, State.FINISHED).attempt == 1


def test_no_process_to_be_had(store, settings):
    class NoWorkers(LocalWorkers):
        def start(self, run, device):
            raise OSError("no memory for a process")

    supervisor = Supervisor(store, settings, workers=NoWorkers)
    supervisor.start()
    run_id = supervisor.submit(recipe(), "ann").id
    assert "no memory" in until_state(store, run_id, State.FAILED).error["what"]
    supervisor.stop()


def test_devices_tell_which_run_they_have(supervise, store):
    supervisor = supervise("long_layer")
    assert [(one["id"], one["run"]) for one in supervisor.devices()] == [("cpu", None)]
    run_id = supervisor.submit(recipe(1), "ann").id
    until(lambda: supervisor.devices()[0]["run"] == run_id)
    until(lambda: store.get(run_id).pid is not None)  # written after the device is taken
    assert Path(f"/proc/{store.get(run_id).pid}").exists()
    supervisor.cancel(run_id)
    until(lambda: supervisor.devices()[0]["run"] is None)
