"""What is deleted by itself after the days that the host keeps things, and what is not."""

import os

import pytest

from sarqc.events import Finished
from sarqc.extras.host.beside import read_audit
from sarqc.extras.host.retention import SIZE_SECONDS, Retention
from sarqc.files.artefacts import ArtefactStore
from sarqc.jobs.annotations import Annotations
from sarqc.jobs.exports import export_folder
from sarqc.jobs.links import Links
from sarqc.jobs.removal import Removal
from sarqc.jobs.run import State
from sarqc.jobs.store import Store
from sarqc.jobs.uploads import Uploads
from sarqc.jobs.workers import log_path
from sarqc.settings import Settings
from tests.jobs.conftest import in_state
from tests.jobs.fake_runs import recipe

DAY = 86_400.0
NOW = 2_000_000_000.0


def ended(store: Store, at: float, **parent) -> str:
    """A run, or an export of one, that ended at a time."""
    run_id = in_state(store, State.RUNNING)
    store.move(run_id, State.FINISHED, Finished({}, 1.0))
    with store.transaction() as connection:
        connection.execute("UPDATE runs SET ended = ? WHERE id = ?", (at, run_id))
        for name, value in parent.items():
            connection.execute(f"UPDATE runs SET {name} = ? WHERE id = ?", (value, run_id))
    return run_id


@pytest.fixture
def keeping(settings):
    return settings.model_copy(update={"keep_days": 30.0})


def test_runs_at_rest_go_with_all_that_is_theirs(store, keeping, caplog):
    old, young = ended(store, NOW - 31 * DAY), ended(store, NOW - 29 * DAY)
    export = ended(store, NOW - 31 * DAY, parent=old, format="plain")
    with_young_export = ended(store, NOW - 90 * DAY)
    ended(store, NOW - DAY, parent=with_young_export, format="plain")
    waiting = store.create(recipe(), "ann").id
    log = log_path(keeping, old)
    log.parent.mkdir(parents=True)
    log.touch()
    with caplog.at_level("INFO", "sarqc.audit"):
        Retention(store, keeping).take_turn(NOW)
    assert not store.owners([old])
    assert not store.owners([export])
    assert not log.exists()
    assert len(store.owners([young, with_young_export, waiting])) == 3
    assert f"delete run {old} of “ann” by “the host” (kept for 30 days)" in caplog.text


def test_previews_that_nobody_kept_go_after_a_day(store, settings):
    only = recipe(layer="model.layers.0.mlp.down_proj")
    previews = [store.create(only, "ann", "preview").id for _ in range(4)]
    for run_id in previews:
        store.cancel(run_id)
    old, kept, young, shared = previews
    Links(store).make("run", shared, "ann")
    store.annotate(kept, Annotations(name="kept"))
    with store.transaction() as connection:
        connection.execute("UPDATE runs SET ended = ?", (NOW - 2 * DAY,))
        connection.execute("UPDATE runs SET ended = ? WHERE id = ?", (NOW - DAY / 2, young))
    waiting = store.create(only, "ann", "preview").id
    assert [run.id for run in Removal(store, settings).previews(NOW)] == [old]
    assert [run_id for run_id in (*previews, waiting) if not store.owners([run_id])] == [old]


def test_uploads_go_too_and_nothing_goes_by_default(store, keeping, settings):
    run_id = ended(store, NOW - 4000 * DAY)
    uploads = Uploads(store, "study")
    old, young = (keeping.uploads_dir() / name for name in ("old", "young"))
    for folder, age in ((old, 31), (young, 29)):
        folder.mkdir(parents=True)
        (folder / "study.json").touch()
        os.utime(folder, (NOW - age * DAY, NOW - age * DAY))
        uploads.add(folder.name, "ann", "a study", 2)
    Retention(store, settings).take_turn(NOW)
    assert store.owners([run_id])
    assert old.exists()
    Retention(store, keeping).take_turn(NOW)
    assert not store.owners([run_id])
    assert (old.exists(), young.exists()) == (False, True)
    assert [upload.id for upload in uploads.of("ann")] == ["young"]  # the other no longer counts as hers


def test_uploaded_texts_go_unless_a_run_still_needs_them(store, keeping):
    uploads, folder = Uploads(store, "text"), keeping.text_uploads_dir()
    folder.mkdir(parents=True)
    names = {age: f"text-{age:024d}" for age in (40, 31, 29)}
    for age, name in names.items():
        file = folder / f"{name}.{'jsonl' if age == 31 else 'txt'}"
        file.write_text("words")
        os.utime(file, (NOW - age * DAY, NOW - age * DAY))
        uploads.add(name, "ann", "a text", 5)
    store.create(recipe(test=names[40]), "ann")
    Retention(store, keeping).take_turn(NOW)
    assert {file.stem for file in folder.iterdir()} == {names[40], names[29]}
    assert {upload.id for upload in uploads.of("ann")} == {names[40], names[29]}


def test_many_runs_go_a_part_at_a_time(store, keeping, monkeypatch):
    monkeypatch.setattr("sarqc.extras.host.retention.AT_ONCE", 2)
    ids = [ended(store, NOW - (60 - number) * DAY) for number in range(3)]
    retention = Retention(store, keeping)
    retention.take_turn(NOW)
    assert [bool(store.owners([run_id])) for run_id in ids] == [False, False, True]
    retention.take_turn(NOW)
    assert not store.owners([ids[2]])


def with_files(store: Store, settings: Settings, run_id: str, size: int) -> str:
    """The run, with an export or a study of so many bytes."""
    run = store.get(run_id)
    folder = settings.studies_dir() / run_id if run.parent is None else export_folder(settings, run_id)
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(bytes(size))
    if run.parent is None:
        with store.transaction() as connection:
            connection.execute("UPDATE runs SET study_id = id WHERE id = ?", (run_id,))
    return run_id


def test_what_is_shared_stays_until_its_links_are_ended(store, keeping):
    shared, links = ended(store, NOW - 90 * DAY), Links(store)
    upload = keeping.uploads_dir() / "a-study"
    upload.mkdir(parents=True)
    os.utime(upload, (NOW - 90 * DAY, NOW - 90 * DAY))
    links.make("run", shared, "ann")
    links.make("study", upload.name, "ann")
    retention = Retention(store, keeping)
    assert retention.kept(store.get(shared)) == {"until": None, "shared": True, "while_room": False}
    retention.take_turn(NOW)
    assert store.owners([shared])
    assert upload.is_dir()
    links.revoke(shared)
    links.revoke(upload.name)
    retention.take_turn(NOW)
    assert not store.owners([shared])
    assert not upload.exists()


def test_exports_have_days_of_their_own(store, keeping):
    settings = keeping.model_copy(update={"keep_export_days": 7.0})
    run = ended(store, NOW - 20 * DAY)
    old, young = (ended(store, NOW - days * DAY, parent=run, format=f"of {days} days") for days in (8, 6))
    Links(store).make("run", run, "ann")  # which shows no export
    retention = Retention(store, settings)
    assert retention.kept(store.get(young))["until"] == "2033-05-19T03:33:20.000Z"  # a day after NOW
    assert [one.id for one in retention.take_turn(NOW)] == [old]
    assert store.owners([run])
    assert store.owners([young])
    told = read_audit(settings)[-1].words()
    assert told == f"delete export {old} of “ann” by “the host” (an export, kept for 7 days)"


def test_room_is_made_in_order_and_never_of_what_somebody_wants(store, settings):
    """Ten times 100,000 bytes, of which less and less may stay."""
    part = 100_000
    layers = ArtefactStore(settings.artefacts_dir())
    for number in range(2):
        key = f"{number:032d}"
        layers.write(key, ".layer", bytes(part))
        os.utime(settings.artefacts_dir() / key[:2] / f"{key}.layer", (NOW - number * DAY, NOW - number * DAY))
    plain, named, shared, exported = (ended(store, NOW - (9 - number) * DAY) for number in range(4))
    export = ended(store, NOW - DAY, parent=exported, format="plain")
    of_named = ended(store, NOW - DAY, parent=named, format="plain")
    for run_id in (plain, named, shared, exported, export, of_named):
        with_files(store, settings, run_id, part)
    store.annotate(named, Annotations(tags=("paper",)))
    Links(store).make("run", shared, "ann")

    def goes(room):
        """What goes so that there is room for ``room`` more parts than there is now."""
        limit = (sum(Retention(store, settings).sizes().values()) - room * part) / 2**30
        return [one.id for one in Retention(store, settings.model_copy(update={"keep_gib": limit})).by_size()]

    assert goes(-0.5) == []
    assert goes(0.5) == ["artefacts"]
    assert goes(2.5) == ["artefacts", export]
    assert goes(3.5) == ["artefacts", export, plain]
    assert goes(8) == ["artefacts", export, plain, exported]  # all that may
    waiting = store.create(recipe(), "ann")  # created now: what was used since may be needed
    for file in settings.artefacts_dir().glob("*/*"):
        os.utime(file, (waiting.created + 1, waiting.created + 1))
    assert goes(1.5) == [export, plain]
    store.cancel(waiting.id)
    small = settings.model_copy(update={"keep_gib": 1e-9})
    kept = Retention(store, small).kept
    assert [kept(store.get(run_id))["while_room"] for run_id in (plain, named, shared, exported)] == [
        True, False, False, True,
    ]  # fmt: skip
    assert [one.kind for one in Retention(store, small).by_size()] == ["layers", "export", "run", "run", "run"]


def test_the_size_is_looked_at_now_and_then(store, settings):
    retention = Retention(store, settings.model_copy(update={"keep_gib": 1e-9}))
    first = ended(store, NOW - DAY)
    assert [one.id for one in retention.take_turn(NOW)] == [first]
    second = ended(store, NOW - DAY)
    assert retention.take_turn(NOW + SIZE_SECONDS / 2) == []
    assert [one.id for one in retention.take_turn(NOW + SIZE_SECONDS)] == [second]
