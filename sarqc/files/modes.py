"""Permissions of written files: readable for everyone whom the process allows, by its umask."""

import os


def usual_mode(mode: int) -> int:
    """Return the mode without what the umask takes away, for files that were made with another one."""
    umask = os.umask(0o077)  # it can only be read by setting it: strictly, for other threads
    os.umask(umask)
    return mode & ~umask


def open_for_owner(path: str, flags: int) -> int:
    """Open a file that only its owner may read, as an ``opener`` of ``open``."""
    return os.open(path, flags, 0o600)
