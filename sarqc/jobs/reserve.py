"""A file that only takes room: what is freed of a full disk when something is to be deleted."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

RESERVE_BYTES = 8 << 20
LEAST_BYTES = 1 << 20  # less than that is not a reserve


class Reserve:
    """Room on the disk beside the database, kept for changes that free more."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mutex = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes that it has."""
        with suppress(OSError):
            return self.path.stat().st_size
        return 0

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Within, its room belongs to the writer; afterwards it is taken again where there is some."""
        with self._mutex:
            self.path.unlink(missing_ok=True)
            try:
                yield
            finally:
                self._make()

    def make(self) -> None:
        """Take the room that it lacks, or as much of it as there is."""
        if self.size < RESERVE_BYTES:
            with self._mutex:
                self._make()

    def _make(self) -> None:
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError:  # not even a name has room
            return
        try:
            size = RESERVE_BYTES
            while size >= LEAST_BYTES and not _allocated(descriptor, size):  # others would use what is left of it
                size //= 2
        finally:
            os.close(descriptor)


def _allocated(descriptor: int, size: int) -> bool:
    """Return whether a file has a size now; of a part that it got before it had to give up nothing is left."""
    before = os.fstat(descriptor).st_size
    if before >= size:
        return True
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        os.ftruncate(descriptor, before)
        return False
    return True
