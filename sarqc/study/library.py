"""The studies of a host: shipped, left by runs, uploaded."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Literal, TypedDict, final

from sarqc.errors import Conflict, NotFound, Refused
from sarqc.files.hashes import sha256_of
from sarqc.settings import Settings
from sarqc.study.document import Study, array_files
from sarqc.study.tensors import FILE, REMEDY

STUDY_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
KEPT_OPEN = 16  # studies; a comparison has at most half of that


ARRAY_FILE = re.compile(r"[0-9a-f]{32}\.bin")
Origin = Literal["shipped", "run", "command_line", "uploaded"]
Stamp = tuple[int, int]  # time of the last change of a study.json, and its bytes


class LineSummary(TypedDict):
    """A line of a study in short."""

    name: str
    method: str
    bits: int
    grid: str
    group_size: int | None
    draws: tuple[int, ...]


@final
class StudySummary(TypedDict):
    """A study in short."""

    id: str
    title: str
    created: str  # ISO 8601, UTC
    shipped: bool
    origin: Origin
    has_curves: bool
    prefix: str
    model: str
    layers: int
    lines: list[LineSummary]


@final
class DamagedStudy(TypedDict):
    """A study that can't be read, and why."""

    id: str
    error: dict[str, str]


class StudyListing(TypedDict):
    """The studies of a host, newest first, and those that can't be read."""

    studies: list[StudySummary]
    damaged: list[DamagedStudy]


class Library:
    """The studies that can be seen here: shipped, left by runs of the app or of the command line, uploaded.

    Shipped ones come first, also where a name occurs twice. ``is_run`` tells whether a name is that of a run.
    """

    def __init__(self, settings: Settings, is_run: Callable[[str], bool]) -> None:
        self._shipped, self._uploaded = settings.assets_dir / "studies", settings.uploads_dir()
        self._roots = (self._shipped, settings.studies_dir(), self._uploaded)
        self._is_run = is_run
        self._open: dict[Path, tuple[Stamp, Study]] = {}  # the last used one last
        self._listed: dict[Path, tuple[Stamp, StudySummary | DamagedStudy]] = {}  # as they were in the last listing

    def folder(self, study_id: str) -> Path:
        """Where a study is. Raises ``NotFound``, also for anything that is no plain name."""
        if STUDY_ID.fullmatch(study_id):
            for root in self._roots:
                if (root / study_id / "study.json").is_file():
                    return root / study_id
        raise NotFound(f"there is no study “{study_id}”", "studies", "GET /api/studies lists what there is.")

    def origin(self, folder: Path) -> Origin:
        """Where the study in a folder comes from: shipped, run, command_line or uploaded."""
        if folder.parent == self._shipped:
            return "shipped"
        if folder.parent == self._uploaded:
            return "uploaded"
        return "run" if self._is_run(folder.name) else "command_line"

    def check_deletable(self, study_id: str) -> Path:
        """The folder of a study that may be removed.

        Raises ``NotFound``, ``Conflict`` for a shipped one or that of a run.
        """
        folder = self.folder(study_id)
        origin = self.origin(folder)
        if origin == "shipped":
            raise Conflict("it came with the app and stays", f"study {study_id}", "Leave it out of the comparison.")
        if origin == "run":
            raise Conflict("it belongs to a run of this host", f"study {study_id}", "Delete the run.")
        return folder

    def delete(self, study_id: str) -> None:
        """Removes a study, also a damaged one. Raises what ``check_deletable`` does."""
        folder = self.check_deletable(study_id)
        shutil.rmtree(folder)
        self._open.pop(folder, None)

    def open(self, study_id: str) -> Study:
        """The study of an id, its arrays compared with their checksums. Raises ``NotFound``, ``Refused`` for a damaged
        or newer document, ``Conflict`` for damaged arrays.
        """
        folder = self.folder(study_id)
        stamp = _stamp(folder)
        known = self._open.pop(folder, None)
        study = known[1] if known is not None and known[0] == stamp else Study.open(folder)
        _check_arrays(study)
        self._open[folder] = (stamp, study)
        for oldest in list(self._open)[:-KEPT_OPEN]:
            self._open.pop(oldest, None)
        return study

    def arrays(self, study_id: str) -> Path:
        """The file with all arrays of a study. Raises like ``open``, also for a study of a version before 4."""
        path = self.open(study_id).folder / FILE
        if not path.is_file():
            raise NotFound(f"study {study_id} has no {FILE}", "studies", "Its view names the files of its arrays.")
        return path

    def former_array(self, study_id: str, file: str) -> Path:
        """The file of one array, for a study of a version before 4. Raises ``NotFound``, also for anything that is no
        content name."""
        path = self.open(study_id).folder / "arrays" / file
        if not ARRAY_FILE.fullmatch(file) or not path.is_file():
            raise NotFound(
                f"study {study_id} has no array “{file}”", "studies", "Its view names the files of its arrays."
            )
        return path

    def listing(self) -> StudyListing:
        """What there is, newest first, in short; and what there is but can't be read, with the reason."""
        listed: dict[Path, tuple[Stamp, StudySummary | DamagedStudy]] = {}
        for root in self._roots:
            for folder in sorted(root.iterdir()) if root.is_dir() else []:
                try:
                    if self.folder(folder.name) != folder:
                        continue  # of the name of one that comes before
                    stamp = _stamp(folder)
                except (NotFound, FileNotFoundError):  # no study, or deleted meanwhile
                    continue
                known = self._listed.get(folder)
                listed[folder] = known if known and known[0] == stamp else (stamp, self._entry(folder))
        self._listed = listed
        studies: list[StudySummary] = []
        damaged: list[DamagedStudy] = []
        for folder, (_, entry) in listed.items():
            if "error" in entry:
                damaged.append(entry)
            else:
                studies.append({**entry, "origin": self.origin(folder)})
        studies.sort(key=lambda study: study["created"], reverse=True)
        return {"studies": studies, "damaged": damaged}

    def _entry(self, folder: Path) -> StudySummary | DamagedStudy:
        """What the listing says of a study; its document alone is read."""
        try:
            return summary_of(Study.open(folder), folder.name, self.origin(folder))
        except Refused as error:
            return {"id": folder.name, "error": error.to_json()}


def _stamp(folder: Path) -> Stamp:
    stat = (folder / "study.json").stat()
    return stat.st_mtime_ns, stat.st_size


def _check_arrays(study: Study) -> None:
    """Returns when the arrays are what they were when the study was written. Raises ``NotFound``, ``Conflict``."""
    where = f"study {study.folder.name}"
    for name in array_files(study):
        try:
            digest = sha256_of(study.folder / name)
        except OSError as error:
            raise NotFound(f"{name} can't be read: {error.strerror}", where, REMEDY) from None
        if digest != study.checksum if name == FILE else digest[:32] != PurePosixPath(name).stem:
            raise Conflict(f"{name} is damaged: its checksum is another than that of the study", where, REMEDY)


def summary_of(study: Study, study_id: str, origin: Origin) -> StudySummary:
    """A study in short, under the id that this host knows it by."""
    return {
        "id": study_id,
        "title": study.title,
        "created": study.created,
        "shipped": origin == "shipped",
        "origin": origin,
        "has_curves": any(len(line.lams) > 1 for line in study.lines),
        "prefix": study.prefix,
        "model": study.model.name,
        "layers": len(study.layers),
        "lines": [
            {
                "name": line.name,
                "method": line.method,
                "bits": line.bits,
                "grid": line.grid,
                "group_size": line.group_size,
                "draws": line.draws,
            }
            for line in study.lines
        ],
    }
