"""The file behind the store when somebody else holds it, or when it is no longer what was written."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sarqc.errors import Busy, Damaged, Refused, Unwritable
from sarqc.events import Stage
from sarqc.jobs import database
from sarqc.jobs.run import State
from sarqc.jobs.store import Store
from tests.jobs.conftest import in_state
from tests.jobs.fake_runs import recipe


@contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Holds the database as a backup or a person with a shell might."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


def test_a_locked_database_refuses_writers_and_lets_readers_in(settings, monkeypatch):
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    store = Store(settings.database())
    run_id = store.create(recipe(), "ann").id
    with write_lock(settings.database()):
        with pytest.raises(Busy) as caught:
            store.create(recipe(), "ann")
        assert store.get(run_id).state is State.QUEUED
    assert "locked" in caught.value.what
    assert store.create(recipe(), "ann").state is State.QUEUED
    store.close()


def test_readers_do_not_wait_for_a_writer_that_waits(settings, monkeypatch):
    monkeypatch.setattr(database, "BUSY_SECONDS", 60.0)
    store = Store(settings.database())
    run_id = store.create(recipe(), "ann").id
    with ThreadPoolExecutor(1) as another, write_lock(settings.database()):
        writer = another.submit(store.cancel, run_id)
        assert store.get(run_id).state is State.QUEUED
        assert store.counts()["queued"] == 1
        assert not writer.done()
    assert store.get(run_id).state is State.CANCELLED
    store.close()


def test_a_transaction_sees_its_own_changes_and_nobody_else_does(store):
    run_id = store.create(recipe(), "ann").id
    with store.transaction(), ThreadPoolExecutor(1) as another:
        store.cancel(run_id)
        assert another.submit(store.get, run_id).result().state is State.QUEUED
        assert store.get(run_id).state is State.CANCELLED


@pytest.fixture
def damaged_run(settings):
    """A run in a database with a page in the middle overwritten."""
    store = Store(settings.database())
    run_id = in_state(store, State.RUNNING)
    store.append(run_id, [Stage("x" * 500, str(number)) for number in range(500)])
    store.close()
    with settings.database().open("r+b") as file:
        file.seek(file.seek(0, 2) // 4096 // 2 * 4096)
        file.write(b"\xff" * 4096)
    return run_id


def test_a_damaged_page_is_seen_at_the_start(settings, damaged_run):
    with pytest.raises(Refused, match="the database of runs is damaged") as caught:
        Store(settings.database())
    assert "recover" in caught.value.remedy


def test_what_is_too_large_to_check_is_said_and_damage_met_later_is_a_sentence(
    settings, damaged_run, monkeypatch, caplog
):
    monkeypatch.setattr(database, "CHECKED_BYTES", 0)
    with caplog.at_level("INFO"):
        store = Store(settings.database())
    assert "was not checked for damage" in caplog.text
    assert store.get(damaged_run).state is State.RUNNING
    with pytest.raises(Damaged, match="the database of runs is damaged"):
        store.events(damaged_run)
    store.close()


def test_writable_is_what_was_written(store, settings):
    """Another connection sees that something was committed, each time."""
    with closing(sqlite3.connect(settings.database())) as other:

        def version():
            return other.execute("PRAGMA data_version").fetchone()[0]

        for _ in range(2):
            before, revision = version(), store.revision()
            store.check_writable()
            assert version() != before
            assert store.revision() == revision


def test_what_is_answered_is_on_the_disk_and_events_need_not_be(store):
    settled = []
    store._database._writer.set_trace_callback(
        lambda said: settled.append(said.endswith("FULL")) if said.startswith("PRAGMA synchronous") else None
    )
    run_id = in_state(store, State.RUNNING)
    store.append(run_id, [Stage("solving", "1")])
    store.move(run_id, State.CANCELLING)
    assert settled == [True, True, False, True]


@pytest.mark.parametrize("code", ["SQLITE_IOERR_WRITE", "SQLITE_READONLY", "SQLITE_IOERR_FSYNC", "SQLITE_CANTOPEN"])
def test_a_disk_that_fails_is_a_sentence(store, code):
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = getattr(sqlite3, code)
    with pytest.raises(Unwritable, match="disk I/O error"), store.transaction():
        raise error
