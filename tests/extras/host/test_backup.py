"""The state copied while runs go on, and put back: nothing is torn, nothing that the database names is missing."""

import hashlib
import json
import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from sarqc.errors import Damaged, Refused
from sarqc.events import Stage
from sarqc.extras.host import backup as module
from sarqc.extras.host.backup import DATABASE, MANIFEST, back_up, restore
from sarqc.extras.host.beside import read_audit
from sarqc.files.artefacts import ArtefactStore
from sarqc.jobs.listing import Question
from sarqc.jobs.run import State
from sarqc.jobs.store import Store
from sarqc.jobs.supervisor import Supervisor
from tests.http.conftest import write_study
from tests.jobs.conftest import settings_in, until, until_state
from tests.jobs.fake_runs import recipe


@pytest.fixture
def other(tmp_path):
    return settings_in(tmp_path / "other")


def of_snapshot(backup: Path) -> tuple[dict[str, str], set[str]]:
    """States of the runs of a backup, and the studies that it names."""
    with closing(sqlite3.connect(backup / DATABASE)) as rows:
        states = dict(rows.execute("SELECT id, state FROM runs"))
        return states, {name for (name,) in rows.execute("SELECT study_id FROM runs WHERE study_id IS NOT NULL")}


@pytest.mark.thorough
def test_a_busy_host_is_copied_whole_and_goes_on_elsewhere(supervise, settings, other, tmp_path):
    """Runs end, are deleted and write all the time: several backups, each of which is one moment of the host."""
    supervisor = supervise("quick")
    ended = threading.Event()

    def work():
        """Studies come, and go again."""
        artefacts, number = ArtefactStore(settings.artefacts_dir()), 0
        while not ended.is_set():
            number += 1
            run = supervisor.submit(recipe(2), "ann")
            artefacts.write(f"{number:032x}", ".layer", bytes(100_000))
            until_state(supervisor.store, run.id, State.FINISHED)
            if number % 2:
                supervisor.delete(run.id, "ann")

    worker = threading.Thread(target=work)
    worker.start()
    try:
        until(lambda: len(supervisor.store.listed(Question(), 9)) >= 2)
        for number in range(2):
            backup = tmp_path / f"backup-{number}"
            manifest = back_up(settings, backup)
            states, named = of_snapshot(backup)
            assert manifest.runs == len(states) >= 2
            assert {folder.parent.name for folder in backup.glob("studies/*/study.json")} == named
            for name, digest in manifest.files.items():
                assert hashlib.sha256((backup / name).read_bytes()).hexdigest() == digest
            kept = ArtefactStore(backup / "artefacts")
            layers = list(backup.glob("artefacts/*/*"))
            assert layers
            assert all(kept.has(path.stem, path.suffix) for path in layers)
    finally:
        ended.set()
        worker.join()
    restore(other, backup)
    store = Store(other.database())
    again = Supervisor(store, other, execute="tests.jobs.fake_runs:quick")
    again.start()
    try:
        for run_id in states:  # those that were under way go on by themselves
            assert until_state(store, run_id, State.FINISHED).study_id == run_id
        assert read_audit(other)[-1].action == "restore"
    finally:
        again.stop()
        store.close()


def test_what_is_removed_while_it_is_copied_is_not_named(store, settings, tmp_path, monkeypatch):
    """Somebody deletes a run between the copy of the database and that of its study."""
    supervisor = Supervisor(store, settings)
    ids = []
    for _ in range(2):
        run_id = store.create(recipe(), "ann").id
        store.cancel(run_id)
        write_study(settings.studies_dir(), run_id)
        with store.transaction() as rows:
            rows.execute("UPDATE runs SET study_id = id")
        ids.append(run_id)
    copy, passes = module.copy_database, []

    def copied(*given):
        moment = copy(*given)
        if not passes:
            supervisor.delete(ids[0])
        passes.append(moment)
        return moment

    monkeypatch.setattr(module, "copy_database", copied)
    back_up(settings, tmp_path / "backup")
    states, named = of_snapshot(tmp_path / "backup")
    assert len(passes) == 2
    assert list(states) == list(named) == [ids[1]]
    assert [path.name for path in (tmp_path / "backup" / "studies").iterdir() if any(path.iterdir())] == [ids[1]]


def test_a_study_that_is_replaced_while_it_is_read_is_read_again(store, settings, tmp_path, monkeypatch):
    write_study(settings.studies_dir(), "one")
    copy, read = shutil.copy2, []

    def copied(source, target):
        copy(source, target)
        if source.name == "study.json" and not read:  # its arrays are those of another study now
            arrays = source.parent / "study.safetensors"
            content = bytearray(arrays.read_bytes())
            content[-1] ^= 1
            arrays.write_bytes(content)
            document = json.loads(source.read_bytes())
            source.write_text(json.dumps(document | {"checksum": hashlib.sha256(content).hexdigest()}))
        read.append(source.name)

    monkeypatch.setattr(shutil, "copy2", copied)
    back_up(settings, tmp_path / "backup")
    folder = tmp_path / "backup" / "studies" / "one"
    checksum = json.loads((folder / "study.json").read_bytes())["checksum"]
    assert hashlib.sha256((folder / "study.safetensors").read_bytes()).hexdigest() == checksum
    (settings.studies_dir() / "one" / "study.safetensors").write_bytes(b"damaged where it is")
    back_up(settings, tmp_path / "another")
    assert (tmp_path / "another" / "studies" / "one" / "study.safetensors").read_bytes() == b"damaged where it is"


def test_one_file_holds_the_same(store, settings, other, tmp_path):
    store.create(recipe(), "ann")
    write_study(settings.studies_dir(), "one")
    ArtefactStore(settings.artefacts_dir()).write("0" * 32, ".layer", b"codes")
    made = back_up(settings, tmp_path / "state.tar", without=["artefacts"])
    restored, aside = restore(other, tmp_path / "state.tar")
    assert aside is None
    assert restored == made
    here, there = (one.studies_dir() / "one" / "study.safetensors" for one in (settings, other))
    assert here.read_bytes() == there.read_bytes()
    assert not other.artefacts_dir().exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert (other.database().stat().st_mode & 0o777, (tmp_path / "state.tar").stat().st_mode & 0o777) == (0o600, 0o600)


def test_what_restoring_refuses(store, settings, other, tmp_path):
    """A running app, a state that is not empty, what is not a backup, a damaged one; nothing is changed by any."""
    store.create(recipe(), "ann")
    backup = tmp_path / "backup"
    back_up(settings, backup)
    with pytest.raises(Refused, match="already exists"):
        back_up(settings, backup)
    with pytest.raises(Refused, match="has this database open"):
        restore(settings, backup)
    store.close()
    with pytest.raises(Refused, match="not empty"):
        restore(settings, backup)
    with pytest.raises(Refused, match="not a backup"):
        restore(other, tmp_path)
    changed = tmp_path / "changed"
    for spoil in (lambda path: path.write_bytes(b"other"), Path.unlink):
        shutil.copytree(backup, changed, dirs_exist_ok=True)
        spoil(changed / DATABASE)
        with pytest.raises(Damaged, match=DATABASE):
            restore(other, changed)
    for wrong in ({"files": {"../outside": "0", DATABASE: "0"}}, {"schema": 10_000}, {"files": {}}):
        manifest = json.loads((backup / MANIFEST).read_text()) | wrong
        (changed / MANIFEST).write_text(json.dumps(manifest))
        with pytest.raises((Refused, Damaged)):
            restore(other, changed)
    assert [path.name for path in other.state_dir.iterdir()] == [f"{DATABASE}.lock"]
    with pytest.raises(Refused, match="can't be left out"):
        back_up(settings, tmp_path / "more", without=["secret"])


def test_what_is_there_is_moved_aside(store, settings, tmp_path):
    backup = tmp_path / "backup"
    back_up(settings, backup)
    store.create(recipe(), "later")
    store.close()
    _, aside = restore(settings, backup, replace=True)
    assert aside is not None
    again = Store(settings.database())
    assert again.listed(Question(), 9) == []
    again.close()
    former = Store(aside / DATABASE)
    assert [run.owner for run in former.listed(Question(), 9)] == ["later"]
    former.close()


@pytest.mark.thorough
def test_writers_are_not_kept_waiting(store, settings, tmp_path):
    """A backup of a larger database, and the longest that a write took meanwhile."""
    run_id = store.create(recipe(), "ann").id
    store.append(run_id, [Stage("words", "x" * 10_000)] * 3_000)
    waits = []
    with ThreadPoolExecutor(1) as another:
        backup = another.submit(back_up, settings, tmp_path / "backup")
        while not backup.done():
            began = time.monotonic()
            store.append(run_id, [Stage("meanwhile")])
            waits.append(time.monotonic() - began)
            time.sleep(0.005)
    assert max(waits) < 1.0
