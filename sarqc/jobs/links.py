"""Share links: a secret that nobody can guess shows one run or one study to whoever has it, until it is revoked.

Only the hash of a secret is kept.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sarqc.errors import NotFound
from sarqc.jobs.store import Store

Kind = Literal["run", "study"]


@dataclass(frozen=True)
class Link:
    """What a link shows."""

    kind: Kind
    target: str


class Links:
    """All share links of a host."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def make(self, kind: Kind, target: str, owner: str) -> str:
        """A new link; returns its secret."""
        secret = secrets.token_urlsafe(24)
        with self._store.transaction() as connection:
            connection.execute(
                "INSERT INTO links VALUES (?, ?, ?, ?, ?)", (_digest(secret), kind, target, owner, time.time())
            )
        return secret

    def behind(self, given: Iterable[str]) -> list[Link]:
        """What secrets open; those that were revoked, or never were, open nothing."""
        digests = [_digest(secret) for secret in given]
        if not digests:
            return []
        query = f"SELECT kind, target FROM links WHERE digest IN ({', '.join('?' * len(digests))})"
        with self._store.snapshot() as connection:
            return [Link(**row) for row in connection.execute(query, digests).fetchall()]

    def lead_to(self, target: str) -> bool:
        """Whether there is a link to a run and its study, or to another study."""
        with self._store.snapshot() as connection:
            return connection.execute("SELECT 1 FROM links WHERE target = ? LIMIT 1", (target,)).fetchone() is not None

    def revoke(self, target: str) -> None:
        """Ends all links to a run and its study, which have one name, or to another study."""
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM links WHERE target = ?", (target,))

    def opened(self, secret: str) -> Link:
        """The link of a secret. Raises ``NotFound``."""
        links = self.behind([secret])
        if not links:
            raise NotFound("this link opens nothing, or nothing any more", "link", "Ask for a new one.")
        return links[0]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
