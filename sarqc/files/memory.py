"""Free memory of the host, and return of freed memory to it."""

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Return the free memory of this machine, or of the container that it is, in bytes."""
    free = psutil.virtual_memory().available
    try:
        limit, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        cached = next(
            int(line.split()[1])
            for line in (_CGROUP / "memory.stat").read_text().splitlines()
            if line.startswith("inactive_file ")
        )
        return free if limit == "max" else min(free, int(limit) - int(used) + cached)
    except (OSError, ValueError, StopIteration):
        return free


def release_freed() -> None:
    """Return freed memory that the C library still holds to the system.

    glibc keeps freed tensors of up to 32 MiB for the next ones, and small tensors that stay in between pin the rest: a
    process grows block by block. This function does nothing if the C library has no such call.
    """
    if (trim := _malloc_trim()) is not None:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], object] | None:
    trim: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
