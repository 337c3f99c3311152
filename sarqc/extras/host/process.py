"""Limits of the serving process: many connections, a log that does not flood."""

import logging
import resource
import time
from collections.abc import Callable

OPEN_FILES = 65_536  # more are never needed, and some hosts allow billions
MINUTE = 60.0
KINDS = 200  # of messages that are counted


def raise_file_limit() -> int:
    """Make the soft limit of open files the hard one; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        return limit
    return OPEN_FILES if soft == resource.RLIM_INFINITY else soft


class OnceAMinute(logging.Filter):
    """Lets a message of warning or worse through once a minute; the next one counts those in between."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._passed: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        error = record.exc_info[1] if record.exc_info else None
        kind = (str(record.msg).partition("\n")[0], str(error))
        now = self._clock()
        at, skipped = self._passed.get(kind, (-MINUTE, 0))
        if now - at < MINUTE:
            self._passed[kind] = (at, skipped + 1)
            return False
        if len(self._passed) >= KINDS:
            self._passed.clear()
        self._passed[kind] = (now, 0)
        if skipped:
            record.msg = f"{record.msg} ({skipped} more like it since the last)"
        return True
