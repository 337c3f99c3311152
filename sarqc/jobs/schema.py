"""The tables of the database of runs: steps that are only ever added to, and the way of a database up to the last."""

import sqlite3
from collections.abc import Sequence

from sarqc.errors import Refused

# What a run is, as an expression over its row; a database that has an index of it can't have another.
KIND = (
    "CASE WHEN parent IS NOT NULL THEN 'export' WHEN lane = 'preview' THEN 'preview'"
    " WHEN INSTR(recipe_json, '\"kind\":\"tune\"') THEN 'tune' ELSE 'run' END"
)

# When a run last had a device: its end, or its start while it goes on; of runs that have one.
HELD = "MAX(started, COALESCE(ended, started))"

# What two runs of one group have in common, by ``sarqc.jobs.listing.GROUPINGS``: runs without a batch are alone.
BATCH = "COALESCE(batch, id)"

# What lists are grouped and summed up by; an index with all of it spares the rows, in which the words are.
_SUMMED = (
    "id, owner, stage, model, method, bits, lam, gamma,"
    " perplexity, log_ratio, accuracy, size, bits_per_weight, duration"
)

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE runs (
        id                 TEXT PRIMARY KEY,
        recipe_json        TEXT NOT NULL,
        recipe_fingerprint TEXT NOT NULL,
        owner              TEXT NOT NULL,
        lane               TEXT NOT NULL,
        state              TEXT NOT NULL,
        attempt            INTEGER NOT NULL DEFAULT 1,
        created            REAL NOT NULL,
        queued             REAL NOT NULL,
        started            REAL,
        ended              REAL,
        done               INTEGER NOT NULL DEFAULT 0,
        total              INTEGER NOT NULL DEFAULT 0,
        device             TEXT,
        pid                INTEGER,
        study_id           TEXT,
        summary_json       TEXT,
        error_json         TEXT,
        revision           INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX runs_by_state ON runs (state, queued);
    CREATE INDEX runs_by_revision ON runs (revision);
    CREATE TABLE events (
        run_id  TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
        seq     INTEGER NOT NULL,
        at      REAL NOT NULL,
        type    TEXT NOT NULL,
        payload TEXT NOT NULL,
        PRIMARY KEY (run_id, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE TRIGGER events_are_append_only BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
    CREATE TABLE removed (id TEXT PRIMARY KEY, revision INTEGER NOT NULL) STRICT;
    CREATE INDEX removed_by_revision ON removed (revision);
    CREATE TABLE counter (revision INTEGER NOT NULL) STRICT;
    INSERT INTO counter VALUES (0);
    """,
    # Runs that were sent together, and exports: runs whose parent is the run that they write to files.
    """
    ALTER TABLE runs ADD COLUMN batch TEXT;
    ALTER TABLE runs ADD COLUMN parent TEXT REFERENCES runs (id);
    ALTER TABLE runs ADD COLUMN format TEXT;
    ALTER TABLE runs ADD COLUMN bytes INTEGER;
    CREATE UNIQUE INDEX one_export_of_a_format ON runs (parent, format) WHERE parent IS NOT NULL;
    """,
    # What belongs to whom beside runs, and links that show something to anyone who has them.
    """
    CREATE TABLE uploads (
        kind    TEXT NOT NULL,
        id      TEXT NOT NULL,
        owner   TEXT NOT NULL,
        title   TEXT NOT NULL,
        bytes   INTEGER NOT NULL,
        created REAL NOT NULL,
        PRIMARY KEY (kind, id, owner)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE links (
        digest  TEXT PRIMARY KEY,
        kind    TEXT NOT NULL,
        target  TEXT NOT NULL,
        owner   TEXT NOT NULL,
        created REAL NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX runs_by_owner ON runs (owner);
    """,
    # What people write on runs, and what lists are filtered and sorted by: see ``sarqc.jobs.listing``.
    """
    ALTER TABLE runs ADD COLUMN name TEXT NOT NULL DEFAULT '';
    ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT '';
    ALTER TABLE runs ADD COLUMN tags_json TEXT NOT NULL DEFAULT '[]';
    CREATE TABLE listed (
        id              TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
        form            INTEGER NOT NULL,
        owner           TEXT NOT NULL,
        batch           TEXT,
        series          TEXT NOT NULL,
        stage           INTEGER NOT NULL,
        words           TEXT NOT NULL,
        name            TEXT,
        model           TEXT NOT NULL,
        method          TEXT NOT NULL,
        bits            REAL,
        lam             REAL,
        gamma           REAL,
        perplexity      REAL,
        log_ratio       REAL,
        accuracy        REAL,
        size            REAL,
        bits_per_weight REAL,
        duration        REAL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX listed_by_owner ON listed (owner, id);
    CREATE INDEX listed_by_batch ON listed (batch, id);
    CREATE INDEX listed_by_series ON listed (series, id);
    CREATE INDEX listed_by_stage ON listed (stage, id);
    CREATE INDEX listed_by_name ON listed (name, id);
    CREATE INDEX listed_by_model ON listed (model, id);
    CREATE INDEX listed_by_method ON listed (method, id);
    CREATE INDEX listed_by_bits ON listed (bits, id);
    CREATE INDEX listed_by_lam ON listed (lam, id);
    CREATE INDEX listed_by_gamma ON listed (gamma, id);
    CREATE INDEX listed_by_perplexity ON listed (perplexity, id);
    CREATE INDEX listed_by_log_ratio ON listed (log_ratio, id);
    CREATE INDEX listed_by_accuracy ON listed (accuracy, id);
    CREATE INDEX listed_by_size ON listed (size, id);
    CREATE INDEX listed_by_bits_per_weight ON listed (bits_per_weight, id);
    CREATE INDEX listed_by_duration ON listed (duration, id);
    """,
    # Previews are passing until they have a name. Those that were in lists before that was so get one, and stay.
    """
    UPDATE runs SET name = 'preview' WHERE lane = 'preview' AND name = '';
    CREATE INDEX previews ON runs (id) WHERE lane = 'preview' AND name = '';
    """,
    # Runs counted by state and kind without reading them; who did what that can't be undone, which nothing undoes.
    f"""
    CREATE INDEX runs_by_kind ON runs (state, {KIND});
    CREATE TABLE audit (
        seq    INTEGER PRIMARY KEY AUTOINCREMENT,
        at     REAL NOT NULL,
        actor  TEXT NOT NULL,
        action TEXT NOT NULL,
        kind   TEXT NOT NULL,
        target TEXT NOT NULL,
        owner  TEXT NOT NULL,
        detail TEXT NOT NULL
    ) STRICT;
    CREATE TRIGGER audit_is_append_only BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
    CREATE TRIGGER audit_stays BEFORE DELETE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
    """,
    # What a run was planned to take, for those that wait behind it.
    """
    ALTER TABLE runs ADD COLUMN seconds REAL;
    """,
    # Runs that made room for one that takes seconds: they are the next to go on.
    """
    ALTER TABLE runs ADD COLUMN stepped_aside INTEGER NOT NULL DEFAULT 0;
    """,
    # What is asked again and again takes a few steps, however many runs there are. ``counter.lists`` counts changes of
    # ``listed``, and ``counter.form`` is the form that all of its rows have.
    f"""
    CREATE INDEX runs_by_held ON runs (owner, {HELD}) WHERE started IS NOT NULL;
    CREATE INDEX runs_by_started ON runs (started, lane) WHERE started IS NOT NULL;
    CREATE INDEX runs_by_ended ON runs (ended) WHERE parent IS NULL AND ended IS NOT NULL;
    CREATE INDEX exports_by_owner ON runs (owner, state, bytes) WHERE parent IS NOT NULL;
    DROP INDEX listed_by_series;
    CREATE INDEX listed_by_series ON listed (series, {_SUMMED});
    CREATE INDEX listed_by_set ON listed ({BATCH}, {_SUMMED}, batch);
    ALTER TABLE counter ADD COLUMN lists INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE counter ADD COLUMN form INTEGER NOT NULL DEFAULT 0;
    CREATE TRIGGER listed_grew AFTER INSERT ON listed BEGIN UPDATE counter SET lists = lists + 1; END;
    CREATE TRIGGER listed_changed AFTER UPDATE ON listed BEGIN UPDATE counter SET lists = lists + 1; END;
    CREATE TRIGGER listed_shrank AFTER DELETE ON listed BEGIN UPDATE counter SET lists = lists + 1; END;
    """,
    # Perplexity against that of GPTQ 1 %, by which lists are sorted and groups summed up.
    f"""
    ALTER TABLE listed ADD COLUMN against_gptq REAL;
    CREATE INDEX listed_by_against_gptq ON listed (against_gptq, id);
    DROP INDEX listed_by_series;
    CREATE INDEX listed_by_series ON listed (series, {_SUMMED}, against_gptq);
    DROP INDEX listed_by_set;
    CREATE INDEX listed_by_set ON listed ({BATCH}, {_SUMMED}, against_gptq, batch);
    """,
    # Runs that met a full disk: they go on when there is room.
    """
    ALTER TABLE runs ADD COLUMN waits_for_room INTEGER NOT NULL DEFAULT 0;
    """,
    # How often somebody has signed out; until when a share link shows something. Those that had no end get one.
    """
    CREATE TABLE sessions (owner TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    ALTER TABLE links ADD COLUMN ends REAL NOT NULL DEFAULT 0;
    UPDATE links SET ends = strftime('%s', 'now') + 30 * 24 * 3600;
    CREATE INDEX links_by_target ON links (target, ends);
    """,
    # What is written to see that it can be; the host time last trusted, see ``sarqc.extras.host.host_time``.
    """
    ALTER TABLE counter ADD COLUMN probe INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE counter ADD COLUMN trusted REAL;
    """,
    # The owner of a removed run, to whom alone its id is shown.
    """
    ALTER TABLE removed ADD COLUMN owner TEXT NOT NULL DEFAULT '';
    """,
    # The test text, within which lists are sorted by perplexity.
    f"""
    ALTER TABLE listed ADD COLUMN test TEXT;
    DROP INDEX listed_by_perplexity;
    CREATE INDEX listed_by_perplexity ON listed (test, perplexity, id);
    DROP INDEX listed_by_series;
    CREATE INDEX listed_by_series ON listed (series, {_SUMMED}, against_gptq, test);
    DROP INDEX listed_by_set;
    CREATE INDEX listed_by_set ON listed ({BATCH}, {_SUMMED}, against_gptq, test, batch);
    """,
)


def migrate(connection: sqlite3.Connection, steps: Sequence[str] = MIGRATIONS) -> None:
    """Brings the database up to the last step. A step and its record in ``user_version`` are one transaction.

    Raises ``Refused`` for a database that a newer sarqc wrote.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(steps):
        raise Refused(
            f"it has schema version {version}, this sarqc knows up to {len(steps)}",
            "database of runs",
            "Update sarqc, or give it another SARQC_STATE_DIR.",
        )
    for number, step in enumerate(steps[version:], start=version + 1):
        try:
            connection.executescript(f"BEGIN IMMEDIATE; {step}; PRAGMA user_version = {number}; COMMIT;")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
