"""Free room on a disk, and waiting for more."""

import shutil
import time
from pathlib import Path

from sarqc.errors import NoRoom, disk_full, is_disk_full

FULL_BYTES = 1 << 20  # a disk with less room than that is full
MORE_BYTES = 4 << 20  # more room before a run that met a full disk goes on
ROOM_SECONDS = 1.0  # between two looks for room
WAITS = "The run waits for room on the disk, which is full."


def free_bytes(folder: Path) -> int:
    """Return the bytes that are free on the disk with a folder, or where one will be made."""
    return shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free


def check_room(folder: Path, size: int) -> None:
    """Raise ``NoRoom`` where the disk with a folder has no room for so many bytes."""
    if free_bytes(folder) < size + FULL_BYTES:
        raise disk_full()


def met_full_disk(error: BaseException) -> bool:
    """Return whether an error is due to a full disk."""
    return isinstance(error, NoRoom) or is_disk_full(error)


def wait_for_more(folder: Path, free: int) -> None:
    """Wait until the disk with a folder has more room than before, by enough to try again.

    ``free``: bytes that were free when the work failed, not later: room that is made meanwhile counts.
    """
    enough = free + MORE_BYTES
    while free_bytes(folder) < enough:
        time.sleep(ROOM_SECONDS)
