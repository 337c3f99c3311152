"""Files that are on the disk before they count: a loss of power leaves them whole, or not there."""

import os
from pathlib import Path


def settle(*paths: Path) -> None:
    """Return when the disk has these files, and the names in these folders."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
