"""Files that come from outside: the meaning of names, and bounded reading."""

import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from sarqc.errors import Refused

MOST_JSON = 16 << 20  # bytes; the longest file here, the index of a checkpoint of hundreds of files, takes 5 MB


def path_of(name: str) -> Path | None:
    """Return the path that a person named, with ``~`` expanded and links resolved; None if nothing has that name.

    A name that no file system takes, too long or of an unknown user, is the name of nothing.
    """
    try:
        return Path(name).expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None


def shortened(name: str) -> str:
    """Return a name as a sentence can quote it."""
    return name if len(name) <= 100 else f"{name[:99]}…"


def is_regular(path: Path) -> bool:
    """Return whether it is a file with an end: no folder, device, pipe or socket. Nothing is opened."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def inside(root: Path, path: Path) -> Path | None:
    """Return what a path in a folder leads to; None without it, where a link leads out of the folder, and for a name
    that is not UTF-8.
    """
    with suppress(OSError, RuntimeError, ValueError):
        str(path).encode()
        resolved = path.resolve(strict=True)
        return resolved if resolved.is_relative_to(root.resolve()) else None
    return None


def own_file(folder: Path, name: str) -> Path | None:
    """Return the regular file of a name in a folder; None without one, and where a link leads out of the folder."""
    path = inside(folder, folder / name)
    return path if path and is_regular(path) else None


def remove(path: Path) -> None:
    """Remove a file, a folder with all that is in it, or of a link the link alone; without any of these do nothing."""
    with suppress(FileNotFoundError):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def file_identity(path: Path) -> tuple[str, int, int, int, int]:
    """Return a key that changes with a file, without reading it."""
    state = path.stat()
    return str(path), state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns


def read_object(path: Path, where: str, *, remedy: str) -> dict[str, Any]:
    """Return the JSON object in a file; raise ``Refused`` for anything else, at ``where`` as people know the place."""
    if not is_regular(path):
        raise Refused(f"{path.name} is not a regular file", where, remedy)
    try:
        if path.stat().st_size > MOST_JSON:
            raise Refused(f"{path.name} has more than {MOST_JSON >> 20} MiB", where, remedy)
        document = from_json(path.read_bytes())
    except OSError as error:
        raise Refused(f"{path.name} can't be read: {error.strerror}", where, remedy) from None
    except ValueError as error:
        raise Refused(f"{path.name} is damaged: {error}", where, remedy) from None
    if not isinstance(document, dict):
        raise Refused(f"{path.name} is not a JSON object", where, remedy)
    return document
