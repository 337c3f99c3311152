"""Studies of a host: shipped, made by runs, uploaded."""

import logging
import os
import re
import stat
import threading
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, TypedDict, final

from sarqc.errors import Conflict, NotFound, Refused
from sarqc.files.hashes import sha256_of
from sarqc.files.names import remove
from sarqc.settings import Settings
from sarqc.study.document import Line, Study, array_files
from sarqc.study.facts import has_lam
from sarqc.study.kept_codes import FILE as CODES_FILE
from sarqc.study.kept_codes import FOLDER as CODES
from sarqc.study.tensors import FILE, REMEDY

log = logging.getLogger(__name__)

STUDY_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
MOST_OPEN = 16  # studies; a comparison has at most half of that
MOST_BYTES = 8 << 30  # of arrays, which are read to the last byte before they are shown

Stamp = tuple[int, int]  # time of the last change of a study.json in nanoseconds, and its bytes
Origin = Literal["shipped", "run", "command_line", "uploaded"]
_Folders = dict[str, tuple[Path, str, Stamp]]  # root, name and stamp of studies by their folders


class LineSummary(TypedDict):
    """A line of a study in short."""

    name: str
    method: str
    bits: int
    grid: str
    group_size: int | None
    draws: list[int]
    lambdas: int  # points of its curve
    lam: float | None  # that a run was asked for, or the only one


@final
class StudySummary(TypedDict):
    """A study in short."""

    id: str
    title: str
    created: str  # ISO 8601, UTC
    shipped: bool
    origin: Origin
    has_curves: bool
    has_codes: bool  # with which pages run its model
    prefix: str
    model: str
    layers: int
    lines: list[LineSummary]


@final
class DamagedStudy(TypedDict):
    """A study that can't be read, and why."""

    id: str
    origin: Origin
    error: dict[str, str]


class StudyListing(TypedDict):
    """The studies of a host, newest first, and those that can't be read."""

    studies: list[StudySummary]
    damaged: list[DamagedStudy]
    first: str | None  # the study that the Lab opens with


Entry = StudySummary | DamagedStudy


def first_study(studies: Sequence[StudySummary]) -> str | None:
    """Return the id of the study that the Lab opens with; None without studies.

    A shipped study with curves is preferred, then the one of the most layers, since λ does most for real models, then
    the one with the most draws, whose verdicts are the surest, then the one with the most points on a curve of so many
    draws.
    """

    def rank(study: StudySummary) -> tuple[bool, int, int, int, str]:
        draws, points = max(((len(line["draws"]), line["lambdas"]) for line in study["lines"]), default=(0, 0))
        return not study["has_curves"], -study["layers"], -draws, -points, study["id"]

    shipped = [study for study in studies if study["shipped"]]
    return min(shipped, key=rank)["id"] if shipped else studies[0]["id"] if studies else None


class Library:
    """The studies of a host: shipped, made by runs of the app or of the command line, uploaded.

    Shipped studies come first, also if a name occurs twice.

    Args:
        settings: Settings of the host.
        runs_among: Function that returns the names among some that belong to runs.
    """

    def __init__(self, settings: Settings, runs_among: Callable[[Collection[str]], Container[str]]) -> None:
        self._shipped, self._uploaded = settings.assets_dir / "studies", settings.uploads_dir()
        self._roots = (self._shipped, settings.studies_dir(), self._uploaded)
        self._runs_among = runs_among
        self._open: dict[Path, tuple[Stamp | None, Study]] = {}  # the last used one last
        self._known: dict[str, tuple[Stamp, Entry]] = {}  # by folder, as they were last listed
        self._listing = threading.Lock()

    def folder(self, study_id: str) -> Path:
        """Return the folder of a study.

        Raises:
            NotFound: If there is no such study, also for anything that is not a plain name.
        """
        if STUDY_ID.fullmatch(study_id):
            for root in self._roots:
                if (root / study_id / "study.json").is_file():
                    return root / study_id
        raise NotFound(f"no study “{study_id}”", "studies", "GET /api/studies lists what there is.")

    def origin(self, folder: Path) -> Origin:
        """Return the origin of the study in a folder: shipped, run, command_line or uploaded."""
        return self._origin(folder.parent, folder.name, self._runs_among([folder.name]))

    def _origin(self, root: Path, name: str, runs: Container[str]) -> Origin:
        if root == self._shipped:
            return "shipped"
        if root == self._uploaded:
            return "uploaded"
        return "run" if name in runs else "command_line"

    def check_deletable(self, study_id: str) -> Path:
        """Return the folder of a study that may be removed.

        Raises:
            NotFound: If there is no such study.
            Conflict: For a shipped study or that of a run.
        """
        folder = self.folder(study_id)
        origin = self.origin(folder)
        if origin == "shipped":
            what = "it is part of the app and can't be deleted"
            raise Conflict(what, f"study {study_id}", "Leave it out of the comparison.")
        if origin == "run":
            raise Conflict("it belongs to a run of this host", f"study {study_id}", "Delete the run.")
        return folder

    def delete(self, study_id: str) -> None:
        """Remove a study, also a damaged one. Raises what ``check_deletable`` does."""
        folder = self.check_deletable(study_id)
        remove(folder)
        self._open.pop(folder, None)

    def open(self, study_id: str) -> Study:
        """Return the study of an id, its arrays compared with their checksums.

        Raises:
            NotFound: If there is no such study.
            Refused: If its document is damaged or newer than this version.
            Conflict: If its arrays are damaged.
        """
        folder = self.folder(study_id)
        stamp = _stamp(folder)
        known = self._open.pop(folder, None)
        study = known[1] if known is not None and known[0] == stamp else Study.open(folder)
        _check_arrays(study)
        self._open[folder] = (stamp, study)
        for oldest in list(self._open)[:-MOST_OPEN]:
            self._open.pop(oldest, None)
        return study

    def version(self, study_id: str) -> Hashable:
        """Return a value that stays equal while the document of a study is the same.

        Raises:
            NotFound: If there is no such study.
        """
        folder = self.folder(study_id)
        return folder, _stamp(folder)

    def arrays(self, study_id: str) -> Path:
        """Return the file with all arrays of a study.

        Raises:
            NotFound: If there is no such study, or its version is before 4.
            Refused: As for ``open``.
            Conflict: As for ``open``.
        """
        study = self.open(study_id)
        if FILE not in array_files(study):
            raise NotFound(f"study {study_id} has no {FILE}", "studies", "Its view names the files of its arrays.")
        return study.file(FILE)

    def former_array(self, study_id: str, file: str) -> Path:
        """Return the file of one array, for a study of a version before 4.

        Raises:
            NotFound: If there is no such file, also for anything that is not a content name.
        """
        study = self.open(study_id)
        if f"arrays/{file}" not in array_files(study):
            raise NotFound(
                f"study {study_id} has no array “{file}”", "studies", "Its view names the files of its arrays."
            )
        return study.file(f"arrays/{file}")

    def listing(self) -> StudyListing:
        """Return all studies in short, newest first, and the unreadable ones with the reason."""
        folders = self._folders(self._roots)
        entries = self._entries(folders)
        runs = self._runs_among([name for _, name, _ in folders.values()])
        studies: list[StudySummary] = []
        damaged: list[DamagedStudy] = []
        for folder, (root, name, _) in folders.items():
            entry, origin = entries[folder], self._origin(root, name, runs)
            if "error" in entry:
                damaged.append({**entry, "origin": origin})
            else:
                studies.append({**entry, "origin": origin})
        studies.sort(key=lambda study: study["created"], reverse=True)
        return {"studies": studies, "damaged": damaged, "first": first_study(studies)}

    def shipped(self) -> list[StudySummary]:
        """Return the studies that came with the app, without reading the others."""
        return [entry for entry in self._entries(self._folders((self._shipped,))).values() if "error" not in entry]

    def _folders(self, roots: Iterable[Path]) -> _Folders:
        """Return root, name and stamp of each study by its folder; of several with one name the first alone."""
        folders: _Folders = {}
        taken: set[str] = set()
        for root in roots:
            for name in sorted(os.listdir(root)) if root.is_dir() else []:
                folder = f"{root}/{name}"
                if name in taken or not STUDY_ID.fullmatch(name) or (stamp := _stamp(folder)) is None:
                    continue
                folders[folder] = root, name, stamp
                taken.add(name)
        return folders

    def _entries(self, folders: _Folders) -> dict[str, Entry]:
        """Return entries of studies: cached ones of unchanged documents, else new ones."""
        with self._listing:
            for folder, (root, name, stamp) in folders.items():
                if folder not in self._known or self._known[folder][0] != stamp:
                    self._known[folder] = stamp, self._entry(root, name)
            return {folder: self._known[folder][1] for folder in folders}

    def _entry(self, root: Path, name: str) -> Entry:
        """Return a study's entry, from its document."""
        origin = self._origin(root, name, ())  # which may change: the listing finds it out anew
        try:
            return summary_of(Study.open(root / name), name, origin)
        except (NotFound, Refused) as error:
            return {"id": name, "origin": origin, "error": error.to_json()}


def _stamp(folder: Path | str) -> Stamp | None:
    """Return a folder's study stamp; None without a study."""
    try:
        status = os.stat(f"{folder}/study.json")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


def _check_arrays(study: Study) -> None:
    """Compare the arrays with their checksums; refuses missing or damaged ones."""
    where = f"study {study.folder.name}"
    for name in array_files(study):
        path = study.file(name)
        if path.stat().st_size > MOST_BYTES:
            raise Refused(f"{name} has more than {MOST_BYTES >> 30} GiB", where, REMEDY)
        try:
            digest = sha256_of(path)
        except OSError as error:
            raise NotFound(f"{name} can't be read: {error.strerror}", where, REMEDY) from None
        if digest != study.checksum if name == FILE else digest[:32] != PurePosixPath(name).stem:
            raise Conflict(f"{name} is damaged: checksum mismatch", where, REMEDY)


def _only_lam(line: Line) -> float | None:
    """Return the λ of a line with a chosen point or a single one; None for a curve, and where the line has no λ."""
    at = line.chosen[1] if line.chosen is not None else 0 if len(line.lams) == 1 else None
    return line.lams[at] if at is not None and has_lam(line) else None


def summary_of(study: Study, study_id: str, origin: Origin) -> StudySummary:
    """Return a study in short, under its id on this host."""
    return {
        "id": study_id,
        "title": study.title,
        "created": study.created,
        "shipped": origin == "shipped",
        "origin": origin,
        "has_curves": any(len(line.lams) > 1 for line in study.lines),
        "has_codes": not study.is_in_memory and (study.folder / CODES / CODES_FILE).is_file(),
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
                "draws": list(line.draws),
                "lambdas": len(line.lams),
                "lam": _only_lam(line),
            }
            for line in study.lines
        ],
    }
