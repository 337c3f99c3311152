"""SHA-256 of files, each read once as long as its size and the time of its last change are the same."""

import errno
import hashlib
import stat
from pathlib import Path

from sarqc.files.once import once


def sha256_of(path: Path) -> str:
    """Return the hash of a file's bytes as 64 hex digits. Raises ``OSError``."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return _sha256(path, status.st_mtime_ns, status.st_size)


@once(4096)
def _sha256(path: Path, modified: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
