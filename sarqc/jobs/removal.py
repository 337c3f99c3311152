"""Taking runs off the host: rows, files and an entry in the audit log, all of it or nothing."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sarqc.errors import Conflict, NotFound
from sarqc.files.names import remove
from sarqc.jobs import exports
from sarqc.jobs.audit import HOST, Audit
from sarqc.jobs.links import DAY, Links
from sarqc.jobs.run import Run
from sarqc.jobs.store import Store
from sarqc.jobs.workers import log_path
from sarqc.settings import Settings

PREVIEW_SECONDS = DAY  # for which a preview that nobody kept can be seen again
AT_ONCE = 20  # runs: nothing else shall wait for long


class Removal:
    """Places of the files of a run, and their end. Works on a full disk too."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings, self._audit = store, settings, Audit(store)

    def run(self, run_id: str, by: str = HOST, detail: str = "") -> Run:
        """Remove a run at rest, its study, log and exports; return what it was. Raises ``NotFound``, ``Conflict``.

        ``by`` and ``detail``: who asks and why, for the audit log.
        """

        def removed(_: object) -> Run:  # in a transaction: it stays if its files can't be removed
            paths = self.paths(self._store.get(run_id))
            run = self._store.delete(run_id)
            for path in paths:
                remove(path)
            self._audit.note(by, "delete", run.kind, run.id, run.owner, detail)
            return run

        return self._store.even_when_full(removed, lambda: self._store.shed_events(run_id))

    def previews(self, now: float) -> Iterator[Run]:
        """Remove some of the previews that nobody kept or shared, a day after their end; yield what they were."""
        passing, links = self._store.passing_previews(), Links(self._store)
        before = now - PREVIEW_SECONDS
        old = [run for run in passing if run.at_rest and (run.ended or now) < before and not links.lead_to(run.id)]
        for run in old[:AT_ONCE]:
            with suppress(NotFound, Conflict):
                yield self.run(run.id, detail="a preview that nobody kept")

    def paths(self, run: Run) -> list[Path]:
        """Return files and folders of a run and its exports, there or not."""
        paths = [] if run.study_id is None else [self._settings.studies_dir() / run.study_id]
        for one in (run, *self._store.exports(run.id)):
            paths += [log_path(self._settings, one.id), exports.export_folder(self._settings, one.id)]
        return paths
