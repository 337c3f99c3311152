"""Retention: what has had its days goes, and the oldest where the state takes more room than it may.

What somebody has shared stays until its links have ended. Room is made in this order, the longest unused first, until
the rest fits: finished layers and statistics, which can be made again; exports; runs with all that is theirs. For room
nothing goes that somebody has shared or written on (a name, a note, tags), nor what a run at work or in the queue may
still need.
"""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

from sarqc.errors import Conflict, NotFound
from sarqc.extras.host.host_time import HostTime
from sarqc.extras.host.settings import HostSettings
from sarqc.files.artefacts import ArtefactStore
from sarqc.files.names import remove
from sarqc.jobs.audit import HOST, Audit
from sarqc.jobs.bell import ALL_RUNS
from sarqc.jobs.exports import size_on_disk
from sarqc.jobs.links import DAY, Links
from sarqc.jobs.removal import AT_ONCE, PREVIEW_SECONDS, Removal
from sarqc.jobs.run import Run, State, iso_time
from sarqc.jobs.store import Store
from sarqc.jobs.supervisor import Supervisor
from sarqc.jobs.uploads import Uploads
from sarqc.plain import mib
from sarqc.settings import Settings

SIZE_SECONDS = 600.0  # between two measurements of the state
AT_ONCE_FOR_ROOM = 200  # runs: after a measurement


class Kept(TypedDict):
    """Stay of a run or an export."""

    until: str | None  # ISO 8601, UTC; None: nothing says when it goes
    shared: bool  # it stays until its links have ended
    while_room: bool  # it goes before that if the host needs room


@dataclass(frozen=True)
class Going:
    """Something that goes: a run, an export, an upload, or files of a folder of finished layers."""

    kind: Literal["run", "export", "study", "text", "layers"]
    id: str
    why: str
    bytes: int
    files: tuple[Path, ...] = ()  # of all but runs and exports


class Retention:
    """The rules of ``settings`` over a store and its files."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings, self._own = store, settings, settings.of(HostSettings)
        self._removal, self._audit, self._links = Removal(store, settings), Audit(store), Links(store)
        self._measured = -math.inf  # when the size of the state was last looked at

    def take_turn(self, now: float, *, by_age: bool = True) -> list[Going]:
        """Remove a part of what has to go at a time (seconds since 1970); return it.

        ``by_age``: False while that time can't be trusted, see ``HostTime``.
        """
        going = self.by_age(now) if by_age else []
        if self._own.keep_gib is not None and not 0 <= now - self._measured < SIZE_SECONDS:
            self._measured = now
            going += self.by_size(going)
        return [one for one in going if self.remove(one)]

    def remove(self, going: Going) -> bool:
        """Remove it, unless somebody has deleted or continued it meanwhile."""
        match going.kind:
            case "run" | "export":
                with suppress(NotFound, Conflict):
                    self._removal.run(going.id, detail=going.why)
                    return True
                return False
            case "study" | "text":
                self._audit.note(HOST, "delete", going.kind, going.id, detail=going.why)
                Uploads(self._store, going.kind).remove(going.id)
            case "layers":
                what = f"{len(going.files)} files, {mib(going.bytes)}: {going.why}"
                self._audit.note(HOST, "delete", going.kind, going.id, detail=what)
        for path in going.files:
            remove(path)
        return True

    def sizes(self) -> dict[str, int]:
        """Return bytes of all that is kept here, by part."""
        settings = self._settings
        parts = {
            "artefacts": settings.artefacts_dir(),
            "statistics": settings.statistics_dir(),
            "studies": settings.studies_dir(),
            "uploads": settings.uploads_dir(),
            "text-uploads": settings.text_uploads_dir(),
            "exports": settings.exports_dir(),
            "logs": settings.resolved_state_dir() / "logs",
            "database": settings.database(),
        }
        return {name: size_on_disk(path) for name, path in parts.items()}

    def kept(self, run: Run) -> Kept:
        """Return how long a run or an export stays, as it is now."""
        whole = run if run.parent is None else self._store.get(run.parent)
        shared = self._links.lead_to(whole.id)
        ends = [math.inf]
        if run.parent is not None and self._own.keep_export_days is not None:
            ends.append(_ended(run) + DAY * self._own.keep_export_days)
        if not run.is_listed and run.parent is None and not shared:
            ends.append(_ended(run) + PREVIEW_SECONDS)
        if self._own.keep_days is not None and not shared:
            ends.append(max(map(_ended, (whole, *self._store.exports(whole.id)))) + DAY * self._own.keep_days)
        until = min(ends)
        return {
            "until": iso_time(until) if run.at_rest and math.isfinite(until) else None,
            "shared": shared and run.parent is None,
            "while_room": self._own.keep_gib is not None and run.at_rest and not (shared or whole.is_annotated),
        }

    def by_age(self, now: float) -> list[Going]:
        """Return what has had its days, of runs and of exports a few."""
        days, export_days = self._own.keep_days, self._own.keep_export_days
        before, why = now - DAY * (days or 0), f"kept for {days:g} days" if days else ""
        runs = [] if days is None else self._store.ended_before(before, AT_ONCE)
        going: list[Going] = []
        gone = {run.id for run in runs}
        if export_days is not None:
            exports = self._store.exports_ended_before(now - DAY * export_days, AT_ONCE)
            own = f"an export, kept for {export_days:g} days"
            going += [self._going(run, own) for run in exports if run.parent not in gone]
        going += [self._going(run, why) for run in runs]
        return going if days is None else [*going, *self._uploads(before, why)]

    def by_size(self, gone: Sequence[Going] = ()) -> list[Going]:
        """Return what makes room beside what is ``gone`` already."""
        if self._own.keep_gib is None:
            return []
        excess = sum(self.sizes().values()) - sum(one.bytes for one in gone) - int(self._own.keep_gib * 2**30)
        why = f"the state took more than {self._own.keep_gib:g} GiB (SARQC_KEEP_GIB)"
        going = []
        for one in self._oldest(why, {one.id for one in gone}):
            if excess <= 0:
                break
            if one.kind == "layers":
                one = _first_of(one, excess)
            going.append(one)
            excess -= one.bytes
        return going

    def _oldest(self, why: str, gone: set[str]) -> Iterator[Going]:
        """Yield what may go for room, in the order in which it does."""
        at_work = self._store.in_state(State.QUEUED, State.RUNNING, State.CANCELLING)
        since = min((run.created for run in at_work), default=math.inf)
        for folder in (self._settings.artefacts_dir(), self._settings.statistics_dir()):
            files = [entry for entry in ArtefactStore(folder).oldest() if entry.changed < since]
            if files:
                paths = tuple(folder / entry.name for entry in files)
                yield Going("layers", folder.name, why, sum(entry.size for entry in files), files=paths)
        for run in self._store.exports_ended_before(math.inf, AT_ONCE_FOR_ROOM, spare_annotated=True):
            if run.id not in gone and run.parent not in gone:
                gone.add(run.id)
                yield self._going(run, why)
        for run in self._store.ended_before(math.inf, AT_ONCE_FOR_ROOM, spare_annotated=True):
            if run.id not in gone:
                exports = [export for export in self._store.exports(run.id) if export.id in gone]
                yield self._going(run, why, without=sum(map(self._size_of, exports)))

    def _going(self, run: Run, why: str, without: int = 0) -> Going:
        return Going(run.kind, run.id, why, self._size_of(run) - without)

    def _size_of(self, run: Run) -> int:
        """Return the bytes of the files that go with a run."""
        return sum(map(size_on_disk, self._removal.paths(run)))

    def _uploads(self, before: float, why: str) -> Iterator[Going]:
        for folder in self._settings.uploads_dir().glob("[!.]*"):
            if folder.is_dir() and folder.stat().st_mtime < before and not self._links.lead_to(folder.name):
                yield Going("study", folder.name, why, size_on_disk(folder), (folder,))
        at_work = self._store.in_state(State.QUEUED, State.RUNNING, State.CANCELLING)
        needed = {name for run in at_work for name in (run.recipe["calibration"], run.recipe["test"])}
        for file in self._settings.text_uploads_dir().glob("[!.]*.*"):
            if file.stat().st_mtime < before and file.stem not in needed:
                yield Going("text", file.stem, why, file.stat().st_size, (file,))


def add_retention(supervisor: Supervisor) -> Retention:
    """Let a supervisor delete by the rules of its settings, a part in each turn."""
    retention, host_time = Retention(supervisor.store, supervisor.settings), HostTime(supervisor.store)

    def retire() -> None:
        now = time.time()
        for gone in retention.take_turn(now, by_age=host_time.is_trusted(now)):
            if gone.kind in ("run", "export"):
                supervisor.bell.ring(gone.id, ALL_RUNS)

    supervisor.chores.append(retire)
    supervisor.stay = retention.kept
    return retention


def _ended(run: Run) -> float:
    return math.inf if run.ended is None else run.ended


def _first_of(layers: Going, size: int) -> Going:
    """Return the first files, as many as take ``size`` bytes."""
    taken, files = 0, []
    for file in layers.files:
        if taken >= size:
            break
        files.append(file)
        taken += size_on_disk(file)
    return Going(layers.kind, layers.id, layers.why, taken, files=tuple(files))
