"""The place for files at an address: a folder, or object storage."""

from __future__ import annotations

from pathlib import Path

from sarqc.files.file_store import FileStore
from sarqc.files.folder import Folder
from sarqc.files.object_storage import ObjectStorage


def place_at(root: Path | str) -> FileStore:
    """The place at a folder or at an address of object storage, such as s3://bucket/prefix.

    Raises ``Refused`` for an address that can't be one, and where the library for it is missing.
    """
    if isinstance(root, str) and "://" in root:
        return ObjectStorage(root)
    return Folder(Path(root))
