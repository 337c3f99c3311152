"""Return of freed memory to the system."""

import ctypes
import functools
from collections.abc import Callable


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
