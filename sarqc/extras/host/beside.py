"""The database of runs, read and changed while an app may have it open."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sarqc.errors import NotFound, Unreachable
from sarqc.jobs.audit import AuditEntry
from sarqc.jobs.database import BUSY_SECONDS
from sarqc.jobs.sessions import RAISED
from sarqc.settings import Settings


def existing_database(settings: Settings) -> Path:
    """Return the path of the database. Raise ``NotFound`` where there is none."""
    database = settings.database()
    if not database.is_file():
        raise NotFound("no database of runs", str(database), "Set SARQC_STATE_DIR to that of the app.")
    return database


def read_audit(settings: Settings, since: float = 0.0) -> list[AuditEntry]:
    """Return the entries of the audit log, the oldest first; nothing is written. Raise ``NotFound``."""
    database = existing_database(settings)
    query = "SELECT at, actor, action, kind, target, owner, detail FROM audit WHERE at >= ? ORDER BY seq"
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        try:
            return [AuditEntry(*row) for row in connection.execute(query, (since,))]
        except sqlite3.OperationalError as error:
            remedy = "Start this version of the app once."
            raise NotFound(f"it has no audit log yet: {error}", str(database), remedy) from None


def end_sessions(settings: Settings, owner: str) -> None:
    """Sign somebody out everywhere. Raise ``NotFound`` and ``Unreachable``."""
    database = existing_database(settings)
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)) as connection:
        try:
            with connection:
                connection.execute(RAISED, (owner,))
        except sqlite3.OperationalError as error:
            remedy = "Start this version of the app once, or try again in a moment."
            raise Unreachable(f"nobody was signed out: {error}", str(database), remedy) from None
