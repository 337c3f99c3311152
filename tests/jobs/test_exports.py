"""Exports with a real database and real processes: whatever becomes of one, its run stays as it was."""

import io
import os
import tarfile
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sarqc.errors import Conflict, NotFound, Refused
from sarqc.events import Finished
from sarqc.jobs import exports
from sarqc.jobs.run import Run, State
from sarqc.jobs.supervisor import Supervisor
from sarqc.jobs.workers import log_path
from sarqc.settings import Settings
from tests.jobs.conftest import until, until_state
from tests.jobs.fake_runs import recipe


def finished_run(supervisor: Supervisor, **changes) -> Run:
    """A run that finished without a worker having been started for it."""
    with supervisor.store.transaction():
        run_id = supervisor.store.create(recipe(1, **changes), "ann").id
        supervisor.store.move(run_id, State.RUNNING)
        return supervisor.store.move(run_id, State.FINISHED, Finished({"perplexity": 12.5}, 1.0))


def tell(settings: Settings, what: str):
    (settings.resolved_state_dir() / "does").write_text(what)


def partial(settings: Settings, export: Run) -> Path:
    return exports.export_folder(settings, export.id) / ".partial" / "model.safetensors"


@pytest.mark.thorough
def test_what_can_not_be_exported(supervise, store):
    supervisor = supervise("exporting")
    parent = finished_run(supervisor)
    with pytest.raises(Refused, match="zero points"):
        supervisor.export(parent.id, "packed", 5, "ann")
    with pytest.raises(Refused, match="gguf"):
        supervisor.export(parent.id, "gguf", 5, "ann")
    with pytest.raises(NotFound):
        supervisor.export("nobody", "plain", 5, "ann")
    made, _ = supervisor.export(parent.id, "plain", 5, "ann")
    until_state(store, made.id, State.FINISHED)
    with pytest.raises(Conflict, match="an export itself"):
        supervisor.export(made.id, "plain", 5, "ann")
    cancelled = store.create(recipe(9), "ann")
    store.cancel(cancelled.id)
    until_state(store, cancelled.id, State.CANCELLED)  # it may just have been started
    with pytest.raises(Conflict, match="cancelled can't be exported"):
        supervisor.export(cancelled.id, "plain", 5, "ann")


@pytest.mark.thorough
def test_cancelled_it_leaves_nothing_and_can_be_asked_for_again(supervise, store, settings):
    supervisor = supervise("exporting")
    parent = finished_run(supervisor)
    tell(settings, "wait")
    made, _ = supervisor.export(parent.id, "plain", 5, "ann")
    until(partial(settings, made).exists)
    assert supervisor.export(parent.id, "plain", 5, "ann")[0].id == made.id  # asking twice is asking once
    with pytest.raises(Conflict, match="an export that is running"):
        supervisor.delete(parent.id)
    assert store.get(parent.id) == parent
    supervisor.cancel(made.id)
    until_state(store, made.id, State.CANCELLED)
    until(lambda: not exports.export_folder(settings, made.id).exists())
    assert store.get(parent.id) == parent
    tell(settings, "")
    again, is_queued = supervisor.export(parent.id, "plain", 5, "ann")
    assert (again.id, again.attempt, is_queued) == (made.id, 2, True)
    until_state(store, made.id, State.FINISHED)


def test_a_loop_that_is_woken_for_an_export_sees_it_queued(store, settings, monkeypatch):
    supervisor = Supervisor(store, settings, execute="tests.jobs.fake_runs:exporting")  # its loop is not started
    parent = finished_run(supervisor)
    made, _ = supervisor.export(parent.id, "plain", 5, "ann")
    supervisor.cancel(made.id)
    seen = []

    def look():
        with ThreadPoolExecutor(1) as another:  # with a connection of its own, as the loop has
            seen.append(another.submit(store.get, made.id).result().state)

    monkeypatch.setattr(supervisor, "wake", look)
    supervisor.export(parent.id, "plain", 5, "ann")
    assert seen == [State.QUEUED]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("does", "state", "what"),
    [("fail", State.FAILED, "channel 3"), ("end after writing", State.INTERRUPTED, "exit code 7")],
)
def test_lost_or_failed_it_says_why_and_the_run_stays(supervise, store, settings, does, state, what):
    supervisor = supervise("exporting")
    parent = finished_run(supervisor)
    tell(settings, does)
    made, _ = supervisor.export(parent.id, "plain", 5, "ann")
    assert what in until_state(store, made.id, state).error["what"]
    assert store.get(parent.id) == parent
    until(lambda: not exports.export_folder(settings, made.id).exists())
    with pytest.raises(NotFound):
        exports.finished_checkpoint(store, settings, parent.id, "plain")
    assert store.exported_bytes() == (0, 0)
    tell(settings, "")
    supervisor.resume(made.id)
    until_state(store, made.id, State.FINISHED)


@pytest.mark.thorough
def test_it_goes_on_after_a_restart(supervise, store, settings):
    first = supervise("exporting")
    parent = finished_run(first)
    tell(settings, "wait")
    made, _ = first.export(parent.id, "plain", 5, "ann")
    until(partial(settings, made).exists)
    first.stop()
    assert store.get(made.id).state is State.QUEUED
    partial(settings, made).parent.mkdir(parents=True, exist_ok=True)  # as a SIGKILL of everything would leave it
    tell(settings, "")
    supervise("exporting")
    assert until_state(store, made.id, State.FINISHED).attempt == 2
    assert store.get(parent.id) == parent


@pytest.mark.thorough
def test_deleted_with_its_run(supervise, store, settings):
    supervisor = supervise("exporting")
    parent, other = finished_run(supervisor), finished_run(supervisor, bits=2)
    made = [supervisor.export(run.id, "plain", 5, "ann")[0] for run in (parent, other)]
    for export in made:
        until_state(store, export.id, State.FINISHED)
    revision = store.revision()
    supervisor.delete(parent.id)
    assert {change.id for change in store.changed_since(revision)} == {parent.id, made[0].id}
    with pytest.raises(NotFound):
        store.get(made[0].id)
    assert not exports.export_folder(settings, made[0].id).exists()
    assert not log_path(settings, made[0].id).exists()
    supervisor.delete(made[1].id)  # the files alone
    assert store.get(other.id) == other
    assert list(settings.exports_dir().iterdir()) == []


@pytest.mark.thorough
def test_the_disk_has_an_end(supervise, store, settings, monkeypatch):
    supervisor = supervise("exporting")
    one, two = finished_run(supervisor), finished_run(supervisor, bits=2)
    small = settings.model_copy(update={"export_gib": 8000 / 2**30})
    monkeypatch.setattr(supervisor, "settings", small)
    tell(settings, "wait")
    made, _ = supervisor.export(one.id, "plain", 6000, "ann")
    with pytest.raises(exports.NoRoom, match=r"5\.59e-06 GiB of the 7\.45e-06 GiB"):  # it is reserved already
        supervisor.export(two.id, "plain", 2001, "ann")
    supervisor.cancel(made.id)
    until_state(store, made.id, State.CANCELLED)
    tell(settings, "")
    other, _ = supervisor.export(two.id, "plain", 2001, "ann")  # what was cancelled takes nothing
    until_state(store, other.id, State.FINISHED)
    with pytest.raises(exports.NoRoom) as caught:
        supervisor.resume(made.id)
    assert caught.value.http_status == 507
    assert "SARQC_EXPORT_GIB" in caught.value.remedy
    monkeypatch.setattr(supervisor, "settings", settings)
    usage = namedtuple("usage", "free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(2**29))
    with pytest.raises(exports.NoRoom, match=r"about 0\.75 GiB, and 0\.5 GiB of the disk are free"):
        exports.check_room(store, settings, 3 * 2**28)


def test_the_archive_is_what_tar_reads(tmp_path):
    folder = tmp_path / "model ä"
    sizes = {"empty": 0, "a": 511, "b": 512, "c": 513, "sub/big": 3 * exports.CHUNK_BYTES + 1, "x" * 120: 7}
    contents = {name: os.urandom(size) for name, size in sizes.items()}
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    length, parts = exports.tar_of(folder)
    archive = b"".join(parts)
    assert len(archive) == length
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        found = {member.name: opened.extractfile(member).read() for member in opened.getmembers()}
    assert found == {f"model ä/{name}": content for name, content in contents.items()}
    assert max(len(part) for part in exports.tar_of(folder)[1]) <= exports.CHUNK_BYTES  # never the whole
    _, parts = exports.tar_of(folder)
    (folder / "sub" / "big").write_bytes(b"shorter")
    with pytest.raises(OSError, match="shorter"):
        b"".join(parts)
