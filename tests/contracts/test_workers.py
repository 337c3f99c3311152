"""The contract of ``Workers``, for those of this host."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from sarqc.events import Cancelled, Failed, Finished, LayerDone, Started, Yielded
from sarqc.jobs.run import Run
from sarqc.jobs.store import Store
from sarqc.jobs.workers import LocalWorkers, Workers, log_path
from sarqc.settings import Settings
from tests.jobs.conftest import Inbox, is_alive, settings_in, until
from tests.jobs.fake_runs import recipe

Start = Callable[..., tuple[Workers, Inbox, Run, int, int]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path)


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    store = Store(settings.database())
    yield store
    store.close()


@pytest.fixture
def start(store: Store, settings: Settings) -> Iterator[Start]:
    made: list[Workers] = []

    def begin(function: str, layers: int = 3) -> tuple:
        inbox = Inbox()
        execute = function if ":" in function else f"tests.jobs.fake_runs:{function}"
        workers = LocalWorkers(settings, inbox.put, execute=execute)
        made.append(workers)
        run = store.create(recipe(layers), "ann")
        token, pid = workers.start(run, workers.devices[0].id)
        return workers, inbox, run, token, pid

    yield begin
    for workers in made:
        workers.close()


def test_events_come_in_order_and_the_end_last(start, settings):
    _, inbox, run, token, pid = start("quick")
    events, gone = inbox.until_gone()
    assert [event.type for event in events] == ["started", *["layer_done"] * 3, "saved", "finished"]
    assert events[0].device == "cpu"
    assert "/" not in events[4].path  # of where on the host it is nobody hears
    assert events[1].report["held_out_loss"] is None  # NaN is not JSON
    assert (gone.token, gone.returncode) == (token, 0)
    assert not is_alive(pid)
    log = log_path(settings, run.id).read_text()
    assert "this goes to the log\n" in log
    lines = [line for line in log.splitlines() if "sarqc.worker" in line]
    assert [line.partition(f"sarqc.worker [run {run.id}]: ")[2] for line in lines] == [
        "it begins",
        "it works on cpu, 3 layers",
        "finished after 0.1 s",
    ]
    assert (settings.studies_dir() / run.id / "study.json").is_file()


def test_cancel_reaches_into_a_layer(start, settings):
    workers, inbox, _, token, _ = start("long_layer")
    assert isinstance(inbox.next().event, Started)
    until((settings.storage_dir() / "inside").exists)
    workers.ask_to_stop(token)
    workers.ask_to_stop(token)
    events, gone = inbox.until_gone()
    assert events == [Cancelled()]  # the layer takes longer than anybody waits here
    assert gone.returncode == 0
    assert (settings.storage_dir() / "cleaned").exists()


def test_cancel_before_the_run_has_begun(start):
    workers, inbox, _, token, pid = start("long_layer")
    workers.ask_to_stop(token)
    events, gone = inbox.until_gone()
    assert events in ([], [Cancelled()])  # depends on whether Python was up
    assert gone.returncode in (0, -signal.SIGTERM)
    assert not is_alive(pid)


@pytest.mark.thorough
def test_a_run_steps_aside_between_layers(start, settings):
    workers, inbox, run, token, pid = start("slow", layers=1000)
    assert isinstance(inbox.next().event, Started)
    workers.step_aside(token, False)
    workers.step_aside(token, True)
    events, gone = inbox.until_gone()
    workers.step_aside(token, True)
    assert isinstance(events.pop(), Yielded)
    assert gone.returncode == 0
    assert not is_alive(pid)
    kept = {path.name for path in (settings.artefacts_dir() / run.fingerprint).iterdir()}
    assert {str(event.index) for event in events} <= kept
    assert "it steps aside" in log_path(settings, run.id).read_text()


def test_kill_takes_what_the_run_has_started(start, settings):
    workers, inbox, _, token, pid = start("deaf")
    inbox.next()
    grandchild = int((settings.storage_dir() / "grandchild").read_text())
    workers.ask_to_stop(token)
    workers.kill(token)
    _, gone = inbox.until_gone()
    assert gone.words() == "signal 9 (SIGKILL)"
    until(lambda: not is_alive(pid) and not is_alive(grandchild))
    workers.kill(token)
    workers.ask_to_stop(token)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("function", "kind", "what"),
    [
        ("refuses", "numerical", "channel 3 of gram is not finite"),
        ("breaks", "error", "ValueError: a bug"),
    ],
)
def test_errors_are_said_in_three_parts(start, settings, function, kind, what):
    _, inbox, run, _, _ = start(function)
    events, gone = inbox.until_gone()
    assert isinstance(events[-1], Failed)
    assert (events[-1].kind, events[-1].what) == (kind, what)
    assert events[-1].remedy
    assert gone.returncode == 0
    assert "Traceback" in log_path(settings, run.id).read_text()


def test_missing_execute_is_an_error_of_the_run(start):
    _, inbox, _, _, _ = start("sarqc.no_such_module:execute")
    events, _ = inbox.until_gone()
    assert "no_such_module" in events[-1].what


@pytest.mark.thorough
def test_silent_death_is_told_with_its_cause(start):
    _, inbox, _, _, _ = start("dies")
    events, gone = inbox.until_gone()
    assert isinstance(events[-1], LayerDone)
    assert gone.words() == "exit code 7"


def test_a_storm_arrives_whole(start):
    _, inbox, _, _, _ = start("storm", layers=5000)
    events, _ = inbox.until_gone()
    assert len(events) == 5002
    assert isinstance(events[-1], Finished)


@pytest.mark.thorough
def test_a_worker_that_stands_still_is_silent_and_can_be_ended(start):
    workers, inbox, _, token, pid = start("long_layer")
    assert isinstance(inbox.next().event, Started)
    until(lambda: workers.silent_seconds(token) < 1.0)
    worker = psutil.Process(pid)
    worker.suspend()
    until(lambda: workers.silent_seconds(token) > 3.0)
    workers.kill(token)
    _, gone = inbox.until_gone()
    assert gone.words() == "signal 9 (SIGKILL)"
    until(lambda: not is_alive(worker.pid))
