"""Small studies of the former versions of the format, as they were written then, in one archive."""

import zipfile
from pathlib import Path

ARCHIVE = Path(__file__).parent / "assets" / "former_studies.zip"
VERSIONS = ("v1", "v2", "v3")


def former_files(version: str) -> dict[str, bytes]:
    """The files of the study of a version, by their paths in the archive, which begin with the version."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.startswith(f"{version}/")}


def former_study(version: str, into: Path) -> Path:
    """The folder of the study of a version, unpacked below ``into``."""
    for name, content in former_files(version).items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_bytes(content)
    return into / version
