"""Real worker processes: what they say, how they stop, and that none outlives its app."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from sarqc.errors import Refused
from sarqc.events import Failed, Finished
from sarqc.jobs import workers as workers_module
from sarqc.jobs.run import Run
from sarqc.jobs.workers import Device, LocalWorkers, find_devices, log_path
from tests.jobs.conftest import Inbox, is_alive, until
from tests.jobs.fake_runs import recipe


@pytest.fixture
def start(store, settings):
    made = []

    def begin(function, layers=3, warm=False):
        inbox = Inbox()
        workers = LocalWorkers(settings, inbox.put, execute=f"tests.jobs.fake_runs:{function}")
        made.append(workers)
        if warm:
            workers.warm_up()
        run = store.create(recipe(layers), "ann")
        token, pid = workers.start(run, "cpu")
        return workers, inbox, run, token, pid

    yield begin
    for workers in made:
        workers.close()


@pytest.mark.thorough
def test_a_finished_worker_leaves_a_log_and_a_study_for_its_owner_alone(start, settings):
    _, inbox, run, _, pid = start("quick")
    assert inbox.until_gone()[1].returncode == 0
    assert not is_alive(pid)
    log, study = log_path(settings, run.id), settings.studies_dir() / run.id
    assert [stat.S_IMODE(path.stat().st_mode) for path in (log, study, study / "study.json")] == [0o600, 0o700, 0o600]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("function", "kind", "what"),
    [
        ("refuses_a_field", "refused", "groups of 3 do not divide"),
        ("ends_early", "error", "RuntimeError: the run ended without a result"),
    ],
)
def test_further_errors_are_said_in_their_parts(start, function, kind, what):
    events, _ = start(function)[1].until_gone()
    assert isinstance(events[-1], Failed)
    assert (events[-1].kind, events[-1].what) == (kind, what)
    assert events[-1].remedy


@pytest.mark.thorough
@pytest.mark.parametrize(("limit", "value"), [("EVENT_BYTES", 40), ("RUN_BYTES", 10_000)])
def test_a_run_that_says_too_much_is_ended(start, monkeypatch, limit, value):
    monkeypatch.setattr(workers_module, limit, value)
    _, inbox, _, _, pid = start("storm", layers=5000)  # more than a pipe holds: it can't be done before it is ended
    events, gone = inbox.until_gone()
    assert isinstance(events[-1], Failed)
    assert events[-1].kind == "limit"
    assert gone.words() == "signal 9 (SIGKILL)"
    assert not is_alive(pid)


@pytest.mark.thorough
def test_a_warm_process_takes_the_run(start):
    workers, inbox, _, _, pid = start("quick", warm=True)
    events, _ = inbox.until_gone()
    assert isinstance(events[-1], Finished)
    assert not workers._warm
    workers.warm_up()
    workers.warm_up()
    (waiting,) = workers._warm.values()
    assert waiting.pid != pid
    os.kill(waiting.pid, signal.SIGKILL)  # lost while it waits: nobody needs to know
    until(lambda: not is_alive(waiting.pid))
    workers.start(Run(**{**vars(start("quick")[2])}), "cpu")
    assert inbox.until_gone()[1].returncode == 0


def test_what_was_kept_warm_in_vain_is_let_go(settings, monkeypatch, store):
    workers = LocalWorkers(settings, print, execute="tests.jobs.fake_runs:quick")
    workers.warm_up()
    (worker,) = workers._warm.values()
    workers.cool_down()
    assert worker.process.alive()
    monkeypatch.setattr(workers_module, "WARM_SECONDS", 0.0)
    workers.cool_down()
    assert not worker.process.alive()
    workers.close()


@pytest.mark.thorough
def test_no_worker_outlives_an_app_that_was_killed(tmp_path):
    """kill -9 of the parent: both the busy worker, its own child, and the warm one end."""
    script = textwrap.dedent(
        f"""
        import sys, time
        from pathlib import Path
        from sarqc.jobs.store import Store
        from sarqc.jobs.workers import LocalWorkers
        from sarqc.settings import Settings
        from tests.jobs.fake_runs import recipe
        settings = Settings(state_dir=Path({str(tmp_path)!r}), device="cpu")
        workers = LocalWorkers(settings, lambda m: print(m, flush=True), execute="tests.jobs.fake_runs:deaf")
        workers.warm_up()
        (warm,) = workers._warm.values()
        workers._warm.clear()
        print(warm.pid, flush=True)
        print(workers.start(Store(settings.database()).create(recipe(), "ann"), "cpu")[1], flush=True)
        time.sleep(60)
        """
    )
    app = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    warm, busy = int(app.stdout.readline()), int(app.stdout.readline())
    assert "Started" in app.stdout.readline()
    pids = [warm, busy, int((tmp_path / "grandchild").read_text())]
    assert all(is_alive(pid) for pid in pids)
    app.kill()
    app.wait()
    until(lambda: not any(is_alive(pid) for pid in pids))
    app.stdout.close()


@pytest.mark.thorough
@pytest.mark.parametrize("job", [b"", b'{"run_id": "one"}\n'], ids=["no job yet", "a job"])
def test_a_worker_that_still_imports_ends_with_its_app(tmp_path, job):
    path = os.pathsep.join([str(Path(__file__).parent), *map(os.path.abspath, sys.path)])
    read_end, write_end = os.pipe()
    worker = subprocess.Popen(
        [sys.executable, "-P", "-m", "sarqc.jobs.child", str(write_end), "endless_import:run"],
        stdin=subprocess.PIPE, pass_fds=(write_end,), start_new_session=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    os.close(write_end)
    worker.stdin.write(job)
    worker.stdin.flush()
    until(lambda: (tmp_path / "importing").exists())
    assert worker.poll() is None
    worker.stdin.close()
    assert worker.wait(60) == -signal.SIGKILL
    os.close(read_end)


def test_a_stopped_worker_of_an_earlier_app_is_ended(settings):
    read_end, write_end = os.pipe()
    command = [sys.executable, "-P", "-m", "sarqc.jobs.child", str(write_end), "tests.jobs.fake_runs:slow"]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    leftover = subprocess.Popen(
        command, stdin=subprocess.PIPE, pass_fds=(write_end,), start_new_session=True, env=paths
    )  # fmt: skip
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    workers = LocalWorkers(settings, lambda message: None)
    until(psutil.Process(leftover.pid).cmdline)  # none at first: Popen returns before that is in place
    leftover.send_signal(signal.SIGSTOP)
    for pid in (leftover.pid, stranger.pid, 2**22 + 1):  # the last one: beyond the largest process id
        workers.end_leftover(pid)
    assert leftover.wait(60) == -signal.SIGKILL
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    leftover.stdin.close()
    for descriptor in (read_end, write_end):
        os.close(descriptor)


def test_the_worker_does_not_know_the_database():
    """Importing what a worker process runs brings in neither SQLite nor a web framework nor torch."""
    code = "import sarqc.jobs.child, sys; print({'sqlite3', 'fastapi', 'torch', 'gradio'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


def test_devices(settings, monkeypatch):
    two = (Device("cuda:0", "H200"), Device("cuda:1", "H200"))
    monkeypatch.setattr(workers_module, "_may_have_cuda", lambda: True)
    monkeypatch.setattr(workers_module, "_ask_torch", lambda: two)

    def found(device):
        return [one.id for one in find_devices(settings.model_copy(update={"device": device}))]

    assert found("cpu") == ["cpu"]
    assert found("auto") == ["cuda:0", "cuda:1"]
    assert found("cuda") == ["cuda:0", "cuda:1"]
    assert found("cuda:1") == ["cuda:1"]
    together = find_devices(settings.model_copy(update={"device": "auto", "span": 2}))
    assert [(one.id, one.name) for one in together] == [("cuda:0", f"2 × {two[0].name}")]
    monkeypatch.setattr(workers_module, "_ask_torch", lambda: ())
    assert found("auto") == ["cpu"]
    for device in ("cuda", "cuda:0", "tpu"):
        with pytest.raises(Refused) as caught:
            found(device)
        assert caught.value.where == "SARQC_DEVICE"
