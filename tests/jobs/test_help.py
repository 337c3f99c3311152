"""Free devices help with a run that can be shared, give way to runs that wait, and end with it."""

import pytest

from sarqc.jobs import workers as workers_module
from sarqc.jobs.run import State
from sarqc.jobs.workers import Device
from sarqc.settings import Settings
from tests.jobs.conftest import is_alive, types, until, until_state
from tests.jobs.fake_runs import recipe

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def three_devices(monkeypatch):
    devices = tuple(Device(f"cuda:{index}", "a device") for index in range(3))
    monkeypatch.setattr(workers_module, "find_devices", lambda settings: devices)


def helpers(settings: Settings) -> list[int]:
    return [int(path.name.split("-")[1]) for path in settings.storage_dir().glob("help-*")]


def crews(settings: Settings) -> list[str]:
    return sorted(path.read_text() for role in ("run", "help") for path in settings.storage_dir().glob(f"{role}-*"))


def alive(settings: Settings) -> list[int]:
    return [pid for pid in helpers(settings) if is_alive(pid)]


def tuning(layers: int = 3):
    return recipe(layers, kind="tune", test="none.txt")


def test_free_devices_help_and_end_with_the_run(supervise, store, settings):
    supervisor = supervise("shared")
    run_id = supervisor.submit(tuning(), "ann").id
    until(lambda: len(alive(settings)) == 2)
    assert [device["run"] for device in supervisor.devices()] == [run_id] * 3
    assert crews(settings) == ["3", "3", "3"]
    (settings.storage_dir() / "go on").touch()
    until_state(store, run_id, State.FINISHED)
    until(lambda: not alive(settings) and not supervisor._jobs)
    assert types(store, run_id) == ["started", "stage", "finished"]  # helpers are not heard


def test_a_run_that_waits_gets_the_device_of_a_helper(supervise, store, settings):
    supervisor = supervise("shared")
    first = supervisor.submit(tuning(), "ann").id
    until(lambda: len(alive(settings)) == 2)
    second = supervisor.submit(recipe(4), "bob").id
    until_state(store, second, State.RUNNING)
    until(lambda: len(alive(settings)) == 1)
    until(lambda: crews(settings) == ["1", "3", "3", "3"])  # what is not a tuning run is nobody else's
    (settings.storage_dir() / "go on").touch()
    for run_id in (first, second):
        until_state(store, run_id, State.FINISHED)


def test_help_that_fails_is_not_asked_for_again(supervise, store, settings):
    (settings.storage_dir() / "fail").touch()
    supervisor = supervise("shared")
    run_id = supervisor.submit(tuning(), "ann").id
    until(lambda: len(helpers(settings)) == 2)
    until(lambda: len(supervisor._jobs) == 1)
    supervisor.wake()
    (settings.storage_dir() / "go on").touch()
    until_state(store, run_id, State.FINISHED)
    assert len(helpers(settings)) == 2


def test_helpers_of_a_cancelled_run_end_too(supervise, store, settings):
    supervisor = supervise("shared")
    run_id = supervisor.submit(tuning(), "ann").id
    until(lambda: len(alive(settings)) == 2)
    supervisor.cancel(run_id)
    until_state(store, run_id, State.CANCELLED)
    until(lambda: not supervisor._jobs)
    assert alive(settings) == []
