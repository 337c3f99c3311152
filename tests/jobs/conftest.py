"""What the tests of jobs and of the REST interface share: short waiting, and a supervisor with real processes."""

import queue
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sarqc.jobs.run import Run, State
from sarqc.jobs.store import Store
from sarqc.jobs.supervisor import Supervisor
from sarqc.jobs.workers import Gone, LocalWorkers
from sarqc.settings import Settings
from tests.jobs.fake_runs import recipe

PATIENCE = 200.0  # seconds: a worker that has to be started on a busy host is slow, not wrong

PATHS = {  # how to get to a state, written down independently of ALLOWED
    State.QUEUED: (), State.RUNNING: (State.RUNNING,), State.CANCELLING: (State.RUNNING, State.CANCELLING),
    State.CANCELLED: (State.CANCELLED,), State.INTERRUPTED: (State.RUNNING, State.INTERRUPTED),
    State.FAILED: (State.RUNNING, State.FAILED), State.FINISHED: (State.RUNNING, State.FINISHED),
}  # fmt: skip


class Inbox(queue.Queue):
    """What the workers deliver."""

    def next(self):
        while (message := self.get(timeout=PATIENCE)) is None:  # the devices have changed
            pass
        return message

    def until_gone(self):
        events = []
        while not isinstance(message := self.next(), Gone):
            events.append(message.event)
        return events, message


def until(condition: Callable[[], object], seconds: float = PATIENCE):
    """The first true answer of the condition; fails when there is none in time.

    It is asked more and more seldom: a question may be a request, and would take the time of what is waited for.
    """
    began = time.monotonic()
    while (waited := time.monotonic() - began) < seconds:
        if answer := condition():
            return answer
        time.sleep(min(0.01 + waited / 20, 0.1))
    raise AssertionError("it did not happen in time")


def until_state(store: Store, run_id: str, *states: State, seconds: float = PATIENCE) -> Run:
    try:
        until(lambda: store.get(run_id).state in states, seconds)
    except AssertionError:
        run = store.get(run_id)
        raise AssertionError(f"not {states}, but {run.state}, attempt {run.attempt}: {run.error}") from None
    return store.get(run_id)


def in_state(store: Store, state: State) -> str:
    run_id = store.create(recipe(), "ann").id
    for step in PATHS[state]:
        store.move(run_id, step)
    return run_id


def begun(supervisor: Supervisor) -> str:
    """A new run, once its worker has begun."""
    run_id = supervisor.submit(recipe(1), "ann").id
    until(lambda: types(supervisor.store, run_id) == ["started"])
    return run_id


def types(store: Store, run_id: str) -> list[str]:
    return [event.payload["type"] for event in store.events(run_id)]


def is_alive(pid: int) -> bool:
    """Whether a process runs (one that only waits to be fetched by its parent does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):  # it went before it was opened, or before it was read
        return False


def children_of(pid: int) -> list[int]:
    """Process ids of what a process has started, whichever of its threads did."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def settings_in(folder: Path, **others) -> Settings:
    """Settings of a host whose model and text exist as far as names go: the recipe of ``fake_runs`` names them."""
    model, text = folder / "models" / "fake" / "config.json", folder / "texts" / "none.txt"
    for path in (model, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    given = {
        "hosts": "testserver", "state_dir": folder / "state", "assets_dir": folder / "assets", "device": "cpu",
        "cancel_seconds": 0.5, "model_dirs": str(folder / "models"), "text_dirs": str(folder / "texts"),
    }  # fmt: skip
    return Settings(**(given | others))


@pytest.fixture
def settings(tmp_path):
    return settings_in(tmp_path)


@pytest.fixture
def store(settings):
    store = Store(settings.database())
    yield store
    store.close()


@pytest.fixture
def clock():
    return time.monotonic


@pytest.fixture
def supervise(store, settings, clock):
    """Starts a supervisor whose workers run the named function of ``fake_runs``, with further settings if given."""
    started = []

    def start(function, **others):
        workers = partial(LocalWorkers, execute=f"tests.jobs.fake_runs:{function}", clock=clock)
        supervisor = Supervisor(store, settings.model_copy(update=others), workers=workers, clock=clock)
        supervisor.start()
        started.append(supervisor)
        return supervisor

    yield start
    for supervisor in started:
        if supervisor._thread.is_alive():
            supervisor.stop()
