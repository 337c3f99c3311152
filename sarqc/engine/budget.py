"""The time of a run that compares models, spent and left, by the wall clock."""

import math
from collections.abc import Callable, Generator
from time import monotonic

from sarqc.engine.progress import Returning, T
from sarqc.events import Event


class TimeUp(Exception):
    """The budget is spent; unfinished work is given up."""


class Budget:
    """``seconds`` of work, None for as much as it takes; a run of its own counts from ``started`` on the wall clock.

    Several processes that do one run's work must come to the same decisions. Their budget counts the work itself, as
    stored with its results, divided among them: see ``count``.
    """

    def __init__(self, seconds: float | None, crew: int = 1, started: float | None = None) -> None:
        self.seconds, self._crew = seconds, crew
        self._started = monotonic() if started is None else started
        self._work = 0.0

    @property
    def is_shared(self) -> bool:
        return self._crew > 1

    def spent(self) -> float:
        return self.share(self._work) if self.is_shared else monotonic() - self._started

    def left(self) -> float:
        """Return the seconds that are left; infinite without a budget."""
        return math.inf if self.seconds is None else self.seconds - self.spent()

    def count(self, work: float) -> None:
        """Add seconds of work, which only the budget of several processes counts."""
        self._work += work

    def share(self, work: float) -> float:
        """Return the part of the budget that seconds of work take: of several processes each does its share."""
        return work / self._crew

    def check(self) -> None:
        """Raise ``TimeUp`` if the budget of a single process is spent."""
        if not self.is_shared and self.left() <= 0:
            raise TimeUp

    def within(self, work: Generator[Event, None, T]) -> Generator[Event, None, T]:
        """Do the work, and raise ``TimeUp`` at its next event after the budget is spent."""
        for event in (events := Returning(work)):
            yield event
            self.check()
        return events.value

    @staticmethod
    def timed(work: Callable[[], object]) -> float:
        """Return the seconds that the work takes."""
        began = monotonic()
        work()
        return monotonic() - began
