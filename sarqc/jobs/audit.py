"""The audit log: who removed or took away what, and when. It is only ever added to, and outlives what it is about.

An entry is a row of the store, written in the transaction of what it tells of, and a line in the log “sarqc.audit”.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sarqc.errors import NotFound
from sarqc.jobs.run import iso_time
from sarqc.jobs.store import Store

HOST = "the host"  # as an actor: what nobody asked for, but the settings

log = logging.getLogger("sarqc.audit")


@dataclass(frozen=True)
class AuditEntry:
    """Something that somebody did. ``owner``: whose it was, empty where that is not known."""

    at: float  # seconds since 1970
    actor: str
    action: str  # “delete”, “export”, …
    kind: str  # of what: run, export, study, text, link
    target: str  # its id
    owner: str
    detail: str

    def to_json(self) -> dict[str, str]:
        return {
            "at": iso_time(self.at),
            "by": self.actor,
            "action": self.action,
            "kind": self.kind,
            "id": self.target,
            "owner": self.owner,
            "detail": self.detail,
        }

    def write(self, connection: sqlite3.Connection) -> sqlite3.Cursor:
        """Add the entry to a database."""
        return connection.execute(
            "INSERT INTO audit (at, actor, action, kind, target, owner, detail)"
            " VALUES (:at, :actor, :action, :kind, :target, :owner, :detail)",
            vars(self),
        )

    def words(self) -> str:
        """Return the entry as one line."""
        whose = f" of “{self.owner}”" if self.owner else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.action} {self.kind} {self.target}{whose} by “{self.actor}”{detail}"


class Audit:
    """The audit log of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def note(self, actor: str, action: str, kind: str, target: str, owner: str = "", detail: str = "") -> None:
        """Add an entry, also on a full disk; within a transaction it is a part of that."""
        entry = AuditEntry(time.time(), actor, action, kind, target, owner, detail)
        self._store.even_when_full(entry.write)
        log.info("%s", entry.words())

    def entries(self) -> list[AuditEntry]:
        """All entries, the oldest first."""
        with self._store.snapshot() as connection:
            return _read(connection, 0.0)


def read_audit(database: Path, since: float = 0.0) -> list[AuditEntry]:
    """Return the entries of a database that an app may have open: nothing is written. Raise ``NotFound``."""
    if not database.is_file():
        raise NotFound("no database of runs", str(database), "Set SARQC_STATE_DIR to that of the app.")
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        try:
            return _read(connection, since)
        except sqlite3.OperationalError as error:
            remedy = "Start this version of the app once."
            raise NotFound(f"it has no audit log yet: {error}", str(database), remedy) from None


def _read(connection: sqlite3.Connection, since: float) -> list[AuditEntry]:
    query = "SELECT at, actor, action, kind, target, owner, detail FROM audit WHERE at >= ? ORDER BY seq"
    return [AuditEntry(*row) for row in connection.execute(query, (since,))]


def as_lines(entries: list[AuditEntry], as_json: bool) -> Iterator[str]:
    """Return the log as text: a line an entry."""
    for entry in entries:
        yield json.dumps(entry.to_json(), ensure_ascii=False) if as_json else f"{iso_time(entry.at)} {entry.words()}"
