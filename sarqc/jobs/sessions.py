"""Sessions: a number for each person, raised by signing out. What was signed in under a former number is worth nothing,
in whichever browser it is kept."""

from sarqc.jobs.store import Store

RAISED = "INSERT INTO sessions VALUES (?, 1) ON CONFLICT (owner) DO UPDATE SET number = number + 1"


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
        """Sign somebody out everywhere, also on a full disk."""
        self._store.even_when_full(lambda connection: connection.execute(RAISED, (owner,)))
