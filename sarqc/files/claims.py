"""Claims: a division of the same work among several processes with one store.

A claim is a file that only one process can make. Its holder renews it, so that the claim of a dead process is
recognised by its age and can be taken over. Where two hold the same claim after all, both make the same bits: a claim
saves work, and nothing depends on it.
"""

import math
import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from sarqc.errors import Unreachable
from sarqc.files.places import Folder

RENEWED_SECONDS = 5.0  # between two signs of life of a holder
STALE_SECONDS = 60.0  # after which a claim is free

Name = TypeVar("Name", bound=Hashable)


class Claims:
    """The claims of one process of ``crew`` in a place. A crew of one has everything without claims."""

    def __init__(self, place: Folder, crew: int) -> None:
        self._place, self.crew = place, crew

    @contextmanager
    def share(self, keys: Mapping[Name, str]) -> Iterator[list[Name]]:
        """Claim a fair share of the names that nobody else has claimed, by their keys, until the context ends."""
        if self.crew == 1:
            yield [*keys]
            return
        held: dict[Name, str] = {}
        claims = {name: f"{key[:2]}/{key}.claim" for name, key in keys.items()}
        free = {name: claim for name, claim in claims.items() if self._is_free(claim)}
        at_most = math.ceil(len(free) / self.crew)
        with self._renewing(held):
            for name, claim in free.items():
                if len(held) == at_most:
                    break
                if self._make(claim):
                    held[name] = claim
            yield [*held]

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Wait until no other process is within for this key."""
        while True:
            with self.share({key: key}) as mine:
                if mine:
                    yield
                    return
            self.wait()

    def wait(self) -> None:
        """Wait for a while before asking again for another's result."""
        time.sleep(self._place.pause_seconds)

    def _is_free(self, claim: str) -> bool:
        changed = self._place.changed(claim)
        return changed is None or time.time() - changed > STALE_SECONDS

    def _make(self, claim: str) -> bool:
        """Return whether this process has made the claim: of several that try, one does. A stale one goes first."""
        if self._place.changed(claim) is not None and self._is_free(claim):
            self._place.remove(claim)
        return self._place.make(claim)

    @contextmanager
    def _renewing(self, held: Mapping[Name, str]) -> Iterator[None]:
        """Renew claims now and then within, and remove them in the end."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(RENEWED_SECONDS):
                for claim in [*held.values()]:
                    with suppress(Unreachable):  # perhaps the next time
                        self._place.renew(claim)

        thread = threading.Thread(target=renew, name="claims", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            for claim in held.values():
                self._place.remove(claim)
