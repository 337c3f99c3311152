"""What is deleted by itself after the days that the host keeps things, and what is not."""

from __future__ import annotations

import os

import pytest

from sarqc.events import Finished
from sarqc.jobs.annotations import Annotations
from sarqc.jobs.run import State
from sarqc.jobs.store import Store
from sarqc.jobs.supervisor import Supervisor
from sarqc.jobs.uploads import Uploads
from sarqc.jobs.workers import log_path
from sarqc.settings import Settings
from tests.jobs.fake_runs import recipe

DAY = 86_400.0
NOW = 2_000_000_000.0


def ended(store: Store, at: float, **parent: object) -> str:
    """A run, or an export of one, that ended at a time."""
    run_id = store.create(recipe(), "ann").id
    store.move(run_id, State.RUNNING)
    store.move(run_id, State.FINISHED, Finished({}, 1.0))
    with store.transaction() as connection:
        connection.execute("UPDATE runs SET ended = ? WHERE id = ?", (at, run_id))
        for name, value in parent.items():
            connection.execute(f"UPDATE runs SET {name} = ? WHERE id = ?", (value, run_id))
    return run_id


@pytest.fixture
def keeping(settings: Settings) -> Settings:
    return settings.model_copy(update={"keep_days": 30.0})


def test_runs_at_rest_go_with_all_that_is_theirs(
    store: Store, keeping: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    old, young = ended(store, NOW - 31 * DAY), ended(store, NOW - 29 * DAY)
    export = ended(store, NOW - 31 * DAY, parent=old, format="plain")
    with_young_export = ended(store, NOW - 90 * DAY)
    ended(store, NOW - DAY, parent=with_young_export, format="plain")
    waiting = store.create(recipe(), "ann").id
    log = log_path(keeping, old)
    log.parent.mkdir(parents=True)
    log.touch()
    with caplog.at_level("INFO", "sarqc.audit"):
        Supervisor(store, keeping).retire(NOW)
    assert not store.has(old)
    assert not store.has(export)
    assert not log.exists()
    assert all(store.has(run_id) for run_id in (young, with_young_export, waiting))
    assert f"delete run {old} of “ann” by “the host” (kept for 30 days)" in caplog.text


def test_previews_that_nobody_kept_go_after_a_day(store: Store, settings: Settings) -> None:
    only = recipe(only="model.layers.0.mlp.down_proj")
    previews = [store.create(only, "ann", "preview").id for _ in range(3)]
    for run_id in previews:
        store.cancel(run_id)
    old, kept, young = previews
    store.annotate(kept, Annotations(name="kept"))
    with store.transaction() as connection:
        connection.execute("UPDATE runs SET ended = ?", (NOW - 2 * DAY,))
        connection.execute("UPDATE runs SET ended = ? WHERE id = ?", (NOW - DAY / 2, young))
    waiting = store.create(only, "ann", "preview").id
    Supervisor(store, settings).retire(NOW)
    assert [store.has(run_id) for run_id in (old, kept, young, waiting)] == [False, True, True, True]


def test_uploads_go_too_and_nothing_goes_by_default(store: Store, keeping: Settings, settings: Settings) -> None:
    run_id = ended(store, NOW - 4000 * DAY)
    uploads = Uploads(store, "study")
    old, young = (keeping.uploads_dir() / name for name in ("old", "young"))
    for folder, age in ((old, 31), (young, 29)):
        folder.mkdir(parents=True)
        (folder / "study.json").touch()
        os.utime(folder, (NOW - age * DAY, NOW - age * DAY))
        uploads.add(folder.name, "ann", "a study", 2)
    Supervisor(store, settings).retire(NOW)
    assert store.has(run_id)
    assert old.exists()
    Supervisor(store, keeping).retire(NOW)
    assert not store.has(run_id)
    assert (old.exists(), young.exists()) == (False, True)
    assert [upload.id for upload in uploads.of("ann")] == ["young"]  # the other no longer counts as hers


def test_uploaded_texts_go_unless_a_run_still_needs_them(store: Store, keeping: Settings) -> None:
    uploads, folder = Uploads(store, "text"), keeping.text_uploads_dir()
    folder.mkdir(parents=True)
    names = {age: f"text-{age:024d}" for age in (40, 31, 29)}
    for age, name in names.items():
        (folder / f"{name}.txt").write_text("words")
        os.utime(folder / f"{name}.txt", (NOW - age * DAY, NOW - age * DAY))
        uploads.add(name, "ann", "a text", 5)
    store.create(recipe(test=names[40]), "ann")
    Supervisor(store, keeping).retire(NOW)
    assert {file.stem for file in folder.iterdir()} == {names[40], names[29]}
    assert {upload.id for upload in uploads.of("ann")} == {names[40], names[29]}


def test_many_runs_go_a_part_at_a_time(store: Store, keeping: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sarqc.jobs.supervisor.RETIRED_AT_ONCE", 2)
    ids = [ended(store, NOW - (60 - number) * DAY) for number in range(3)]
    supervisor = Supervisor(store, keeping)
    supervisor.retire(NOW)
    assert [store.has(run_id) for run_id in ids] == [False, False, True]
    supervisor.retire(NOW)
    assert not store.has(ids[2])
