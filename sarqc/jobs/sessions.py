"""Sessions: a number for each person, raised by signing out. What was signed in under a former number is worth nothing,
in whichever browser it is kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sarqc.errors import NotFound, Unreachable
from sarqc.jobs.database import BUSY_SECONDS
from sarqc.jobs.store import Store

_RAISED = "INSERT INTO sessions VALUES (?, 1) ON CONFLICT (owner) DO UPDATE SET number = number + 1"


class Sessions:
    """The numbers of all people of a host."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def number(self, owner: str) -> int:
        """Return how often somebody has signed out."""
        with self._store.snapshot() as connection:
            row = connection.execute("SELECT number FROM sessions WHERE owner = ?", (owner,)).fetchone()
            return 0 if row is None else int(row["number"])

    def end(self, owner: str) -> None:
        """Signs somebody out everywhere, also on a full disk."""
        self._store.even_when_full(lambda connection: connection.execute(_RAISED, (owner,)))


def end_sessions(database: Path, owner: str) -> None:
    """Do the same beside an app that may have the database open. Raise ``NotFound`` and ``Unreachable``."""
    if not database.is_file():
        raise NotFound("no database of runs", str(database), "Set SARQC_STATE_DIR to that of the app.")
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)) as connection:
        try:
            with connection:
                connection.execute(_RAISED, (owner,))
        except sqlite3.OperationalError as error:
            remedy = "Start this version of the app once, or try again in a moment."
            raise Unreachable(f"nobody was signed out: {error}", str(database), remedy) from None
