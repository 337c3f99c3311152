"""A place for files that is a folder."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sarqc.files.file_store import MARK, StoredFile
from sarqc.files.modes import for_the_owner


class Folder:
    """Files below a folder, readable for their owner alone."""

    pause_seconds = 0.2

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, name: str) -> bytes | None:
        path = self._root / name
        try:
            content = path.read_bytes()
            os.utime(path)
        except FileNotFoundError:
            return None
        return content

    def write(self, name: str, *parts: bytes) -> None:
        """Nothing waits for the disk, which takes longer than a GPU for a layer. After a loss of power a file may lack
        its end."""
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Named before it is made, so that an interrupt at any moment leaves nothing whose name is not known.
        partial = path.with_name(f".partial-{secrets.token_hex(8)}")
        try:
            with open(partial, "xb", opener=for_the_owner) as file:
                for part in parts:
                    file.write(part)
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise

    def make(self, name: str, content: bytes = b"") -> bool:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(path, "xb", opener=for_the_owner) as file:
                file.write(content)
        except FileExistsError:
            return False
        return True

    def touch(self, name: str) -> bool:
        try:
            os.utime(self._root / name)
        except FileNotFoundError:
            return False
        return True

    def renew(self, name: str) -> None:
        self.touch(name)

    def changed(self, name: str) -> float | None:
        try:
            return (self._root / name).stat().st_mtime
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def entries(self) -> Iterator[StoredFile]:
        for path in self._root.glob("*/*"):
            with suppress(FileNotFoundError):  # removed meanwhile
                if path.is_file():
                    stat = path.stat()
                    yield StoredFile(path.relative_to(self._root).as_posix(), stat.st_size, stat.st_mtime)

    def remove_partial(self, older_than: float) -> int:
        removed = 0
        for file in self._root.glob("*/.partial-*"):
            with suppress(FileNotFoundError):  # finished meanwhile
                if time.time() - file.stat().st_mtime > older_than:
                    file.unlink()
                    removed += 1
        return removed

    def mark(self) -> str:
        self.make(MARK, secrets.token_hex(16).encode())
        return (self._root / MARK).read_text(encoding="utf-8")
