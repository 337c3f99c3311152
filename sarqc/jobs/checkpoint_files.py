"""Files of an exported checkpoint: noted when it is written, compared before it is served."""

import json
from pathlib import Path

from sarqc.files.hashes import sha256_of

NOTED = "files.json"  # beside a checkpoint: the SHA-256 of each of its files, as it was when it was written


def note_files(folder: Path) -> None:
    """Write down what a checkpoint consists of, so that a file which changes later is noticed."""
    noted = {path.relative_to(folder).as_posix(): sha256_of(path) for path in files_of(folder)}
    (folder.parent / NOTED).write_text(json.dumps(noted), encoding="utf-8")


def damage(folder: Path) -> str | None:
    """Return a file of a checkpoint that was changed after it was written; None where there is none.

    Its files are read once as long as they are the same.
    """
    try:
        noted = json.loads((folder.parent / NOTED).read_text(encoding="utf-8"))
        present = {path.relative_to(folder).as_posix(): sha256_of(path) for path in files_of(folder)}
    except (OSError, ValueError):
        return "its list of files can't be read"
    changed = sorted(name for name in noted.keys() | present.keys() if noted.get(name) != present.get(name))
    return f"{changed[0]} is missing or was changed" if changed else None


def files_of(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file())
