"""The audit log: who removed or took away what, and when. It is only ever added to, and outlives what it is about.

An entry is a row of the store, written in the transaction of what it tells of, and a line in the log “sarqc.audit”.
"""

import logging
import sqlite3
import time
from dataclasses import dataclass

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
