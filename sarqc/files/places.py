"""Places for files that several processes, perhaps of several hosts, read and write: a folder, or object storage."""

import os
import pkgutil
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sarqc.files.modes import open_for_owner

# A folder for addresses, of an extra: by its name, which every process can resolve.
OBJECT_STORAGE = "sarqc.extras.storage.object_storage:ObjectStorage"
MARK = ".sarqc-storage"  # the file by which a place is known again


class StoredFile(NamedTuple):
    """A file of a place. ``changed``: seconds since 1970."""

    name: str
    size: int
    changed: float


class Folder:
    """Files below a folder by name, such as ``ab/abcd.layer``, readable for their owner alone.

    Each appears whole or not at all, and one that is there is replaced. Errors are those of the system.
    """

    pause_seconds = 0.2  # between two looks for another's file

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, and remember that it was used now; None without one."""
        path = self._root / name
        try:
            content = path.read_bytes()
            os.utime(path)
        except FileNotFoundError:
            return None
        return content

    def write(self, name: str, *parts: bytes) -> None:
        """Write a file of these parts, one after the other.

        It does not wait for the disk, which takes longer than a GPU for a layer: a loss of power may cut the file off.
        """
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Named before it is made, so that an interrupt at any moment leaves no file of unknown name.
        partial = path.with_name(f".partial-{secrets.token_hex(8)}")
        try:
            with open(partial, "xb", opener=open_for_owner) as file:
                for part in parts:
                    file.write(part)
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise

    def make(self, name: str, content: bytes = b"") -> bool:
        """Make a file; return True if this call made it, of several at once."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(path, "xb", opener=open_for_owner) as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    def touch(self, name: str) -> bool:
        """Return True if there is a file, of which nothing is read, and remember that it was used now."""
        try:
            os.utime(self._root / name)
        except FileNotFoundError:
            return False
        return True

    def renew(self, name: str) -> None:
        """Make the time of an empty file now."""
        self.touch(name)

    def changed(self, name: str) -> float | None:
        """Return when a file was last changed, in seconds since 1970; None without one."""
        try:
            return (self._root / name).stat().st_mtime
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        """Remove a file; harmless without one."""
        (self._root / name).unlink(missing_ok=True)

    def entries(self) -> Iterator[StoredFile]:
        """Yield all files."""
        for path in self._root.glob("*/*"):
            with suppress(FileNotFoundError):  # removed meanwhile
                if path.is_file():
                    stat = path.stat()
                    yield StoredFile(path.relative_to(self._root).as_posix(), stat.st_size, stat.st_mtime)

    def remove_partial(self, older_than: float) -> int:
        """Remove files whose process was killed while it wrote them, that many seconds ago; return their number."""
        removed = 0
        for file in self._root.glob("*/.partial-*"):
            with suppress(FileNotFoundError):  # finished meanwhile
                if time.time() - file.stat().st_mtime > older_than:
                    file.unlink()
                    removed += 1
        return removed

    def mark(self) -> str:
        """Return the content of the mark of the place, which is made if there is none.

        Raises:
            SarqcError: If files can't be written and read here.
        """
        self.make(MARK, secrets.token_hex(16).encode())
        return (self._root / MARK).read_text(encoding="utf-8")


def place_at(root: Path | str) -> Folder:
    """Return the place at a folder or at an address of object storage, such as s3://bucket/prefix.

    Raises:
        Refused: For an address that can't be one, or if the library for it is missing.
    """
    if isinstance(root, str) and "://" in root:
        place: Folder = pkgutil.resolve_name(OBJECT_STORAGE)(root)
        return place
    return Folder(Path(root))
