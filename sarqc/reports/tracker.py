"""What a tracker of experiments is asked for: one run, from its beginning to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

State = Literal["finished", "failed", "killed"]


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracker hears of it at its beginning."""

    project: str  # what the runs of a batch or survey have in common: MLflow's experiment, trackio's project
    name: str
    parameters: Mapping[str, Any]  # plain data; None: not given
    tags: Mapping[str, str]


class Tracker(Protocol):
    """One run at a tracker. Calls come one after the other, from one thread. Each may take long, and raises whatever
    the tracker's library raises.
    """

    def begin(self, run: TrackedRun) -> None:
        """Makes the run known. The first call, once."""

    def tags(self, tags: Mapping[str, str]) -> None:
        """Adds tags, or replaces those of the same names."""

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """Adds metrics at a step."""

    def keep(self, paths: Sequence[Path], name: str) -> None:
        """Keeps copies of files with the run, together under a name."""

    def end(self, state: State) -> None:
        """Ends the run. The last call, once."""

    def where(self) -> str:
        """Where people find the run."""
