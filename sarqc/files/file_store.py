"""What a place for files is that several processes, perhaps of several hosts, read and write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

MARK = ".sarqc-storage"  # the file by which a place is known again


class StoredFile(NamedTuple):
    """A file of a place. ``changed``: seconds since 1970."""

    name: str
    size: int
    changed: float


class FileStore(Protocol):
    """Files by name, such as ``ab/abcd.layer``. Each appears whole or not at all, and one that is there is replaced.

    Errors are those of the system, of object storage ``Unreachable``.
    """

    pause_seconds: float  # between two questions about what somebody else makes

    def read(self, name: str) -> bytes | None:
        """What is in a file; None where there is none. A folder remembers that it was used now."""

    def write(self, name: str, *parts: bytes) -> None:
        """A file of these parts, one after the other."""

    def make(self, name: str, content: bytes = b"") -> bool:
        """A file that only one of several makes that try at once: whether it was this one."""

    def touch(self, name: str) -> bool:
        """Whether there is a file, of which nothing is read. A folder remembers that it was used now."""

    def renew(self, name: str) -> None:
        """Makes the time of an empty file now."""

    def changed(self, name: str) -> float | None:
        """When a file was last changed, in seconds since 1970; None where there is none."""

    def remove(self, name: str) -> None:
        """Harmless where there is none."""

    def entries(self) -> Iterator[StoredFile]:
        """All files of the place."""

    def remove_partial(self, older_than: float) -> int:
        """Removes what was being written that many seconds ago when its process was killed; returns the number."""

    def mark(self) -> str:
        """What the mark of the place says, which is made where there is none. Raises ``Refused`` where files can't be
        written and read here."""
