"""The SQLite file behind the store: opened by one process, written by one connection and read by another.

Readers see the last committed state and wait for nobody; a writer waits its turn for a moment and is then refused.
What SQLite has to say about a full disk, a lock or a damaged page is said in words.
"""

import fcntl
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sarqc.errors import Busy, Damaged, NoRoom, Refused, SarqcError, Unwritable, disk_fails, disk_full
from sarqc.files.room import free_bytes
from sarqc.jobs.reserve import Reserve
from sarqc.jobs.schema import migrate

BUSY_SECONDS = 2.0  # for each of two waits: for other threads, and for other processes
CHECKED_BYTES = 512 << 20  # a larger file is not checked at the start: that would take longer than anybody waits
_SETTLED, _UNSETTLED = "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"
PAGE_BYTES = 65_536  # less room than that is none

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class Database:
    """Opening it takes a lock on the file beside it, which a killed process leaves free.

    Raises ``Refused`` when another process has it open, when it can't be read or written, and when it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reserve = Reserve(path.with_name("reserve"))
        self._write_mutex, self._read_mutex = threading.RLock(), threading.RLock()
        self._writing: int | None = None  # the thread whose transaction is open
        self._lock: int | None = take_lock(path)
        try:
            try:
                self._open()
            except NoRoom:  # opening makes two small files
                with self.reserve.spent():
                    self._open()
            self._check()
        except (sqlite3.Error, Refused, Damaged) as error:
            os.close(self._lock)
            if isinstance(error, Refused) and not isinstance(error, Unwritable):
                raise error.at(str(path)) from None
            raise _unusable(path, error) from None
        self.reserve.make()

    def _open(self) -> None:
        with self._in_words():
            self._writer, self._reader = self._connect(), self._connect()
            migrate(self._writer)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        for setting in ("PRAGMA journal_mode = WAL", _UNSETTLED, "PRAGMA foreign_keys = ON"):
            connection.execute(setting)
        return connection

    def _check(self) -> None:
        size = self.path.stat().st_size
        if size > CHECKED_BYTES:
            log.info("the database of runs has %d MiB and was not checked for damage", size >> 20)
            return
        with self._in_words():
            finding = self._reader.execute("PRAGMA quick_check(1)").fetchone()[0]
        if finding != "ok":
            raise damaged(finding)

    def close(self) -> None:
        """Close the connections and free the lock; harmless when done twice."""
        with self._write_mutex, self._read_mutex:
            self._reader.close()
            self._writer.close()
            if self._lock is not None:
                os.close(self._lock)
            self._lock = None

    @contextmanager
    def transaction(self, *, settled: bool = True) -> Iterator[sqlite3.Connection]:
        """Make all changes within together or not at all; one within another is part of it.

        ``settled``: they are on the disk at the end. Without that a loss of power may take them back, with what was
        changed since, until others are settled. Raises ``Busy`` when somebody else writes for long, ``NoRoom`` on a
        full disk, ``Unwritable``, ``Damaged``.
        """
        if self.is_writing:
            yield self._writer
            return
        if not self._write_mutex.acquire(timeout=BUSY_SECONDS):
            raise _busy()
        try:
            with self._in_words():
                self._writer.execute(_SETTLED if settled else _UNSETTLED)
                self._writer.execute("BEGIN IMMEDIATE")
                self._writing = threading.get_ident()
                try:
                    yield self._writer
                    self._writer.execute("COMMIT")
                except BaseException:
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                    raise
                finally:
                    self._writing = None
        finally:
            self._write_mutex.release()

    @property
    def is_writing(self) -> bool:
        """True while this thread is within a transaction, in which ``snapshot`` has what is not committed."""
        return self._writing == threading.get_ident()

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Give one state of the database for all questions asked within; inside a transaction, its own."""
        if self.is_writing:
            yield self._writer
            return
        with self._read_mutex, self._in_words():
            if self._reader.in_transaction:
                yield self._reader
                return
            self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                if self._reader.in_transaction:
                    self._reader.execute("ROLLBACK")

    def even_when_full(
        self, change: Callable[[sqlite3.Connection], Result], before: Callable[[], None] = lambda: None
    ) -> Result:
        """Return what a change returns that frees room, made in one transaction: on a full disk it gets the reserve's.

        ``before`` is what has to be done then, so that the reserve is enough.
        """
        try:
            with self.transaction() as connection:
                return change(connection)
        except NoRoom:
            if self.is_writing:  # a part of something larger, which is what needs room
                raise
        with self.reserve.spent():
            before()
            with self.transaction() as connection:
                result = change(connection)
            self.checkpoint()
            return result

    def checkpoint(self) -> None:
        """Give back to the disk what changes took beside the database."""
        with self._write_mutex, self._in_words():
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF  # the rest is detail
            fails = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            if code == sqlite3.SQLITE_FULL or (fails and free_bytes(self.path.parent) < PAGE_BYTES):
                raise disk_full() from error
            if fails:
                raise disk_fails(error) from error
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise _busy() from error
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise damaged(str(error)) from error
            raise


def take_lock(path: Path) -> int:
    """Return a file descriptor that keeps everybody else from a database until it is closed. Raises ``Refused`` where
    another process has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(path, error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise Refused(
            "another sarqc app has this database open",
            str(path),
            "Stop that one, or give this one another SARQC_STATE_DIR.",
        ) from None
    return lock


def damaged(how: str) -> Damaged:
    """Return the error of a damaged database."""
    return Damaged(
        f"the database of runs is damaged: {how}",
        "runs.sqlite3",
        "Stop the app and put a copy of the file from before in its place; “sqlite3 runs.sqlite3 .recover” saves what "
        "can still be read. Studies and finished layers are separate files and stay.",
    )


def _busy() -> Busy:
    return Busy("the database of runs is locked by somebody else", "runs.sqlite3", "Try again in a moment.")


def _unusable(path: Path, error: Exception) -> Refused:
    if isinstance(error, Damaged):
        return Refused(error.what, str(path), error.remedy)
    return Refused(
        f"the database of runs can't be opened: {error.what if isinstance(error, SarqcError) else error}",
        str(path),
        "Give SARQC_STATE_DIR a folder that can be written.",
    )
