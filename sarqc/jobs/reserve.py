"""A file that only takes room: what is freed of a full disk when something is to be deleted."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

RESERVE_BYTES = 8 << 20


class Reserve:
    """Room on the disk beside the database, kept for changes that free more."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mutex = threading.Lock()

    def is_whole(self) -> bool:
        with suppress(OSError):
            return self.path.stat().st_size >= RESERVE_BYTES
        return False

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Within, its room belongs to whoever writes; afterwards it is taken again where there is some."""
        with self._mutex:
            self.path.unlink(missing_ok=True)
            try:
                yield
            finally:
                self._make()

    def make(self) -> None:
        """Takes the room, unless it has it or the disk has none."""
        if not self.is_whole():
            with self._mutex:
                self._make()

    def _make(self) -> None:
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
            finally:
                os.close(descriptor)
        except OSError:  # still full: what is left of it is better used by others
            with suppress(OSError):
                self.path.unlink()
