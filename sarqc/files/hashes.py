"""SHA-256 of files, each read once as long as its size and the time of its last change are the same."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path


def sha256_of(path: Path) -> str:
    """The hash of a file's bytes as 64 hex digits. Raises ``OSError``."""
    stat = path.stat()
    return _sha256(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4096)
def _sha256(path: Path, modified: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
