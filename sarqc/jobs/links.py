"""Share links: a secret that shows one run or one study to anyone who has it, until its last day or until it is
revoked.

Only the hash of a secret is kept.
"""

import hashlib
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sarqc.errors import Conflict, NotFound
from sarqc.jobs.store import Store

Kind = Literal["run", "study"]
DAY = 86_400.0
DAYS, DAYS_AT_MOST = 30, 365  # that a link lasts: where nothing is said, and the longest
AT_MOST = 20  # links to one run or study at a time


@dataclass(frozen=True)
class Link:
    """Target of a link."""

    kind: Kind
    target: str


class Links:
    """All share links of a host."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def make(self, kind: Kind, target: str, owner: str, days: float = DAYS) -> tuple[str, float]:
        """Return a new link: its secret, and when it ends, in seconds since 1970. Raise ``Conflict`` for one too
        many."""
        secret, now = secrets.token_urlsafe(24), time.time()
        ends = now + days * DAY
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM links WHERE ends <= ?", (now,))
            count = connection.execute("SELECT COUNT(*) AS n FROM links WHERE target = ?", (target,)).fetchone()["n"]
            if count >= AT_MOST:
                what = f"{count} links to it exist already, the most at a time"
                remedy = "End all of them, and make a new one for those who still need it."
                raise Conflict(what, f"share {kind} {target}", remedy)
            row = (_digest(secret), kind, target, owner, now, ends)
            connection.execute("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?)", row)
        return secret, ends

    def behind(self, given: Iterable[str]) -> list[Link]:
        """Return what secrets open; those that have ended, or never were, open nothing."""
        digests = [_digest(secret) for secret in given]
        if not digests:
            return []
        query = f"SELECT kind, target FROM links WHERE digest IN ({', '.join('?' * len(digests))}) AND ends > ?"
        with self._store.snapshot() as connection:
            return [Link(**row) for row in connection.execute(query, (*digests, time.time())).fetchall()]

    def lead_to(self, target: str) -> bool:
        """Return whether there is a link to a run and its study, or to another study."""
        query = "SELECT 1 FROM links WHERE target = ? AND ends > ? LIMIT 1"
        with self._store.snapshot() as connection:
            return connection.execute(query, (target, time.time())).fetchone() is not None

    def revoke(self, target: str) -> None:
        """End all links to a run and its study, which have one name, or to another study."""
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM links WHERE target = ?", (target,))

    def opened(self, secret: str) -> Link:
        """Return the link of a secret. Raise ``NotFound``."""
        for link in self.behind([secret]):
            return link
        raise NotFound("this link is invalid or has expired", "link", "Ask for a new one.")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
