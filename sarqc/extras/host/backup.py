"""Backup of a host's state while its app runs, and its restoration.

First the database, then the files: a file is whole on disk before the database names it, so whatever the copied
database names can be copied. In the other order it would name files added in between. Files removed in between would be
named and missing, so the copy is then made again until nothing was removed meanwhile.

Files are written once and whole: artefacts under the hash of what determines them, studies and uploads by renaming.
None is copied in half. A study that was replaced while it was read is noticed by its checksum, and read again.
"""

import hashlib
import json
import os
import secrets
import shutil
import sqlite3
import tarfile
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import sarqc
from sarqc.errors import Busy, Damaged, Refused
from sarqc.extras.host.beside import existing_database
from sarqc.jobs.audit import HOST, AuditEntry
from sarqc.jobs.database import take_lock
from sarqc.jobs.run import iso_time
from sarqc.jobs.schema import MIGRATIONS
from sarqc.settings import Settings

DATABASE, MANIFEST = "runs.sqlite3", "backup.json"
# Everything in the state folder but models of the Hub, which can be fetched again, and work in progress.
PARTS = (
    "artefacts",
    "statistics",
    "studies",
    "uploads",
    "text-uploads",
    "texts",
    "exports",
    "logs",
    "rates",
    "secret",
)
MAY_BE_MISSING = ("artefacts", "statistics", "exports", "logs", "texts")  # what can be made again, or is not needed
PASSES = 10  # over files that change during the copy
STUDY, ARRAYS = "study.json", "study.safetensors"


@dataclass
class Manifest:
    """The list of a backup: ``files`` are names and SHA-256 hashes, the database's among them."""

    version: str = sarqc.__version__
    schema: int = len(MIGRATIONS)
    created: str = ""
    runs: int = 0
    bytes: int = 0
    without: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def back_up(settings: Settings, target: Path, without: Collection[str] = ()) -> Manifest:
    """Copy the state to ``target``: a new folder, or a file whose name ends with .tar; it appears whole or not at all.

    ``without``: parts to leave out, of ``MAY_BE_MISSING``. Raise ``Refused`` for a target that is there, ``NotFound``
    without a database, ``Busy`` where things are removed faster than they can be copied, ``Damaged``.
    """
    if wrong := sorted(set(without) - set(MAY_BE_MISSING)):
        raise Refused(f"{wrong[0]} can't be left out", "backup", f"These can: {', '.join(MAY_BE_MISSING)}.")
    if target.exists():
        raise Refused("the path already exists", str(target), "Give a new name, such as one with the date.")
    existing_database(settings)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    archive = partial.with_name(f"{partial.name}.tar")
    try:
        manifest = _gather(settings.resolved_state_dir(), partial, [part for part in PARTS if part not in without])
        manifest.without = sorted(without)
        (partial / MANIFEST).write_text(json.dumps(vars(manifest), indent=1), encoding="utf-8")
        if target.suffix == ".tar":
            archive.touch(mode=0o600)
            with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as file:
                file.add(partial, "")
            archive.rename(target)
        else:
            partial.rename(target)
        return manifest
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        archive.unlink(missing_ok=True)


def restore(settings: Settings, source: Path, *, replace: bool = False) -> tuple[Manifest, Path | None]:
    """Put a backup into the state folder; every byte is compared before anything there is touched.

    With ``replace`` what is there is moved aside, into a folder of the state folder that is returned. Raise
    ``Refused`` for a running app, a state folder that is not empty, and a backup that a newer sarqc made; ``Damaged``.
    """
    state = settings.resolved_state_dir()
    with ExitStack() as stack:
        stack.callback(os.close, take_lock(state / DATABASE))  # no app opens the state meanwhile
        # The old database's log must not stay beside the new database.
        names = (*PARTS, DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")
        there = [name for name in names if (state / name).exists()]
        if there and not replace:
            raise Refused(
                f"the state folder is not empty: {', '.join(there[:3])}",
                str(state),
                "Give SARQC_STATE_DIR an empty folder, or add --replace, which moves aside what is there.",
            )
        new = state / f".restoring-{secrets.token_hex(4)}"
        stack.callback(shutil.rmtree, new, ignore_errors=True)
        manifest = _unpack(source, new)
        with closing(sqlite3.connect(new / DATABASE)) as database, database, suppress(sqlite3.OperationalError):
            # The audit log of a database that has one.
            AuditEntry(time.time(), HOST, "restore", "state", source.name, "", "").write(database)
        aside = None
        if there:
            aside = state / f"replaced-{time.strftime('%Y%m%d-%H%M%S')}"
            aside.mkdir(mode=0o700)
            for name in there:
                (state / name).rename(aside / name)
        for name in [*PARTS, DATABASE]:  # the database last: it names the files
            if (new / name).exists():
                (new / name).rename(state / name)
    return manifest, aside


def _gather(state: Path, folder: Path, parts: Collection[str]) -> Manifest:
    """Copy database and files, until a copy of the files is one of all that the copied database names."""
    torn: dict[str, str] = {}
    for _ in range(PASSES):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        manifest = Manifest(created=iso_time(time.time()))
        before = copy_database(state / DATABASE, folder / DATABASE)
        for name, path in _files(state, parts):
            (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # removed meanwhile
                shutil.copy2(path, folder / name)
        manifest.files, manifest.runs = _digests(folder), before.runs
        torn, torn_before = _find_torn(folder, manifest.files), torn
        with closing(sqlite3.connect(state / DATABASE)) as connection:
            now = _moment(connection)
        # Torn in the same way twice: it is so where it is, and is copied as it is.
        is_whole = not torn or torn == torn_before
        if is_whole and now.removed == before.removed and before.uploads <= now.uploads:
            manifest.bytes = sum((folder / name).stat().st_size for name in manifest.files)
            return manifest
    raise Busy("runs are deleted faster than they can be copied", str(state), "Try again when less is going on.")


@dataclass(frozen=True)
class _Moment:
    """Removals that a copy of the database records."""

    runs: int
    removed: int  # number of the last removal
    uploads: frozenset[tuple[str, str, str]]


def _moment(connection: sqlite3.Connection) -> _Moment:
    (runs,) = connection.execute("SELECT COUNT(*) FROM runs").fetchone()
    (removed,) = connection.execute("SELECT COALESCE(MAX(revision), 0) FROM removed").fetchone()
    return _Moment(runs, removed, frozenset(connection.execute("SELECT kind, id, owner FROM uploads")))


def copy_database(database: Path, copy: Path) -> _Moment:
    """Write one state of the database as one file, by SQLite's own means. Writers are not kept waiting.

    Raise ``Damaged``.
    """
    copy.touch(mode=0o600)
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as made:
        source.backup(made)
        if (result := made.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise Damaged(f"the database of runs is damaged: {result}", str(database), "Restore an earlier backup.")
        made.execute("PRAGMA journal_mode = DELETE")
        # Where the copy is used, the number may be another process's.
        made.execute("UPDATE runs SET pid = NULL")
        made.commit()
        return _moment(made)


def _files(folder: Path, parts: Collection[str]) -> Iterator[tuple[str, Path]]:
    """Yield names below a folder, and files. What begins with a dot is being written, or removed."""
    for part in parts:
        if (folder / part).is_file():
            yield part, folder / part
        for parent, folders, files in os.walk(folder / part):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in files:
                path = Path(parent, name)
                if not name.startswith(".") and not path.is_symlink():
                    yield path.relative_to(folder).as_posix(), path


def _digests(folder: Path) -> dict[str, str]:
    """Return the hash of each file of a backup."""
    digests = {}
    for name, path in _files(folder, [*PARTS, DATABASE]):
        with path.open("rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def _find_torn(folder: Path, digests: dict[str, str]) -> dict[str, str]:
    """Return the documents of studies, with their hashes, whose arrays are other ones."""
    torn: dict[str, str] = {}
    for name, digest in digests.items():
        study = PurePosixPath(name)
        arrays = digests.get((study.parent / ARRAYS).as_posix())
        if study.name == STUDY and study.parts[0] in ("studies", "uploads"):
            with suppress(ValueError):  # damaged before the copy
                if arrays and json.loads((folder / name).read_bytes()).get("checksum") not in (None, arrays):
                    torn[name] = f"{digest} {arrays}"
    return torn


def _unpack(source: Path, new: Path) -> Manifest:
    """Put the files of a backup, a folder or a tar file, into a new folder; return their list. Raise ``Refused``, and
    ``Damaged`` for the first file that differs from it."""
    where = str(source)
    with ExitStack() as stack:
        try:
            if source.is_dir():
                file = stack.enter_context((source / MANIFEST).open("rb"))
            else:
                archive = stack.enter_context(tarfile.open(source))
                file = stack.enter_context(archive.extractfile(MANIFEST))  # type: ignore[arg-type]  # else a TypeError
            manifest = Manifest(**json.load(file))
        except (OSError, tarfile.TarError, KeyError, ValueError, TypeError) as error:
            raise Refused(f"it is not a backup: {error}", where, "Give what python -m sarqc backup wrote.") from None
        if manifest.schema > len(MIGRATIONS):
            raise Refused(f"sarqc {manifest.version} made it, a newer version", where, "Update sarqc.")
        if source.is_dir():
            shutil.copytree(source, new)
        else:
            archive.extractall(new, filter="data")
    actual = {DATABASE: "", **_digests(new)}
    for name in actual.keys() | manifest.files.keys():
        if actual.get(name) != manifest.files.get(name):
            what = "was changed" if name in actual else "is missing"
            raise Damaged(f"the backup is damaged: {name} {what}", where, "Use another backup.")
    return manifest
