"""Backup of a host's state while its app runs, and its restoration.

First the database, then the files: a file is whole on disk before the database names it, so whatever the copied
database names can be copied. In the other order it would name files added in between. Files removed in between would be
named and missing, so the copy is then brought up to date until nothing was removed meanwhile.

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
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import sarqc
from sarqc.errors import Busy, Damaged, NoRoom, Refused
from sarqc.extras.host.beside import existing_database
from sarqc.files.modes import open_for_owner
from sarqc.files.room import free_bytes
from sarqc.jobs.audit import HOST, AuditEntry
from sarqc.jobs.database import take_lock
from sarqc.jobs.run import iso_time
from sarqc.jobs.schema import MIGRATIONS
from sarqc.plain import gib
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
CHUNK_BYTES = 1 << 20
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
    """Copy the state to ``target``: a new folder, or a file whose name ends with .tar; it appears whole or not at
    all. Everything is read again and compared before that.

    ``without``: parts to leave out, of ``MAY_BE_MISSING``. Raise ``Refused`` for a target that is there, ``NotFound``
    without a database, ``NoRoom``, ``Busy`` where things are removed faster than they can be copied, ``Damaged``.
    """
    state, where = settings.resolved_state_dir(), str(target)
    if wrong := sorted(set(without) - set(MAY_BE_MISSING)):
        raise Refused(f"{wrong[0]} can't be left out", "backup", f"These can: {', '.join(MAY_BE_MISSING)}.")
    if target.exists():
        raise Refused("the path already exists", where, "Give a new name, such as one with the date.")
    existing_database(settings)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        partial.mkdir(mode=0o700)
        manifest = _gather(state, partial, [part for part in PARTS if part not in without])
        manifest.without = sorted(without)
        (partial / MANIFEST).write_text(json.dumps(vars(manifest), indent=1), encoding="utf-8")
        with _open_backup(partial) as read:
            _compare(read, manifest, where)
        if target.suffix == ".tar":
            _pack(partial, target)
        else:
            partial.rename(target)
        return manifest
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def restore(settings: Settings, source: Path, *, replace: bool = False) -> tuple[Manifest, Path | None]:
    """Put a backup into the state folder; every byte is compared before anything there is touched.

    With ``replace`` what is there is moved aside, into a folder of the state folder that is returned. Raise
    ``Refused`` for a running app, a state folder that is not empty, and a backup that a newer sarqc made; ``Damaged``.
    """
    state, where = settings.resolved_state_dir(), str(source)
    with _open_backup(source) as read, ExitStack() as stack:
        stack.callback(os.close, take_lock(state / DATABASE))  # no app opens the state meanwhile
        manifest = _manifest(read, where)
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
        try:
            _compare(read, manifest, where, new)
            _note_restore(new / DATABASE, source)
            aside = None
            if there:
                aside = state / f"replaced-{time.strftime('%Y%m%d-%H%M%S')}"
                aside.mkdir(mode=0o700)
                for name in there:
                    (state / name).rename(aside / name)
            for name in [*PARTS, DATABASE]:  # the database last: it names the files
                if (new / name).exists():
                    (new / name).rename(state / name)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return manifest, aside


# Copying.

_Copied = tuple[tuple[int, int], str]  # of a file: its time and size, and the hash of what was copied


def _gather(state: Path, folder: Path, parts: Collection[str]) -> Manifest:
    """Copy database and files, until a copy of the files is one of all that the copied database names."""
    hashes: dict[str, _Copied] = {}
    torn: dict[str, str] = {}
    for _ in range(PASSES):
        manifest = Manifest(created=iso_time(time.time()))
        before = copy_database(state / DATABASE, folder / DATABASE)
        copied = {}
        for name, path in _files(state, parts):
            with suppress(FileNotFoundError):  # removed meanwhile
                stat = path.stat()
                stamp = (stat.st_mtime_ns, stat.st_size)
                known = hashes.get(name)
                if known is None or known[0] != stamp:
                    known = stamp, _copy(path.open("rb"), folder / name, stat.st_mtime_ns)
                copied[name] = known
        for name in hashes.keys() - copied.keys():
            (folder / name).unlink(missing_ok=True)
        torn, torn_before = _find_torn(folder, copied), torn
        hashes = {name: known for name, known in copied.items() if name not in torn}
        # Torn in the same way twice: it is so where it is, and is copied as it is.
        with closing(sqlite3.connect(state / DATABASE)) as connection:
            now = _moment(connection)
        if (torn and torn != torn_before) or now.removed > before.removed or not before.uploads <= now.uploads:
            continue
        manifest.runs = before.runs
        manifest.files = {name: digest for name, (_, digest) in sorted(copied.items())}
        manifest.files[DATABASE] = _digest((folder / DATABASE).open("rb"))
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
    copy.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as made:
        source.backup(made)
        if (result := made.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise Damaged(f"the database of runs is damaged: {result}", str(database), "Restore an earlier backup.")
        made.execute("PRAGMA journal_mode = DELETE")
        # Where the copy is used, the number may be another process's.
        made.execute("UPDATE runs SET pid = NULL")
        made.commit()
        return _moment(made)


def _files(state: Path, parts: Collection[str]) -> Iterator[tuple[str, Path]]:
    """Yield names below the state folder, and files. What begins with a dot is being written, or removed."""
    for part in parts:
        if (state / part).is_file():
            yield part, state / part
        for folder, folders, files in os.walk(state / part):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in files:
                path = Path(folder, name)
                if not name.startswith(".") and not path.is_symlink():
                    yield path.relative_to(state).as_posix(), path


def _copy(file: IO[bytes], target: Path, modified: int) -> str:
    """Copy a file with its time (ns), for this user alone; return the hash of the copy."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(file), _open_new(target) as copy:
        shutil.copyfileobj(file, copy, CHUNK_BYTES)
    os.utime(target, ns=(modified, modified))
    return _digest(target.open("rb"))


@contextmanager
def _open_new(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file for this user alone. Raise ``NoRoom`` on a full disk."""
    try:
        with open(path, "wb", opener=open_for_owner) as file:
            yield file
    except OSError as error:
        if (free := free_bytes(path.parent)) > CHUNK_BYTES:
            raise
        raise NoRoom(f"the disk is full: {gib(free)} are free", str(path.parent), "Use another disk.") from error


def _digest(file: IO[bytes]) -> str:
    with closing(file):
        return hashlib.file_digest(cast(Any, file), "sha256").hexdigest()


def _find_torn(folder: Path, copied: dict[str, _Copied]) -> dict[str, str]:
    """Return both files, with their hashes, of studies whose arrays are not those of their document."""
    torn: dict[str, str] = {}
    for name in copied:
        study = PurePosixPath(name)
        arrays = (study.parent / ARRAYS).as_posix()
        if study.name != STUDY or study.parts[0] not in ("studies", "uploads"):
            continue
        try:
            checksum = json.loads((folder / name).read_bytes()).get("checksum")
        except ValueError:  # damaged before the copy
            continue
        if checksum and arrays in copied and copied[arrays][1] != checksum:
            torn |= {name: copied[name][1], arrays: copied[arrays][1]}
    return torn


# Reading a backup.


_Read = Callable[[str], tuple[IO[bytes], int]]  # from a name in a backup to the file and its time in ns since 1970


@contextmanager
def _open_backup(source: Path) -> Iterator[_Read]:
    """Open a backup, a folder or a tar file. The function raises ``KeyError`` or ``FileNotFoundError``."""
    if source.is_dir():
        yield lambda name: ((source / name).open("rb"), (source / name).stat().st_mtime_ns)
        return
    try:
        archive = tarfile.open(source)  # noqa: SIM115  # what fails inside does not concern opening
    except (OSError, tarfile.TarError) as error:
        raise Refused(f"it can't be read: {error}", str(source), "Give what python -m sarqc backup wrote.") from None

    def read(name: str) -> tuple[IO[bytes], int]:
        if (file := archive.extractfile(name)) is None:
            raise KeyError(name)
        return file, int(archive.getmember(name).mtime * 1e9)

    with archive:
        yield read


def _manifest(read: _Read, where: str) -> Manifest:
    """Return a backup's list of its files. Raise ``Refused``."""
    try:
        with closing(read(MANIFEST)[0]) as file:
            manifest = Manifest(**json.load(file))
        are_names = all(_is_name(name) for name in manifest.files)
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise Refused(f"it is not a backup: {error}", where, "Give what python -m sarqc backup wrote.") from None
    if not are_names or DATABASE not in manifest.files:
        raise Refused("it is not a backup: its list of files is wrong", where, "Give another one.")
    if manifest.schema > len(MIGRATIONS):
        raise Refused(f"sarqc {manifest.version} made it, a newer version", where, "Update sarqc.")
    return manifest


def _is_name(name: str) -> bool:
    """Return whether a name stays within one of the parts."""
    path = PurePosixPath(name)
    return name == DATABASE or (path.parts[0] in PARTS and ".." not in path.parts and path.as_posix() == name)


def _compare(read: _Read, manifest: Manifest, where: str, copy_to: Path | None = None) -> None:
    """Compare every file with its hash, and copy it on the way. Raise ``Damaged`` for the first that differs."""
    for name, digest in manifest.files.items():
        try:
            file, modified = read(name)
            actual = _digest(file) if copy_to is None else _copy(file, copy_to / name, modified)
        except (FileNotFoundError, KeyError, tarfile.TarError):
            actual = ""
        if actual != digest:
            what = "was changed" if actual else "is missing"
            raise Damaged(f"the backup is damaged: {name} {what}", where, "Use another backup.")


def _pack(folder: Path, target: Path) -> None:
    """Write a backup as one tar file, which is read and compared too; its list comes first."""
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tar")
    try:
        with _open_new(partial) as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            archive.add(folder / MANIFEST, MANIFEST)
            for name in json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]:
                archive.add(folder / name, name)
        with _open_backup(partial) as read:
            _compare(read, _manifest(read, str(target)), str(target))
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _note_restore(database: Path, source: Path) -> None:
    """Add an entry to the audit log, in a database that has one."""
    with closing(sqlite3.connect(database)) as connection, connection, suppress(sqlite3.OperationalError):
        AuditEntry(time.time(), HOST, "restore", "state", source.name, "", "").write(connection)
