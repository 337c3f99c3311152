"""The store: transitions, projection of events, migrations, one opener, many threads."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from sarqc.errors import Conflict, NotFound, QueueFull, Refused
from sarqc.events import Cancelled, Failed, Finished, Interrupted, LayerDone, Saved, Stage, Started, Yielded
from sarqc.jobs import store as store_module
from sarqc.jobs.run import ALLOWED, AT_REST, LANES, Removed, State
from sarqc.jobs.schema import migrate
from sarqc.jobs.store import Store
from tests.jobs.conftest import in_state, types
from tests.jobs.fake_runs import recipe

LEGAL = {
    "queued running", "queued cancelled", "running cancelling", "running finished", "running failed",
    "running interrupted", "cancelling cancelled", "cancelling finished", "cancelling failed",
    "cancelled queued", "interrupted queued", "failed queued",
}  # fmt: skip


def started(layers: int) -> Started:
    return Started("fake", "cpu", [{"name": str(i)} for i in range(layers)], 0.5)


def layer(index: int) -> LayerDone:
    return LayerDone(str(index), index, 3, {}, 0.1)


def test_created_run_is_queued_and_keeps_its_recipe(store):
    made = recipe(5, method="sarqc-gbs", **{"lambda": 0.3})
    run = store.create(made, "ann")
    assert (run.state, run.owner, run.lane, run.attempt) == (State.QUEUED, "ann", "batch", 1)
    assert (run.recipe["lambda"], run.fingerprint) == (0.3, made.fingerprint())
    assert run.to_json()["created"].endswith("Z")


def test_ids_sort_by_time_and_differ_where_it_counts(store):
    ids = [store.create(recipe(), "ann").id for _ in range(50)]
    assert ids == sorted(ids)
    assert len({run_id[10:] for run_id in ids}) == 50
    assert all(len(run_id) == 26 for run_id in ids)


def test_ids_still_sort_when_the_clock_goes_back(settings, monkeypatch):
    store = Store(settings.database())
    first = store.create(recipe(), "ann").id
    store.close()
    monkeypatch.setattr(store_module.time, "time", lambda: 1_000_000.0)
    again = Store(settings.database())
    assert again.create(recipe(), "ann").id > first
    again.close()


@pytest.mark.thorough
@pytest.mark.parametrize("to", list(State))
@pytest.mark.parametrize("state", list(State))
def test_only_the_listed_transitions(store, state, to):
    run_id = in_state(store, state)
    if f"{state} {to}" in LEGAL:
        assert store.move(run_id, to).state is to
    else:
        with pytest.raises(Conflict) as caught:
            store.move(run_id, to)
        assert caught.value.remedy
        assert store.get(run_id).state is state
    assert (to in ALLOWED[state]) == (f"{state} {to}" in LEGAL)


def test_events_make_progress_summary_and_error(store):
    run_id = in_state(store, State.RUNNING)
    store.append(run_id, [started(3), Stage("solving"), layer(0)])
    store.append(run_id, [layer(1)])
    run = store.get(run_id)
    assert (run.done, run.total) == (2, 3)
    store.append(run_id, [layer(2), Saved("study", "/somewhere/else")])
    run = store.move(run_id, State.FINISHED, Finished({"perplexity": 7.0, "texts": [1, 2], "recipe": {}}, 2.0))
    assert (run.done, run.study_id, run.summary) == (3, run_id, {"perplexity": 7.0})
    assert [event.seq for event in store.events(run_id)] == list(range(1, 7 + 1))
    assert store.events(run_id)[-1].to_json()["summary"]["texts"] == [1, 2]

    other = in_state(store, State.RUNNING)
    assert store.move(other, State.FAILED, Failed("numerical", "NaN", "layer", "more")).error == {
        "kind": "numerical", "what": "NaN", "where": "layer", "remedy": "more",
    }  # fmt: skip


def test_queued_again_it_is_a_new_attempt_with_the_same_log(store):
    run_id = in_state(store, State.RUNNING)
    store.append(run_id, [started(3), layer(0), layer(1)])
    before = store.get(run_id)
    run = store.requeue(run_id, Interrupted("gone"))
    assert (run.state, run.attempt, run.error, run.ended) == (State.QUEUED, 2, None, None)
    assert run.queued == before.queued  # it keeps its place
    store.move(run_id, State.RUNNING)
    store.append(run_id, [started(3), layer(0)])
    assert store.get(run_id).done == 1
    assert types(store, run_id)[3:] == ["interrupted", "started", "layer_done"]

    failed = in_state(store, State.FAILED)
    assert store.move(failed, State.QUEUED).queued > store.get(run_id).queued  # a person asked: the end of the queue


def test_a_run_that_steps_aside_waits_in_the_same_attempt(store):
    run_id = in_state(store, State.RUNNING)
    store.append(run_id, [started(3), layer(0)])
    run = store.step_aside(run_id, Yielded("for a preview"))
    assert (run.state, run.attempt, run.stepped_aside, run.done) == (State.QUEUED, 1, True, 1)
    assert run.to_json()["stepped_aside"] is True
    assert store.move(run_id, State.RUNNING).stepped_aside is False
    with pytest.raises(Conflict):
        store.step_aside(in_state(store, State.QUEUED), Yielded("for a preview"))


def test_cancel_is_one_step_for_every_state(store):
    assert store.cancel(in_state(store, State.QUEUED)).state is State.CANCELLED
    running = in_state(store, State.RUNNING)
    assert store.cancel(running).state is State.CANCELLING
    assert store.cancel(running).state is State.CANCELLING
    for state in AT_REST:
        with pytest.raises(Conflict):
            store.cancel(in_state(store, state))


def test_event_and_state_change_are_one_transaction(store):
    run_id = in_state(store, State.FINISHED)
    with pytest.raises(Conflict):
        store.move(run_id, State.CANCELLED, Cancelled())
    run_id = in_state(store, State.RUNNING)
    with pytest.raises(ValueError, match="JSON"):
        store.move(run_id, State.FINISHED, Finished({"perplexity": float("nan")}, 1.0))
    assert store.get(run_id).state is State.RUNNING
    assert store.events(run_id) == []
    with suppress(RuntimeError), store.transaction():
        store.append(run_id, [started(1)])
        raise RuntimeError
    assert store.events(run_id) == []


def test_events_cant_be_changed(store):
    run_id = in_state(store, State.RUNNING)
    store.append(run_id, [started(1)])
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        store._database._writer.execute("UPDATE events SET payload = '{}'")


def test_only_runs_at_rest_can_be_deleted(store):
    for state in State:
        run_id = in_state(store, state)
        if state in AT_REST:
            store.delete(run_id)
            with pytest.raises(NotFound):
                store.get(run_id)
            assert store._rows("SELECT * FROM events WHERE run_id = ?", run_id) == []
        else:
            with pytest.raises(Conflict):
                store.delete(run_id)


def test_events_of_a_run_at_rest_go_in_portions(store, monkeypatch):
    """What is written beside the database stays small: that is why it can be done on a full disk."""
    monkeypatch.setattr(store_module, "PORTION_BYTES", 10_000)
    run_id = in_state(store, State.RUNNING)
    store.append(run_id, [Stage("x" * 500, str(number)) for number in range(500)])
    store.shed_events(run_id)
    assert len(store.events(run_id)) == 500  # not while it goes on
    store.move(run_id, State.FINISHED, Finished({}, 1.0))
    sizes = []
    checkpoint = store._database.checkpoint
    log = store._database.path.with_name("runs.sqlite3-wal")
    monkeypatch.setattr(store._database, "checkpoint", lambda: (sizes.append(log.stat().st_size), checkpoint()))
    checkpoint()
    store.shed_events(run_id)
    assert store.events(run_id) == []
    assert len(sizes) > 10
    assert max(sizes) < 200_000


def test_queue_has_an_end(store):
    for _ in range(2):
        store.create(recipe(), "ann", at_most=2)
    with pytest.raises(QueueFull) as caught:
        store.create(recipe(), "ann", at_most=2)
    assert caught.value.http_status == 429
    assert store.counts()["queued"] == 2
    with pytest.raises(Refused, match="lane"):
        store.create(recipe(), "ann", "express")


def test_what_changed_since(store):
    one, two = store.create(recipe(), "ann").id, store.create(recipe(), "bob").id
    revision = store.revision()
    store.cancel(one)
    assert store.changed_since(revision) == [store.get(one)]
    latest = store.revision()
    store.delete(one)
    store.cancel(two)
    assert store.changed_since(latest) == [Removed(one, latest + 1, "ann"), store.get(two)]
    assert store.changed_since(0) == store.changed_since(latest)
    assert store.changed_since(store.revision()) == []


def test_tail_says_when_nothing_more_will_come(store):
    run_id = in_state(store, State.RUNNING)
    store.append(run_id, [started(1), layer(0)])
    assert store.tail(run_id, 0, 10)[1] is False
    store.move(run_id, State.FINISHED, Finished({}, 1.0))
    assert [len(store.tail(run_id, 0, 2)[0]), store.tail(run_id, 0, 2)[1]] == [2, False]
    assert store.tail(run_id, 2, 2)[1] is True
    assert store.tail(run_id, 3, 2) == ([], True)


def test_turns_are_told_from_the_rows(store):
    assert (store.last_held(["ann", "waits"]), store.last_lane()) == ({}, None)
    store.create(recipe(), "waits")
    run_id = store.create(recipe(), "ann", "preview").id
    began = store.move(run_id, State.RUNNING).started
    assert (store.last_held(["ann", "waits"]), store.last_lane()) == ({"ann": began}, "preview")
    ended = store.move(run_id, State.FINISHED, Finished({}, 1.0)).ended
    assert store.last_held(["ann", "waits"]) == {"ann": ended}


seconds = st.floats(0, 100)
drawn_rows = st.lists(
    st.fixed_dictionaries(
        {
            "owner": st.sampled_from(("ann", "bob", "eve")), "lane": st.sampled_from(LANES),
            "state": st.sampled_from(list(State)), "started": st.none() | seconds, "ended": seconds,
            "parent": st.none() | st.integers(0, 5), "bytes": st.integers(0, 10**12),
        }
    ),
    max_size=15,
)  # fmt: skip


@pytest.mark.thorough
@given(rows=drawn_rows, before=seconds, limit=st.integers(1, 4))
@examples(max_examples=60, deadline=None)
def test_questions_to_an_index_are_answered_as_plain_python_does(tmp_path_factory, rows, before, limit):
    store = Store(tmp_path_factory.mktemp("store") / "runs.sqlite3")
    ids = []
    for number, row in enumerate(rows):
        run_id = store.create(recipe(), row["owner"], row["lane"]).id
        parent = ids[row["parent"]] if row["parent"] is not None and row["parent"] < len(ids) else None
        ended = row["ended"] if row["state"] in AT_REST else None
        changes = {"state": row["state"].value, "started": row["started"], "ended": ended, "parent": parent,
                   "format": parent and f"format {number}", "bytes": parent and row["bytes"]}  # fmt: skip
        with store.transaction() as connection:
            store._update(connection, run_id, changes)
        ids.append(run_id)
    runs = store.runs(ids)
    began = [run for run in runs if run.started is not None]
    held = {}
    for run in began:
        held[run.owner] = max(held.get(run.owner, 0.0), run.started, run.ended or run.started)
    assert store.last_held(["ann", "bob", "eve", "ann"]) == held
    latest = max((run.started for run in began), default=None)
    assert store.last_lane() in ({run.lane for run in began if run.started == latest} or {None})

    def is_old(run):
        return run.at_rest and run.ended < before

    old = [run for run in runs if run.parent is None and is_old(run)]
    old = [run for run in old if all(is_old(export) for export in runs if export.parent == run.id)]
    found = store.ended_before(before, limit)
    assert [run.ended for run in found] == sorted(run.ended for run in old)[:limit]
    assert {run.id for run in found} <= {run.id for run in old}
    for owner in (None, "ann"):
        mine = [run for run in runs if run.parent is not None and owner in (None, run.owner)]
        written = sum(run.bytes for run in mine if run.state is State.FINISHED)
        at_work = sum(run.bytes for run in mine if run.state in (State.QUEUED, State.RUNNING, State.CANCELLING))
        assert store.exported_bytes(owner) == (written, at_work)
    assert store.owners([*ids, "nothing"]) == {run.id: run.owner for run in runs}
    store.close()


def test_one_process_at_a_time(settings):
    store = Store(settings.database())
    with pytest.raises(Refused, match="another sarqc app"):
        Store(settings.database())
    store.close()
    store.close()
    Store(settings.database()).close()


def test_unusable_places_are_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="can't be opened"):
        Store(tmp_path / "file" / "runs.sqlite3")
    (tmp_path / "runs.sqlite3").write_bytes(b"this is not a database, but it is long enough to be taken for one" * 20)
    with pytest.raises(Refused, match="is damaged: file is not a database"):
        Store(tmp_path / "runs.sqlite3")


def test_migration_step_and_its_record_are_one_transaction():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    good, bad = "CREATE TABLE one (x)", "CREATE TABLE two (x); INSERT INTO nowhere VALUES (1)"
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, [good, bad])
    assert connection.execute("PRAGMA user_version").fetchone()[0] == 1
    assert [row[0] for row in connection.execute("SELECT name FROM sqlite_schema")] == ["one"]
    migrate(connection, [good, "CREATE TABLE two (x)"])
    assert connection.execute("PRAGMA user_version").fetchone()[0] == 2
    with pytest.raises(Refused, match="schema version 2"):
        migrate(connection, [good])


def test_many_threads(store):
    run_id = in_state(store, State.RUNNING)

    def work(_):
        for _ in range(25):
            store.append(run_id, [Stage("x")])
            store.create(recipe(), "ann")
            store.tail(run_id, 0, 5)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert [event.seq for event in store.events(run_id)] == list(range(1, 151))
    assert store.counts()["queued"] == 150
