"""``python -m sarqc prune``: deletions due by the host's settings, listed or done all at once."""

import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sarqc.extras.host.backup import copy_database
from sarqc.extras.host.beside import existing_database
from sarqc.jobs.retention import Going, Retention
from sarqc.jobs.store import Store
from sarqc.settings import Settings


@dataclass(frozen=True)
class Pruning:
    """Things to delete, and the bytes that stay."""

    going: list[Going]
    left: int
    notes: list[str]  # for unexpected results

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.going)

    def to_json(self) -> dict[str, Any]:
        names = ("kind", "id", "owner", "bytes", "why")
        rows = [{name: getattr(item, name) for name in names} for item in self.going]
        return {"going": rows, "bytes": self.bytes, "left": self.left, "notes": self.notes}


def plan_pruning(settings: Settings) -> Pruning:
    """Return what ``apply_pruning`` would delete now, from a copy of the database: an app may have it open. Raise
    ``NotFound``."""
    database = existing_database(settings)
    with tempfile.TemporaryDirectory(prefix="sarqc-prune-") as folder:
        copy = Path(folder) / database.name
        copy_database(database, copy)
        with closing(Store(copy)) as store:
            retention = Retention(store, settings)
            going = retention.plan(time.time())
            left = retention.size() - sum(item.bytes for item in going)
    return Pruning(going, left, _notes(settings, left))


def apply_pruning(settings: Settings) -> Pruning:
    """Delete what is due. Raise ``NotFound``, and ``Refused`` while an app runs, which prunes by itself."""
    with closing(Store(existing_database(settings))) as store:
        retention = Retention(store, settings)
        going = [item for item in retention.plan(time.time()) if retention.remove(item)]
        left = retention.size()
    return Pruning(going, left, _notes(settings, left))


def _notes(settings: Settings, left: int) -> list[str]:
    notes = []
    if settings.keep_days is None and settings.keep_export_days is None and settings.keep_gib is None:
        notes.append(
            "nothing says how long things are kept: set SARQC_KEEP_DAYS, SARQC_KEEP_EXPORT_DAYS or SARQC_KEEP_GIB"
        )
    if settings.keep_gib is not None and left > settings.keep_gib * 2**30:
        notes.append(
            f"more than {settings.keep_gib:g} GiB stay: what is shared, has a name, a note or tags, was uploaded, or "
            "is needed by runs at work or in the queue"
        )
    return notes
