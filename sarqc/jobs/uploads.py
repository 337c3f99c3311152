"""Owners of uploads: studies and texts that people have brought. The files themselves are elsewhere.

The same content brought by two people is one file with two owners; it goes with the last.
"""

import time
from dataclasses import dataclass
from typing import Literal

from sarqc.errors import NoRoom
from sarqc.jobs.store import Store

Kind = Literal["study", "text"]


@dataclass(frozen=True)
class Upload:
    """An upload as its owner sees it."""

    id: str
    owner: str
    title: str
    bytes: int
    created: float  # seconds since 1970


class Uploads:
    """The uploads of one kind."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self._store, self._kind = store, kind

    def of(self, owner: str) -> list[Upload]:
        """Return the uploads of an owner, newest first."""
        return self._rows("AND owner = ? ORDER BY created DESC", owner)

    def owners(self, upload_id: str) -> frozenset[str]:
        """Return who has brought it; nobody: it is not there, or from before owners were kept."""
        return frozenset(upload.owner for upload in self._rows("AND id = ?", upload_id))

    def check_room(self, owner: str, at_most: int) -> None:
        """Raise ``NoRoom`` for an owner who keeps as many as anybody may."""
        count = len(self.of(owner))
        if count >= at_most:
            kind = "texts" if self._kind == "text" else "studies"
            what = f"{count} {kind} of yours are kept here, as many as anybody's"
            raise NoRoom(what, "uploads", "Delete one first.")

    def add(self, upload_id: str, owner: str, title: str, size: int) -> None:
        """Note an upload; harmless when it is there already."""
        with self._store.transaction() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO uploads VALUES (?, ?, ?, ?, ?, ?)",
                (self._kind, upload_id, owner, title, size, time.time()),
            )

    def remove(self, upload_id: str, owner: str | None = None) -> bool:
        """Forgets an upload of an owner, or of everybody; returns whether nobody has it any more."""
        with self._store.transaction() as connection:
            whose, values = ("", ()) if owner is None else ("AND owner = ?", (owner,))
            connection.execute(
                f"DELETE FROM uploads WHERE kind = ? AND id = ? {whose}", (self._kind, upload_id, *values)
            )
            return not self.owners(upload_id)

    def _rows(self, condition: str, *values: str) -> list[Upload]:
        query = f"SELECT id, owner, title, bytes, created FROM uploads WHERE kind = ? {condition}"
        with self._store.snapshot() as connection:
            return [Upload(**row) for row in connection.execute(query, (self._kind, *values)).fetchall()]
