"""Claims: which process does what, where several do the same work with one store between them.

A claim is a file that only one process can make. Its holder touches it, so that the claim of a process that is gone is
known by its age and can be taken over. Where two hold the same claim after all, both make the same bits: a claim saves
work, and nothing depends on it.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

TOUCHED_SECONDS = 5.0  # between two signs of life of a holder
STALE_SECONDS = 60.0  # after which a claim is nobody's
PAUSE_SECONDS = 0.2  # between two questions about what somebody else makes

Name = TypeVar("Name", bound=Hashable)


class Claims:
    """The claims of one process of ``crew`` in a folder. A crew of one claims nothing, and has everything."""

    def __init__(self, root: Path, crew: int) -> None:
        self._root, self.crew = root, crew

    @contextmanager
    def share(self, wanted: Mapping[Name, str]) -> Iterator[list[Name]]:
        """Names of a fair share of what nobody else has claimed, by their keys; claimed until the context ends."""
        if self.crew == 1:
            yield [*wanted]
            return
        held: dict[Name, Path] = {}
        free = {name: path for name, path in self._paths(wanted).items() if _is_free(path)}
        at_most = math.ceil(len(free) / self.crew)
        with _kept_alive(held):
            for name, path in free.items():
                if len(held) == at_most:
                    break
                if _made(path):
                    held[name] = path
            yield [*held]

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Waits until nobody else is within for this key."""
        while True:
            with self.share({key: key}) as mine:
                if mine:
                    yield
                    return
            time.sleep(PAUSE_SECONDS)

    def _paths(self, wanted: Mapping[Name, str]) -> dict[Name, Path]:
        return {name: self._root / key[:2] / f"{key}.claim" for name, key in wanted.items()}


def _is_free(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > STALE_SECONDS
    except FileNotFoundError:
        return True


def _made(path: Path) -> bool:
    """Whether this process has made the claim: of several that try, one does. A stale one goes first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and _is_free(path):
        path.unlink(missing_ok=True)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


@contextmanager
def _kept_alive(held: Mapping[Name, Path]) -> Iterator[None]:
    """Touches claims now and then within, and removes them in the end."""
    done = threading.Event()

    def touch() -> None:
        while not done.wait(TOUCHED_SECONDS):
            for path in [*held.values()]:
                with suppress(FileNotFoundError):
                    os.utime(path)

    thread = threading.Thread(target=touch, name="claims", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        for path in held.values():
            path.unlink(missing_ok=True)
