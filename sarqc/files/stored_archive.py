"""Files as a zip archive that is made while it is sent: nothing of it lies on a disk, however slow its reader is.

They are stored uncompressed: a third smaller, they would take ten times as long.
"""

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

_PART_BYTES = 1 << 18
_ENTRY_BYTES = 30 + 16 + 46  # bytes beside its content and two times its name: a header, sizes, a line of the directory
_END_BYTES = 22  # bytes of the end of the directory
_MODE = 0o644 << 16


class _Parts:
    """The bytes written since the last ``take``; it can't seek."""

    def __init__(self) -> None:
        self._parts = bytearray()

    def write(self, part: bytes) -> int:
        self._parts += part
        return len(part)

    def flush(self) -> None:
        """Do nothing: a zip file asks for it."""

    def take(self) -> bytes:
        taken, self._parts = bytes(self._parts), bytearray()
        return taken


def archive_size(files: Mapping[str, Path]) -> int | None:
    """Return the bytes of an archive of files, by their names in it; None for a large one, which has another form."""
    sizes = {name: path.stat().st_size for name, path in files.items()}
    size = _END_BYTES + sum(_ENTRY_BYTES + 2 * len(name.encode()) + length for name, length in sizes.items())
    return size if size < zipfile.ZIP64_LIMIT and len(files) < zipfile.ZIP_FILECOUNT_LIMIT else None


def archive_parts(files: Mapping[str, Path]) -> Iterator[bytes]:
    """Make the archive part by part."""
    parts = _Parts()
    with zipfile.ZipFile(parts, "w") as archive:  # type: ignore[call-overload]  # it writes and flushes, no more
        for name, path in files.items():
            entry = zipfile.ZipInfo(name)  # with the time of a zip's beginning
            entry.external_attr, entry.file_size = _MODE, path.stat().st_size
            with path.open("rb") as file, archive.open(entry, "w") as target:
                while part := file.read(_PART_BYTES):
                    target.write(part)
                    yield parts.take()
    yield parts.take()
