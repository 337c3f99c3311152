"""Small studies of the former versions of the format, as they were written then: one archive for each."""

from __future__ import annotations

import zipfile
from pathlib import Path

ARCHIVES = Path(__file__).parent / "assets"
VERSIONS = ("v1", "v2", "v3")


def former_study(version: str, into: Path) -> Path:
    """The folder of the study of a version, unpacked below ``into``."""
    with zipfile.ZipFile(ARCHIVES / f"{version}.zip") as archive:
        archive.extractall(into)
    return into / version
