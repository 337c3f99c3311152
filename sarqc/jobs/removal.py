"""Taking runs and uploads off the host: rows, files and an entry in the audit log, all of it or nothing."""

from pathlib import Path

from sarqc.files.names import remove
from sarqc.jobs import exports
from sarqc.jobs.audit import HOST, Audit
from sarqc.jobs.run import Run
from sarqc.jobs.store import Store
from sarqc.jobs.uploads import Kind, Uploads
from sarqc.jobs.workers import log_path
from sarqc.settings import Settings


class Removal:
    """Places of the files of a run or an upload, and their end. Works on a full disk too."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings, self._audit = store, settings, Audit(store)

    def run(self, run_id: str, by: str = HOST, detail: str = "") -> Run:
        """Remove a run at rest, its study, log and exports; return what it was. Raises ``NotFound``, ``Conflict``.

        ``by`` and ``detail``: who asks and why, for the audit log.
        """

        def removed(_: object) -> Run:  # in a transaction: it stays if its files can't be removed
            paths = self._paths(self._store.get(run_id))
            run = self._store.delete(run_id)
            for path in paths:
                remove(path)
            self._audit.note(by, "delete", run.kind, run.id, run.owner, detail)
            return run

        return self._store.even_when_full(removed, lambda: self._store.shed_events(run_id))

    def size_of(self, run: Run) -> int:
        """Return the bytes of the files that go with a run."""
        return sum(map(exports.size_on_disk, self._paths(run)))

    def _paths(self, run: Run) -> list[Path]:
        """Files and folders of a run and its exports, there or not."""
        paths = [] if run.study_id is None else [self._settings.studies_dir() / run.study_id]
        for row in (run, *self._store.exports(run.id)):
            paths += [log_path(self._settings, row.id), exports.export_folder(self._settings, row.id)]
        return paths

    def upload(self, kind: Kind, upload_id: str, detail: str) -> None:
        """Remove an upload of its owner."""
        self._audit.note(HOST, "delete", kind, upload_id, detail=detail)
        Uploads(self._store, kind).remove(upload_id)
        if kind == "study":
            remove(self._settings.uploads_dir() / upload_id)
        else:
            for ending in (".txt", ".jsonl"):
                remove(self._settings.text_uploads_dir() / f"{upload_id}{ending}")
