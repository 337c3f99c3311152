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
    """A link as its owner sees it; the secret is shown once, when it is made."""

    id: str  # the beginning of the hash
    kind: Kind
    target: str
    owner: str
    created: float  # seconds since 1970


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

    def to(self, kind: Kind, target: str) -> list[Link]:
        """The links to a run or a study."""
        return self._rows("kind = ? AND target = ?", kind, target)

    def behind(self, given: Iterable[str]) -> list[Link]:
        """What secrets open; those that were revoked, or never were, open nothing."""
        digests = [_digest(secret) for secret in given]
        return self._rows(f"digest IN ({', '.join('?' * len(digests))})", *digests) if digests else []

    def revoke(self, kind: Kind, target: str) -> int:
        """Ends all links to a run or a study; returns how many there were."""
        with self._store.transaction() as connection:
            return connection.execute("DELETE FROM links WHERE kind = ? AND target = ?", (kind, target)).rowcount

    def opened(self, secret: str) -> Link:
        """The link of a secret. Raises ``NotFound``."""
        links = self.behind([secret])
        if not links:
            raise NotFound("this link opens nothing, or nothing any more", "link", "Ask for a new one.")
        return links[0]

    def _rows(self, condition: str, *values: str) -> list[Link]:
        query = f"SELECT substr(digest, 1, 12) AS id, kind, target, owner, created FROM links WHERE {condition}"
        with self._store.snapshot() as connection:
            return [Link(**row) for row in connection.execute(query, values).fetchall()]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
