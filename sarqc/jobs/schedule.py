"""Who is next: a pure function from waiting runs and free devices to starts.

One run at a time per device. Within an owner and a lane, first come, first served. Between owners, turns: next is the
owner whose claim is oldest, and a claim is as old as the owner's last use of a device or as its oldest waiting run,
whichever is later. So an owner with a hundred runs does not keep out one with a single run, and once an owner has
given its device back, nobody who comes later goes before it. A preview (seconds) goes before a batch run (hours), but
never twice in a row past one that waits. Hence nothing starves as long as runs end.

While all devices are busy with batch runs, one of them steps aside for a preview that waits: see ``steps_aside``. It is
the first of its lane to go on, whosever turn it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Self

from sarqc.jobs.run import Run

BRIEF_SECONDS = 600.0  # a preview that is planned to take longer waits until a device is free


@dataclass(frozen=True)
class Waiting:
    """A queued run, as far as scheduling is concerned."""

    run_id: str
    owner: str
    queued: float
    lane: str = "batch"
    goes_on: bool = False  # it stepped aside or waited for room: first of its lane
    seconds: float | None = None  # as planned

    @classmethod
    def of(cls, run: Run) -> Self:
        return cls(run.id, run.owner, run.queued, run.lane, run.stepped_aside or run.waits_for_room, run.seconds)

    @property
    def is_brief(self) -> bool:
        """True if others step aside for it."""
        return self.lane == "preview" and (self.seconds is None or self.seconds <= BRIEF_SECONDS)


@dataclass(frozen=True)
class Start:
    """A decision: this run, now, on this device."""

    run_id: str
    device: str


def decide(
    waiting: Iterable[Waiting],
    free: Iterable[str],
    now: float,
    last_held: Mapping[str, float],
    last_lane: str | None = None,
) -> list[Start]:
    """Return the runs to start on the free devices, in the order in which they should be started.

    ``last_held`` says when each owner last had a device (``now`` for one that has one), ``last_lane`` from which lane
    the latest run was started. Nothing is changed; the same question gets the same answer.
    """
    left = sorted(waiting, key=lambda run: (run.queued, run.run_id))
    held, lane = dict(last_held), last_lane
    starts = []
    for device in islice(free, len(left)):
        chosen = _next(left, held, lane)
        left.remove(chosen)
        held[chosen.owner], lane = now, chosen.lane
        starts.append(Start(chosen.run_id, device))
    return starts


def steps_aside(
    waiting: Iterable[Waiting],
    soon: int,
    running: Iterable[Waiting],
    now: float,
    last_held: Mapping[str, float],
    last_lane: str | None = None,
) -> set[str]:
    """Return the ids of the runs, of those ``running`` that can, that should step aside: as many of the first ones as
    make room for previews, and only where their devices would go to previews and not to them again.

    ``soon``: devices that are free, or about to be without anybody's doing.
    """
    left = [*waiting]
    aside: list[Waiting] = []
    for run in running:
        more = [*aside, run]
        starts = decide([*left, *more], [""] * (soon + len(more)), now, last_held, last_lane)
        started = {start.run_id for start in starts[soon:]}
        if len(starts) < soon + len(more) or not started <= {preview.run_id for preview in left if preview.is_brief}:
            break
        aside = more
    return {run.run_id for run in aside}


def _next(left: list[Waiting], held: Mapping[str, float], lane: str | None) -> Waiting:
    """Return the run whose turn it is; ``left`` is in order of arrival and not empty."""
    previews = [run for run in left if run.lane == "preview"]
    others = [run for run in left if run.lane != "preview"]
    candidates = previews if previews and (lane != "preview" or not others) else others
    if going_on := [run for run in candidates if run.goes_on]:
        return going_on[0]
    heads: dict[str, Waiting] = {}
    for run in candidates:
        heads.setdefault(run.owner, run)
    return min(
        heads.values(), key=lambda run: (max(held.get(run.owner, run.queued), run.queued), run.queued, run.run_id)
    )
