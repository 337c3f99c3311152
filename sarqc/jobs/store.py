"""The truth about runs: one SQLite database, opened by one process, the web app.

A run is a row; what it says while it goes is appended to ``events`` and never changed. What the row knows of the
events (progress, summary, error) is written in the same transaction as the events themselves, so the two can't
disagree. Every change of a row takes the next number of one counter, its ``revision``: “what changed since 17” is a
plain query. All methods may be called from any thread.
"""

import json
import math
import secrets
import sqlite3
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sarqc.errors import Conflict, QueueFull, Refused, WorkerLost, disk_fails
from sarqc.events import (
    Cancelled,
    Event,
    Failed,
    Finished,
    Interrupted,
    LadderStanding,
    LayerDone,
    Saved,
    Started,
    TuningStanding,
    Yielded,
)
from sarqc.jobs import listing
from sarqc.jobs.annotations import Annotations
from sarqc.jobs.database import Database
from sarqc.jobs.listing import Answer, AnswerCache, Question, RunGroup
from sarqc.jobs.run import ALLOWED, AT_REST, LANES, Removed, Run, State, StoredEvent, advice, no_run
from sarqc.jobs.schema import HELD, KIND
from sarqc.recipe import Recipe, recorded

PORTION_BYTES = 1 << 20  # of events deleted at once on a full disk
PORTION = 500  # runs read at once
ALL = -1  # as a limit of SQLite
CACHED_ANSWERS = 2_000  # counts and groups, some hundred bytes each
CACHED_DRAWINGS = 8  # some hundred KB each
CACHED_LISTS = 4  # lists of ids and of groups: some MiB each where there are 100,000 runs
_RESTING = ", ".join(f"'{state}'" for state in sorted(AT_REST))
_UNSHARED = "id NOT IN (SELECT target FROM links WHERE ends > ?3)"
_UNWRITTEN = "AND name = '' AND note = '' AND tags_json = '[]'"  # see ``Run.is_annotated``
LISTED = frozenset({"state", "started", "ended", "device", "summary_json", "name", "note", "tags_json"})  # in lists


class Store:
    """The database. Opening it takes a lock on the file beside it, which a killed process leaves free.

    Raises ``Refused`` when another process has it open, or when it can't be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._database = Database(path)
        newest = self._rows("SELECT MAX(id) AS id FROM runs")[0]["id"]
        self._last_millisecond = _millisecond_of(newest) if newest else 0
        self.close, self.reserve = self._database.close, self._database.reserve
        self.transaction, self.even_when_full = self._database.transaction, self._database.even_when_full
        self.snapshot = self._database.snapshot
        self._answers, self._drawings, self._whole = map(AnswerCache, (CACHED_ANSWERS, CACHED_DRAWINGS, CACHED_LISTS))
        self._refresh_listing()

    # Changes. Each is one transaction.

    def create(
        self,
        recipe: Recipe,
        owner: str,
        lane: str = "batch",
        *,
        seconds: float | None = None,
        at_most: int | None = None,
    ) -> Run:
        """Queue and return a run, planned to take ``seconds``. Raises ``QueueFull`` when ``at_most`` runs wait
        already."""
        return self.create_all([recipe], owner, lane, seconds=[seconds], at_most=at_most)[0]

    def create_all(
        self,
        recipes: Sequence[Recipe],
        owner: str,
        lane: str = "batch",
        *,
        batch: str | None = None,
        seconds: Sequence[float | None] | None = None,
        at_most: int | None = None,
    ) -> list[Run]:
        """Queue and return runs in this order, or none: ``QueueFull`` when more than ``at_most`` would wait.

        ``seconds``: what each was planned to take, None where that is not known.
        """
        planned = [None] * len(recipes) if seconds is None else seconds
        with self.transaction() as connection:
            self._check_queue(connection, len(recipes), at_most)
            return [
                self._insert(connection, recipe, owner, lane, {"batch": batch, "seconds": each})
                for recipe, each in zip(recipes, planned, strict=True)
            ]

    def create_export(
        self, parent: Run, checkpoint_format: str, size: int, owner: str, *, at_most: int | None = None
    ) -> Run:
        """Queue and return an export of a run, expected to take ``size`` bytes, in the lane of short runs."""
        with self.transaction() as connection:
            self._check_queue(connection, 1, at_most)
            more = {"parent": parent.id, "format": checkpoint_format, "bytes": size}
            return self._insert(connection, Recipe.parse(parent.recipe), owner, "preview", more)

    def _check_queue(self, connection: sqlite3.Connection, more: int, at_most: int | None) -> None:
        waiting = connection.execute("SELECT COUNT(*) FROM runs WHERE state = 'queued'").fetchone()[0]
        if at_most is None or waiting + more <= at_most:
            return
        if more == 1:
            what = f"{waiting} runs are waiting, which is as many as this host accepts"
        else:
            what = f"{more} runs and the {waiting} that wait are more than the {at_most} that this host accepts"
        raise QueueFull(what, "queue", "Wait until some have started, or cancel some of yours.")

    def _insert(
        self, connection: sqlite3.Connection, recipe: Recipe, owner: str, lane: str, more: dict[str, Any]
    ) -> Run:
        if lane not in LANES:
            raise Refused(f"unknown lane “{lane}”", "run", f"Lanes are {' and '.join(LANES)}.")
        now = time.time()
        row = more | {
            "id": self._new_id(now),
            "recipe_json": _dump(recipe.to_json()),
            "recipe_fingerprint": recipe.fingerprint(),
            "owner": owner,
            "lane": lane,
            "state": "queued",
            "created": now,
            "queued": now,
            "revision": self._next(connection),
        }
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO runs ({', '.join(row)}) VALUES ({marks})", (*row.values(),))
        run = self.get(row["id"])
        listing.put(connection, run)
        return run

    def move(
        self, run_id: str, to: State, event: Event | None = None, *, device: str | None = None, keep_place: bool = False
    ) -> Run:
        """Put a run into another state, together with the event that says why.

        Raises ``NotFound``, and ``Conflict`` for a transition that is not in ``ALLOWED``. A run that is queued again
        goes to the end of the queue, unless ``keep_place``.
        """
        now = time.time()
        with self.transaction() as connection:
            run = self.get(run_id)
            if to not in ALLOWED[run.state]:
                what = f"a run that is {run.state} can't become {to}"
                raise Conflict(what, f"run {run_id}", advice(run.state))
            changes: dict[str, Any] = {"state": to.value, "stepped_aside": 0, "waits_for_room": 0}
            if to is State.RUNNING:
                changes |= {"started": now, "device": device, "done": 0}
            elif to is State.QUEUED:
                changes |= {"attempt": run.attempt + 1, "ended": None, "error_json": None}
                changes |= {} if keep_place else {"queued": now}
            elif to in AT_REST:
                changes |= {"ended": max(now, run.started or now), "pid": None}  # the host's clock may have gone back
            if event is not None:
                changes |= self._append(connection, run, [event], now)
            return self._update(connection, run_id, changes)

    def requeue(self, run_id: str, why: Interrupted) -> Run:
        """Queue a running run that was interrupted at once, in its old place: nobody has to press a button."""
        with self.transaction():
            self.move(run_id, State.INTERRUPTED, why)
            return self.move(run_id, State.QUEUED, keep_place=True)

    def step_aside(self, run_id: str, why: Yielded) -> Run:
        """Queue a running run again: it is the next of its lane to go on, in the same attempt; what waits for room,
        once there is some. Raises ``Conflict``.
        """
        now = time.time()
        with self.transaction() as connection:
            run = self.get(run_id)
            if run.state is not State.RUNNING:
                what = f"a run that is {run.state} can't step aside"
                raise Conflict(what, f"run {run_id}", advice(run.state))
            changes = {"state": State.QUEUED.value, "queued": now, "pid": None}
            changes |= {"stepped_aside": int(not why.waits_for_room), "waits_for_room": int(why.waits_for_room)}
            return self._update(connection, run_id, changes | self._append(connection, run, [why], now))

    def cancel(self, run_id: str) -> Run:
        """Cancel a waiting run; ask a running one to end.

        Harmless on one that is cancelling already; ``Conflict`` on one at rest.
        """
        with self.transaction():
            run = self.get(run_id)
            if run.state is State.QUEUED:
                return self.move(run_id, State.CANCELLED, Cancelled())
            return run if run.state is State.CANCELLING else self.move(run_id, State.CANCELLING)

    def append(self, run_id: str, events: Sequence[Event], *, waits_for_room: bool = False) -> None:
        """Append events to a run's log and update its row. Events that end a run go with ``move``.

        ``waits_for_room``: on the disk, until the next call.
        """
        with self.transaction(settled=False) as connection:
            changes = self._append(connection, self.get(run_id), events, time.time())
            self._update(connection, run_id, changes | {"waits_for_room": int(waits_for_room)})

    def annotate(self, run_id: str, written: Annotations) -> Run:
        """Write a name, a note or tags on a run. Raises ``NotFound``, and ``Refused`` for an export."""
        with self.transaction() as connection:
            if self.get(run_id).parent is not None:
                what, remedy = "an export has no name, note or tags", "Write them on its run."
                raise Refused(what, f"run {run_id}", remedy)
            tags = None if written.tags is None else _dump(written.tags)
            changes = {"name": written.name, "note": written.note, "tags_json": tags}
            return self._update(
                connection, run_id, {name: value for name, value in changes.items() if value is not None}
            )

    def tag(self, run_id: str, add: Sequence[str], remove: Sequence[str]) -> Run:
        """Add tags to a run and take tags away, whatever their case. Raises as ``annotate``."""
        with self.transaction():
            gone = {tag.casefold() for tag in remove}
            remaining = [tag for tag in self.get(run_id).tags if tag.casefold() not in gone]
            return self.annotate(run_id, Annotations.parse({"tags": [*remaining, *add]}))

    def set_process(self, run_id: str, pid: int) -> None:
        with self.transaction(settled=False) as connection:
            self._update(connection, run_id, {"pid": pid})

    def set_size(self, run_id: str, size: int) -> None:
        """Set the actual size of an export on disk, in bytes."""
        with self.transaction() as connection:
            self._update(connection, run_id, {"bytes": size})

    def delete(self, run_id: str) -> Run:
        """Delete a run at rest, its events, exports and share links; return the run.

        Raises ``NotFound``, ``Conflict``.
        """
        with self.transaction() as connection:
            run = self.get(run_id)
            if not run.at_rest:
                what = f"{'a run' if run.parent is None else 'an export'} that is {run.state}"
                raise Conflict(f"{what} can't be deleted", f"run {run_id}", "Cancel it first.")
            for export in self.exports(run_id):
                self.delete(export.id)
            connection.execute("DELETE FROM links WHERE target = ?", (run_id,))
            connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))
            connection.execute("INSERT INTO removed VALUES (?, ?, ?)", (run_id, self._next(connection), run.owner))
            return run

    def shed_events(self, run_id: str) -> None:
        """Delete the events of a run at rest in portions, each of which needs little room on the disk."""
        query = "SELECT seq, LENGTH(payload) AS size FROM events WHERE run_id = ? ORDER BY seq LIMIT 1000"
        while self.get(run_id).at_rest and (rows := self._rows(query, run_id)):
            size = 0
            for row in rows:
                size, last = size + row["size"], row["seq"]
                if size > PORTION_BYTES:
                    break
            with self.transaction() as connection:
                connection.execute("DELETE FROM events WHERE run_id = ? AND seq <= ?", (run_id, last))
            self._database.checkpoint()

    def check_writable(self) -> None:
        """Write a number and read it back. Raises ``Busy``, ``NoRoom``, ``Unwritable``, ``Damaged``."""
        with self.transaction() as connection:
            written = connection.execute("UPDATE counter SET probe = probe + 1 RETURNING probe").fetchone()[0]
        if self._rows("SELECT probe FROM counter")[0]["probe"] < written:
            raise disk_fails("what was written is not there")

    def trust(self, seconds: float) -> None:
        """Note the host's time (seconds since 1970) as one that can be trusted."""
        with self.transaction(settled=False) as connection:
            connection.execute("UPDATE counter SET trusted = ?", (seconds,))

    # Questions.

    def get(self, run_id: str) -> Run:
        """Return the run of an id. Raises ``NotFound``."""
        for run in self._runs("SELECT * FROM runs WHERE id = ?", run_id):
            return run
        raise no_run(run_id)

    def trusted(self) -> float | None:
        """Return the last noted time, or that of the newest run; None without either."""
        seconds: float | None = self._rows("SELECT trusted FROM counter")[0]["trusted"]
        return seconds or self._last_millisecond / 1000 or None

    def owners(self, ids: Collection[str]) -> dict[str, str]:
        """Return the owners of those ids that are runs."""
        query = "SELECT id, owner FROM runs WHERE id IN (SELECT value FROM json_each(?))"
        return {row["id"]: row["owner"] for row in self._rows(query, json.dumps(list(ids)))}

    def listed(self, question: Question, limit: int, offset: int = 0) -> list[Run]:
        """Return a part of the list that a question asks for, in its order."""
        with self.snapshot() as connection:
            return self.runs(listing.ids_of(connection, question, limit, offset))

    def ids(self, question: Question) -> list[str]:
        """Return the ids of all runs that a question asks for, in its order."""
        with self.snapshot() as connection:
            return listing.ids_of(connection, question, ALL)

    def runs(self, ids: Sequence[str]) -> list[Run]:
        """Return the runs of these ids, in their order, without missing ones."""
        marks = ", ".join("?" * len(ids))
        by_id = {run.id: run for run in self._runs(f"SELECT * FROM runs WHERE id IN ({marks})", *ids)}
        return [by_id[run_id] for run_id in ids if run_id in by_id]

    def part(self, question: Question, limit: int, offset: int = 0) -> tuple[list[Run], int]:
        """Return a part of the list, and how many runs the whole has."""
        with self.snapshot() as connection:
            if not question.text:
                return self.listed(question, limit, offset), self.count(question)
            # A filter reads every row: all its ids are cached.
            ids = self._cached(self._whole, ("ids", question), partial(listing.ids_of, connection, question, ALL))
            return self.runs(ids[offset : offset + limit]), len(ids)

    def count(self, question: Question) -> int:
        """Count the runs of such a list."""
        with self.snapshot() as connection:
            key = ("count", replace(question, sort="created"))
            return self._cached(self._answers, key, partial(listing.count_of, connection, question))

    def groups(
        self, question: Question, by: str, limit: int, offset: int = 0
    ) -> tuple[list[tuple[RunGroup, Run]], int, int]:
        """Return a part of such a list in groups, each with its newest run, and how many groups and runs the whole has;
        ``by`` is a name of ``listing.GROUPINGS``."""
        with self.snapshot() as connection:
            made = partial(listing.groups_of, connection, question, by)
            rows = self._cached(self._whole, ("groups", question, by), made)
            part, unsorted = rows[offset : offset + limit], replace(question, sort="created")
            groups = [
                self._cached(
                    self._answers,
                    ("group", unsorted, by, key),
                    partial(listing.summed_up, connection, question, by, key, newest),
                )
                for key, newest, _ in part
            ]
            newest = self.runs([group.newest for group in groups])
            return list(zip(groups, newest, strict=True)), len(rows), sum(count for _, _, count in rows)

    def drawn(self, key: Hashable, make: Callable[[], Answer]) -> Answer:
        """Return the drawing of lists under a key, made by ``make`` again once any of them has changed."""
        with self.snapshot():
            return self._cached(self._drawings, key, make)

    def passing_previews(self) -> list[Run]:
        """Return previews of one layer that are not listed, the oldest first: see ``Run.is_listed``."""
        runs = self._runs("SELECT * FROM runs WHERE lane = 'preview' AND name = '' AND parent IS NULL ORDER BY id")
        return [run for run in runs if not run.is_listed]

    def waiting_of(self, owner: str) -> int:
        """Count an owner's queued runs and exports."""
        return int(self._rows("SELECT COUNT(*) AS n FROM runs WHERE state = 'queued' AND owner = ?", owner)[0]["n"])

    def exports(self, run_id: str) -> list[Run]:
        """Return the exports of a run, one for each requested format."""
        return self._runs("SELECT * FROM runs WHERE parent = ? ORDER BY id", run_id)

    def finished_exports(self, limit: int) -> list[Run]:
        """Return the finished exports of all runs, the newest first."""
        query = (
            "SELECT * FROM runs INDEXED BY exports_by_owner WHERE parent IS NOT NULL AND state = 'finished'"
            " ORDER BY id DESC LIMIT ?"
        )
        return self._runs(query, limit)

    def ended_before(self, seconds: float, limit: int, *, spare_annotated: bool = False) -> list[Run]:
        """Return the runs at rest since before a time, with all their exports, longest first; without those that are
        shared and, if asked, those that somebody has written on.
        """
        query = (
            "SELECT * FROM runs INDEXED BY runs_by_ended"
            f" WHERE parent IS NULL AND state IN ({_RESTING}) AND ended < ?1 AND NOT EXISTS ("
            "SELECT 1 FROM runs AS export WHERE export.parent = runs.id"
            f" AND (export.state NOT IN ({_RESTING}) OR export.ended >= ?1))"
            f" AND {_UNSHARED} {_UNWRITTEN if spare_annotated else ''} ORDER BY ended LIMIT ?2"
        )
        return self._runs(query, seconds, limit, time.time())

    def exports_ended_before(self, seconds: float, limit: int, *, spare_annotated: bool = False) -> list[Run]:
        """Return the exports at rest since before a time, longest first; if asked, without those of runs that are
        shared or that somebody has written on.
        """
        spared = f"{_UNSHARED} {_UNWRITTEN}" if spare_annotated else "?3"
        query = (
            "SELECT * FROM runs AS export INDEXED BY exports_by_owner"
            f" WHERE parent IS NOT NULL AND state IN ({_RESTING}) AND ended < ?1"
            f" AND EXISTS (SELECT 1 FROM runs WHERE id = export.parent AND {spared}) ORDER BY ended LIMIT ?2"
        )
        return self._runs(query, seconds, limit, time.time())

    def exported_bytes(self, owner: str | None = None) -> tuple[int, int]:
        """Return the bytes of all exports on disk, or an owner's, and those expected of queued and running exports."""
        query = (
            "SELECT COALESCE(SUM(bytes) FILTER (WHERE state = 'finished'), 0),"
            " COALESCE(SUM(bytes) FILTER (WHERE state IN ('queued', 'running', 'cancelling')), 0)"
            " FROM runs INDEXED BY exports_by_owner WHERE parent IS NOT NULL"
        )
        rows = self._rows(query) if owner is None else self._rows(f"{query} AND owner = ?", owner)
        ((written, expected),) = rows
        return written, expected

    def in_state(self, *states: State) -> list[Run]:
        """Return the runs in any of the states, longest waiting first."""
        marks = ", ".join("?" * len(states))
        return self._runs(f"SELECT * FROM runs WHERE state IN ({marks}) ORDER BY queued, id", *states)

    def counts(self) -> dict[str, int]:
        """Count the runs in each state, empty states included."""
        counts = {row["state"]: row["n"] for row in self._rows("SELECT state, COUNT(*) AS n FROM runs GROUP BY state")}
        return {state.value: counts.get(state.value, 0) for state in State}

    def kinds(self) -> dict[tuple[str, str], int]:
        """Count the runs in each state by kind: run, tune, preview or export."""
        query = f"SELECT state, {KIND} AS kind, COUNT(*) AS n FROM runs GROUP BY state, {KIND}"
        return {(row["state"], row["kind"]): row["n"] for row in self._rows(query)}

    def waiting(self) -> dict[str, tuple[int, float | None]]:
        """Return how many runs wait in each lane, and since when the first does (seconds since 1970)."""
        query = "SELECT lane, COUNT(*) AS n, MIN(queued) AS first FROM runs WHERE state = 'queued' GROUP BY lane"
        waiting = {row["lane"]: (row["n"], row["first"]) for row in self._rows(query)}
        return {lane: waiting.get(lane, (0, None)) for lane in LANES}

    def last_held(self, owners: Iterable[str]) -> dict[str, float]:
        """Return when owners last had a device: the end of the last run of each, or its start while that goes on.
        Owners that never had one are left out."""
        query = f"SELECT {HELD} AS held FROM runs WHERE owner = ? AND started IS NOT NULL ORDER BY {HELD} DESC LIMIT 1"
        return {owner: row["held"] for owner in dict.fromkeys(owners) for row in self._rows(query, owner)}

    def last_lane(self) -> str | None:
        """Return the lane from which a run was started most recently."""
        rows = self._rows("SELECT lane FROM runs WHERE started IS NOT NULL ORDER BY started DESC LIMIT 1")
        return rows[0]["lane"] if rows else None

    def tail(
        self, run_id: str, after: int, limit: int, at_most_bytes: float = math.inf
    ) -> tuple[list[StoredEvent], bool]:
        """Return events after a sequence number: at most ``limit``, and up to some bytes, but one at least.

        And whether the run is at rest with no more to come.
        """
        query = "SELECT seq, at, payload FROM events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?"
        events: list[StoredEvent] = []
        size, is_last = 0, True
        with self._database.snapshot() as connection:
            run = self.get(run_id)
            for row in connection.execute(query, (run_id, after, limit + 1)):
                if len(events) == limit or size >= at_most_bytes:
                    is_last = False
                    break
                size += len(row["payload"])
                events.append(_stored(row))
        return events, run.at_rest and is_last

    def events(self, run_id: str, after: int = 0) -> list[StoredEvent]:
        """Return all events after a sequence number."""
        return self.tail(run_id, after, 1_000_000)[0]

    def last(self, run_id: str, kind: str) -> StoredEvent | None:
        """Return the newest event of a type of a run, or None."""
        return next(iter(self.latest(run_id, kind, 1)), None)

    def latest(self, run_id: str, kind: str, limit: int) -> list[StoredEvent]:
        """Return a run's newest events of a type, the newest first."""
        query = "SELECT seq, at, payload FROM events WHERE run_id = ? AND type = ? ORDER BY seq DESC LIMIT ?"
        return [_stored(row) for row in self._rows(query, run_id, kind, limit)]

    def revision(self) -> int:
        """Return the number of the latest change of any run."""
        return int(self._rows("SELECT revision FROM counter")[0]["revision"])

    def changed_since(self, revision: int, limit: int = 1_000_000) -> list[Run | Removed]:
        """Return changed runs, each once in its present form, in the order of their latest changes, the first
        ``limit``."""
        with self._database.snapshot():
            later = "WHERE revision > ? ORDER BY revision LIMIT ?"
            runs = self._runs(f"SELECT * FROM runs {later}", revision, limit)
            removed = self._rows(f"SELECT id, revision, owner FROM removed {later}", revision, limit)
        changes: list[Run | Removed] = [*runs, *(Removed(**row) for row in removed)]
        return sorted(changes, key=lambda change: change.revision)[:limit]

    # Inside.

    def _rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        with self._database.snapshot() as connection:
            return connection.execute(query, values).fetchall()

    def _runs(self, query: str, *values: Any) -> list[Run]:
        return [_run(row) for row in self._rows(query, *values)]

    def _next(self, connection: sqlite3.Connection) -> int:
        row = connection.execute("UPDATE counter SET revision = revision + 1 RETURNING revision").fetchone()
        return int(row[0])

    def _update(self, connection: sqlite3.Connection, run_id: str, changes: dict[str, Any]) -> Run:
        changes = changes | {"revision": self._next(connection)}
        names = ", ".join(f"{name} = ?" for name in changes)
        connection.execute(f"UPDATE runs SET {names} WHERE id = ?", (*changes.values(), run_id))
        run = self.get(run_id)
        if not LISTED.isdisjoint(changes):
            listing.put(connection, run)
        return run

    def _cached(self, answers: AnswerCache, key: Hashable, make: Callable[[], Answer]) -> Answer:
        """Return a cached answer about lists; while a transaction is open, which may be rolled back, a new one."""
        if self._database.is_writing:
            return make()
        with self.snapshot() as connection:
            return answers.of(connection, key, make)

    def _refresh_listing(self) -> None:
        """Make the rows of ``listed`` that are missing or of a former form; checked once a form."""
        if self._rows("SELECT form FROM counter")[0]["form"] == listing.FORM:
            return
        query = (
            "SELECT id FROM runs WHERE parent IS NULL AND NOT EXISTS"
            " (SELECT 1 FROM listed WHERE listed.id = runs.id AND form = ?)"
        )
        missing = [row["id"] for row in self._rows(query, listing.FORM)]
        for first in range(0, len(missing), PORTION):
            self.even_when_full(partial(self._put, ids=missing[first : first + PORTION]))
        self.even_when_full(lambda connection: connection.execute("UPDATE counter SET form = ?", (listing.FORM,)))

    def _put(self, connection: sqlite3.Connection, ids: Sequence[str]) -> None:
        for run in self.runs(ids):
            listing.put(connection, run)

    def _append(self, connection: sqlite3.Connection, run: Run, events: Sequence[Event], now: float) -> dict[str, Any]:
        """Write events behind the last one; return the columns of the run that they change."""
        last = connection.execute("SELECT COALESCE(MAX(seq), 0) FROM events WHERE run_id = ?", (run.id,)).fetchone()[0]
        connection.executemany(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?)",
            [
                (run.id, seq, now, event.type, _dump(event.to_json()))
                for seq, event in enumerate(events, start=last + 1)
            ],
        )
        return _columns(run, events)

    def _new_id(self, now: float) -> str:
        """Return 26 digits like a ULID: sorted by time (strictly, in one database), with 80 random bits."""
        self._last_millisecond = max(int(now * 1000), self._last_millisecond + 1)
        return _base32(self._last_millisecond, 10) + _base32(secrets.randbits(80), 16)


def _columns(run: Run, events: Sequence[Event]) -> dict[str, Any]:
    """Return the columns of a run's row after these events."""
    columns: dict[str, Any] = {}
    for event in events:
        match event:
            case Started():
                columns |= {"done": 0, "total": len(event.layers)}
            case LayerDone():
                columns |= {"done": columns.get("done", run.done) + 1, "total": event.total}
            case TuningStanding():
                columns |= {"done": event.tuning["measured"], "total": event.tuning["planned"]}
            case LadderStanding():
                columns |= {"done": event.ladder["measured"], "total": event.ladder["planned"]}
            case Saved(what="study"):
                columns["study_id"] = run.id  # the name it was asked to give it
            case Finished():
                # For tables. Texts are in the events and in the study, and the recipe is in the row.
                short = {name: value for name, value in event.summary.items() if name not in ("recipe", "texts")}
                columns["summary_json"] = _dump(short)
            case Failed():
                columns["error_json"] = _dump(vars(event))
            case Interrupted():
                columns["error_json"] = _dump(WorkerLost(event.what, "worker", "Continue the run.").to_json())
    return columns


def _run(row: sqlite3.Row) -> Run:
    fields = dict(row)
    summary, error = fields.pop("summary_json"), fields.pop("error_json")
    return Run(
        recipe=recorded(json.loads(fields.pop("recipe_json"))),
        fingerprint=fields.pop("recipe_fingerprint"),
        state=State(fields.pop("state")),
        summary=json.loads(summary) if summary else None,
        error=json.loads(error) if error else None,
        tags=tuple(json.loads(fields.pop("tags_json"))),
        stepped_aside=bool(fields.pop("stepped_aside")),
        waits_for_room=bool(fields.pop("waits_for_room")),
        **fields,
    )


def _stored(row: sqlite3.Row) -> StoredEvent:
    return StoredEvent(row["seq"], row["at"], json.loads(row["payload"]))


def _dump(value: Any) -> str:
    """Return JSON for browsers: NaN and infinities are refused here, the worker sends null instead."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: sorts like the numbers, no I, L, O, U


def _base32(number: int, digits: int) -> str:
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(digits)))


def _millisecond_of(run_id: str) -> int:
    return sum(_DIGITS.index(digit) << 5 * place for place, digit in enumerate(reversed(run_id[:10])))
